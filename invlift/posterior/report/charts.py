"""Pictures of a page: a figure as an image with its words; charts of chains, fit and unknowns."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from functools import cache

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from invlift.posterior.along_axis import Places, Series
from invlift.posterior.plots import new_figure
from invlift.posterior.posterior import Posterior
from invlift.posterior.scalar_plots import draw_ranks, draw_trace, parameters_of
from invlift.posterior.sensor_plots import draw_residuals, draw_series

#: Width and height of a chart in inches.
WIDE, NARROW = (4.8, 1.9), (3.2, 1.9)
#: Pixels for each inch of a figure, and of those for each pixel of a page at its natural size.
DOTS_PER_INCH, SHARPNESS = 128, 1.36
#: Colours of a chart, and steps of a colour scale; more are hardly told apart.
NUM_COLOURS, NUM_STEPS = 64, 48


@dataclass(frozen=True)
class Picture:
    """An image, as a data URL of a PNG, of so many pixels of the page, with its caption.

    `alternative` says what it shows to those who do not see it; `note` is set beside the title.
    """

    title: str
    alternative: str
    source: str
    width: int
    height: int
    note: str = ""


def picture(
    figure: Figure, title: str, alternative: str, note: str = "", colour_map: str | None = None
) -> Picture:
    """Draw a figure in few colours, so that the page stays small: those of a colour map, if any."""
    figure.set_dpi(DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    size = canvas.get_width_height()
    image = Image.frombuffer("RGBA", size, bytes(canvas.buffer_rgba())).convert("RGB")
    palette = None if colour_map is None else _palette(colour_map)
    content = io.BytesIO()
    image = image.quantize(NUM_COLOURS, palette=palette, dither=Image.Dither.NONE)
    image.save(content, "PNG", compress_level=6)
    source = "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
    width, height = (round(each / SHARPNESS) for each in size)
    return Picture(title, alternative, source, width, height, note)


@cache
def _palette(colour_map: str) -> Image.Image:
    """The steps of a colour map, and greys."""
    steps = matplotlib.colormaps[colour_map](np.linspace(0, 1, NUM_STEPS))[:, :3]
    greys = np.repeat(np.linspace(0, 1, 16)[:, None], 3, axis=1)
    palette = Image.new("P", (1, 1))
    palette.putpalette(np.rint(255 * np.concatenate([steps, greys])).astype(int).ravel().tolist())
    return palette


def number(value: float) -> str:
    """A number in brief."""
    return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def trace(name: str, chains: np.ndarray, row: pd.Series | None) -> Picture:
    """Draws of a scalar, (chains, num_draws), in their order; `row` is that of the summary."""
    alternative, note = f"Traces of {name}: {chains.shape[1]} draws of {len(chains)} chains.", ""
    if row is not None:
        note = f"R-hat {row['r_hat']:.3f}, ESS bulk {row['ess_bulk']:.0f}, "
        note += f"tail {row['ess_tail']:.0f}"
        alternative += f" Mean {number(row['mean'])}, sd {number(row['sd'])}; {note}."
    with new_figure(*WIDE) as figure:
        draw_trace(figure.subplots(), chains)
        return picture(figure, name, alternative, note)


def ranks(name: str, chains: np.ndarray) -> Picture:
    """Rank histogram of each chain, (chains, num_draws), the first on top."""
    alternative = f"Rank histograms of {name}, a row for each of {len(chains)} chains: chains that "
    alternative += "agree have bars that end near the dashed line."
    with new_figure(*NARROW) as figure:
        draw_ranks(figure.subplots(), chains)
        return picture(figure, "Ranks among all chains", alternative)


def residuals(values: np.ndarray, places: Places | None = None) -> Picture:
    """Standardised residuals, (d,): one after the other, or along an axis."""
    num = int((np.abs(values) > 2).sum())
    alternative = f"Standardised residual of each of {len(values)} readings; {num} beyond 2."
    title = "Residuals in their order" if places is None else f"Residuals along {places.axis}"
    with new_figure(*WIDE) as figure:
        draw_residuals(figure.subplots(), values, places=places)
        return picture(figure, title, alternative)


def series(shown: Series) -> Picture:
    """Median and bands along an axis with numbers as coordinates, and the readings."""
    text = f"Median of {shown.name} and the intervals from its 5 to its 95 % and from its 25 to "
    text += f"its 75 % quantile along {shown.axis}, "
    text += f"from {number(shown.at[0])} to {number(shown.at[-1])}"
    note = "median, 50 % and 90 % interval without noise"
    if shown.new_readings is not None:
        note += "; dashed: 90 % of new readings, with noise"
    if shown.rows.size:
        text += f", with {shown.rows.size} readings"
    if shown.last_read is not None:
        text += f"; after {number(shown.last_read)} it is a forecast"
    with new_figure(*WIDE) as figure:
        draw_series(figure.subplots(), shown)
        return picture(figure, f"{shown.name} along {shown.axis}", f"{text}.", note)


def parameters(posterior: Posterior) -> Picture | None:
    """Distributions and pairs of the scalars whose priors are known; None if there are none."""
    names = parameters_of(posterior.scalars, posterior.described)
    if not names:
        return None
    figure = posterior.plot_parameters(names=names)
    text = f"Histograms of {', '.join(names)} with their prior densities, and pairs of them."
    note = "histograms, the priors' densities as lines, and pairs of draws"
    return picture(figure, "Parameters", text, note)
