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
from invlift.posterior.report import charts
from invlift.posterior.report.content import Content
from invlift.posterior.report.pictures import WIDTH, pictures_of
from invlift.posterior.report.record import Record
from invlift.posterior.report.scales import Scale, digits, number

#: Rows of a table, and scalars whose traces are drawn.
MAX_ROWS, MAX_SCALARS = 200, 8
#: Residuals up to this size do not reach the ends of their colour scale.
MIN_REACH = 3.0


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
    pictures = None
    if content.body is not None:
        pictures = pictures_of(content.body, content.groups, content.sensors, content.draws)
    ess = _smallest_ess(content)
    return environment.get_template("report.html").render(
        content=content,
        style=Markup(page.joinpath("report.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=digest,
        pictures=pictures,
        width=WIDTH,
        sensors=_sensors(content),
        residual_scale=_residual_scale(content),
        traces=_traces(content),
        others=_other_charts(content),
        num_scalars=len(content.scalars),
        columns=SUMMARY_COLUMNS,
        summary=list(content.summary.items())[:MAX_ROWS],
        facts=_facts(content, ess),
        chains=[] if content.record is None else _chain_rows(content.record),
        costs=[] if content.record is None else _costs(content.record, ess),
    )


def _smallest_ess(content: Content) -> float:
    sizes = [row["ess_bulk"] for row in content.summary.values() if row["ess_bulk"] > 0]
    return min(sizes, default=math.nan)


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


def _sensors(content: Content) -> list[dict]:
    """Rows of the table of sensors; also what a mark on the map says."""
    if content.sensors is None:
        return []
    columns, rows = content.sensors.columns, []
    residuals = columns.get("standardised_residual")
    scale = _residual_scale(content)
    for index, point in enumerate(content.sensors.points):
        dim = 3 if content.body is None else content.body.dim
        row = {
            "label": f"{'sensor' if content.has_mesh else 'reading'} {index}"
            if content.sensor_rows is None
            else f"row {content.sensor_rows[index]}",
            "place": ", ".join(number(float(f"{x:.3g}")) for x in point[:dim]),
            "observed": columns["observed"][index],
            "colour": "var(--ink-2)",
        }
        words = f"{row['label']} at ({row['place']}): reading {number(row['observed'])}"
        for name in ("predicted_mean", "predicted_sd", "predictive_p_value"):
            row[name] = columns[name][index] if name in columns else math.nan
        row["residual"] = math.nan if residuals is None else residuals[index]
        if "predicted_mean" in columns:
            words += f", prediction {number(row['predicted_mean'])} ± {number(row['predicted_sd'])}"
        if scale is not None:
            row["colour"] = scale.colour_of(row["residual"])
            words += f", standardised residual {digits(row['residual'], 2)}"
        rows.append(row | {"words": words})
    return rows


def _residual_scale(content: Content) -> Scale | None:
    if content.sensors is None or "standardised_residual" not in content.sensors.columns:
        return None
    sizes = np.abs(content.sensors.columns["standardised_residual"])
    reach = float(np.max(sizes[np.isfinite(sizes)], initial=MIN_REACH))
    label = "standardised residual; above 0 where the reading is above the prediction"
    return Scale(label, -reach, reach, "RdBu_r")


def _traces(content: Content) -> list[tuple[charts.Chart, charts.Chart]]:
    return [
        (charts.trace(name, chains, content.summary.get(name)), charts.ranks(name, chains))
        for name, chains in list(content.scalars.items())[:MAX_SCALARS]
    ]


def _other_charts(content: Content) -> list[charts.Chart]:
    found = []
    if content.energy is not None and content.energy.shape[1] > 1:
        finite = content.energy[:, np.isfinite(content.energy).all(axis=0)]
        if finite.shape[1] > 1:
            found.append(charts.energy(finite))
    steps = content.warmup_step_size
    if steps is not None and (steps > 0).any():
        found.append(charts.step_sizes(steps))
    return found


def _chain_rows(record: Record) -> list[list[str]]:
    """A row for each chain and one for all: warm-up, sampling, step size, acceptance."""
    columns = (
        record.warmup_seconds, record.sampling_seconds, record.step_size, record.acceptance_rate
    )  # fmt: skip
    num = max(map(len, columns))
    rows = [
        [f"chain {index}", *(_entry(column, index) for column in columns)] for index in range(num)
    ]
    sums = [_total(column) for column in columns[:2]]
    means = [_total(column) / max(len(column), 1) for column in columns[2:]]
    return [*rows, ["sum; mean of the last two", *map(_brief, (*sums, *means))]]


def _entry(column: Sequence[float | None], index: int) -> str:
    value = column[index] if index < len(column) else None
    return "–" if value is None else _brief(value)


def _total(column: Sequence[float | None]) -> float:
    return sum((math.nan if value is None else value for value in column), 0.0) if column else (
        math.nan
    )  # fmt: skip


def _brief(value: float) -> str:
    return number(float(f"{value:.3g}"))


def _costs(record: Record, ess: float) -> list[tuple[str, str]]:
    counts = {
        "Compilation, seconds": record.compile_seconds,
        "Steps while sampling": record.num_steps,
        "Factorisations while sampling": record.num_factorisations,
        "Right-hand sides solved for while sampling": record.num_solves,
        "Projections that failed": record.num_projection_failures,
        "Trajectories that diverged": record.num_divergences,
    }
    costs = [
        (name, f"{value:,}" if isinstance(value, int) else _brief(value))
        for name, value in counts.items()
        if value is not None
    ]
    seconds = _total(record.sampling_seconds)
    if not math.isnan(ess * seconds):
        costs.append(("Seconds of sampling for each effective draw", _brief(seconds / ess)))
    if record.num_factorisations and not math.isnan(ess):
        each = _brief(record.num_factorisations / ess)
        costs.append(("Factorisations for each effective draw", each))
    return costs
