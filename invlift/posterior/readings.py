"""What the sensors said, and how noisy they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from invlift.posterior.names import PREDICTED, SIGMA
from invlift.posterior.parts import Draws


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


@dataclass(frozen=True, eq=False)
class NormalNoise:
    """Independent normal noise, for draws that come from elsewhere: see `parts.ReadingNoise`.

    Attributes
    ----------
    values : (d,) array
        Readings.
    sigma : (d,) array, number or None
        Standard deviation of the noise, in the unit of the readings; None for the draws of "sigma".
    """

    values: np.ndarray
    sigma: np.ndarray | float | None = None

    def new_readings(self, rng: np.random.Generator, chains: Draws) -> list[np.ndarray]:
        """New readings, (num_draws, d) for each chain."""
        return [
            draws[PREDICTED] + self._scale(draws) * rng.standard_normal(draws[PREDICTED].shape)
            for draws in chains
        ]

    def new_along(
        self, rng: np.random.Generator, chains: Draws, name: str, rows: np.ndarray
    ) -> list[np.ndarray] | None:
        """New readings of the draws of a name; None where `rows` differ in their scale."""
        scales = [shared_scale(self._scale(draws), rows) for draws in chains]
        if any(scale is None for scale in scales):
            return None
        return [
            draws[name] + scale * rng.standard_normal(draws[name].shape)
            for draws, scale in zip(chains, scales, strict=True)
        ]

    def log_likelihood(self, chains: Draws) -> list[np.ndarray]:
        """Log density of each reading given each draw, (num_draws, d) for each chain."""
        return [norm.logpdf(self.values, x[PREDICTED], self._scale(x)) for x in chains]

    def _scale(self, draws):
        if self.sigma is not None:
            return np.asarray(self.sigma, dtype=float)
        return np.reshape(np.asarray(draws[SIGMA], dtype=float), (len(draws[SIGMA]), -1))


def shared_scale(sigma: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Scale of the noise of some readings, of one column or (); None if they differ in it.

    `sigma` is (), (1,), (d,), (num_draws, 1) or (num_draws, d), and `rows` (r,) which readings.
    """
    if sigma.ndim == 0 or sigma.shape[-1] == 1:
        return sigma
    own = sigma[..., rows]
    return own[..., :1] if (own == own[..., :1]).all() else None
