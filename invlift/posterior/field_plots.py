"""Figures of fields: those of a posterior side by side; those of a prior, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from invlift.errors import InputError
from invlift.posterior.names import FIELD
from invlift.posterior.parts import Mesh, Readings, of_solution
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
from invlift.posterior.quantity import Quantity
from invlift.posterior.slices import flatten

if TYPE_CHECKING:
    from invlift.posterior.posterior import Posterior

#: Width of a field of a posterior, of the figure of a prior, and of a field in it, in inches.
WIDTH, PRIOR_WIDTH, FIELD_WIDTH = 3.3, 13.0, 2.6
PRIOR, DATA = CHAIN_COLOURS[0], CHAIN_COLOURS[4]
#: Shares of the predictions between which they are drawn for certain.
OUTER = (0.03, 0.97)
#: Room for a legend under a title, in points.
TITLE_PAD = 24


def plot_fields(
    posterior: Posterior,
    length_unit: str,
    conductivity_unit: str,
    solution_name: str,
    solution_unit: str,
) -> Figure:
    """Draw fields two in a row, with the sensors on top: see `Posterior.plot_fields`."""
    mesh, field = posterior.mesh, posterior.field
    if mesh is None or field is None:
        expected = "a posterior on a mesh"
        raise InputError("plot of fields", expected, "a model without one", "plot the chains")
    fields, sensors, panels = posterior.fields(), posterior.sensors, []
    if field.name == FIELD:
        log_unit = f"ln k, k in {conductivity_unit}" if conductivity_unit else ""
        if "solution_mean" in fields:
            style = True, "inferno", solution_unit, False, _readings_of_solution(sensors)
            third = Panel(f"{solution_name}, posterior mean", fields["solution_mean"], *style)
        else:
            style = field.place == "node", "plasma", conductivity_unit
            third = Panel("Conductivity, posterior mean", fields["conductivity_mean"], *style)
        panels += _panels_of(fields, field, log_unit, "", third)
    else:
        for each in posterior.described.values():
            if each.place and not each.is_derived:
                panels += _panels_of(fields, each, each.unit, each.unit)
    flat, points = flatten(mesh.points, mesh.cells), getattr(sensors, "points", None)
    across, up = np.ptp(flat.points, axis=0)
    height = WIDTH * float(np.clip(up / across, 0.2, 1.6))
    num_columns = min(2, len(panels))
    num_rows = -(-len(panels) // num_columns)
    with new_figure(num_columns * (WIDTH + 1.3), num_rows * (height + 0.55)) as figure:
        axes = figure.subplots(num_rows, num_columns, squeeze=False, sharex=True, sharey=True)
        for panel, ax in zip(panels, axes.flat, strict=False):
            draw_panel(ax, flat, panel, points)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        label_axes(axes, flat, length_unit)
        if flat.place:
            place = f"{flat.place} {length_unit}".rstrip()
            note = "" if points is None else ", sensors projected onto it"
            figure.suptitle(place + note, color=INK, fontsize=10)
    return figure


def _readings_of_solution(sensors) -> np.ndarray | None:
    """Readings in the unit of the solution, NaN in place of others."""
    if sensors is None:
        return None
    return np.where(of_solution(sensors), sensors.values, np.nan)


def _panels_of(
    fields: dict[str, np.ndarray],
    quantity: Quantity,
    mean_label: str,
    sd_label: str,
    *others: Panel,
) -> list[Panel]:
    """Panels of a field: its mean and sd, others, and its variance reduction."""
    name, is_nodal, title = quantity.name, quantity.place == "node", f"{quantity.name},"
    key, what = f"{name}_variance_reduction", f"{name}, variance"
    if name == FIELD:
        title, key, what = "Log-conductivity,", "variance_reduction", "Variance"
    mean, sd = (fields[f"{name}_{each}"] for each in ("mean", "sd"))
    panels = [
        Panel(f"{title} posterior mean", mean, is_nodal, "viridis", mean_label),
        Panel(f"{title} posterior sd", sd, is_nodal, "magma", sd_label),
        *others,
    ]
    if key in fields:
        style = is_nodal, "cividis", "of prior variance", True
        panels.append(Panel(f"{what} reduction", fields[key], *style))
    return panels


@dataclass(frozen=True, eq=False)
class PriorPicture:
    """Numbers of a figure of a prior, with N values of the log-conductivity and d sensors.

    Lengths are in the unit of the mesh, predictions, readings and noise in that of the readings.
    """

    mesh: Mesh
    sensors: Readings
    is_nodal: bool  # whether the N values are at the nodes; otherwise in the cells
    fields: np.ndarray  # (num_fields, N), drawn from the prior
    field_names: Sequence[str]
    predicted: np.ndarray  # (num_draws, d), of fields drawn from the prior, without noise
    noise_scale: np.ndarray  # (d,), the median of what the prior says of it unless it is known
    is_noise_known: bool
    std: np.ndarray  # (N,), of the prior
    distances: np.ndarray  # (k,), increasing from 0
    correlations: np.ndarray  # (num_curves, k), with that at 0; several if the range is unknown
    formula: np.ndarray | None  # (2, l) distances and correlations by a formula
    formula_name: str


def plot_prior(picture: PriorPicture) -> Figure:
    """Draw fields of the prior on one colour scale, and below spread, readings and correlation."""
    flat, is_nodal = flatten(picture.mesh.points, picture.mesh.cells), picture.is_nodal
    across, up = np.ptp(flat.points, axis=0)
    height = FIELD_WIDTH * float(np.clip(up / across, 0.3, 1.6))
    below = max(height, 2.6)
    with new_figure(PRIOR_WIDTH, height + below + 1.5) as figure:
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
        draw_panel(std, flat, spread, picture.sensors.points)
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
        index, picture.sensors.values, yerr=2 * picture.noise_scale, fmt="o", color=DATA,
        markersize=float(np.clip(150 / num_sensors, 2.5, 5)), elinewidth=1.1,
        markeredgecolor="white", markeredgewidth=0.5, label=f"readings, ± 2 × {noise}",
    )  # fmt: skip
    ax.set(ylim=(low, high), xlabel="sensor")
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.set_title("Readings", pad=TITLE_PAD)
    _legend(ax)


def _reach(picture: PriorPicture) -> tuple[float, float]:
    """Limits that hold every reading with its noise, and most predictions."""
    observed, (low, high) = picture.sensors.values, np.quantile(picture.predicted, OUTER)
    extra = 0.25 * (high - low)  # single draws of a wide prior would hide all others
    low = min(max(low - extra, picture.predicted.min()), observed.min())
    high = max(min(high + extra, picture.predicted.max()), observed.max())
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
