"""Figures of scalars: traces and ranks; distributions with their priors, and pairs."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.special import ndtr

from invlift.errors import InputError
from invlift.posterior.figures.style import (
    CHAIN_COLOURS,
    DASHED,
    INK,
    MAX_SCALARS,
    GivenAxes,
    Panels,
    draw_legend,
    new_axes,
)
from invlift.posterior.figures.ticks import set_ticks
from invlift.posterior.names import vector_of
from invlift.posterior.statistics.diagnostics import rank_normalise
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.quantity import Quantity
from invlift.posterior.statistics.scalars import chosen

NUM_RANK_BINS = 20
#: Largest number of points of a pair plot, and number of bars of a histogram.
MAX_POINTS, NUM_BARS = 1000, 30
POINTS = {
    "color": CHAIN_COLOURS[0], "markersize": 1.6, "alpha": 0.5, "rasterized": True,
    "markeredgewidth": 0,
}  # fmt: skip
#: Quantiles of the draws at the limits of an axis, and margin as a share of their distance.
ENDS, MARGIN = (0.005, 0.995), 0.12
#: Largest width of all panels of pairs, and of one panel, in inches.
WIDTH, PANEL = 9.6, 1.8
#: Size of the numbers at pair plots, in points.
SMALL = 7


def plot_chains(
    posterior: PosteriorStatistics, wanted: Sequence[str] | None = None, ax: GivenAxes = None
) -> Panels:
    """Plot traces and rank histograms of the first eight wanted scalars, one per row.

    A rank histogram counts the draws of each chain in each twentieth of all draws. If the chains
    agree, the bars end near the dashed line (Vehtari et al. 2021, section 4.4).
    """
    scalars = chosen(posterior.scalars, wanted)
    names = list(scalars)[:MAX_SCALARS]
    size, layout = (9.4, 0.5 + 1.75 * len(names)), {"width_ratios": (2, 1), "sharex": "col"}
    with new_axes(ax, len(names), 2, *size, **layout) as axes:
        for name, (trace, rank) in zip(names, axes, strict=True):
            draw_trace(trace, np.stack(scalars[name]))
            trace.set_title(posterior.titles[name])
            each = posterior.scalar_diagnostics[name]
            note = f"R-hat {each.r_hat[0]:.3f}   ESS bulk {each.ess_bulk[0]:.0f}"
            note += f", tail {each.ess_tail[0]:.0f}"
            trace.set_title(note, loc="right", fontsize=8, color="#5b616b")
            draw_ranks(rank, np.stack(scalars[name]))
        axes[0, 1].set_title("Ranks among all chains")
        for ax in axes[:-1].flat:
            ax.set_xlabel("")
    return Panels(axes)


def draw_trace(ax: Axes, chains: np.ndarray) -> None:
    """Plot the draws of a scalar, (chains, num_draws), in their order."""
    for index, chain in enumerate(chains):
        colour = CHAIN_COLOURS[index % len(CHAIN_COLOURS)]
        ax.plot(chain, color=colour, linewidth=0.55, alpha=0.75)
    ax.margins(x=0.01)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.set_xlabel("draw")


def draw_ranks(ax: Axes, chains: np.ndarray) -> None:
    """Plot the rank histogram of each chain, (chains, num_draws), the first on top."""
    num_chains, num_draws = chains.shape
    share = ndtr(rank_normalise(chains[None])[0])
    edges = np.linspace(0.0, 1.0, NUM_RANK_BINS + 1)
    expected = num_draws / NUM_RANK_BINS
    for index, chain in enumerate(share):
        # first chain on top; a bar of the expected height fills 60 % of its row
        base = num_chains - 1 - index
        height = 0.6 * np.histogram(chain, edges)[0] / expected
        colour = CHAIN_COLOURS[index % len(CHAIN_COLOURS)]
        tops = base + np.minimum(height, 0.97)
        ax.stairs(tops, edges, baseline=base, fill=True, color=colour, alpha=0.8)
        ax.axhline(base + 0.6, color=INK, linewidth=0.6, linestyle=DASHED)
    ax.set(xlim=(0, 1), ylim=(0, num_chains), xlabel="rank")
    ax.set_yticks(np.arange(num_chains) + 0.3, [f"chain {i}" for i in range(num_chains)][::-1])
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))


def parameters_of(posterior: PosteriorStatistics) -> list[str]:
    """Return the names of the first eight scalars with a known prior density."""
    of = posterior.described
    known = {name for name, each in of.items() if each.prior_density is not None}
    return [name for name in posterior.scalars if vector_of(name) in known][:MAX_SCALARS]


def plot_parameters(
    posterior: PosteriorStatistics, wanted: Sequence[str] | None = None, ax: GivenAxes = None
) -> Panels:
    """Plot a matrix of the first eight wanted scalars: histograms and priors, and below them pairs.

    Histograms have area 1, as prior densities over all values. Pairs show at most 1,000 draws,
    evenly spread. Each axis extends a little beyond the 0.5 and 99.5 % quantiles. Raises an
    InputError if there are no scalars.
    """
    scalars, quantities = chosen(posterior.scalars, wanted), posterior.described
    if not scalars:
        found = "fields or matrices alone"
        raise InputError("plot of parameters", "draws of a scalar", found, "plot the fields")
    names = list(scalars)[:MAX_SCALARS]
    of = {name: quantities.get(vector_of(name)) or Quantity(name) for name in names}
    titles = posterior.titles
    values = {name: np.concatenate(scalars[name]).astype(float) for name in names}
    limits = {name: _limits(each) for name, each in values.items()}
    panel = min(PANEL, WIDTH / len(names))
    size, is_own = panel * len(names) + 0.6, ax is None
    with new_axes(ax, len(names), len(names), size + 0.5, size + 0.5) as grid:
        if is_own:
            grid[0, 0].figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06)
        for (row, column), ax in np.ndenumerate(grid):
            across, down = names[column], names[row]
            if column > row:
                ax.remove() if is_own else ax.set_axis_off()
                continue
            if row == column:
                draw_marginal(ax, values[across], limits[across], of[across].prior_density)
            else:
                shown = slice(None, None, -(-len(values[across]) // MAX_POINTS))
                ax.plot(values[across][shown], values[down][shown], "o", **POINTS)
                ax.set_ylim(limits[down])
            ax.set_xlim(limits[across])
            _label(ax, "x", titles[across] if down == names[-1] else None, panel)
            _label(ax, "y", titles[down] if column == 0 < row else None, panel)
        draw_legend(grid, is_own, loc="outside upper right", ncols=2)
    return Panels(grid)


def draw_marginal(
    ax: Axes, values: np.ndarray, limits: tuple[float, float], prior: np.ndarray | None
) -> None:
    """Plot the histogram of values, (n,), and a prior, (2, k) values and densities."""
    counts, edges = np.histogram(values, NUM_BARS, limits)
    heights = counts / (len(values) * np.diff(edges))
    ax.stairs(heights, edges, fill=True, color=CHAIN_COLOURS[0], alpha=0.35, label="posterior")
    top = heights.max(initial=0.0)
    if prior is not None:
        at = np.linspace(*limits, 200)
        density = np.interp(at, *prior, left=0.0, right=0.0)
        ax.plot(at, density, color=CHAIN_COLOURS[4], linewidth=1.2, label="prior density")
        top = max(top, density.max())
    ax.set_ylim(0.0, 1.08 * top or 1.0)


def _label(ax: Axes, which: str, title: str | None, length: float) -> None:
    """Label an axis of a length in inches and set its ticks; hide it without a title."""
    axis = getattr(ax, f"{which}axis")
    if title is None:
        axis.set_visible(False)
        return
    ax.tick_params(axis=which, labelsize=SMALL)
    scale = matplotlib.rcParams["font.size"] / SMALL
    set_ticks(axis, scale * length, is_across=which == "x", margin=0.1)
    axis.set_label_text(title, fontsize=8)


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, ENDS) if finite.size else (0.0, 1.0)
    margin = MARGIN * (high - low) or 0.05 * abs(low) or 0.5
    return float(low - margin), float(high + margin)
