"""Figures of the fit: predictions, residuals, leave-one-out predictions, series along numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.stats import beta

from invlift.errors import InputError
from invlift.posterior.along_axis import Places, Series
from invlift.posterior.leave_one_out import MAX_PARETO_K, LeaveOneOut
from invlift.posterior.plots import (
    CHAIN_COLOURS,
    DASHED,
    FAINT,
    INK,
    draw_legend,
    new_figure,
    with_unit,
)
from invlift.posterior.sensor_fit import SensorStatistics

#: Readings of which each has a mark of full size.
NUM_LARGE = 100
#: Of readings of one name after the other, and of those that stand out.
KIND_COLOURS, FAR_COLOUR = CHAIN_COLOURS[:4], CHAIN_COLOURS[4]
#: Width and height of a panel, in inches.
PANEL = 4.4, 4.0
#: Series of one figure, and most in one column.
MAX_SERIES, MAX_ROWS = 12, 4
#: Width of a figure of one column and of more, and heights of a series and of residuals below it,
#: in inches.
WIDTH, WIDE, HEIGHT, STRIP = 7.2, 10.8, 2.0, 1.0


def plot_leave_one_out(loo: LeaveOneOut, labels: Sequence[str] | None = None) -> Figure:
    """Draw leave-one-out probabilities in order of size, and Pareto k of each sensor.

    Under a right model with many sensors the probabilities are nearly uniform: the band holds each
    with probability 0.9, if they are independent. What is not reliable is hollow. Without
    probabilities the first panel is left out.
    """
    size, num_panels = loo.elpd.size, 1 if loo.pit is None else 2
    with new_figure(num_panels * PANEL[0], PANEL[1]) as figure:
        *first, last = figure.subplots(1, num_panels, squeeze=False)[0]
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
        _name_readings(last, size, labels)
        last.set_title(f"Reliable up to {MAX_PARETO_K:g}")
    return figure


def _scatter(ax: Axes, x: np.ndarray, y: np.ndarray, is_good: np.ndarray, bad_colour: str) -> None:
    """Draw points, those that are not good hollow."""
    good = CHAIN_COLOURS[0]
    for which, face, edge in ((is_good, good, good), (~is_good, "white", bad_colour)):
        ax.scatter(x[which], y[which], s=18, facecolor=face, edgecolor=edge, zorder=3)


def plot_sensors(
    statistics: SensorStatistics,
    quantity: str = "reading",
    labels: Sequence[str] | None = None,
    places: Places | None = None,
) -> Figure:
    """Draw predictions against readings, and the standardised residual of each sensor.

    Bars span two standard deviations of the prediction either way, noise included where it is
    known. `quantity` is what is measured, with its unit, e.g. "temperature [K]"; residuals are in
    the order of the readings, with their labels, or at places along an axis.
    """
    residual, observed = statistics.standardised_residual, statistics.observed
    spread, predicted = statistics.predicted_sd, statistics.predicted_mean
    if statistics.noise_sd is not None:
        spread = np.hypot(spread, statistics.noise_sd)
    num_panels = 1 if residual is None else 2
    with new_figure(num_panels * PANEL[0], PANEL[1]) as figure:
        ax, *others = figure.subplots(1, num_panels, squeeze=False)[0]
        ends = np.concatenate([observed, predicted - 2 * spread, predicted + 2 * spread])
        ends = ends[np.isfinite(ends)]
        margin = 0.04 * (np.ptp(ends) or 1.0)
        limits = (ends.min() - margin, ends.max() + margin)
        ax.plot(limits, limits, color=FAINT, linewidth=0.9, zorder=1)
        ax.errorbar(
            observed, predicted, yerr=2 * np.nan_to_num(spread), fmt="o", color=CHAIN_COLOURS[0],
            markersize=4, elinewidth=1.1, markeredgecolor="white", markeredgewidth=0.5,
        )  # fmt: skip
        ax.set(
            xlim=limits, ylim=limits, aspect="equal",
            xlabel=f"observed {quantity}", ylabel=f"predicted {quantity}",
        )  # fmt: skip
        ax.set_title("Predicted, ± 2 sd, against observed")
        for ax in others:
            draw_residuals(ax, residual, labels, places)
            is_keyed = ax.get_legend() is not None  # above the axes
            ax.set_title("Residuals, in predictive sd", pad=22 if is_keyed else None)
    return figure


def draw_residuals(
    ax: Axes,
    residual: np.ndarray,
    labels: Sequence[str] | None = None,
    places: Places | None = None,
) -> None:
    """Draw standardised residuals, (d,), in their order or at places; those beyond 2 stand out."""
    size = len(residual)
    axis, at, names = places or ("", np.arange(size), np.zeros(size))
    ax.axhspan(-2, 2, color=CHAIN_COLOURS[0], alpha=0.09, linewidth=0)
    ax.axhline(0, color=FAINT, linewidth=0.9)
    is_far, share = np.abs(residual) > 2, mark_share(size)
    colours = dict(zip(dict.fromkeys(names), cycle(KIND_COLOURS), strict=False))
    for kind, colour in colours.items():
        is_own = names == kind
        ax.vlines(at[is_own], 0, residual[is_own], color=colour, linewidth=1.1 * share)
        for which, area, face in ((~is_far, 18, colour), (is_far, 26, FAR_COLOUR)):
            here = is_own & which
            style = {"s": area * share**2, "facecolor": face, "edgecolor": colour, "zorder": 3}
            ax.scatter(at[here], residual[here], **style)
    finite = residual[np.isfinite(residual)]
    reach = max(2.6, 1.15 * np.max(np.abs(finite), initial=0.0))
    ax.set(ylim=(-reach, reach), ylabel="standardised residual")
    if places is None:
        _name_readings(ax, size, labels)
        return
    ax.set_xlabel(axis)
    ax.xaxis.set_major_locator(MaxNLocator(6))
    if len(colours) > 1:
        style = {"marker": "o", "markersize": 4, "linewidth": 0}
        marks = [Line2D([], [], color=colour, **style) for colour in colours.values()]
        ax.legend(
            marks, colours, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, ncols=4,
            fontsize=8,
        )  # fmt: skip


def mark_share(size: int) -> float:
    """Size of the marks of so many readings, as a share of that of few: they leave gaps."""
    return min(1.0, max(0.4, NUM_LARGE / max(1, size)))


def _name_readings(ax: Axes, size: int, labels: Sequence[str] | None) -> None:
    """Number the readings along an axis, or name some thirty of them at most."""
    if labels is None:
        ax.set_xlabel("sensor")
        ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        return
    shown = range(0, size, math.ceil(size / 30))
    names = [str(labels[index]) for index in shown]
    ax.set_xticks(shown, names, rotation=90, fontsize=6 if len(names) > 12 else 8)


def chosen_series(series: Sequence[Series], names: Sequence[str] | None) -> list[Series]:
    """Series by name, all without names; an InputError if there is none at all, or of a name."""
    known = {each.name: each for each in series}
    for name in (names or ()) if known else [""]:
        if name not in known:
            expected = f"some of {', '.join(known)}" if known else "draws along numbers"
            found = repr(name) if known else "none that have such an axis"
            remedy = "name axes and coordinates: argument axes of inverse_problem"
            raise InputError("plot of series", expected, found, remedy)
    return [known[name] for name in names or known]


def plot_series(series: Sequence[Series], residual: np.ndarray | None = None) -> Figure:
    """Draw the first twelve series, four in a column, with the residuals of their readings below.

    Of each the median and the 50 and 90 % bands of the quantity itself, without noise. Between the
    dashed lines are 90 % of new readings, with noise, where it is known. What lies after the last
    reading is marked as forecast. `residual` are the standardised residuals of all readings, (d,).
    """
    series = series[:MAX_SERIES]
    columns = -(-len(series) // MAX_ROWS)
    rows = [series[at : at + columns] for at in range(0, len(series), columns)]
    is_fit = [residual is not None and any(each.rows.size for each in row) for row in rows]
    heights = [h for has_strip in is_fit for h in ((HEIGHT, STRIP) if has_strip else (HEIGHT,))]
    with new_figure(WIDTH if columns == 1 else WIDE, sum(heights) + 0.5) as figure:
        grid = figure.subplots(len(heights), columns, height_ratios=heights, squeeze=False)
        first: dict[str, Axes] = {}
        places = iter(grid)
        for row, has_strip in zip(rows, is_fit, strict=True):
            above, below = next(places), next(places) if has_strip else [None] * columns
            for each, ax, strip in zip(row, above, below, strict=False):
                if first.setdefault(each.axis, ax) is not ax:
                    ax.sharex(first[each.axis])
                draw_series(ax, each)
                if strip is not None and each.rows.size:
                    strip.sharex(ax)
                    names = np.full(each.rows.size, each.name, dtype=object)
                    along = Places(each.axis, each.read_at, names)
                    draw_residuals(strip, residual[each.rows], places=along)
                    strip.set_ylabel("residual")
                    strip.yaxis.set_major_locator(MaxNLocator(4, integer=True, symmetric=True))
                    ax.tick_params(labelbottom=False)
                    ax.set_xlabel("")
        for ax in grid.flat:
            if not ax.has_data():
                ax.remove()
        draw_legend(figure, loc="outside upper left", ncols=3)
        figure.align_ylabels()
    return figure


def draw_series(ax: Axes, series: Series) -> None:
    """Draw a series with its bands, its readings and where the forecast begins."""
    colour, (low, lower, middle, upper, high) = CHAIN_COLOURS[0], series.quantiles
    last = series.last_read
    if last is not None:
        ax.axvspan(last, series.at[-1], color=FAINT, alpha=0.15, linewidth=0)
        ax.text(
            series.at[-1], 1.01, "forecast", transform=ax.get_xaxis_transform(), ha="right",
            va="bottom", fontsize=8, color=INK,
        )  # fmt: skip
    for below, above, alpha, share in ((low, high, 0.2, 90), (lower, upper, 0.35, 50)):
        name = f"{share} % band, without noise"
        ax.fill_between(series.at, below, above, color=colour, alpha=alpha, lw=0, label=name)
    ax.plot(series.at, middle, color=colour, linewidth=1.2, label="median")
    for end in () if series.new_readings is None else series.new_readings:
        name = "90 % of new readings, with noise"
        ax.plot(series.at, end, color=colour, linewidth=0.8, linestyle=DASHED, label=name)
    if series.rows.size:
        share = mark_share(series.rows.size)
        ax.plot(
            series.read_at, series.observed, "o", color=INK, markersize=4 * share,
            markeredgecolor="white", markeredgewidth=0.5 * (share == 1.0), label="readings",
        )  # fmt: skip
    ax.set(xlabel=series.axis, ylabel=with_unit(series.name, series.unit))
    ax.margins(x=0.02)
    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.yaxis.set_major_locator(MaxNLocator(5))
