"""A prior of a field that is known in parts of the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.unknowns.priors.base import Prior
from invlift.unknowns.priors.mapped import MappedPrior


class PartlyKnownPrior(MappedPrior):
    """A prior of a field, that of the whole body, with values put in where it is known.

    Build it with :func:`partly_known`.

    Attributes
    ----------
    values : (N,)
        Of the coefficients that are known.
    is_known : (N,) bool
    """

    is_map_affine: ClassVar[bool] = True

    values: jax.Array
    is_known: jax.Array

    @property
    def location(self) -> str:
        """Where the coefficients live."""
        return self.prior.location

    @property
    def materials(self) -> Mapping[str, float | str]:
        """What the field is made of where it is not known."""
        return self.prior.materials

    @property
    def mesh(self) -> object | None:
        """Where the field lives."""
        return self.prior.mesh

    @property
    def nominal(self) -> tuple:
        """What the field was asked to be where it is not known."""
        return self.prior.nominal

    def map(self, inner: jax.Array) -> jax.Array:
        """The field with the values put in, (N,)."""
        return jnp.where(self.is_known, self.values, inner)

    def push_map(self, inner: jax.Array, directions: jax.Array) -> jax.Array:
        """Directions, (N,) or (N, k), without what is known."""
        return jnp.where(self.is_known, 0.0, directions.T).T

    def pull_map(self, inner: jax.Array, values: jax.Array) -> jax.Array:
        """The same of values: it is symmetric."""
        return self.push_map(inner, values)

    def pointwise_std(self) -> np.ndarray:
        """Prior standard deviation, (N,), zero where the field is known."""
        return np.where(self.is_known, 0.0, self.prior.pointwise_std())


def partly_known(prior: Prior, known: np.ndarray) -> Prior:
    """The prior of a field with values put in where they are known.

    Parameters
    ----------
    prior : Prior
        Of the field on the whole body: what lies on two sides of a known part is as closely related
        as if it were not there.
    known : (N,) array
        Values where they are known, NaN elsewhere.
    """
    is_known = ~np.isnan(known)
    parts = jax.device_put((np.where(is_known, known, 0.0), is_known))
    return PartlyKnownPrior(prior, *parts)
