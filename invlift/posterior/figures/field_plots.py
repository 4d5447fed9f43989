"""Figures of fields: maps of a posterior, and draws from a prior with its predictions.

A mesh in 2D is plotted as it is, a mesh in 3D by a slice near its middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patheffects import withStroke
from matplotlib.ticker import PercentFormatter

from invlift.errors import InputError
from invlift.posterior.figures.flat_mesh import AXIS_NAMES, FlatMesh, flatten
from invlift.posterior.figures.sensor_plots import name_readings
from invlift.posterior.figures.style import (
    CHAIN_COLOURS,
    INK,
    GivenAxes,
    Panels,
    new_axes,
    new_figure,
)
from invlift.posterior.figures.ticks import set_ticks, ticks_of_bar
from invlift.posterior.names import FIELD
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import Mesh, Readings, of_solution
from invlift.posterior.statistics.quantity import Quantity
from invlift.units import of_logarithm, with_unit

#: Width of a map without its colour bar, and of the bar, in inches.
WIDTH, BAR = 3.3, 1.3
#: Style of lines inside the body: interfaces of subdomains, and groups of edges.
_INNER = {"colors": "white", "linewidths": 0.8, "linestyles": (0, (4, 3)), "zorder": 2}
#: Largest number of sensors that are marked on maps of fields.
MOST_MARKS = 100
#: Largest number of sensors whose names are written on the first map.
MOST_NAMES = 20


@dataclass(frozen=True, eq=False)
class Panel:
    """One field of a figure."""

    title: str
    values: np.ndarray  # (num_nodes,) if nodal, otherwise (num_cells,)
    is_nodal: bool
    colour_map: str
    label: str = ""  # quantity and unit of the colour bar
    is_share: bool = False  # between 0 and 1, shown in per cent on that range
    sensor_values: np.ndarray | None = None  # (d,) of the same quantity, colours of the marks
    is_log: bool = False  # positive, with a logarithmic colour scale


def plot_maps(
    mesh: Mesh,
    panels: Sequence[Panel],
    sensor_points: np.ndarray | None = None,
    *,
    num_columns: int = 2,
    is_shared: bool = False,
    length_unit: str = "",
    are_marked: bool = True,
    sensor_names: Sequence[str] | None = None,
    ax: GivenAxes = None,
) -> Panels:
    """Plot fields in rows, near sensors (d, dim) and with marks of these; in 3D a slice.

    In 2D, lines show interfaces of subdomains and groups of edges inside the body.  More than
    :data:`MOST_MARKS` marks would hide the fields and are left out.  In 2D the first map has the
    names of sensors at up to :data:`MOST_NAMES` positions.  Each map has a separate colour scale,
    or all share one (`is_shared`).  `ax` has one entry for each panel.
    """
    flat = flatten(mesh.points, mesh.cells, sensor_points)
    length_unit = length_unit or mesh.unit
    inner = () if flat.place else mesh.points[mesh.inner_facets]
    if not are_marked or np.shape(sensor_points)[:1] > (MOST_MARKS,):
        sensor_points = None
    num_columns = min(num_columns, len(panels)) if ax is None else len(panels)
    num_rows, num_bars = -(-len(panels) // num_columns), 1 if is_shared else num_columns
    size = num_columns * WIDTH + num_bars * BAR, num_rows * (height_of(flat) + 0.55)
    with new_axes(ax, num_rows, num_columns, *size, sharex=True, sharey=True) as axes:
        place = draw_maps(axes, flat, panels, sensor_points, is_shared, length_unit)
        for each in axes.flat[: len(panels)] if len(inner) else ():
            each.add_collection(LineCollection(inner, **_INNER))
        if sensor_names is not None and sensor_points is not None and not place:
            _name_sensors(axes.flat[0], sensor_points, sensor_names)
        if place and ax is None:
            axes[0, 0].figure.suptitle(place, color=INK, fontsize=10)
        if ax is None:
            for others, name in (axes[:-1], "xaxis"), (axes[:, 1:], "yaxis"):
                for each in others.flat:  # inner axes have the same numbers as the outer ones
                    getattr(each, name).set_visible(False)
    return Panels(axes)


def height_of(flat: FlatMesh) -> float:
    """Return the height of a map, in inches."""
    across, up = np.ptp(flat.points if flat.view is None else flat.view, axis=0)
    return WIDTH * float(np.clip(up / across, 0.2, 1.6))


def draw_maps(
    axes: np.ndarray,
    flat: FlatMesh,
    panels: Sequence[Panel],
    sensor_points: np.ndarray | None,
    is_shared: bool = False,
    length_unit: str = "",
) -> str:
    """Plot panels of :func:`plot_maps` in axes (rows, columns); return the text of the slice."""
    num_columns = axes.shape[1]
    points = None if sensor_points is None else np.asarray(sensor_points)[:, list(flat.axes)]
    shown = [flat.shown(panel.values, panel.is_nodal) for panel in panels]
    norm = colour_limits(np.stack(shown), panels[0].is_log) if is_shared else None
    for index, (panel, values, ax) in enumerate(zip(panels, shown, axes.flat, strict=False)):
        limits = Normalize(0.0, 1.0) if panel.is_share else colour_limits(values, panel.is_log)
        colours = {"cmap": panel.colour_map, "norm": norm or limits}
        _draw_values(ax, flat, values, panel.is_nodal, **colours)
        if points is not None and len(points):
            is_filled = panel.sensor_values is not None
            style = {"c": panel.sensor_values, **colours} if is_filled else {"c": "white"}
            draw_sensors(ax, points, **style)
        ax.set_title(panel.title)
        if norm is None or index % num_columns == num_columns - 1 or index == len(panels) - 1:
            draw_bar(ax, panel, height_of(flat), **colours)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    across, up = (with_unit(AXIS_NAMES[axis], length_unit) for axis in flat.axes)
    for ax in axes[-1]:
        ax.set_xlabel(across)
    for ax in axes[:, 0]:
        ax.set_ylabel(up, rotation=90 if length_unit else 0)
    note = "" if points is None else ", sensors projected onto it"
    return f"{flat.place} {length_unit}".rstrip() + note if flat.place else ""


def _draw_values(ax: Axes, flat: FlatMesh, shown: np.ndarray, is_nodal: bool, **colours) -> None:
    """Plot values of :meth:`FlatMesh.shown`, and the outline of the body.

    The shading of triangles in matplotlib interpolates colours, not values, and draws thin
    triangles beyond their edges. A slice has many of these.
    """
    (left, bottom), (right, top) = flat.pixels.ends
    style = {"origin": "lower", "extent": (left, right, bottom, top), "interpolation": "nearest"}
    ax.use_sticky_edges = False
    ax.imshow(flat.on_pixels(shown, is_nodal), **style, **colours)
    ax.add_collection(LineCollection(flat.outline(), colors=INK, linewidths=0.7, zorder=2))
    ax.set_aspect("equal")
    if flat.view is not None:
        ax.set(xlim=flat.view[:, 0], ylim=flat.view[:, 1])
    ax.spines[["left", "bottom"]].set_visible(False)
    (across, up), height = np.ptp(flat.pixels.ends, axis=0), height_of(flat)
    set_ticks(ax.xaxis, min(WIDTH, height * across / up), is_across=True)
    set_ticks(ax.yaxis, min(height, WIDTH * up / across), is_across=False)


def draw_sensors(ax: Axes, points: np.ndarray, c: str | np.ndarray = "white", **colours) -> None:
    """Plot marks of sensors, (d, 2), white or in colours of `Axes.scatter`."""
    size = float(np.clip(900 / len(points), 7, 30))
    ax.scatter(*points.T, s=size * 2.2, c="white", linewidths=0, zorder=3)
    style = {"edgecolors": INK, "linewidths": 0.7, "zorder": 4, "plotnonfinite": True}
    ax.scatter(*points.T, s=size, c=c, **style, **colours)


def _name_sensors(ax: Axes, points: np.ndarray, names: Sequence[str]) -> None:
    """Write names of sensors beside their marks, if they are few and unique for each position."""
    named = {tuple(point): str(name) for point, name in zip(points, names, strict=True)}
    is_one = len({*zip(map(tuple, points), map(str, names), strict=True)}) == len(named)
    for point, name in named.items() if is_one and len(named) <= MOST_NAMES else ():
        style = {"xytext": (5, 3), "textcoords": "offset points", "fontsize": 7, "zorder": 5}
        halo = [withStroke(linewidth=1.8, foreground="white")]
        ax.annotate(name, point, color=INK, path_effects=halo, **style)


def draw_bar(ax: Axes, panel: Panel, height: float, cmap: str, norm: Normalize) -> None:
    """Plot a colour bar at the right of axes of a height in inches; shares are in per cent."""
    style = PercentFormatter(1.0) if panel.is_share else "%.6g" if panel.is_log else None
    colours, place = ScalarMappable(norm, cmap), ax.inset_axes((1.03, 0.0, 0.035, 1.0))
    ticks = ticks_of_bar(norm.vmin, norm.vmax, height, is_log=panel.is_log)
    settings = {"label": panel.label, "format": style, "ticks": ticks}
    bar = ax.figure.colorbar(colours, cax=place, **settings)
    bar.outline.set_visible(False)
    bar.minorticks_off()


def colour_limits(values: np.ndarray, is_log: bool = False) -> Normalize:
    """Return colour limits of the finite values; a constant field gets a small range around it."""
    finite = values[np.isfinite(values) & (values > 0.0 if is_log else True)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.5, 1.5)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        margin = 0.05 * abs(low) or 0.5
        low, high = low - margin, high + margin
    return LogNorm(low, high) if is_log else Normalize(low, high)


def plot_fields(
    posterior: PosteriorStatistics,
    length_unit: str,
    conductivity_unit: str,
    solution_name: str,
    solution_unit: str,
    names: Sequence[str] | None = None,
    ax: GivenAxes = None,
) -> Panels:
    """Plot fields in two columns, with the sensors: see `Plots.fields`."""
    mesh, field, readings = posterior.mesh, posterior.field, posterior.readings
    if mesh is None or field is None:
        expected = "a posterior on a mesh"
        raise InputError("plot of fields", expected, "a model without one", "plot the chains")
    points = readings.points
    style = {"length_unit": length_unit, "sensor_names": readings.labels, "ax": ax}
    if names is not None:
        return plot_maps(mesh, _chosen_panels(posterior, names), points, **style)
    fields, panels = posterior.fields(), []
    for each in posterior.described.values():
        if each.place and not each.is_derived:
            panels += _panels_of(fields, each, conductivity_unit or of_logarithm(each.unit))
    if field.name == FIELD and "solution_mean" in fields:
        own = posterior.described.get("solution")
        unit = solution_unit or (own.unit if own else "")
        observed = np.where(_is_of_map(readings), readings.values, np.nan)
        own = True, "inferno", unit, False, observed
        panels.insert(2, Panel(f"{solution_name}, posterior mean", fields["solution_mean"], *own))
    elif field.name == FIELD:
        own = field.place == "node", "plasma", conductivity_unit or of_logarithm(field.unit)
        panels.insert(2, Panel("Conductivity, posterior mean", fields["conductivity_mean"], *own))
    return plot_maps(mesh, panels, points, **style)


def _is_of_map(readings: Readings) -> np.ndarray:
    """Return which readings, (d,), are of the solution that is shown: in time that at the last."""
    is_shown = of_solution(readings)
    times = readings.coordinates.get("time")
    return is_shown if times is None else is_shown & (np.asarray(times) == np.max(times))


def _chosen_panels(posterior: PosteriorStatistics, names: Sequence[str]) -> list[Panel]:
    """Return panels of fields by name; an `InputError` if a name is unknown."""
    known = posterior.placed_fields
    for name in names:
        if name not in known:
            expected = f"some of {', '.join(known)}"
            raise InputError("plot of fields", expected, repr(name), "choose one")
    return [Panel(name, *known[name], "viridis") for name in names]


def _panels_of(
    fields: dict[str, np.ndarray], quantity: Quantity, conductivity_unit: str
) -> list[Panel]:
    """Return panels of a field: mean (or median), sd, and variance reduction."""
    name, is_nodal, unit = quantity.name, quantity.place == "node", quantity.unit
    title, key = name, f"{name}_variance_reduction"
    first = Panel(f"{title}, posterior mean", fields[f"{name}_mean"], is_nodal, "viridis", unit)
    if name == FIELD:
        title, key, unit = "Log-conductivity", "variance_reduction", ""
        first = replace(first, title=f"{title}, posterior mean", label="")
        if conductivity_unit:  # the median is nearly the exponential of the mean of the logarithm
            style = is_nodal, "viridis", conductivity_unit
            values = fields["conductivity_q50"]
            first = Panel("Conductivity, posterior median", values, *style, is_log=True)
    panels = [
        first,
        Panel(f"{title}, posterior sd", fields[f"{name}_sd"], is_nodal, "magma", unit),
    ]
    if key in fields:
        what = "Variance reduction" if name == FIELD else f"{name}, variance reduction"
        panels.append(Panel(what, fields[key], is_nodal, "cividis", "of prior variance", True))
    return panels


def plot_prior(
    mesh: Mesh,
    sensors: Readings,
    draws: Sequence[Panel],
    std: Panel,
    predicted: np.ndarray,
) -> Panels:
    """Plot draws from a prior on one colour scale, and below its sd and predicted readings.

    ``predicted``, (num_draws, d), are noise-free readings of draws from the prior. For each sensor
    their 50 and 90 % intervals are shown with the reading.
    """
    flat, num = flatten(mesh.points, mesh.cells, sensors.points), len(draws)
    height, width = height_of(flat) + 0.8, WIDTH + BAR
    with new_figure(num * width, 2 * height) as figure:
        above, below = figure.subfigures(2, 1)
        left, right = below.subfigures(1, 2, width_ratios=(1, num - 1))
        layout = {"squeeze": False, "sharex": True, "sharey": True}
        for part, panels, points in (above, draws, None), (left, [std], sensors.points):
            axes = part.subplots(1, len(panels), **layout)
            place = draw_maps(axes, flat, panels, points, is_shared=part is above)
            part.suptitle(place, color=INK, fontsize=10) if place else None
        _draw_predictions(right.subplots(), sensors.values, predicted, sensors.labels, "sensor")
    return Panels(figure.axes)


def plot_predictions(
    observed: np.ndarray, predicted: np.ndarray, labels: Sequence[str] | None = None
) -> Panels:
    """Plot readings, (d,), with intervals of noise-free prior predictions, (num_draws, d)."""
    with new_axes(None, 1, 1, 2 * WIDTH, WIDTH) as axes:
        _draw_predictions(axes[0, 0], observed, predicted, labels, "reading")
    return Panels(axes)


def _draw_predictions(
    ax: Axes,
    observed: np.ndarray,
    predicted: np.ndarray,
    labels: Sequence[str] | None,
    kind: str,
) -> None:
    index = np.arange(predicted.shape[1])
    for ends, share, thickness in ((0.05, 90, 3.0), (0.25, 50, 7.0)):
        interval = np.quantile(predicted, (ends, 1.0 - ends), axis=0)
        style = {"color": CHAIN_COLOURS[0], "alpha": 0.4, "linewidth": thickness}
        ax.vlines(index, *interval, label=f"{share} % of prior draws", **style)
    ax.plot(index, observed, "o", color=CHAIN_COLOURS[4], markersize=4, label="readings")
    ax.set_title("Readings, and what the prior makes of them")
    name_readings(ax, len(observed), labels, kind)
    ax.legend(loc="best", fontsize=8)
