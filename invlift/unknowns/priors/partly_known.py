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
    """The prior of a field on the whole body, with known values inserted.

    Build it with :func:`partly_known`.

    Attributes
    ----------
    values : (N,)
        Values of the known coefficients.
    is_known : (N,) bool
    """

    is_map_affine: ClassVar[bool] = True

    values: jax.Array
    is_known: jax.Array

    @property
    def location(self) -> str:
        """Location of the coefficients, "nodes" or "cells"."""
        return self.prior.location

    @property
    def materials(self) -> Mapping[str, float | str]:
        """Materials of the unknown part of the field."""
        return self.prior.materials

    @property
    def mesh(self) -> object | None:
        """Mesh of the field."""
        return self.prior.mesh

    @property
    def nominal(self) -> tuple:
        """Requested properties of the unknown part of the field."""
        return self.prior.nominal

    def map(self, inner: jax.Array) -> jax.Array:
        """Insert the known values into the field, (N,)."""
        return jnp.where(self.is_known, self.values, inner)

    def push_map(self, inner: jax.Array, directions: jax.Array) -> jax.Array:
        """Set directions, (N,) or (N, k), to zero at known coefficients."""
        return jnp.where(self.is_known, 0.0, directions.T).T

    def pull_map(self, inner: jax.Array, values: jax.Array) -> jax.Array:
        """As :meth:`push_map`, for values, (N,) or (N, k): the map is symmetric."""
        return self.push_map(inner, values)

    def pointwise_std(self) -> np.ndarray:
        """Prior standard deviation, (N,), zero where the field is known."""
        return np.where(self.is_known, 0.0, self.prior.pointwise_std())


def partly_known(prior: Prior, known: np.ndarray) -> Prior:
    """Return the prior of a field with known values inserted.

    Parameters
    ----------
    prior : Prior
        Prior of the field on the whole body.  A known part does not change how places on its two
        sides are correlated.
    known : (N,) array
        Values where they are known, NaN elsewhere.
    """
    is_known = ~np.isnan(known)
    parts = jax.device_put((np.where(is_known, known, 0.0), is_known))
    return PartlyKnownPrior(prior, *parts)
