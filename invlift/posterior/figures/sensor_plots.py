"""Figures of the fit: predictions, residuals, leave-one-out predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import beta

from invlift.posterior.figures.style import CHAIN_COLOURS, FAINT, GivenAxes, Panels, new_axes
from invlift.posterior.figures.ticks import set_ticks
from invlift.posterior.statistics.leave_one_out import MAX_PARETO_K, LeaveOneOut
from invlift.posterior.statistics.sensor_fit import SensorStatistics

#: Colour of readings with large residuals or unreliable estimates.
FAR_COLOUR = CHAIN_COLOURS[4]
#: Width and height of a panel, in inches.
PANEL = 4.4, 4.0


def plot_leave_one_out(
    loo: LeaveOneOut, labels: Sequence[str] | None = None, ax: GivenAxes = None
) -> Panels:
    """Plot leave-one-out probabilities in order of size, and Pareto k of each sensor.

    For a correct model with many sensors the probabilities are nearly uniform: the band contains
    each with probability 0.9, if they are independent. Marks of unreliable values are hollow.
    Without probabilities the first panel is left out.
    """
    size, num_panels = loo.elpd.size, 1 if loo.pit is None else 2
    with new_axes(ax, 1, num_panels, num_panels * PANEL[0], PANEL[1]) as axes:
        *first, last = axes[0]
        for ax in first:
            order, rank = np.argsort(loo.pit), np.arange(1, size + 1)
            ends = [beta.ppf(level, rank, size + 1 - rank) for level in (0.05, 0.95)]
            expected = rank / (size + 1)
            ax.fill_between(expected, *ends, color=CHAIN_COLOURS[0], alpha=0.09, linewidth=0)
            ax.plot((0, 1), (0, 1), color=FAINT, linewidth=0.9)
            _scatter(ax, expected, loo.pit[order], loo.is_reliable[order], CHAIN_COLOURS[0])
            ax.set(
                xlim=(0, 1), ylim=(-0.02, 1.02), aspect="equal",
                xlabel="expected", ylabel="P(new reading ≤ reading | others)",
            )  # fmt: skip
            ax.set_title("Leave-one-out probabilities, in order")
        last.axhline(MAX_PARETO_K, color=FAINT, linewidth=0.9)
        _scatter(last, np.arange(size), loo.pareto_k, loo.is_reliable, FAR_COLOUR)
        last.set_ylabel("Pareto k")
        name_readings(last, size, labels)
        last.set_title(f"Reliable up to {MAX_PARETO_K:g}")
    return Panels(axes)


def _scatter(ax: Axes, x: np.ndarray, y: np.ndarray, is_good: np.ndarray, bad_colour: str) -> None:
    """Plot points; marks of bad points are hollow."""
    good = CHAIN_COLOURS[0]
    for which, face, edge in ((is_good, good, good), (~is_good, "white", bad_colour)):
        ax.scatter(x[which], y[which], s=18, facecolor=face, edgecolor=edge, zorder=3)


def plot_sensors(
    statistics: SensorStatistics,
    quantity: str = "reading",
    labels: Sequence[str] | None = None,
    ax: GivenAxes = None,
) -> Panels:
    """Plot predictions against readings, and the standardised residual of each sensor.

    Bars show plus and minus two standard deviations of the prediction, with noise if it is known.
    `quantity` is the measured quantity with its unit, e.g. "temperature [K]". Residuals are in the
    order of the readings, with their labels.
    """
    residual, observed = statistics.standardised_residual, statistics.observed
    spread, predicted = statistics.predicted_sd, statistics.predicted_mean
    if statistics.noise_sd is not None:
        spread = np.hypot(spread, statistics.noise_sd)
    num_panels = 1 if residual is None else 2
    with new_axes(ax, 1, num_panels, num_panels * PANEL[0], PANEL[1]) as axes:
        ax, *others = axes[0]
        ends = np.concatenate([observed, predicted - 2 * spread, predicted + 2 * spread])
        ends = ends[np.isfinite(ends)]
        margin = 0.04 * (np.ptp(ends) or 1.0)
        limits = (ends.min() - margin, ends.max() + margin)
        ax.plot(limits, limits, color=FAINT, linewidth=0.9, zorder=1)
        limits_of = np.full(observed.shape, "") if statistics.limit is None else statistics.limit
        for limit, mark in (("", "o"), ("<", "<"), (">", ">")):  # to the side where readings are
            rows = limits_of == limit
            ax.errorbar(
                observed[rows], predicted[rows], yerr=2 * np.nan_to_num(spread[rows]), fmt=mark,
                color=CHAIN_COLOURS[0], markersize=4, elinewidth=1.1, markeredgecolor="white",
                markeredgewidth=0.5,
            )  # fmt: skip
        ax.set(
            xlim=limits, ylim=limits, aspect="equal",
            xlabel=f"observed {quantity}", ylabel=f"predicted {quantity}",
        )  # fmt: skip
        set_ticks(ax.xaxis, 0.75 * PANEL[0], is_across=True)
        ax.set_title("Predicted, ± 2 sd, against observed")
        for ax in others:
            draw_residuals(ax, np.arange(len(residual)), residual)
            ax.set_title("Residuals, in predictive sd")
            name_readings(ax, len(residual), labels)
    return Panels(axes)


def draw_residuals(ax: Axes, at: np.ndarray, residual: np.ndarray) -> None:
    """Plot standardised residuals, (d,), at positions `at`; those beyond 2 have another colour."""
    ax.axhspan(-2, 2, color=CHAIN_COLOURS[0], alpha=0.09, linewidth=0)
    ax.axhline(0, color=FAINT, linewidth=0.9)
    is_far, size = np.abs(residual) > 2, mark_size(len(residual))
    ax.vlines(at, 0, residual, color=CHAIN_COLOURS[0], linewidth=0.25 * size)
    for which, colour in ((~is_far, CHAIN_COLOURS[0]), (is_far, FAR_COLOUR)):
        ax.scatter(at[which], residual[which], s=size**2, color=colour, zorder=3)
    finite = residual[np.isfinite(residual)]
    reach = max(2.6, 1.15 * np.max(np.abs(finite), initial=0.0))
    ax.set(ylim=(-reach, reach), ylabel="standardised residual")


def mark_size(num: int) -> float:
    """Return the width of marks, in points, for a number of readings."""
    return float(np.clip(400 / max(1, num), 1.6, 4.0))


def name_readings(ax: Axes, size: int, labels: Sequence[str] | None, kind: str = "sensor") -> None:
    """Number the readings along an axis, or write at most thirty of their names."""
    if labels is None:
        ax.set_xlabel(kind)
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        return
    shown = range(0, size, math.ceil(size / 30))
    names = [str(labels[index]) for index in shown]
    ax.set_xticks(shown, names, rotation=90, fontsize=6 if len(names) > 12 else 8)
