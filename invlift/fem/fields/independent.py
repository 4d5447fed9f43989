"""Independent normal priors of piecewise constant log-conductivity, per cell or per subdomain."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.fem.fields.base import (
    partition,
)
from invlift.fem.linalg.sparse import as_index
from invlift.fem.mesh.mesh import Mesh
from invlift.programs.precision import require_float64
from invlift.programs.pytrees import aside, static
from invlift.unknowns.priors.base import AffinePrior


class IndependentPrior(AffinePrior):
    """Prior phi_cell = mean_cell + std_group w_group, with independent w for groups of cells.

    Attributes
    ----------
    mean : (num_cells,)
    std : (num_groups,)
        Standard deviation of each group; dimensionless.
    group : (num_cells,) int32
        Group of each cell; the cell itself for a prior per cell.
    location : str
        ``"cells"``.
    mesh : Mesh or None
        Mesh of the field, for results of the posterior.
    """

    mean: jax.Array
    std: jax.Array
    group: jax.Array
    location: str = static(default="cells")
    mesh: Mesh | None = aside()

    @property
    def num_white(self) -> int:
        """Number of independent values."""
        return self.std.shape[0]

    def sqrt(self, white: jax.Array) -> jax.Array:
        """Return S w for w of shape (num_groups,) or (num_groups, k)."""
        return (self.std * white.T).T[self.group]

    def sqrt_transpose(self, field_values: jax.Array) -> jax.Array:
        """Return S^T v for v of shape (num_cells,) or (num_cells, k)."""
        total = jnp.zeros((self.num_white, *field_values.shape[1:]), field_values.dtype)
        total = total.at[self.group].add(field_values, mode="promise_in_bounds")
        return (self.std * total.T).T

    def pointwise_std(self) -> np.ndarray:
        """Return the prior standard deviation in each cell, (num_cells,)."""
        return np.asarray(self.std[self.group])


def independent_prior(
    mesh: Mesh,
    *,
    per: str = "cell",
    mean: float | dict[str, float] = 0.0,
    std: float | dict[str, float] = 1.0,
) -> IndependentPrior:
    """Build an independent normal prior of log-conductivity, constant per cell or subdomain.

    Parameters
    ----------
    mesh : Mesh
    per : {"cell", "subdomain"}
        Part of the body with one value.
    mean, std : float or dict
        One number, or a number for each named subdomain.

    Returns
    -------
    IndependentPrior
        Prior of one coefficient for each cell.

    Raises
    ------
    InputError
        If a subdomain is unknown or missing, subdomains overlap or leave cells out, std is not
        positive, or JAX is not in double precision.
    """
    require_float64(points=mesh.points)
    if per not in ("cell", "subdomain"):
        raise InputError(("prior", "per"), '"cell" or "subdomain"', f"{per!r}", "choose one")
    needs_groups = per == "subdomain" or isinstance(mean, dict) or isinstance(std, dict)
    names, of_cell = sorted(mesh.subdomains), None
    if needs_groups:
        remedy = "name the subdomains in the mesh file so that they cover it without overlap"
        of_cell = partition(mesh, names, "named subdomain", remedy)
    means = _per_cell("mean", mean, names, of_cell, mesh.num_cells)
    stds = _per_cell("std", std, names, of_cell, mesh.num_cells)
    if np.any(stds <= 0):
        raise InputError(("prior", "std"), "positive numbers", f"{stds.min():g}", "correct it")
    if per == "cell":
        group = np.arange(mesh.num_cells)
        group_std = stds
    else:
        group = of_cell
        group_std = stds[[np.flatnonzero(of_cell == k)[0] for k in range(len(names))]]
    parts = jax.device_put(means), jax.device_put(group_std), as_index(group)
    return IndependentPrior(*parts, mesh=mesh)


def _per_cell(key: str, value, names, of_cell, num_cells: int) -> np.ndarray:
    """Expand one number, or one per subdomain, to an array over the cells, (num_cells,)."""
    if isinstance(value, dict):
        if set(value) != set(names):
            raise InputError(
                ("prior", key),
                f"one number for each of the subdomains {', '.join(names)}",
                f"{', '.join(sorted(value))}",
                "name each subdomain once",
            )
        per_group = np.array([float(value[name]) for name in names])
    else:
        if np.ndim(value) or isinstance(value, str):
            expected, remedy = "a number, or a dict of one for each subdomain", "give one of both"
            raise InputError(("prior", key), expected, f"{type(value).__name__}", remedy)
        per_group, of_cell = np.array([float(value)]), np.zeros(num_cells, dtype=int)
    if not np.all(np.isfinite(per_group)):
        raise InputError(("prior", key), "finite numbers", "NaN or infinity", "correct it")
    return per_group[of_cell]
