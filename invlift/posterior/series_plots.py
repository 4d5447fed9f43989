"""The figure of quantities along an axis of numbers, with the readings and their residuals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from invlift.errors import InputError
from invlift.posterior.along_axis import Places, Series
from invlift.posterior.plots import (
    CHAIN_COLOURS,
    DASHED,
    FAINT,
    INK,
    draw_legend,
    new_figure,
    with_unit,
)
from invlift.posterior.sensor_plots import draw_residuals, mark_share

#: Series of one figure, and most in one column.
MAX_SERIES, MAX_ROWS = 12, 4
#: Width of a figure of one column and of more, and heights of a series and of residuals below it,
#: in inches.
WIDTH, WIDE, HEIGHT, STRIP = 7.2, 10.8, 2.0, 1.0


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
