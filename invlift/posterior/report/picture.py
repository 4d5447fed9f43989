"""Pictures of a page: a figure as the bytes of an image, with the words that say what it shows."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from functools import cache

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

#: Pixels for each inch of a figure, and of those for each pixel of a page at its natural size.
DOTS_PER_INCH, SHARPNESS = 128, 1.36
#: Colours of a chart, and steps of a colour scale; more are hardly told apart.
NUM_COLOURS, NUM_STEPS = 64, 48


@dataclass(frozen=True)
class Picture:
    """An image with its caption.

    Attributes
    ----------
    title : str
    alternative : str
        What it shows, for those who do not see it.
    source : str
        The image itself, as a data URL of a PNG.
    width, height : int
        Natural size, in pixels of the page.
    note : str
        Set beside the title.
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
    """Draw a figure, in few colours so that the page stays small.

    With a colour map they are those of its steps, which are then the same in all pictures.
    """
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
