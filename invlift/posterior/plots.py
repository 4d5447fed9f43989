"""Figures of a posterior: fields and chains.

Every function returns a `matplotlib.figure.Figure` that belongs to no window, and leaves
matplotlib's settings as they were.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
from matplotlib.tri import Triangulation
from scipy.special import ndtr

from invlift.atomic import replace_on_success
from invlift.posterior.diagnostics import Diagnostics, rank_normalise
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
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.12,
}
NUM_RANK_BINS = 20
MAX_SCALARS = 8  # rows of a trace plot that fit a page
DOTS_PER_INCH = 160


@dataclass(frozen=True, eq=False)
class Panel:
    """One field to draw.

    Attributes
    ----------
    title : str
    values : np.ndarray
        (num_nodes,) if `is_nodal`, otherwise (num_cells,).
    is_nodal : bool
    colour_map : str
        Name of one of matplotlib's perceptually uniform maps.
    label : str
        What the colours mean, with the unit.
    is_share : bool
        The values are shares between 0 and 1, shown in per cent on that range.
    sensor_values : np.ndarray or None
        (d,) readings of the same quantity, to fill the sensors' marks with.
    """

    title: str
    values: np.ndarray
    is_nodal: bool
    colour_map: str
    label: str = ""
    is_share: bool = False
    sensor_values: np.ndarray | None = None


def plot_panels(
    flat: FlatMesh,
    panels: Sequence[Panel],
    sensor_points: np.ndarray | None = None,
    length_unit: str = "",
) -> Figure:
    """Draw fields side by side, two in a row, with the sensors on top.

    Parameters
    ----------
    flat : FlatMesh
        Where to draw.
    panels : sequence of Panel
        What to draw.
    sensor_points : (d, dim) array or None
        Positions; projected onto the plane of a slice.
    length_unit : str
        For the axes, e.g. "m".

    Returns
    -------
    matplotlib.figure.Figure
    """
    extent = np.ptp(flat.points, axis=0)
    width = 3.3
    height = width * float(np.clip(extent[1] / extent[0], 0.2, 1.6))
    num_columns = min(2, len(panels))
    num_rows = -(-len(panels) // num_columns)
    mesh = Triangulation(flat.points[:, 0], flat.points[:, 1], flat.triangles)
    if sensor_points is not None:
        sensor_points = np.asarray(sensor_points, dtype=float)[:, list(flat.axes)]
    with matplotlib.rc_context(STYLE):
        figure = Figure(
            figsize=(num_columns * (width + 1.3), num_rows * (height + 0.55)),
            layout="constrained",
        )
        axes = figure.subplots(num_rows, num_columns, squeeze=False, sharex=True, sharey=True)
        for panel, ax in zip(panels, axes.flat, strict=False):
            _draw_panel(ax, panel, flat, mesh, sensor_points)
        for ax in list(axes.flat)[len(panels) :]:
            ax.set_axis_off()
        for ax in axes[:-1].flat:
            ax.tick_params(bottom=False)
        for ax in axes[:, 1:].flat:
            ax.tick_params(left=False)
        for ax in axes[-1]:
            ax.set_xlabel(with_unit(AXIS_NAMES[flat.axes[0]], length_unit))
        for ax in axes[:, 0]:
            name = with_unit(AXIS_NAMES[flat.axes[1]], length_unit)
            ax.set_ylabel(name, rotation=90 if length_unit else 0)
        if flat.place:
            place = f"{flat.place} {length_unit}".rstrip()
            note = "" if sensor_points is None else ", sensors projected onto it"
            figure.suptitle(place + note, color=INK, fontsize=10)
    return figure


def _draw_panel(
    ax: Axes,
    panel: Panel,
    flat: FlatMesh,
    mesh: Triangulation,
    sensor_points: np.ndarray | None,
) -> None:
    values = shown_values(flat, panel.values, panel.is_nodal)
    norm = Normalize(0.0, 1.0) if panel.is_share else colour_limits(values)
    draw_field(ax, flat, mesh, values, panel.is_nodal, panel.colour_map, norm)
    if sensor_points is not None and len(sensor_points):
        fill = {} if panel.sensor_values is None else {
            "c": panel.sensor_values, "cmap": panel.colour_map, "norm": norm
        }  # fmt: skip
        draw_sensors(ax, sensor_points, **fill)
    ax.set_title(panel.title)
    draw_bar(ax, panel.colour_map, norm, panel.label, is_share=panel.is_share)


def draw_sensors(
    ax: Axes, points: np.ndarray, c: str | np.ndarray = "white", share: float = 1.0, **colours
) -> None:
    """Mark sensors, (d, 2), white or in colours of `Axes.scatter`, `share` of the usual size."""
    size = share * float(np.clip(900 / len(points), 7, 30))
    ax.scatter(*points.T, s=size * 2.2, c="white", linewidths=0, zorder=3)
    ax.scatter(*points.T, s=size, c=c, edgecolors=INK, linewidths=0.7, zorder=4, **colours)


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
    bar = ax.figure.colorbar(
        ScalarMappable(norm, colour_map), cax=ax.inset_axes(box), label=label, format=style
    )
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


def shown_values(flat: FlatMesh, values: np.ndarray, is_nodal: bool) -> np.ndarray:
    """Values of a field where a flat mesh shows it: at its points, (k,), or on its triangles."""
    return flat.at_points(values) if is_nodal else flat.on_triangles(values)


def draw_field(ax: Axes, flat: FlatMesh, mesh: Triangulation, *field) -> None:
    """Draw a field and the outline of its body, without a colour bar.

    `mesh` is the triangulation of `flat`, and `field` what else :func:`draw_values` takes.
    """
    draw_values(ax, mesh, *field)
    draw_outline(ax, flat)


def draw_values(
    ax: Axes,
    mesh: Triangulation,
    values: np.ndarray,
    is_nodal: bool,
    colour_map: str,
    norm: Normalize,
) -> Artist:
    """Draw a field alone, as something that can be removed.

    The values, of a mesh's points, (k,), if `is_nodal`, otherwise of its triangles, (m,), come from
    :func:`shown_values`.
    """
    style = {"cmap": colour_map, "norm": norm, "rasterized": True}
    if is_nodal:
        return ax.tripcolor(mesh, values, shading="gouraud", **style)
    # edges in the face's own colour hide the hairlines between neighbouring triangles
    return ax.tripcolor(mesh, facecolors=values, edgecolors="face", linewidth=0.2, **style)


def draw_outline(ax: Axes, flat: FlatMesh) -> None:
    """Draw where a body ends, over its fields, and set the axes up for them."""
    ax.add_collection(LineCollection(flat.outline(), colors=INK, linewidths=0.7, zorder=2))
    ax.set_aspect("equal")
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.yaxis.set_major_locator(MaxNLocator(4))


def colour_limits(values: np.ndarray) -> Normalize:
    """Colour limits over the finite values; a constant field gets a small range around it."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return Normalize(0.0, 1.0)
    low, high = float(finite.min()), float(finite.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        margin = 0.05 * abs(low) or 0.5
        low, high = low - margin, high + margin
    return Normalize(low, high)


def plot_chains(
    scalars: Mapping[str, Sequence[np.ndarray]], diagnostics: Mapping[str, Diagnostics]
) -> Figure:
    """Draw traces and rank histograms of scalars, one in a row.

    A rank histogram counts how often each chain's draws fall into each twentieth of all draws;
    chains that agree have bars that end near the dashed line (Vehtari et al. 2021, section 4.4).

    Parameters
    ----------
    scalars : mapping of str to sequence of (num_draws,) arrays
        One array per chain; the first eight scalars are drawn.
    diagnostics : mapping of str to Diagnostics
        Of the same scalars, each of size 1.

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = list(scalars)[:MAX_SCALARS]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.4, 0.5 + 1.75 * len(names)), layout="constrained")
        axes = figure.subplots(len(names), 2, squeeze=False, width_ratios=(2, 1), sharex="col")
        for name, (trace, rank) in zip(names, axes, strict=True):
            chains = np.stack([np.asarray(chain, dtype=float) for chain in scalars[name]])
            draw_trace(trace, chains)
            trace.set_title(name)
            found = diagnostics[name]
            note = f"R-hat {found.r_hat[0]:.3f}   ESS bulk {found.ess_bulk[0]:.0f}"
            note += f", tail {found.ess_tail[0]:.0f}"
            trace.set_title(note, loc="right", fontsize=8, color="#5b616b")
            draw_ranks(rank, chains)
        axes[0, 1].set_title("Ranks among all chains")
        axes[-1, 0].set_xlabel("draw")
        axes[-1, 1].set_xlabel("rank")
        axes[-1, 1].xaxis.set_major_formatter(PercentFormatter(1.0))
    return figure


def draw_trace(ax: Axes, chains: np.ndarray) -> None:
    """Draw a scalar's draws, (chains, num_draws), in their order."""
    for index, chain in enumerate(chains):
        colour = CHAIN_COLOURS[index % len(CHAIN_COLOURS)]
        ax.plot(chain, color=colour, linewidth=0.55, alpha=0.75)
    ax.margins(x=0.01)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(4))


