"""Base classes of priors: transformations of standard normal variables.

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
    """Map from standard normal w, (m,), to coefficients x, (N,).

    A subclass implements :class:`Transformation`.  A prior of a field on a mesh also has
    ``location`` ("nodes" or "cells"), ``mesh`` and ``pointwise_std()``, and may have ``nominal``,
    its requested properties.  A prior of named unknowns has ``parts``, ``shapes`` and their units.

    Attributes
    ----------
    num_white : int
        Number m of standard normal variables.
    is_affine : bool
        True if X is affine, x = mean + S w: the derivative S is then constant.
    is_identity : bool
        True if the coefficients are the variables themselves, x = w.
    has_tangent : bool
        True if :meth:`linearise` has its own derivatives, in place of automatic differentiation.
    materials : mapping of str to float or str
        For a field that consists of materials, the conductivity of each by name, in its unit; if it
        is unknown, the name of the unknown.

    References
    ----------
    Au, Graham & Thiery (2023), section 5.1.
    """

    has_tangent: ClassVar[bool] = True
    #: True if the coefficients are the variables themselves.
    is_identity: ClassVar[bool] = False
    #: For a field that consists of materials, the conductivity of each by name: a number, or the
    #: name of the parameter.
    materials: ClassVar[Mapping[str, float | str]] = MappingProxyType({})
    # Not annotated: as fields of a subclass they would come before its others.
    location = None
    nominal = shapes = ()
    parts = units_by_name = MappingProxyType({})

    @property
    def placed(self) -> dict[int, Transformation]:
        """Parts by the index of their first coefficient; the prior itself if it has no parts."""
        return {0: self}


class AffinePrior(Prior):
    """x = mean + S w: a Gaussian prior with the covariance S S^T.

    A subclass defines ``mean``, ``num_white``, ``sqrt`` and ``sqrt_transpose``.

    Attributes
    ----------
    mean : (N,)
        Prior mean of the coefficients, in their unit; a log-conductivity has none.
    num_white : int
        Number m of standard normal variables.

    References
    ----------
    Au, Graham & Thiery (2023), section 5.1.
    """

    is_affine: ClassVar[bool] = True

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables: that of coefficients, N."""
        return self.mean.shape[0]

    def sqrt(self, white: jax.Array) -> jax.Array:
        """Apply S, the square root of the covariance.

        Parameters
        ----------
        white : (m,) or (m, k)
            Standard normal variables, or k directions of these; without unit.

        Returns
        -------
        (N,) or (N, k)
            S w, in the unit of the coefficients.
        """
        raise NotImplementedError

    def sqrt_transpose(self, values: jax.Array) -> jax.Array:
        """Apply the transpose of S.

        Parameters
        ----------
        values : (N,) or (N, k)
            Derivatives by the coefficients, for example.

        Returns
        -------
        (m,) or (m, k)
            S^T v.
        """
        raise NotImplementedError

    def transform(self, white: jax.Array) -> jax.Array:
        """Mean + S w, (N,)."""
        return self.mean + self.sqrt(white)

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """Mean + S w, (N,), and S."""
        return self.transform(white), _Affine(self)


class _Affine(NamedTuple):
    """Derivatives of an affine prior: the constant S."""

    prior: AffinePrior

    def push(self, directions):
        return self.prior.sqrt(directions)

    def pull(self, values):
        return self.prior.sqrt_transpose(values)

    def curvature(self, direction):
        return jnp.zeros_like(self.prior.mean)

    def pull_back(self, weights, directions, pushed):
        return jnp.zeros(self.prior.num_white)


class StandardNormalPrior(AffinePrior):
    """theta ~ Normal(0, I): a user's function maps these to its own parameters.

    Attributes
    ----------
    mean : (N,)
        Zeros; their number is the number of parameters.
    """

    is_identity: ClassVar[bool] = True

    mean: jax.Array

    def sqrt(self, white: jax.Array) -> jax.Array:
        """Identity, on (N,) or (N, k)."""
        return white

    def sqrt_transpose(self, values: jax.Array) -> jax.Array:
        """Identity, on (N,) or (N, k)."""
        return values
