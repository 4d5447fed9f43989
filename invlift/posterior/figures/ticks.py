"""Ticks of maps and colour bars: as many round numbers as fit."""

from __future__ import annotations

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, Locator, MaxNLocator

#: Smallest space for a tick, and width of a digit, in inches.
ROOM, DIGIT = 0.3, 0.08
#: Largest number of ticks of an axis, and of a bar.
MOST, MOST_OF_BAR = 4, 5
#: Round numbers between a power of ten and the next, from dense to sparse.
_PARTS = (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)


def ticks_of_bar(low: float, high: float, height: float, *, is_log: bool = False) -> Locator:
    """Return the ticks of a bar of a height in inches, from `low` to `high`."""
    most = int(np.clip(height / ROOM, 1, MOST_OF_BAR))
    return FixedLocator(log_ticks(low, high, max(2, most))) if is_log else MaxNLocator(most)


def log_ticks(low: float, high: float, most: int) -> np.ndarray:
    """Return two to `most` round numbers from low to high, both positive, for a logarithmic scale.

    They are powers of ten and round numbers between them. A narrow range without these has equally
    spaced numbers.
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
    """Set the ticks of an axis of a length in inches so that their labels do not touch.

    A share of the axis at either end, the margin, has no ticks.
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
