"""Charts of the chains, of the fit to the readings, and of unknowns along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from invlift.posterior.along_axis import Series
from invlift.posterior.parameter_plots import parameters_of, plot_parameters
from invlift.posterior.plots import STYLE, draw_ranks, draw_trace
from invlift.posterior.quantity import Quantity
from invlift.posterior.report.picture import Picture, number, picture
from invlift.posterior.sensor_plots import draw_residuals
from invlift.posterior.series_plots import draw_series

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


def residuals(
    values: np.ndarray, places: tuple[str, np.ndarray, np.ndarray] | None = None
) -> Picture:
    """Standardised residuals, (d,): one after the other, or along an axis.

    `places` are those of :func:`~invlift.posterior.along_axis.places_of_residuals`.
    """
    num = int((np.abs(values) > 2).sum())
    words = f"Standardised residual of each of {len(values)} readings; {num} beyond 2."
    title = "Residuals in their order" if places is None else f"Residuals along {places[0]}"
    return chart(lambda ax: draw_residuals(ax, values, places=places), WIDE, title, words)


def series(shown: Series) -> Picture:
    """Median and bands along an axis with numbers as coordinates, and the readings."""
    words = (
        f"Median of {shown.name} and the intervals from its 5 to its 95 % and from its 25 to its "
        f"75 % quantile along {shown.axis}, from {number(shown.at[0])} to {number(shown.at[-1])}"
    )
    note = "median, 50 % and 90 % interval without noise"
    if shown.new_readings is not None:
        note += "; dashed: 90 % of new readings, with noise"
    if shown.rows.size:
        words += f", with {shown.rows.size} readings"
    if shown.last_read is not None:
        words += f"; after {number(shown.last_read)} it is a forecast"
    title = f"{shown.name} along {shown.axis}"
    return chart(lambda ax: draw_series(ax, shown), WIDE, title, f"{words}.", note)


def parameters(
    scalars: Mapping[str, np.ndarray], quantities: Mapping[str, Quantity]
) -> Picture | None:
    """Distributions and pairs of the scalars whose priors are known; None if there are none."""
    names = parameters_of(scalars, quantities)
    if not names:
        return None
    figure = plot_parameters({name: scalars[name] for name in names}, quantities)
    words = f"Histograms of {', '.join(names)} with their prior densities, and pairs of them."
    note = "histograms, the priors' densities as lines, and pairs of draws"
    return picture(figure, "Parameters", words, note)
