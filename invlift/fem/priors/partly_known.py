"""A prior of a field that is known in parts of the body."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.fem.mesh.mesh import Mesh
from invlift.fem.priors.base import Nominal
from invlift.inverse.priors.base import Prior


class PartlyKnownPrior(Prior):
    """A prior of a field, with values put in where it is known.

    Build it with :func:`partly_known`.

    Attributes
    ----------
    prior : Prior
        Of the field on the whole body.
    values : (N,)
        Of the coefficients that are known.
    is_known : (N,) bool
    """

    prior: Prior
    values: jax.Array
    is_known: jax.Array

    @property
    def is_affine(self) -> bool:
        """Whether that of the whole body is."""
        return self.prior.is_affine

    @property
    def has_lanes(self) -> bool:
        """Whether chains side by side in one program pay: see :class:`Prior`."""
        return self.prior.has_lanes

    @property
    def location(self) -> str:
        """Where the coefficients live."""
        return self.prior.location

    @property
    def mesh(self) -> Mesh | None:
        """Where the field lives."""
        return getattr(self.prior, "mesh", None)

    @property
    def nominal(self) -> Nominal | None:
        """What the field was asked to be where it is not known."""
        return getattr(self.prior, "nominal", None)

    @property
    def mean(self) -> jax.Array:
        """The mean of an affine prior, (N,), with the values put in."""
        return jnp.where(self.is_known, self.values, self.prior.mean)

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        return self.prior.num_white

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients, (N,), for w of (m,)."""
        return jnp.where(self.is_known, self.values, self.prior.transform(white))

    def linearise(self, white: jax.Array) -> tuple[jax.Array, _Masked]:
        """Coefficients, (N,), and their derivatives, which are zero where they are known."""
        found, tangent = self.prior.linearise(white)
        return jnp.where(self.is_known, self.values, found), _Masked(tangent, self.is_known)

    def sqrt(self, white: jax.Array) -> jax.Array:
        """S w of an affine prior, (N,) or (N, k)."""
        return _masked(self.is_known, self.prior.sqrt(white))

    def sqrt_transpose(self, values: jax.Array) -> jax.Array:
        """S^T v of an affine prior, (m,) or (m, k)."""
        return self.prior.sqrt_transpose(_masked(self.is_known, values))

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Prior.log_reference`."""
        return self.prior.log_reference(white)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Prior.sample`."""
        return self.prior.sample(rng)

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """As :meth:`Prior.parameters`."""
        return self.prior.parameters(white)

    def pointwise_std(self) -> np.ndarray:
        """Prior standard deviation, (N,), zero where the field is known."""
        return np.where(self.is_known, 0.0, self.prior.pointwise_std())


class _Masked(NamedTuple):
    """A tangent without what is known."""

    tangent: Any
    is_known: jax.Array

    def push(self, directions):
        return _masked(self.is_known, self.tangent.push(directions))

    def pull(self, values):
        return self.tangent.pull(_masked(self.is_known, values))

    def curvature(self, direction):
        return _masked(self.is_known, self.tangent.curvature(direction))

    def pull_back(self, weights, directions, pushed):
        weights = _masked(self.is_known, weights)
        return self.tangent.pull_back(weights, directions, self.tangent.push(directions))


def _masked(is_known, values):
    return jnp.where(is_known[:, None] if values.ndim == 2 else is_known, 0.0, values)


def partly_known(prior: Prior, mesh: Mesh, known: np.ndarray) -> Prior:
    """The prior of a field that is known in some cells.

    Parameters
    ----------
    prior : Prior
        Of the field on the whole body: what lies on two sides of a known part is as closely related
        as if it were not there.
    mesh : Mesh
        Where the field lives.
    known : (num_cells,) array
        Log-conductivity where it is known, NaN elsewhere.  A node on its border is not known.

    Returns
    -------
    Prior
    """
    values = np.asarray(known, dtype=float)
    if np.isnan(values).all():
        return prior
    if prior.location == "nodes":
        corners = mesh.cells.T
        is_unknown = np.zeros(mesh.num_nodes, dtype=bool)
        is_unknown[corners[:, np.isnan(values)]] = True
        at_nodes = np.zeros(mesh.num_nodes)
        is_known = ~np.isnan(values)
        at_nodes[corners[:, is_known]] = values[is_known]
        values = np.where(is_unknown, np.nan, at_nodes)
    is_known = ~np.isnan(values)
    parts = jax.device_put((np.where(is_known, values, 0.0), is_known))
    return PartlyKnownPrior(prior, *parts)
