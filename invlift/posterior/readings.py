"""What the sensors said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pandas as pd
from scipy.stats import norm

from invlift.posterior.names import PREDICTED, SIGMA


class SensorTable(Protocol):
    """What a posterior asks of the readings: `Readings`, or a sensor table of a mesh.

    Attributes
    ----------
    values : (d,) array
        Readings.
    sigma : (d,) array, number or None
        Scale of the noise where it is known.
    points : (d, dim) array or None
        Positions, for models that have any.
    labels : sequence of d str or None
        Names of the readings.
    """

    values: np.ndarray
    sigma: np.ndarray | float | None
    points: np.ndarray | None
    labels: Sequence[str] | None


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings that do not come from a sensor table.

    A table has a place and a line for each reading, which a model without a mesh cannot give, and
    its column `sigma` need not be the noise of the problem; a posterior needs neither.

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


#: Draws of each chain by name, (num_draws, ...) each.
Draws = Sequence[Mapping[str, np.ndarray]]


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


@dataclass(frozen=True, eq=False)
class NormalNoise:
    """Independent normal noise, for draws that come from elsewhere.

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
        """As :meth:`ReadingNoise.new_readings`."""
        return [
            draws[PREDICTED] + self._scale(draws) * rng.standard_normal(draws[PREDICTED].shape)
            for draws in chains
        ]

    def new_along(
        self, rng: np.random.Generator, chains: Draws, name: str, rows: np.ndarray
    ) -> list[np.ndarray] | None:
        """As :meth:`ReadingNoise.new_along`."""
        scales = [shared_scale(self._scale(draws), rows) for draws in chains]
        if any(scale is None for scale in scales):
            return None
        return [
            draws[name] + scale * rng.standard_normal(draws[name].shape)
            for draws, scale in zip(chains, scales, strict=True)
        ]

    def log_likelihood(self, chains: Draws) -> list[np.ndarray]:
        """As :meth:`ReadingNoise.log_likelihood`."""
        return [norm.logpdf(self.values, x[PREDICTED], self._scale(x)) for x in chains]

    def _scale(self, draws):
        if self.sigma is not None:
            return np.asarray(self.sigma, dtype=float)
        return np.reshape(np.asarray(draws[SIGMA], dtype=float), (len(draws[SIGMA]), -1))


def shared_scale(sigma: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Scale of the noise of some readings, if it is one.

    Parameters
    ----------
    sigma : (), (1,), (d,), (num_draws, 1) or (num_draws, d) array
    rows : (r,) array of int
        Which readings.

    Returns
    -------
    array or None
        Of one column, or (); None if they differ in it.
    """
    if sigma.ndim == 0 or sigma.shape[-1] == 1:
        return sigma
    own = sigma[..., rows]
    return own[..., :1] if (own == own[..., :1]).all() else None


def sensor_table(
    data: Mapping[str, np.ndarray | None], points: np.ndarray | None, labels: Sequence[str] | None
) -> pd.DataFrame:
    """A table of what is known of each reading.

    Parameters
    ----------
    data : mapping of str to (d,) array or None
        Columns by name; those that are None are left out.
    points : (d, dim) array or None
        Positions: columns x, y and z.
    labels : sequence of d str or None
        Names of the rows; their numbers from 0, if there are none.
    """
    places = {} if points is None else dict(zip("xyz", np.transpose(points), strict=False))
    columns = {name: values for name, values in (places | dict(data)).items() if values is not None}
    table = pd.DataFrame(columns)
    table.index = pd.Index(table.index if labels is None else labels, name="sensor")
    return table
