"""The figure of scalars: their distributions beside those before the data, and pairs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from invlift.posterior.names import vector_of
from invlift.posterior.plots import CHAIN_COLOURS, MAX_SCALARS, STYLE, draw_legend, with_unit
from invlift.posterior.quantity import Quantity

#: Points of a pair, and bars of a histogram.
MAX_POINTS, NUM_BARS = 1000, 30
#: Quantiles between which draws are shown for certain, and the share of their distance beyond.
ENDS, MARGIN = (0.005, 0.995), 0.12
#: Largest width of all panels and of one, and room left, right, below and above, in inches.
WIDTH, PANEL, LEFT, RIGHT, BELOW, ABOVE = 9.6, 1.8, 0.8, 0.15, 0.6, 0.5


def parameters_of(
    scalars: Mapping[str, Sequence[np.ndarray]], quantities: Mapping[str, Quantity]
) -> list[str]:
    """Names of the first eight scalars whose density before the data is known."""
    known = {name for name, each in quantities.items() if each.prior_density is not None}
    return [name for name in scalars if vector_of(name) in known][:MAX_SCALARS]


def plot_parameters(
    scalars: Mapping[str, Sequence[np.ndarray]], quantities: Mapping[str, Quantity]
) -> Figure:
    """Draw a matrix: on the diagonal scalars and their priors, below it pairs of scalars.

    Parameters
    ----------
    scalars : mapping of str to sequence of (num_draws,) arrays
        One array per chain; the first eight are drawn.
    quantities : mapping of str to Quantity
        Units and densities before the data, of scalars and of vectors whose entries they are.

    Returns
    -------
    matplotlib.figure.Figure
        Histograms have the area 1, as the density before the data has over all its values. Pairs
        are at most 1,000 draws, spread evenly over all. Each axis goes a little beyond the 0.5 and
        99.5 % quantiles.
    """
    names = list(scalars)[:MAX_SCALARS]
    values = {name: np.concatenate([np.asarray(c, float) for c in scalars[name]]) for name in names}
    limits = {name: _limits(each) for name, each in values.items()}
    size = min(PANEL, WIDTH / len(names))
    total = size * len(names)
    width, height = total + LEFT + RIGHT, total + BELOW + ABOVE
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height))
        grid = figure.add_gridspec(
            len(names), len(names), left=LEFT / width, right=1 - RIGHT / width,
            bottom=BELOW / height, top=1 - ABOVE / height, wspace=0.08, hspace=0.08,
        )  # fmt: skip
        for row, down in enumerate(names):
            for column, across in enumerate(names[: row + 1]):
                ax = figure.add_subplot(grid[row, column])
                if row == column:
                    quantity = quantities.get(vector_of(across))
                    curve = None if quantity is None else quantity.prior_density
                    draw_marginal(ax, values[across], limits[across], curve)
                else:
                    draw_pair(ax, values[across], values[down])
                    ax.set_ylim(limits[down])
                ax.set_xlim(limits[across])
                _label(ax, "x", _title(across, quantities) if down == names[-1] else None)
                is_labelled = column == 0 < row
                _label(ax, "y", _title(down, quantities) if is_labelled else None)
        draw_legend(figure, loc="upper right", ncols=2)
    return figure


def draw_marginal(
    ax: Axes, values: np.ndarray, limits: tuple[float, float], prior: np.ndarray | None
) -> None:
    """Draw the histogram of values, (n,), and a density of (2, k) values and densities."""
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


def draw_pair(ax: Axes, across: np.ndarray, down: np.ndarray) -> None:
    """Draw some of the pairs of values, (n,) each, as points."""
    shown = slice(None, None, -(-len(across) // MAX_POINTS))
    style = {"color": CHAIN_COLOURS[0], "markersize": 1.6, "alpha": 0.5, "rasterized": True}
    ax.plot(across[shown], down[shown], "o", markeredgewidth=0, **style)


def _label(ax: Axes, which: str, title: str | None) -> None:
    """Name an axis and number it, or leave it bare."""
    axis = getattr(ax, f"{which}axis")
    if title is None:
        axis.set_visible(False)
        return
    low, high = axis.get_view_interval()
    ticks, room = MaxNLocator(4).tick_values(low, high), 0.1 * (high - low)
    axis.set_ticks(ticks[(ticks > low + room) & (ticks < high - room)])
    ax.tick_params(axis=which, labelsize=7)
    axis.set_label_text(title, fontsize=8)


def _title(name: str, quantities: Mapping[str, Quantity]) -> str:
    quantity = quantities.get(vector_of(name))
    return name if quantity is None else with_unit(name, quantity.unit)


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, ENDS) if finite.size else (0.0, 1.0)
    margin = MARGIN * (high - low) or 0.05 * abs(low) or 0.5
    return float(low - margin), float(high + margin)
