"""Ticks of maps and their bars: round numbers, as many as there is room for."""

from __future__ import annotations

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, Locator, MaxNLocator

#: Room that a tick takes at least, and the width of a digit, in inches.
ROOM, DIGIT = 0.3, 0.08
#: Most ticks along an axis, and along a bar.
MOST, MOST_OF_BAR = 4, 5
#: Round numbers between a power of ten and the next, from dense to sparse.
_PARTS = (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)


def ticks_of_bar(low: float, high: float, height: float, *, is_log: bool = False) -> Locator:
    """Ticks of a bar of so many inches, from one number to the other."""
    most = int(np.clip(height / ROOM, 1, MOST_OF_BAR))
    return FixedLocator(log_ticks(low, high, max(2, most))) if is_log else MaxNLocator(most)


def log_ticks(low: float, high: float, most: int) -> np.ndarray:
    """Round numbers from low to high, both positive, two to `most` but for narrow ranges.

    Powers of ten and numbers between them; of a range that has none of these, even numbers.
    """
    powers = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    choices = [np.outer(10.0**powers, parts).ravel() for parts in _PARTS]
    inside = 10.0 ** powers[(low <= 10.0**powers) & (10.0**powers <= high)]
    choices += [inside[::stride] for stride in range(2, inside.size)]
    choices += [MaxNLocator(num).tick_values(low, high) for num in range(most, 1, -1)]
    for ticks in choices:
        ticks = ticks[(low <= ticks) & (ticks <= high)]
        if 2 <= ticks.size <= most:
            break
    return ticks[:: max(1, -(-ticks.size // most))]


def set_ticks(axis: Axis, length: float, *, is_across: bool, margin: float = 0.0) -> None:
    """Have so many ticks along an axis of so many inches that their labels do not touch.

    At either end a part of the axis, the margin, has none.
    """
    low, high = axis.get_view_interval()
    low, high = low + margin * (high - low), high - margin * (high - low)
    for num in range(MOST, 0, -1):
        ticks = MaxNLocator(num).tick_values(low, high)
        ticks = ticks[(low <= ticks) & (ticks <= high)]
        axis.set_major_locator(FixedLocator(ticks))
        labels = axis.get_major_formatter().format_ticks(ticks)
        widths = [DIGIT * len(label) + ROOM if is_across else ROOM for label in labels]
        if sum(widths) <= length:
            return
