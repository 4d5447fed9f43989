"""The figure of a calibration: distribution functions of ranks against their bands, histograms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binom

from invlift.posterior.calibration import LEVEL, Calibration, UniformRanks
from invlift.posterior.plots import CHAIN_COLOURS, FAINT, INK, new_figure, saved

NUM_COLUMNS = 4
#: Bars of a histogram, at most, and ranks expected in each, at least.
MAX_BARS, MIN_EXPECTED = 20, 10
GOOD, BAD = CHAIN_COLOURS[0], CHAIN_COLOURS[4]


def plot_calibration(calibration: Calibration, path: str | Path | None = None) -> Figure:
    """Draw, for each quantity, how far its ranks are from uniform, and their histogram.

    The larger panels show the share of ranks below each value less that of uniform ranks
    (Sailynoja, Burkner & Vehtari 2022, section 3): within the filled band everywhere with 95 %
    probability, for each quantity by itself; within the outline for all quantities together.
    Quantities that leave the outline are drawn in another colour. It is saved where `path` says.

    An InputError if no simulation counts.
    """
    uniform, p_values = calibration.uniform(), calibration.p_values()
    bands = [uniform.band(1.0 - level) for level in (LEVEL, calibration.level)]
    num_columns = min(NUM_COLUMNS, len(p_values))
    num_rows = math.ceil(len(p_values) / num_columns)
    curves = [_difference(uniform, ranks) for ranks in calibration.ranks.values()]
    limit = 1.1 * np.max(np.abs([*(bound - uniform.points for bound in bands[1]), *curves]))
    with new_figure(2.9 * num_columns, 0.7 + 3.1 * num_rows) as figure:
        grid = figure.subplots(
            2 * num_rows, num_columns, squeeze=False, sharex=True, height_ratios=[3, 1] * num_rows
        )
        panels = zip(grid[::2].flat, grid[1::2].flat, strict=True)
        for (upper, lower), (name, ranks) in zip(panels, calibration.ranks.items(), strict=False):
            colour = BAD if p_values[name] < calibration.level else GOOD
            draw_difference(upper, uniform, bands, ranks, colour)
            upper.set_ylim(-limit, limit)
            upper.set_title(f"{name}\np = {p_values[name]:.2g}", color=colour, fontsize=8)
            _draw_histogram(lower, uniform, ranks, colour)
            if upper in grid[:, 0]:
                upper.set_ylabel("ranks below, less expected")
                lower.set_ylabel("ranks")
            else:
                upper.set_yticklabels([])
        for axes in grid.flat:
            axes.set_visible(axes.has_data())
        figure.supxlabel("rank of the truth among the draws, as a share of all", fontsize=9)
        title = f"{uniform.num_ranks} simulations, ranks 0 to {uniform.num_draws}; bands of 95 %: "
        title += "filled for each quantity, outline for all together"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        return saved(figure, path)


def draw_difference(
    axes: Axes,
    uniform: UniformRanks,
    bands: list[tuple[np.ndarray, np.ndarray]],
    ranks: np.ndarray,
    colour: str,
) -> None:
    """Draw a distribution function of ranks (M,) less the uniform one, and two bands of it."""
    points = np.r_[0.0, uniform.points, 1.0]
    inner, outer = [[np.r_[0.0, bound - uniform.points, 0.0] for bound in band] for band in bands]
    axes.fill_between(points, *inner, color=FAINT, alpha=0.25, linewidth=0)
    for bound in outer:
        axes.plot(points, bound, color=FAINT, linewidth=0.7)
    axes.axhline(0.0, color=FAINT, linewidth=0.5)
    curve = np.r_[0.0, _difference(uniform, ranks), 0.0]
    axes.plot(points, curve, color=colour, linewidth=1.3)
    axes.set_xlim(0.0, 1.0)


def _difference(uniform: UniformRanks, ranks: np.ndarray) -> np.ndarray:
    return uniform.counts(ranks) / uniform.num_ranks - uniform.points


def _draw_histogram(axes: Axes, uniform: UniformRanks, ranks: np.ndarray, colour: str) -> None:
    """Bars of equally many values, with the range in which 95 % of the bars are expected."""
    num_values = uniform.num_draws + 1
    most = max(2, min(MAX_BARS, uniform.num_ranks // MIN_EXPECTED))
    fitting = [num for num in range(2, most + 1) if num_values % num == 0]
    num_bars = fitting[-1] if fitting else 1
    counts = np.bincount(np.asarray(ranks) * num_bars // num_values, minlength=num_bars)
    edges = np.arange(num_bars + 1) / num_bars
    low, high = binom.interval(0.95, uniform.num_ranks, 1.0 / num_bars)
    axes.bar(edges[:-1], counts, 1.0 / num_bars, align="edge", color=colour, alpha=0.5)
    for bound in (low, high):
        axes.axhline(bound, color=INK, linewidth=0.7, linestyle=":")
    axes.set_xticks([0.0, 0.5, 1.0])
    axes.tick_params(labelsize=7, labelcolor=INK, labelbottom=True)
