"""The figure of a prior: fields drawn from it, the readings they give, spread and correlation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from invlift.posterior.plots import (
    CHAIN_COLOURS,
    DASHED,
    FAINT,
    INK,
    Panel,
    colour_limits,
    draw_bar,
    draw_panel,
    label_axes,
    new_figure,
)
from invlift.posterior.slices import flatten

PRIOR, DATA = CHAIN_COLOURS[0], CHAIN_COLOURS[4]
#: Width of the figure, in inches, and of a field in it.
WIDTH, FIELD_WIDTH = 13.0, 2.6
#: Shares of the predictions between which they are drawn for certain.
OUTER = (0.03, 0.97)
#: Room for a legend under a title, in points.
TITLE_PAD = 24


@dataclass(frozen=True, eq=False)
class PriorPicture:
    """Numbers of a figure of a prior, with N values of the log-conductivity and d sensors.

    Lengths are in the unit of the mesh, predictions, readings and noise in that of the readings.
    """

    points: np.ndarray  # (num_nodes, dim)
    cells: np.ndarray  # (num_cells, dim + 1)
    is_nodal: bool  # whether the N values are at the nodes; otherwise in the cells
    sensor_points: np.ndarray  # (d, dim)
    fields: np.ndarray  # (num_fields, N), drawn from the prior
    field_names: Sequence[str]
    predicted: np.ndarray  # (num_draws, d), of fields drawn from the prior, without noise
    observed: np.ndarray  # (d,)
    noise_scale: np.ndarray  # (d,), the median of what the prior says of it unless it is known
    is_noise_known: bool
    std: np.ndarray  # (N,), of the prior
    distances: np.ndarray  # (k,), increasing from 0
    correlations: np.ndarray  # (num_curves, k), with that at 0; several if the range is unknown
    formula: np.ndarray | None  # (2, l) distances and correlations by a formula
    formula_name: str


def plot_prior(picture: PriorPicture) -> Figure:
    """Draw fields of the prior on one colour scale, and below spread, readings and correlation.

    Bodies in space are shown by a slice through the middle.
    """
    flat, is_nodal = flatten(picture.points, picture.cells), picture.is_nodal
    across, up = np.ptp(flat.points, axis=0)
    height = FIELD_WIDTH * float(np.clip(up / across, 0.3, 1.6))
    below = max(height, 2.6)
    with new_figure(WIDTH, height + below + 1.5) as figure:
        top, bottom = figure.subfigures(2, 1, height_ratios=(height + 0.6, below + 0.9))
        axes = top.subplots(1, len(picture.fields), squeeze=False, sharex=True, sharey=True)
        norm = colour_limits(np.stack([flat.shown(each, is_nodal) for each in picture.fields]))
        for ax, values, name in zip(axes[0], picture.fields, picture.field_names, strict=True):
            draw_panel(ax, flat, Panel(name, values, is_nodal, "viridis"), norm=norm)
        draw_bar(axes[0, -1], "viridis", norm, "log-conductivity")
        label_axes(axes, flat)
        if flat.place:
            top.suptitle(f"{flat.place}, sensors projected onto it", color=INK, fontsize=10)
        std, readings, correlation = bottom.subplots(1, 3, width_ratios=(1.0, 1.5, 1.2))
        label = "sd of the log-conductivity"
        spread = Panel("", picture.std, is_nodal, "magma", label)
        draw_panel(std, flat, spread, picture.sensor_points)
        std.set_title("Standard deviation, and the sensors", pad=TITLE_PAD)
        std.set_anchor("N")
        label_axes(np.array([[std]]), flat)
        _draw_readings(readings, picture)
        _draw_correlation(correlation, picture)
    return figure


def _draw_readings(ax: Axes, picture: PriorPicture) -> None:
    num_draws, num_sensors = picture.predicted.shape
    index = np.arange(num_sensors)
    size = float(np.clip(400 / num_sensors, 2, 12))
    low, high = _reach(picture)
    num_outside = np.count_nonzero((picture.predicted < low) | (picture.predicted > high))
    outside = f" ({num_outside} points outside)" if num_outside else ""
    ax.scatter(
        np.tile(index, num_draws), picture.predicted.ravel(), s=size, color=PRIOR, alpha=0.35,
        linewidths=0, label=f"{num_draws} prior draws{outside}", rasterized=True,
    )  # fmt: skip
    noise = "noise scale" if picture.is_noise_known else "noise scale (median)"
    ax.errorbar(
        index, picture.observed, yerr=2 * picture.noise_scale, fmt="o", color=DATA,
        markersize=float(np.clip(150 / num_sensors, 2.5, 5)), elinewidth=1.1,
        markeredgecolor="white", markeredgewidth=0.5, label=f"readings, ± 2 × {noise}",
    )  # fmt: skip
    ax.set(ylim=(low, high), xlabel="sensor")
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.set_title("Readings", pad=TITLE_PAD)
    _legend(ax)


def _reach(picture: PriorPicture) -> tuple[float, float]:
    """Limits that hold every reading with its noise, and most predictions."""
    low, high = np.quantile(picture.predicted, OUTER)
    extra = 0.25 * (high - low)  # single draws of a wide prior would hide all others
    low = min(max(low - extra, picture.predicted.min()), picture.observed.min())
    high = max(min(high + extra, picture.predicted.max()), picture.observed.max())
    height = (high - low) or abs(low) or 1.0
    noise = min(2 * np.max(picture.noise_scale), height / 2)
    return low - noise - 0.04 * height, high + noise + 0.04 * height


def _draw_correlation(ax: Axes, picture: PriorPicture) -> None:
    ax.axhline(0, color=FAINT, linewidth=0.9)
    is_one = len(picture.correlations) == 1
    for number, row in enumerate(picture.correlations):
        label = "on this mesh" if is_one else f"{len(picture.correlations)} drawn ranges"
        ax.plot(
            picture.distances, row, color=PRIOR, marker="o", markersize=3 if is_one else 1.5,
            linewidth=0.9, alpha=0.8, label=None if number else label,
        )  # fmt: skip
    if picture.formula is not None:
        ax.plot(
            *picture.formula, color=INK, linewidth=1.1, linestyle=DASHED,
            label=picture.formula_name,
        )  # fmt: skip
    ax.set(xlabel="distance from the middle", xlim=(0, None), ylim=(None, 1.04))
    ax.set_title("Correlation with the middle", pad=TITLE_PAD)
    _legend(ax)


def _legend(ax: Axes) -> None:
    """Put the legend between title and axes, where no data are."""
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=2, fontsize=8, handletextpad=0.4,
        columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip
    legend.set_in_layout(False)  # or it would decide how wide the panels are
