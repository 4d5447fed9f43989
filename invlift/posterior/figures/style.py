"""Common parts of all figures: style, colours, legends, files.

A figure is a `matplotlib.figure.Figure` without a window. The settings of matplotlib are not
changed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure

from invlift.errors import InputError
from invlift.files.atomic import replace_on_success

INK, FAINT = "#22252b", "#9aa0aa"
# Okabe & Ito (2008): distinguishable with any colour vision
CHAIN_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 7,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-3, 8),
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{axis}tick.color": INK for axis in "xy"},
    **{f"{axis}tick.major.width": 0.6 for axis in "xy"},
    **{f"{axis}tick.major.size": 3 for axis in "xy"},
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.12,
}
#: Settings that prevent matplotlib from adding a layout to a figure.
_NO_LAYOUT = {"figure.autolayout": False, "figure.constrained_layout.use": False}
DASHED = (0, (4, 3))
#: Axes to draw on, one for each panel; None for those of a new figure.
GivenAxes = Axes | Sequence[Axes] | None
#: Number of rows of a figure that fit a page.
MAX_SCALARS = 8
DOTS_PER_INCH = 160


class _Figure(Figure):
    """Figure that notebooks show, although it is not managed by pyplot."""

    def _repr_png_(self) -> bytes:
        # IPython uses this method only if pyplot has not registered its own.
        png = io.BytesIO()
        write_figure(self, png, self.dpi, format="png")
        return png.getvalue()


class Panels(tuple):
    """Axes of a figure, row by row, without empty ones; a notebook shows the figure."""

    def __new__(cls, axes: Sequence[Axes] | np.ndarray) -> Panels:
        """Take the axes that are still part of a figure."""
        return super().__new__(cls, (ax for ax in np.ravel(axes) if ax.figure is not None))

    @property
    def figure(self) -> Figure:
        """The figure of the axes."""
        return self[0].get_figure().canvas.figure  # the whole figure, also from a subfigure

    def _repr_png_(self) -> bytes | None:
        # A figure of the user is not shown here.
        return self.figure._repr_png_() if isinstance(self.figure, _Figure) else None


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Open a figure of a size in inches, with the style of the package."""
    with matplotlib.rc_context(STYLE):
        yield _Figure(figsize=(width, height), layout="constrained")


@contextmanager
def new_axes(
    ax: GivenAxes, rows: int, columns: int, width: float, height: float, **layout
) -> Iterator[np.ndarray]:
    """Open axes (rows, columns) of a new figure of a size in inches, or use given axes.

    The style is that of the package.  Raises an `InputError` if the given axes have another number
    or type.
    """
    if ax is None:
        with new_figure(width, height) as figure:
            yield figure.subplots(rows, columns, squeeze=False, **layout)
        return
    given = np.empty(np.size(ax), dtype=object)
    given[:] = np.ravel(ax)
    are_axes = all(isinstance(each, Axes) for each in given)
    if len(given) != rows * columns or not are_axes:
        expected = f"{rows * columns} axes of matplotlib, {rows} x {columns}"
        found = f"{len(given)}" if are_axes else f"{ax!r}"[:80]
        remedy = "take plt.subplots, or name fewer things to draw"
        raise InputError("ax", expected, found, remedy)
    with matplotlib.rc_context(STYLE):
        yield given.reshape(rows, columns)


def draw_legend(axes: np.ndarray, is_own: bool = True, **place) -> None:
    """Add one legend for all axes, each label once; `place` is as for ``Figure.legend``.

    The legend belongs to the figure if the package made it (`is_own`), otherwise to the first axes.
    """
    each = (zip(*ax.get_legend_handles_labels(), strict=True) for ax in axes.flat)
    handles = {label: handle for pairs in each for handle, label in pairs}
    where, place = (axes.flat[0].figure, place) if is_own else (axes.flat[0], {})
    where.legend(handles.values(), handles.keys(), fontsize=8, **place)


def check_format(where: str, path: str | os.PathLike) -> None:
    """Refuse a name of a file whose ending is not a supported format of figures."""
    endings = {f".{name}" for name in FigureCanvasBase.get_supported_filetypes()}
    endings -= {".pgf"}  # this format needs LaTeX
    if Path(path).suffix.lower() not in endings:
        expected = f"a name that ends in {', '.join(sorted(endings))}"
        raise InputError(where, expected, f"{path}", "correct the name")


def write_figure(figure: Figure, file: Path | BinaryIO, dots_per_inch: float, **settings) -> None:
    """Write a figure to a file; `settings` are as for ``Figure.savefig``."""
    layout, dpi = figure.get_layout_engine(), figure.dpi
    if layout is None:
        figure.savefig(file, dpi=dots_per_inch, **settings)
        return
    # Matplotlib would draw a figure with a layout twice, the first time only to find the layout.
    figure.set_dpi(dots_per_inch)
    layout.execute(figure)
    with matplotlib.rc_context(_NO_LAYOUT):
        figure.set_layout_engine(None)
        try:
            figure.savefig(file, dpi=dots_per_inch, **settings)
        finally:
            figure.set_dpi(dpi)
            figure.set_layout_engine(layout)


def saved(panels: Panels, path: str | os.PathLike | None) -> Panels:
    """Write the figure of axes to a path, if given, in the format of its ending; return the axes.

    Raises an `InputError` if a figure cannot be written in this format.
    """
    if path is not None:
        check_format("path", path)
        with replace_on_success(path) as temporary:
            is_png = temporary.suffix == ".png"  # the best compression would double the time
            settings = {"pil_kwargs": {"compress_level": 3}} if is_png else {}
            write_figure(panels.figure, temporary, DOTS_PER_INCH, **settings)
    return panels
