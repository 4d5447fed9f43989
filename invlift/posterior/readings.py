"""What the sensors said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


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
    """

    values: np.ndarray
    sigma: np.ndarray | float | None
    points: np.ndarray | None


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
    """

    values: np.ndarray
    sigma: np.ndarray | float | None = None
    points: np.ndarray | None = None
