"""What all figures share: style, colours, fields with their colour bars, legends, files.

A figure is a `matplotlib.figure.Figure` that belongs to no window, and matplotlib's settings are
left as they were.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, PercentFormatter

from invlift.atomic import replace_on_success
from invlift.posterior.slices import AXIS_NAMES, FlatMesh

INK, FAINT = "#22252b", "#9aa0aa"
# Okabe & Ito (2008): distinguishable with any colour vision
CHAIN_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{axis}tick.color": INK for axis in "xy"},
    **{f"{axis}tick.major.width": 0.6 for axis in "xy"},
    **{f"{axis}tick.major.size": 3 for axis in "xy"},
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.12,
}
DASHED = (0, (4, 3))
#: Rows of a figure that fit a page.
MAX_SCALARS = 8
DOTS_PER_INCH = 160


@contextmanager
def new_figure(width: float, height: float, layout: str | None = "constrained") -> Iterator[Figure]:
    """A figure of so many inches, to be drawn in the package's style."""
    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=(width, height), layout=layout)


@dataclass(frozen=True, eq=False)
class Panel:
    """One field to draw."""

    title: str
    values: np.ndarray  # (num_nodes,) if nodal, otherwise (num_cells,)
    is_nodal: bool
    colour_map: str
    label: str = ""  # what the colours mean, with the unit
    is_share: bool = False  # between 0 and 1, shown in per cent on that range
    sensor_values: np.ndarray | None = None  # (d,) of the same quantity, to fill the marks with


def draw_panel(
    ax: Axes,
    flat: FlatMesh,
    panel: Panel,
    sensor_points: np.ndarray | None = None,
    norm: Normalize | None = None,
) -> None:
    """Draw a field with title, sensors, (d, dim), and its bar, or on the shared scale `norm`."""
    values = flat.shown(panel.values, panel.is_nodal)
    scale = norm or (Normalize(0.0, 1.0) if panel.is_share else colour_limits(values))
    draw_values(ax, flat, values, panel.is_nodal, panel.colour_map, scale)
    draw_outline(ax, flat)
    if sensor_points is not None and len(sensor_points):
        colours = {"c": panel.sensor_values, "cmap": panel.colour_map, "norm": scale}
        colours = {} if panel.sensor_values is None else colours
        draw_sensors(ax, np.asarray(sensor_points)[:, list(flat.axes)], **colours)
    ax.set_title(panel.title)
    if norm is None:
        draw_bar(ax, panel.colour_map, scale, panel.label, is_share=panel.is_share)


def draw_values(
    ax: Axes, flat: FlatMesh, shown: np.ndarray, is_nodal: bool, colour_map: str, norm: Normalize
) -> Artist:
    """Draw what :meth:`FlatMesh.shown` gives of a field, as something that can be removed."""
    style = {"cmap": colour_map, "norm": norm, "rasterized": True}
    if is_nodal:
        return ax.tripcolor(flat.triangulation_of(shown), shown, shading="gouraud", **style)
    # edges in the face's own colour hide the hairlines between neighbouring triangles
    style |= {"edgecolors": "face", "linewidth": 0.2}
    return ax.tripcolor(flat.triangulation, facecolors=shown, **style)


def draw_outline(ax: Axes, flat: FlatMesh) -> None:
    """Draw where a body ends, over its fields, and set the axes up for them."""
    ax.add_collection(LineCollection(flat.outline(), colors=INK, linewidths=0.7, zorder=2))
    ax.set_aspect("equal")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.yaxis.set_major_locator(MaxNLocator(4))


def draw_sensors(
    ax: Axes, points: np.ndarray, c: str | np.ndarray = "white", share: float = 1.0, **colours
) -> None:
    """Mark sensors, (d, 2), white or in colours of `Axes.scatter`, `share` of the usual size."""
    size = share * float(np.clip(900 / len(points), 7, 30))
    ax.scatter(*points.T, s=size * 2.2, c="white", linewidths=0, zorder=3)
    style = {"edgecolors": INK, "linewidths": 0.7, "zorder": 4, "plotnonfinite": True}
    ax.scatter(*points.T, s=size, c=c, **style, **colours)


def draw_bar(
    ax: Axes,
    colour_map: str,
    norm: Normalize,
    label: str = "",
    *,
    is_share: bool = False,
    box: tuple[float, float, float, float] = (1.03, 0.0, 0.035, 1.0),
) -> None:
    """Draw a colour bar, by default at the right of axes; shares are in per cent."""
    style = PercentFormatter(1.0) if is_share else "%.4g"
    colours, place = ScalarMappable(norm, colour_map), ax.inset_axes(box)
    bar = ax.figure.colorbar(colours, cax=place, label=label, format=style)
    bar.outline.set_visible(False)
    bar.minorticks_off()
    bar.set_ticks(_round_numbers(norm))


def _round_numbers(norm: Normalize) -> np.ndarray:
    """Some five of them within a scale: of equal ratios if it is logarithmic, where that fits."""
    locators = [MaxNLocator(5)]
    if isinstance(norm, LogNorm):
        locators = [LogLocator(subs=(1,), numticks=7), LogLocator(subs=(1, 2, 5)), *locators]
    for locator in locators:
        values = np.asarray(locator.tick_values(norm.vmin, norm.vmax))
        values = values[(values >= norm.vmin) & (values <= norm.vmax)]
        if len(values) >= 3:
            break
    return values


def colour_limits(values: np.ndarray) -> Normalize:
    """Colour limits over the finite values; a constant field gets a small range around it."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        margin = 0.05 * abs(low) or 0.5
        low, high = low - margin, high + margin
    return Normalize(low, high)


def label_axes(axes: np.ndarray, flat: FlatMesh, length_unit: str = "") -> None:
    """Name the coordinates along a grid (rows, columns) of axes at its left and lower ends."""
    across, up = (with_unit(AXIS_NAMES[axis], length_unit) for axis in flat.axes)
    last = len(axes) - 1
    for (row, column), ax in np.ndenumerate(axes):
        ax.tick_params(bottom=row == last, left=column == 0)
        if row == last:
            ax.set_xlabel(across)
        if column == 0:
            ax.set_ylabel(up, rotation=90 if length_unit else 0)


def with_unit(name: str, unit: str) -> str:
    """A name with its unit behind it, if there is one."""
    return f"{name} [{unit}]" if unit else name


def draw_legend(figure: Figure, **place) -> None:
    """Draw one legend for all axes, each label once; `place` as of ``Figure.legend``."""
    each = (zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes)
    handles = {label: handle for pairs in each for handle, label in pairs}
    figure.legend(handles.values(), handles.keys(), fontsize=8, **place)


def saved(figure: Figure, path: str | os.PathLike | None) -> Figure:
    """Write a figure, if there is a path, in the format of its ending; return it."""
    if path is not None:
        with replace_on_success(path) as temporary:
            is_png = temporary.suffix == ".png"  # whose best compression takes as long as all else
            settings = {"pil_kwargs": {"compress_level": 3}} if is_png else {}
            figure.savefig(temporary, dpi=DOTS_PER_INCH, **settings)
    return figure
