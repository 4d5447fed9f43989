"""From the content of a report to its page."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from importlib import resources

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from invlift.posterior.labelled import SUMMARY_COLUMNS
from invlift.posterior.names import vector_of
from invlift.posterior.report import charts
from invlift.posterior.report.content import Content
from invlift.posterior.report.maps import Maps, colours_of
from invlift.posterior.report.picture import Picture, digits, number
from invlift.posterior.report.record import Record

#: Rows of a table, and scalars whose traces are drawn.
MAX_ROWS, MAX_SCALARS = 500, 8


def render(content: Content) -> str:
    """Write a page of HTML that needs no other file.

    Parameters
    ----------
    content : Content

    Returns
    -------
    str
        All text of the content is escaped, and the page's policy allows no script but its own.
    """
    environment = Environment(
        loader=PackageLoader("invlift.posterior.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "digits": digits}
    page = resources.files("invlift.posterior.report") / "page"
    script = page.joinpath("report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    ess = min((row["ess_bulk"] for row in content.summary.values() if row["ess_bulk"] > 0),
              default=math.nan)  # fmt: skip
    return environment.get_template("report.html").render(
        content=content,
        style=Markup(page.joinpath("report.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=digest,
        colours=colours_of(content.groups),
        traces=_traces(content),
        series=[
            each
            for quantity in content.quantities.values()
            if (each := charts.series(quantity, content.scalars)) is not None
        ],
        columns=SUMMARY_COLUMNS,
        max_rows=MAX_ROWS,
        facts=_facts(content, ess),
        chains=[] if content.record is None else _chain_rows(content),
        costs=[] if content.record is None else _costs(content.record, ess),
        **_pictures(content),
    )


def _pictures(content: Content) -> dict:
    """Pictures of the body and of the fit, by section."""
    found = {"mesh": [], "families": [], "draws": [], "diagnostics": [], "fit": []}
    sensors, body = content.sensors, content.body
    residuals = None if sensors is None else sensors.columns.get("standardised_residual")
    if sensors is not None:
        found["fit"] = charts.fit(sensors.columns)
    if body is not None:
        has_places = sensors is not None and sensors.points.shape[1] == body.dim
        places = sensors.points if has_places else np.zeros((0, body.dim))
        maps = Maps(body, places, {name: each.unit for name, each in content.quantities.items()})
        found["mesh"] = maps.mesh(content.groups)
        found["families"] = [family for family in maps.families() if family.pictures]
        found["diagnostics"] = maps.diagnostics()
        if content.draws is not None:
            found["draws"] = maps.draws(content.draws)
        if residuals is not None and has_places:
            found["fit"].insert(0, maps.residuals(residuals))
    return found


def _traces(content: Content) -> list[Picture]:
    """Traces and ranks of the first scalars, one after the other."""
    found = []
    for name, chains in list(content.scalars.items())[:MAX_SCALARS]:
        quantity = content.quantities.get(vector_of(name))
        unit = "" if quantity is None else quantity.unit
        found.append(charts.trace(name, chains, unit, content.summary.get(name)))
        found.append(charts.ranks(name, chains))
    return found


def _facts(content: Content, ess: float) -> list[tuple[str, str]]:
    """What fits beside the verdict: pairs of a name and a value."""
    facts, record = [], content.record
    if record is not None:
        facts.append(("Draws", f"{record.num_chains} \N{MULTIPLICATION SIGN} {record.num_draws}"))
        if record.method:
            facts.append(("Method", record.method))
    r_hats = [row["r_hat"] for row in content.summary.values() if not math.isnan(row["r_hat"])]
    if r_hats:
        facts.append(("Largest R-hat", f"{max(r_hats):.3f}"))
    if not math.isnan(ess):
        facts.append(("Smallest ESS", f"{ess:.0f}"))
    if content.body is not None:
        facts.append(("Nodes", f"{len(content.body.points):,}"))
    if content.sensors is not None:
        facts.append(("Sensors", f"{len(content.sensors.points):,}"))
    return facts


def _chain_rows(content: Content) -> list[list[str]]:
    """A row for each chain and one for all: seconds, step size, acceptance, E-BFMI."""
    record = content.record
    sums, means = (record.warmup_seconds, record.sampling_seconds), [
        record.step_size, record.acceptance_rate, _missing_information(content.energy)
    ]  # fmt: skip
    num = max(map(len, (*sums, *means)))
    padded = [[*map(_brief, each), *["–"] * (num - len(each))] for each in (*sums, *means)]
    rows = [[f"chain {index}", *row] for index, row in enumerate(zip(*padded, strict=True))]
    last = (*map(_total, sums), *(_total(each) / max(len(each), 1) for each in means))
    return [*rows, ["sum of times, mean of the rest", *map(_brief, last)]]


def _missing_information(energy: np.ndarray | None) -> list[float]:
    """E-BFMI of each chain: changes of the energy against its spread (arXiv:1604.00695)."""
    if energy is None or energy.shape[1] < 2:
        return []
    with np.errstate(divide="ignore", invalid="ignore"):
        return ((np.diff(energy, axis=1) ** 2).mean(axis=1) / energy.var(axis=1)).tolist()


def _total(column: Sequence[float | None]) -> float:
    return sum(math.nan if value is None else value for value in column) if column else math.nan


def _brief(value: float | None) -> str:
    return "–" if value is None else number(float(f"{value:.3g}"))


def _costs(record: Record, ess: float) -> list[tuple[str, str]]:
    counts = {
        "Compilation, seconds": record.compile_seconds,
        "Steps while sampling": record.num_steps,
        "Factorisations while sampling": record.num_factorisations,
        "Right-hand sides solved for while sampling": record.num_solves,
        "Projections that failed": record.num_projection_failures,
        "Trajectories that diverged": record.num_divergences,
        "Seconds of sampling for each effective draw": _total(record.sampling_seconds) / ess,
        "Factorisations for each effective draw": (record.num_factorisations or math.nan) / ess,
    }
    return [
        (name, f"{value:,}" if isinstance(value, int) else _brief(value))
        for name, value in counts.items()
        if value is not None and not math.isnan(value)
    ]
