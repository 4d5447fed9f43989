"""Running mean and variance that can be merged, and batch means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Moments:
    """Mean and sum of squared deviations of a sample (Welford 1962).

    Attributes
    ----------
    count : int
    mean, m2 : arrays of one shape
        Mean, and sum of squared deviations from it.
    """

    count: int
    mean: np.ndarray
    m2: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Return the moments of values (num, ...) over the first axis."""
        mean = values.mean(axis=0)
        return cls(values.shape[0], mean, np.sum((values - mean) ** 2, axis=0))

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both samples together (Chan, Golub & LeVeque 1983, eq. 2.1)."""
        count = self.count + other.count
        if count == 0:
            return self
        shift = other.mean - self.mean
        mean = self.mean + shift * (other.count / count)
        m2 = self.m2 + other.m2 + shift**2 * (self.count * other.count / count)
        return Moments(count, mean, m2)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation, with divisor count - 1; NaN for fewer than two values."""
        if self.count < 2:
            return np.full_like(self.mean, np.nan)
        return np.sqrt(np.maximum(self.m2, 0.0) / (self.count - 1))


def merged(parts: Iterable[Moments]) -> Moments:
    """Return the moments of several samples (at least one) together."""
    return reduce(Moments.merge, parts)


class BatchMeans(NamedTuple):
    """Means over batches of consecutive draws of a chain.

    Attributes
    ----------
    size : int
        Number of draws in a batch.
    means : (num_batches, ...)
    """

    size: int
    means: np.ndarray
