"""Colour scales: which number has which colour, quantised to what a byte holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.ticker import MaxNLocator

#: Levels of a scale, from 0; the last value of a byte stands for "no value".
NUM_LEVELS, NO_VALUE = 255, 255


@dataclass(frozen=True)
class Scale:
    """A colour scale.

    Attributes
    ----------
    label : str
        What its numbers are.
    low, high : float
        Its ends, low < high; both positive if `is_log`.
    colour_map : str
        Name of one of matplotlib's perceptually uniform or diverging maps.
    is_log : bool
        Equal ratios, instead of equal differences, are equally far apart.
    is_share : bool
        Its numbers are shares, shown in per cent.
    """

    label: str
    low: float
    high: float
    colour_map: str
    is_log: bool = False
    is_share: bool = False

    def places(self, values: np.ndarray) -> np.ndarray:
        """Where values are on the scale, 0 at its lower and 1 at its upper end."""
        low, high = self.low, self.high
        if self.is_log:
            with np.errstate(divide="ignore", invalid="ignore"):
                values, low, high = np.log(values), math.log(low), math.log(high)
        return (np.asarray(values, dtype=float) - low) / (high - low)

    def levels(self, values: np.ndarray) -> np.ndarray:
        """Values as bytes; those beyond an end of the scale as that end, NaN as `NO_VALUE`."""
        places = self.places(values)
        levels = np.clip(np.nan_to_num(places), 0, 1) * (NUM_LEVELS - 1)
        return np.where(np.isnan(places), NO_VALUE, np.rint(levels)).astype(np.uint8)

    def colours(self) -> np.ndarray:
        """Red, green and blue of each level, (NUM_LEVELS, 3) bytes."""
        chosen = matplotlib.colormaps[self.colour_map](np.linspace(0, 1, NUM_LEVELS))
        return np.rint(255 * chosen[:, :3]).astype(np.uint8)

    def gradient(self) -> str:
        """The same as a gradient of CSS from left to right."""
        stops = self.colours()[np.linspace(0, NUM_LEVELS - 1, 17).astype(int)]
        return f"linear-gradient(to right,{','.join('#' + row.tobytes().hex() for row in stops)})"

    def colour_of(self, value: float) -> str:
        """The colour of a value, as CSS writes it; grey for NaN."""
        level = int(self.levels(np.array([value]))[0])
        return "#888888" if level == NO_VALUE else f"#{self.colours()[level].tobytes().hex()}"

    def ticks(self) -> list[tuple[float, str]]:
        """Place and text of each tick."""
        values = log_ticks(self.low, self.high) if self.is_log else ticks(self.low, self.high, 6)
        texts = [f"{value:.0%}" if self.is_share else number(value) for value in values]
        return list(zip(self.places(np.array(values)).tolist(), texts, strict=True))


def scale_of(fields: Sequence[np.ndarray], label: str, colour_map: str, **kinds: bool) -> Scale:
    """A scale from the smallest to the largest finite value of some fields.

    Parameters
    ----------
    fields : sequence of arrays
        What is to share the scale.
    label, colour_map : str
    **kinds : bool
        `is_log`, for which only positive values count, or `is_share`.
    """
    values = np.concatenate([np.ravel(field) for field in fields])
    values = values[np.isfinite(values) & ((values > 0) | (not kinds.get("is_log", False)))]
    low, high = (float(values.min()), float(values.max())) if values.size else (1.0, 2.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        margin = 0.05 * abs(low) or 0.5
        low, high = low - margin, high + margin
    return Scale(label, low, high, colour_map, **kinds)


def ticks(low: float, high: float, num: int = 5) -> list[float]:
    """Round numbers between two others, some `num` of them."""
    values = MaxNLocator(num, steps=(1, 2, 2.5, 5, 10)).tick_values(low, high)
    slack = 1e-9 * (high - low)
    return [float(value) + 0.0 for value in values if low - slack <= value <= high + slack]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones, for an axis of equal ratios."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 3), (1, 2, 5)):
        found = [float(f"{factor}e{decade}") for decade in decades for factor in factors]
        found = [value for value in found if low <= value <= high]
        if len(found) >= 3:
            step = -(-len(found) // 7)
            return found[::step]
    return ticks(low, high)


def number(value: float) -> str:
    """A number in brief."""
    return "–" if math.isnan(value) else f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def digits(value: float, num: int) -> str:
    """A number with so many digits behind the point."""
    return "–" if math.isnan(value) else f"{value:.{num}f}".replace("-", "\N{MINUS SIGN}")
