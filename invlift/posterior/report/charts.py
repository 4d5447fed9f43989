"""Charts of the chains, of the fit to the readings, and of unknowns along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from invlift.posterior.plots import (
    CHAIN_COLOURS,
    STYLE,
    draw_ranks,
    draw_residuals,
    draw_trace,
)
from invlift.posterior.quantity import Quantity
from invlift.posterior.report.picture import Picture, number, picture

#: Width and height in inches.
WIDE, NARROW = (4.8, 1.9), (3.2, 1.9)


def chart(
    draw: Callable[[Axes], None],
    size: tuple[float, float],
    title: str,
    alternative: str,
    note: str = "",
) -> Picture:
    """A picture of one pair of axes, `size` inches large, that a function fills."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        return picture(figure, title, alternative, note)


def trace(name: str, chains: np.ndarray, unit: str, row: pd.Series | None) -> Picture:
    """Draws of a scalar in their order.

    Parameters
    ----------
    name : str
    chains : (chains, num_draws) array
    unit : str
    row : pandas.Series or None
        Of the summary: `mean`, `sd`, `r_hat`, `ess_bulk`, `ess_tail`.
    """
    note = words = ""
    if row is not None:
        note = (
            f"R-hat {row['r_hat']:.3f}, ESS bulk {row['ess_bulk']:.0f}, tail {row['ess_tail']:.0f}"
        )
        words = f" Mean {number(row['mean'])}, sd {number(row['sd'])}; {note}."
    alternative = f"Traces of {name}: {chains.shape[1]} draws of {len(chains)} chains.{words}"

    def draw(ax: Axes) -> None:
        draw_trace(ax, chains)
        ax.set(xlabel="draw", ylabel=unit)

    return chart(draw, WIDE, name, alternative, note)


def ranks(name: str, chains: np.ndarray) -> Picture:
    """Rank histogram of each chain, (chains, num_draws), the first on top."""

    def draw(ax: Axes) -> None:
        draw_ranks(ax, chains)
        ax.set_xlabel("rank")
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))

    alternative = (
        f"Rank histograms of {name}, a row for each of {len(chains)} chains: chains that agree "
        "have bars that end near the dashed line."
    )
    return chart(draw, NARROW, "Ranks among all chains", alternative)


def residuals(values: np.ndarray) -> Picture:
    """Standardised residuals, (d,), one after the other."""
    num = int((np.abs(values) > 2).sum())
    words = f"Standardised residual of each of {len(values)} readings; {num} beyond 2."
    return chart(lambda ax: draw_residuals(ax, values), WIDE, "Residuals in their order", words)


def series(quantity: Quantity, scalars: Mapping[str, np.ndarray]) -> Picture | None:
    """Mean and 90 % band of an unknown along an axis with numbers as coordinates.

    Parameters
    ----------
    quantity : Quantity
    scalars : mapping of str to (chains, num_draws) array
        The quantity's entries among others.

    Returns
    -------
    Picture or None
        None if the quantity has no such axis, or its entries are not among the scalars.
    """
    if len(quantity.axes) != 1 or quantity.place:
        return None
    ((axis, labels),) = quantity.axes.items()
    if labels is None or len(labels) < 2 or not all(isinstance(x, int | float) for x in labels):
        return None
    entries = quantity.entries((len(labels),))
    if not all(entry in scalars for entry in entries):
        return None
    draws = np.stack([scalars[entry].ravel() for entry in entries])
    low, middle, high = np.quantile(draws, (0.05, 0.5, 0.95), axis=1)

    def draw(ax: Axes) -> None:
        ax.fill_between(labels, low, high, color=CHAIN_COLOURS[0], alpha=0.25, linewidth=0)
        ax.plot(labels, middle, color=CHAIN_COLOURS[0], marker=".", markersize=4, linewidth=1)
        ax.set(xlabel=axis, ylabel=quantity.unit)
        ax.yaxis.set_major_locator(MaxNLocator(4))

    words = (
        f"Median of {quantity.name} and the interval from its 5 to its 95 % quantile along "
        f"{axis}, from {number(labels[0])} to {number(labels[-1])}."
    )
    return chart(draw, WIDE, f"{quantity.name} along {axis}", words, "median and 90 % interval")
