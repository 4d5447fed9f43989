"""Pictures of a page: a figure as the bytes of an image, with the words that say what it shows."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

#: Pixels for each inch of a figure, and of those for each pixel of a page at its natural size.
DOTS_PER_INCH, SHARPNESS = 128, 1.36
#: Colours of an image; more are not told apart on a colour scale.
NUM_COLOURS = 64


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


def picture(figure: Figure, title: str, alternative: str, note: str = "") -> Picture:
    """Draw a figure, in few colours so that the page stays small."""
    figure.set_dpi(DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    size = canvas.get_width_height()
    image = Image.frombuffer("RGBA", size, bytes(canvas.buffer_rgba())).convert("RGB")
    content = io.BytesIO()
    image.quantize(NUM_COLOURS, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
    width, height = (round(each / SHARPNESS) for each in size)
    return Picture(title, alternative, source, width, height, note)


def number(value: float) -> str:
    """A number in brief."""
    return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def digits(value: float, num: int) -> str:
    """A number with so many digits behind the point."""
    return "–" if math.isnan(value) else f"{value:.{num}f}".replace("-", "\N{MINUS SIGN}")
