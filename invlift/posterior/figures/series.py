"""Figure of quantities along an axis of numbers, such as time, with their readings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from invlift.posterior.figures.sensor_plots import draw_residuals, mark_size
from invlift.posterior.figures.style import (
    CHAIN_COLOURS,
    DASHED,
    FAINT,
    INK,
    GivenAxes,
    Panels,
    draw_legend,
    new_axes,
)
from invlift.posterior.statistics.series import Series
from invlift.units import with_unit

#: Largest numbers of series in a figure and in a column.
MAX_SERIES, MAX_ROWS = 12, 4
#: Width of a figure with one column and with more, and heights of a series and of its residuals, in
#: inches.
WIDTH, WIDE, HEIGHT, STRIP = 7.2, 10.8, 2.0, 1.0


def plot_series(
    series: Sequence[Series], residual: np.ndarray | None = None, ax: GivenAxes = None
) -> Panels:
    """Plot the first twelve series, four in a column, with residuals of the readings below each.

    Each has the median and the 50 and 90 % bands of the quantity without noise. Dashed lines
    contain 90 % of new readings, with noise, if the noise is known. The part after the last reading
    is marked as forecast. `residual` are the standardised residuals of all readings, (d,). `ax`
    has one entry for each series, and then there are no residuals.
    """
    series, is_own = series[:MAX_SERIES], ax is None
    num_columns = -(-len(series) // MAX_ROWS) if is_own else 1
    num_rows = -(-len(series) // num_columns)
    has_strips = is_own and residual is not None and any(each.rows.size for each in series)
    heights = num_rows * ([HEIGHT, STRIP] if has_strips else [HEIGHT])
    size = WIDTH if num_columns == 1 else WIDE, sum(heights) + 0.5
    with new_axes(ax, len(heights), num_columns, *size, height_ratios=heights) as grid:
        above, below = (grid[::2], grid[1::2]) if has_strips else (grid, np.full(grid.shape, None))
        for each, ax, strip in zip(series, above.flat, below.flat, strict=False):
            draw_series(ax, each)
            if strip is not None and each.rows.size:
                strip.sharex(ax)
                draw_residuals(strip, each.read_at, residual[each.rows])
                strip.set_xscale(ax.get_xscale())  # sharing an axis does not set its scale
                strip.set(xlabel=with_unit(each.axis, each.axis_unit), ylabel="residual")
                strip.yaxis.set_major_locator(MaxNLocator(4, integer=True, symmetric=True))
                ax.tick_params(labelbottom=False)
                ax.set_xlabel("")
        for ax in grid.flat:
            if not ax.has_data():
                ax.remove()
        draw_legend(grid, is_own, loc="outside upper left", ncols=3)
        if is_own:
            grid[0, 0].figure.align_ylabels()
    return Panels(grid)


def draw_series(ax: Axes, series: Series) -> None:
    """Plot a series with its bands, its readings and the range of the forecast."""
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
        style = {"color": INK, "markersize": mark_size(series.rows.size), "label": "readings"}
        ax.plot(series.read_at, series.observed, "o", **style)
    labels = with_unit(series.axis, series.axis_unit), with_unit(series.name, series.unit)
    ax.set(xlabel=labels[0], ylabel=labels[1])
    ax.margins(x=0.02)
    if series.spans_decades:
        ax.set_xscale("log")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.yaxis.set_major_locator(MaxNLocator(5))
