"""Report of a run: one HTML page, with no other files, of figures, tables and record."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize

from invlift.files.atomic import write_bytes
from invlift.posterior.figures.field_plots import Panel, draw_bar, draw_sensors, plot_maps
from invlift.posterior.figures.flat_mesh import AXIS_NAMES, flatten
from invlift.posterior.figures.scalar_plots import parameters_of
from invlift.posterior.figures.style import (
    CHAIN_COLOURS,
    FAINT,
    Panels,
    draw_legend,
    new_axes,
    write_figure,
)
from invlift.posterior.names import CONDUCTIVITY, FIELD, MESH_ERROR
from invlift.posterior.output.files import (
    UNRELIABLE,
    number_style,
    some_draws,
    summary_with_totals,
)
from invlift.posterior.output.with_units import readings_with_units, units_of_fields
from invlift.posterior.posterior import Posterior
from invlift.units import with_unit

#: Pixels per inch of a figure, and the quality of its image.
DOTS_PER_INCH, QUALITY = 128, 85
#: Height of the figure of the mesh, in inches.
HEIGHT = 4.5
#: Largest number of rows shown of a table.
MAX_ROWS = 500
#: Statistics of a field that share one colour scale: endings of their names, and titles.
STATISTICS = {"mean": "mean", "q05": "5 % quantile", "q50": "median", "q95": "95 % quantile"}
ABOVE = f"{CONDUCTIVITY}_above_"
MATERIAL = "probability_"


def write_report(
    posterior: Posterior,
    record: Mapping[str, Any],
    path: Path,
    title: str,
    problem: str = "",
    drawn: Mapping[str, Panels] | None = None,
) -> Path:
    """Write the report of a run and return its path.

    `record` is the content of `run.json`, whose verdict is shown. `problem` is the text of the
    problem file. `drawn` are the figures "fields" and "series" of `posterior.plot` if they exist
    already.
    """
    drawn = drawn or {}
    sections = {
        "Verdict": _verdict(posterior, record),
        "Maps": _maps(posterior, drawn.get("fields")),
        "Draws": _draws(posterior),
        "Sensors": _sensors(posterior, drawn.get("series")),
        "Chains": _chains(posterior),
        "Summary": _summary(posterior),
        "Record": [_table(_of_record(record), "words")],
        "Problem": [f'<pre tabindex="0">{escape(problem)}</pre>'] if problem else [],
    }
    content = {name: "\n".join(parts) for name, parts in sections.items()}
    there = {name: text for name, text in content.items() if text}
    page = Template(resources.files("invlift.posterior").joinpath("report.html").read_text("utf-8"))
    text = page.substitute(
        title=escape(title),
        links="".join(f'<a href="#{name.lower()}">{name}</a>' for name in there),
        sections="\n".join(
            f'<section id="{name.lower()}"><h2>{name}</h2>\n{text}</section>'
            for name, text in there.items()
        ),
    )
    write_bytes(path, text.encode())
    return path


# -- sections: parts in HTML ---------------------------------------------------------------------


def _verdict(posterior: Posterior, record: Mapping[str, Any]) -> Iterator[str]:
    verdict, table = record["verdict"], posterior.summary()
    is_fair = verdict["warnings"] or record.get("is_interrupted")
    is_bad = verdict.get("doubts") or not verdict["is_converged"]
    tone = "bad" if is_bad else "fair" if is_fair else "good"
    yield f'<div class="verdict {tone}"><p>{escape(verdict["headline"])}</p>'
    kinds = {"doubts": "Model and data", "reasons": "Chains", "warnings": "Notes",
             "advice": "What to do"}  # fmt: skip
    for kind, title in kinds.items():
        if lines := verdict.get(kind):
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            yield f"<h3>{title}</h3><ul>{items}</ul>"
    yield "</div>"
    if len(table):
        worst = f"{table['r_hat'].max():.3f}, smallest effective sample size"
        yield _hint(f"Largest R-hat of the scalars {worst} {table['ess_bulk'].min():.0f}.")
    if verdict["is_converged"]:
        yield _hint("Whether model, noise and prior are right is another question: see Sensors.")


def _maps(posterior: Posterior, overview: Panels | None) -> Iterator[str]:
    """Yield the overview, all other fields, and the mesh."""
    if posterior.mesh is None or posterior.field is None:
        return
    overview = overview or posterior.plot.fields()
    yield _image(overview, "Means, standard deviations, variance reduction")
    fields = posterior.placed_fields

    units = units_of_fields(posterior)

    logs = [f"{CONDUCTIVITY}_{key}" for key in STATISTICS]

    def figure(
        titles: Mapping[str, str], colour_map: str, is_shared: bool = False
    ) -> Iterator[str]:
        panels = [
            Panel(
                title, *fields[name], colour_map, units.get(name, ""),
                is_share=name.startswith(ABOVE), is_log=name in logs,
            )
            for name, title in titles.items()
            if name in fields
        ]  # fmt: skip
        if panels:
            style = {"num_columns": 4, "is_shared": is_shared}
            shown = plot_maps(posterior.mesh, panels, posterior.readings.points, **style)
            yield _image(shown, f"Maps: {', '.join(panel.title for panel in panels)}")

    names = [*posterior.described, *(each.name for each in posterior.quantities)]
    bases = [name for name in dict.fromkeys(names) if f"{name}_sd" in fields]
    checked = [name for name in bases if f"{name}_r_hat" in fields]
    for base in bases:
        shown = CONDUCTIVITY if base == FIELD else base
        colours = "viridis" if base in checked else "inferno"
        titles = {f"{shown}_{key}": f"{shown}, {text}" for key, text in STATISTICS.items()}
        yield from figure(titles, colours, is_shared=True)
    derived = [base for base in bases if base not in checked]
    yield from figure({f"{base}_sd": f"{base}, sd" for base in derived}, "magma")
    unit = units.get(CONDUCTIVITY, "")
    values = {name: f"{name.removeprefix(ABOVE)} {unit}".strip() for name in fields}
    above = {name: f"P(k > {values[name]})" for name in fields if ABOVE in name}
    yield from figure(above, "cividis")
    names = [MATERIAL + each for each in posterior.materials]
    materials = {name: f"P({name.removeprefix(MATERIAL)})" for name in fields if name in names}
    yield from figure(materials, "cividis", is_shared=True)
    checks = {"r_hat": "R-hat", "ess_bulk": "effective sample size"}
    titles_of_checks = {
        f"{base}_{key}": f"{base}, {text}" for base in checked for key, text in checks.items()
    }
    yield from figure(titles_of_checks, "cividis")
    yield from figure({MESH_ERROR: "error of the mesh, sd of the noise"}, "magma")
    if MESH_ERROR in fields:
        yield _hint(
            "Error of the mesh: the error of a reading, mesh_error in sensor_fit.csv, is a sum of "
            "parts, one of each node. The map has at each node the root of the sum over all "
            "readings of the squares of these parts, in standard deviations of the noise. Parts "
            "have both signs, so the values of the map do not add up to the error of a reading."
        )
    yield _hint("Quantiles are pointwise. All numbers are in posterior.vtu.")
    yield _image(_plot_mesh(posterior), "Mesh, boundary groups and sensors")


def _plot_mesh(posterior: Posterior, residual: np.ndarray | None = None) -> Panels:
    """Plot the mesh (in 3D a slice) with boundary groups, or with sensors by residual, (d,)."""
    mesh, points = posterior.mesh, posterior.readings.points
    near = None if residual is None else points
    flat = flatten(mesh.points, mesh.cells, near)
    with new_axes(None, 1, 1, 6.0, HEIGHT) as axes:
        ax = axes[0, 0]
        ax.triplot(flat.triangulation, color=FAINT, linewidth=0.4)
        groups = mesh.boundaries if residual is None and not flat.place else {}
        for index, (name, facets) in enumerate(groups.items()):
            style = {"colors": CHAIN_COLOURS[index % len(CHAIN_COLOURS)], "linewidths": 2.5}
            ax.add_collection(LineCollection(mesh.points[facets], label=name, **style))
        if points is not None:
            colours = {} if residual is None else {"cmap": "RdBu_r", "norm": Normalize(-3.0, 3.0)}
            places = np.asarray(points)[:, list(flat.axes)]
            draw_sensors(ax, places, "white" if residual is None else residual, **colours)
            if colours:
                panel = Panel("", residual, True, "", "standardised residual")
                draw_bar(ax, panel, HEIGHT, **colours)
        if flat.view is not None:
            ax.set(xlim=flat.view[:, 0], ylim=flat.view[:, 1])
        across, up = (with_unit(AXIS_NAMES[axis], mesh.unit) for axis in flat.axes)
        ax.set(aspect="equal", xlabel=across, ylabel=up)
        place = f"{flat.place} {mesh.unit}".rstrip()
        ax.set_title(f"{place}, sensors projected onto it" if flat.place else "")
        if groups:
            draw_legend(axes, loc="outside lower center", ncols=3)
    return Panels(axes)


def _draws(posterior: Posterior) -> Iterator[str]:
    if posterior.mesh is not None and posterior.field is not None:
        style = posterior.field.place == "node", "viridis", posterior.field.name
        panels = [
            Panel(f"Chain {chain}, draw {number}", values, *style)
            for chain, number, values in some_draws(posterior)
        ]
        style = {"num_columns": 4, "is_shared": True, "are_marked": False}
        shown = plot_maps(posterior.mesh, panels, posterior.readings.points, **style)
        yield _image(shown, f"{len(panels)} draws of {posterior.field.name}")
        yield _hint(
            "Each draw is a field that fits the readings. Features that all draws share are known; "
            "those that vary between draws are not. ParaView animates draws.pvd."
        )


def _sensors(posterior: Posterior, series: Panels | None) -> Iterator[str]:
    if posterior.fit.is_known:
        yield _image(posterior.plot.sensors(), "Predictions against readings, and residuals")
        residual = posterior.fit.sensors().standardised_residual
        if (
            posterior.mesh is not None
            and residual is not None
            and posterior.readings.points is not None
        ):
            yield _image(_plot_mesh(posterior, residual), "Residuals where the sensors are")
        yield _hint(
            "Residuals are in standard deviations of noise and prediction together. Usual is -2 to "
            "2; beyond 3 a reading does not fit with the others. If all residuals in a region have "
            "the same sign, a boundary condition or a source may be wrong."
        )
    if posterior.fit.series:
        names = ", ".join(each.name for each in posterior.fit.series)
        yield _image(series or posterior.plot.series(), f"Medians and bands of {names}")
    if posterior.sensors is not None:
        yield _table(readings_with_units(posterior.fit.table(), posterior))


def _chains(posterior: Posterior) -> Iterator[str]:
    if posterior.scalars:
        yield _image(posterior.plot.chains(), "Traces and ranks of the first scalars")
        yield _hint("Chains that agree have rank histograms that end near the dashed lines.")


def _summary(posterior: Posterior) -> Iterator[str]:
    if names := parameters_of(posterior):
        text = f"Histograms of {', '.join(names)} with their prior densities, and pairs of them"
        yield _image(posterior.plot.parameters(names=names), text)
    table = summary_with_totals(posterior)
    yield _table(table.rename(index=posterior.titles))
    if UNRELIABLE in table.index and table["mean"][UNRELIABLE] > 0:
        yield _hint(
            f"{UNRELIABLE} is the number of readings that the draws cannot predict from all other "
            "readings. Few accurate readings are often among them; draws and maps are correct. "
            "Use invlift loo --refit for these readings."
        )
    yield _hint(
        "q05 to q95 is a 90 % interval. mcse_mean is how far the mean would move with another "
        "seed. ess is the effective number of independent draws, r_hat the disagreement between "
        "the chains; below 1.01 is good."
    )


# -- parts of a page -----------------------------------------------------------------------------


def _hint(text: str) -> str:
    return f'<p class="hint">{escape(text)}</p>'


def _image(panels: Panels, words: str) -> str:
    """Return a figure as an image of the page; `words` is its text for screen readers."""
    content, figure = io.BytesIO(), panels.figure
    settings = {"format": "webp", "pil_kwargs": {"quality": QUALITY}}
    write_figure(figure, content, DOTS_PER_INCH, **settings)
    source = "data:image/webp;base64," + base64.b64encode(content.getvalue()).decode()
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    size = f'width="{width}" height="{height}"'
    return f'<figure><img src="{source}" {size} alt="{escape(words)}"></figure>'


def _table(frame: pd.DataFrame, kind: str = "") -> str:
    style = {**number_style(frame), "na_rep": "–", "border": 0, "classes": kind}
    with pd.option_context("display.max_colwidth", None):
        shown = frame[:MAX_ROWS].rename_axis(None).to_html(**style)
    note = _hint(f"The first {MAX_ROWS} of {len(frame)} rows.") if len(frame) > MAX_ROWS else ""
    return f'<div class="scroll" tabindex="0">{shown}</div>{note}'


def _of_record(record: Mapping[str, Any]) -> pd.DataFrame:
    rows = {name: _brief(value) for name, value in record.items() if name != "verdict"}
    return pd.DataFrame({"run.json": rows.values()}, index=list(rows))


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_brief(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_brief, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