def draw_ranks(ax: Axes, chains: np.ndarray) -> None:
    """Draw the rank histogram of each chain, (chains, num_draws), the first on top."""
    num_chains, num_draws = chains.shape
    share = ndtr(rank_normalise(chains[None])[0])
    edges = np.linspace(0.0, 1.0, NUM_RANK_BINS + 1)
    expected = num_draws / NUM_RANK_BINS
    for index, chain in enumerate(share):
        # first chain on top; a bar of the expected height fills 60 % of its row
        base = num_chains - 1 - index
        height = 0.6 * np.histogram(chain, edges)[0] / expected
        colour = CHAIN_COLOURS[index % len(CHAIN_COLOURS)]
        ax.bar(
            edges[:-1], np.minimum(height, 0.97), width=0.94 / NUM_RANK_BINS, bottom=base,
            align="edge", color=colour, alpha=0.8, linewidth=0,
        )  # fmt: skip
        ax.axhline(base + 0.6, color=INK, linewidth=0.6, linestyle=(0, (4, 3)))
    ax.set_xlim(0, 1)
    ax.set_ylim(0, num_chains)
    ax.set_yticks(np.arange(num_chains) + 0.3, [f"chain {i}" for i in range(num_chains)][::-1])
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.spines["left"].set_visible(False)


def with_unit(name: str, unit: str) -> str:
    """A name with its unit behind it, if there is one."""
    return f"{name} [{unit}]" if unit else name


def draw_legend(figure: Figure, **place) -> None:
    """Draw one legend for all axes, each label once; `place` as of ``Figure.legend``."""
    handles = {
        label: handle
        for ax in figure.axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), fontsize=8, **place)


def saved(figure: Figure, path: str | os.PathLike | None) -> Figure:
    """Write a figure in the format of the path's ending, complete or not at all; return it.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path-like or None
        Where to, if anywhere.
    """
    if path is None:
        return figure
    with replace_on_success(path) as temporary:
        is_png = temporary.suffix == ".png"  # whose best compression takes as long as all else
        settings = {"pil_kwargs": {"compress_level": 3}} if is_png else {}
        figure.savefig(temporary, dpi=DOTS_PER_INCH, **settings)
    return figure
