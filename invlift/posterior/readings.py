"""What the sensors said, and what a posterior asks of their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

#: Draws of each chain by name, (num_draws, ...) each.
Draws = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings that do not come from a sensor table.

    Attributes
    ----------
    values : (d,) array
        Readings.
    sigma : (d,) array, number or None
        Scale of the noise where it is known: the standard deviation, if it is normal.
    points : (d, dim) array or None
        Positions, for models that have any.
    labels : sequence of d str or None
        Names of the readings.
    coordinates : mapping of str to sequence of d numbers or str
        What else is known of each reading, such as its time, by name.
    """

    values: np.ndarray
    sigma: np.ndarray | float | None = None
    points: np.ndarray | None = None
    labels: Sequence[str] | None = None
    coordinates: Mapping[str, Sequence] = field(default_factory=dict)


class ReadingNoise(Protocol):
    """What a posterior asks of the noise of the readings, given the draws of its chains."""

    def new_readings(self, rng: np.random.Generator, chains: Draws) -> list[np.ndarray]:
        """New readings, (num_draws, d) for each chain, one set for each draw."""

    def new_along(
        self, rng: np.random.Generator, chains: Draws, name: str, rows: np.ndarray
    ) -> list[np.ndarray] | None:
        """New readings of the draws of that name, (num_draws, k) for each chain.

        With the noise of the readings `rows`, (r,); None where these differ in its scale.
        """

    def log_likelihood(self, chains: Draws) -> list[np.ndarray]:
        """Log density of each reading given each draw, (num_draws, d) for each chain.

        With all constants, in the logarithm of one over the unit of the readings.
        """
