"""What a prior must be: a transformation of standard normal variables.

The coefficients of the model are x = X(w) with w standard normal (Au, Graham & Thiery 2023, section
5.1).  Where X is affine, x = mean + S w, which makes much of the lift cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.unknowns.transformation import Tangent, Transformation


class Prior(Transformation):
    """Standard normal w, (m,), to coefficients x, (N,).

    A subclass writes what :class:`Transformation` says.  A prior of a field on a mesh also has
    ``location`` ("nodes" or "cells"), ``mesh`` and ``pointwise_std()``.
    """

    has_tangent: ClassVar[bool] = True
    #: Whether the coefficients are the variables themselves.
    is_identity: ClassVar[bool] = False
    #: Of a field that is made of materials, the conductivity of each by its name: a number, or the
    #: name of the parameter that it is.
    materials: ClassVar[Mapping[str, float | str]] = MappingProxyType({})


class AffinePrior(Prior):
    """x = mean + S w: a Gaussian prior.

    A subclass writes ``mean`` (a field, (N,)), ``num_white``, ``sqrt`` and ``sqrt_transpose``.
    """

    is_affine: ClassVar[bool] = True

    def sqrt(self, white: jax.Array) -> jax.Array:
        """S w, (N,) or (N, k), for w of (m,) or (m, k)."""
        raise NotImplementedError

    def sqrt_transpose(self, values: jax.Array) -> jax.Array:
        """S^T v, (m,) or (m, k), for v of (N,) or (N, k)."""
        raise NotImplementedError

    def transform(self, white: jax.Array) -> jax.Array:
        """Mean + S w, (N,)."""
        return self.mean + self.sqrt(white)

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """Mean + S w, (N,), and S."""
        return self.transform(white), _Affine(self)


class _Affine(NamedTuple):
    """S, the same everywhere."""

    prior: AffinePrior

    def push(self, directions):
        return self.prior.sqrt(directions)

    def pull(self, values):
        return self.prior.sqrt_transpose(values)

    def curvature(self, direction):
        return jnp.zeros_like(self.prior.mean)

    def pull_back(self, weights, directions, pushed):
        return jnp.zeros(self.prior.num_white)
