"""From the content of a report to its page."""

from __future__ import annotations

import base64
import hashlib
import math
from importlib import resources
from typing import NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from invlift.posterior.along_axis import places_of_residuals
from invlift.posterior.plots import MAX_SCALARS
from invlift.posterior.report import charts
from invlift.posterior.report.charts import Picture, number
from invlift.posterior.report.content import Content
from invlift.posterior.report.maps import Maps, colours_of
from invlift.posterior.run_folder import Record
from invlift.posterior.scalars import SUMMARY_COLUMNS
from invlift.posterior.slices import AXIS_NAMES

#: Rows of a table.
MAX_ROWS = 500
#: What is shown of the readings, and how it is called.
COLUMNS = {
    "experiment": "experiment", "kind": "kind", "x": "x", "y": "y", "z": "z",
    "observed": "reading", "predicted_mean": "prediction", "predicted_sd": "its sd",
    "standardised_residual": "residual", "predictive_p_value": "p-value",
}  # fmt: skip


class Table(NamedTuple):
    """A table in words; the first entry of each row is its name."""

    caption: str
    head: list[str]
    rows: list[list[str]]
    note: str = ""


def render(content: Content) -> str:
    """Write a page of HTML that needs no other file; its policy allows no script but its own."""
    style = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    loader = PackageLoader("invlift.posterior.report", "page")
    environment = Environment(loader=loader, undefined=StrictUndefined, **style)
    page = resources.files("invlift.posterior.report") / "page"
    script = page.joinpath("report.js").read_text("utf-8")
    nothing = pd.DataFrame(columns=SUMMARY_COLUMNS)
    summary = nothing if content.summary is None else content.summary
    ess = float(summary["ess_bulk"][summary["ess_bulk"] > 0].min())
    return environment.get_template("report.html").render(
        content=content,
        has_mesh=content.posterior.mesh is not None,
        style=Markup(page.joinpath("report.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        colours=colours_of(content.groups),
        traces=_traces(content),
        series=[charts.series(each) for each in content.posterior.series if not each.rows.size],
        parameters=charts.parameters(content.posterior),
        facts=_facts(content, ess, float(summary["r_hat"].max())),
        tables=_tables(content, ess),
        **_pictures(content),
    )


def _pictures(content: Content) -> dict[str, list]:
    """Pictures of the body and of the fit, by section."""
    found = {"mesh": [], "families": [], "draws": [], "fit": []}
    sensors, body, posterior = content.sensors, content.body, content.posterior
    found["fit"] = [charts.series(each) for each in posterior.series if each.rows.size]
    residuals = None
    if sensors is not None and "standardised_residual" in sensors:
        residuals = sensors["standardised_residual"].to_numpy()
        places = places_of_residuals(posterior.series, len(residuals))
        found["fit"].append(charts.residuals(residuals, places))
    if body is not None:
        axes = list(AXIS_NAMES[: body.dim])
        has_places = sensors is not None and set(axes) <= set(sensors)
        places = sensors[axes].to_numpy() if has_places else np.zeros((0, body.dim))
        units = {name: each.unit for name, each in posterior.described.items()}
        maps = Maps(body, places, units)
        found["mesh"] = maps.mesh(content.groups)
        found["families"] = [family for family in maps.families() if family.pictures]
        if content.draws is not None and body.find("conductivity_mean") is not None:
            found["draws"] = maps.draws(content.draws)
        if has_places and residuals is not None:
            found["fit"].insert(0, maps.residuals(residuals))
    return found


def _traces(content: Content) -> list[Picture]:
    """Traces and ranks of the first scalars, one after the other."""
    found = []
    for name, chains in list(content.posterior.scalars.items())[:MAX_SCALARS]:
        is_known = content.summary is not None and name in content.summary.index
        row = content.summary.loc[[name]].iloc[0] if is_known else None
        found.append(charts.trace(content.posterior.titles[name], np.stack(chains), row))
        found.append(charts.ranks(name, np.stack(chains)))
    return found


def _facts(content: Content, ess: float, r_hat: float) -> list[tuple[str, str]]:
    """What fits beside the verdict: pairs of a name and a value."""
    record = content.record
    facts = {
        "Draws": f"{record.num_chains} \N{MULTIPLICATION SIGN} {record.num_draws}",
        "Method": record.method,
        "Largest R-hat": None if math.isnan(r_hat) else f"{r_hat:.3f}",
        "Smallest ESS": None if math.isnan(ess) else f"{ess:.0f}",
        "Nodes": None if content.body is None else f"{len(content.body.points):,}",
        "Sensors": None if content.sensors is None else f"{len(content.sensors):,}",
    }
    return [(name, value) for name, value in facts.items() if value]


def _tables(content: Content, ess: float) -> dict[str, Table | None]:
    """Tables by section."""
    found = dict.fromkeys(("sensors", "summary", "versions"))
    record, sensors = content.record, content.sensors
    if sensors is not None:
        shown = sensors.rename(columns=COLUMNS)[[COLUMNS[n] for n in COLUMNS if n in sensors]]
        digits = {"residual": 2, "p-value": 3}
        found["sensors"] = _of_frame("Readings and predictions", shown.round(digits))
    if content.summary is not None and len(content.summary):
        shown = content.summary.rename(index=content.posterior.titles)
        found["summary"] = _of_frame("Scalars", shown)
    stats = [chain.stats for chain in content.posterior.chains]
    has_energy = all("energy" in each for each in stats)
    found["chains"] = _chains(record, [each["energy"] for each in stats] if has_energy else [])
    found["costs"] = Table("In all", ["what", "amount"], _costs(record, ess))
    rows = {**record.versions, "seed": record.seed, "warm-up iterations": record.num_warmup}
    rows |= {f"option {name}": value for name, value in record.options.items()}
    rows["SHA-256 of the mesh"] = record.mesh_sha256
    rows = [[name, str(value)] for name, value in rows.items() if value is not None]
    if rows:
        found["versions"] = Table("Versions and settings", ["what", "value"], rows)
    return found


def _of_frame(caption: str, frame: pd.DataFrame) -> Table:
    def cell(value) -> str:
        return value if isinstance(value, str) else number(value)

    rows = [[name, *map(cell, row)] for name, *row in frame[:MAX_ROWS].itertuples()]
    note = f"The first {MAX_ROWS} of {len(frame)}; all are in the file of the run's folder."
    head = [frame.index.name, *frame.columns]
    return Table(caption, head, rows, note if len(frame) > MAX_ROWS else "")


def _chains(record: Record, energies: list[np.ndarray]) -> Table:
    """A row for each chain and one for all."""
    columns = {
        "warm-up, s": record.warmup_seconds, "sampling, s": record.sampling_seconds,
        "step size": record.step_size, "acceptance": record.acceptance_rate,
        # changes of the energy against its spread (arXiv:1604.00695)
        "E-BFMI": [sum(np.diff(x) ** 2) / ((len(x) - 1) * np.var(x) or np.nan) for x in energies],
    }  # fmt: skip
    frame = pd.DataFrame({name: pd.Series(each, dtype=float) for name, each in columns.items()})
    totals = [*frame.iloc[:, :2].sum(min_count=len(frame)), *frame.iloc[:, 2:].mean()]
    rows = [[f"chain {index}", *map(_brief, row)] for index, *row in frame.itertuples()]
    rows.append(["sum of times, mean of the rest", *map(_brief, totals)])
    return Table("Each chain", ["chain", *columns], rows)


def _brief(value: float) -> str:
    return number(float(f"{value:.3g}"))


def _costs(record: Record, ess: float) -> list[list[str]]:
    seconds = pd.Series(record.sampling_seconds, dtype=float).sum(skipna=False, min_count=1)
    counts = {
        "Compilation, seconds": record.compile_seconds,
        "Steps while sampling": record.num_steps,
        "Factorisations while sampling": record.num_factorisations,
        "Projections that failed": record.num_projection_failures,
        "Trajectories that diverged": record.num_divergences,
        "Seconds of sampling for each effective draw": seconds / ess,
        "Factorisations for each effective draw": (record.num_factorisations or math.nan) / ess,
    }
    return [
        [name, f"{value:,}" if isinstance(value, int) else _brief(value)]
        for name, value in counts.items()
        if value is not None and not math.isnan(value)
    ]
