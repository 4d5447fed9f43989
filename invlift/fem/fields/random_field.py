"""Gaussian fields at few points, such as the nodes of a boundary, by their largest modes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invlift.errors import InputError, as_number
from invlift.keywords import earlier_names

#: Largest share of the variance at a point that the modes leave out; largest number of modes.
LEFT_OUT, MAX_MODES = 1e-2, 200


@dataclass(frozen=True, eq=False)
class RandomField:
    """Values of a boundary condition with an error that is a smooth random field.

    Attributes
    ----------
    mean : float, str or (num_nodes,) array
        Mean, in the unit of the values; a text as in :func:`invlift.assemble_poisson`.
    sd : float
        Standard deviation of the error at each point, in the same unit.
    correlation_range : float or None
        Euclidean distance at which the correlation has fallen to about 0.14, in the length unit of
        the mesh.  None: the error is the same at all points.
    """

    mean: float | str | np.ndarray
    sd: float
    correlation_range: float | None

    def modes(self, points: np.ndarray, where: str) -> np.ndarray:
        """Return the scaled modes of the error, (num_points, K), at points (num_points, dim).

        The error is the modes times K standard normal variables.  The modes are the largest of a
        Matern covariance of smoothness 5/2, sd^2 (1 + r + r^2 / 3) exp(-r) with r = sqrt(20)
        distance / range, and contain 99 % of the variance at each point (Karhunen-Loeve).

        Raises
        ------
        InputError
            With the place ``where``: if sd or range is not positive, or the range is so short that
            more than 200 modes would be needed.
        """
        for name in ("sd", "correlation_range"):
            value = getattr(self, name)
            is_left_out = value is None and name == "correlation_range"
            if not is_left_out and not 0.0 < as_number(value) < np.inf:
                raise InputError(where, f"a positive {name}", f"{value!r}", "correct it")
        if self.correlation_range is None:
            return np.full((len(points), 1), self.sd)
        away = np.linalg.norm(points[:, None] - points[None], axis=2)
        away *= np.sqrt(20.0) / self.correlation_range
        covariance = (1.0 + away + away**2 / 3.0) * np.exp(-away)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        held = np.cumsum(values * vectors**2, axis=1).min(axis=0)
        num = 1 + int(np.searchsorted(held, 1.0 - LEFT_OUT))
        if num > MAX_MODES:
            expected = f"a correlation range of which {MAX_MODES} modes hold the variance"
            found, remedy = f"{self.correlation_range:g}", "give a longer one"
            raise InputError(where, expected, found, remedy)
        return self.sd * vectors[:, :num] * np.sqrt(values[:num])


@earlier_names(correlation_range="range")
def random_field(
    mean: float | str | np.ndarray, sd: float, range: float | None = None
) -> RandomField:
    """Define values of a boundary condition that are known up to a smooth random field.

    Parameters
    ----------
    mean : float, str or (num_nodes,) array
        Mean, in the unit of the values; a text as in :func:`invlift.assemble_poisson`.
    sd : float
        Standard deviation of the error at each point, in the same unit.
    range : float, optional
        Distance at which the correlation of the errors at two points has fallen to about 0.14, in
        the length unit of the mesh.  Without it the error is the same at all points.

    Returns
    -------
    RandomField
        A value for the argument ``dirichlet`` of :func:`invlift.assemble_poisson`.
    """
    return RandomField(mean, sd, range)
