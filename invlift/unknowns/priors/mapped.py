"""Priors of coefficients that are a smooth function of those of another prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.programs.derivatives import second_directional
from invlift.programs.pytrees import aside, static
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.priors.base import Prior
from invlift.unknowns.transformation import Tangent, on_columns


class MappedPrior(Prior):
    """x = M(v), where v, (n,), are the coefficients of another prior and M is a cheap map.

    A subclass implements ``map``, and ``push_map`` and ``pull_map`` if automatic differentiation
    would be slow.  ``is_map_affine`` is true if M is affine.

    Attributes
    ----------
    prior : Prior
        Prior of v.
    """

    is_map_affine: ClassVar[bool] = False

    prior: Prior

    @property
    def is_affine(self) -> bool:
        """True if map and prior are affine."""
        return self.is_map_affine and self.prior.is_affine

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        return self.prior.num_white

    def map(self, inner: jax.Array) -> jax.Array:
        """M(v), (N,), for v of (n,)."""
        raise NotImplementedError

    def push_map(self, inner: jax.Array, directions: jax.Array) -> jax.Array:
        """Apply the derivative of the map.

        Parameters
        ----------
        inner : (n,)
            v, where the derivative is taken.
        directions : (n,) or (n, k)
            D.

        Returns
        -------
        (N,) or (N, k)
            M'(v) D.
        """
        return on_columns(jax.linearize(self.map, inner)[1], directions)

    def pull_map(self, inner: jax.Array, values: jax.Array) -> jax.Array:
        """Apply the transposed derivative of the map.

        Parameters
        ----------
        inner : (n,)
            v, where the derivative is taken.
        values : (N,) or (N, k)
            V.

        Returns
        -------
        (n,) or (n, k)
            M'(v)^T V.
        """
        back = jax.vjp(self.map, inner)[1]
        return on_columns(lambda column: back(column)[0], values)

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients, (N,), for w of (m,)."""
        return self.map(self.prior.transform(white))

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """Coefficients, (N,), and their derivatives, by the chain rule."""
        inner, tangent = self.prior.linearise(white)
        return self.map(inner), _Through(self, inner, tangent)

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Prior.log_reference`, () at w of (m,)."""
        return self.prior.log_reference(white)

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Prior.sample`, (m,)."""
        return self.prior.sample(rng)

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """As :meth:`Prior.parameters` at w of (m,), in their own units."""
        return self.prior.parameters(white)

    @property
    def distributions(self) -> dict[str, Distribution]:
        """As :attr:`Prior.distributions`."""
        return self.prior.distributions


class _Through(NamedTuple):
    """Derivatives of M(X(w)) from those of X."""

    outer: MappedPrior
    inner: jax.Array
    tangent: Tangent

    def push(self, directions):
        return self.outer.push_map(self.inner, self.tangent.push(directions))

    def pull(self, values):
        return self.tangent.pull(self.outer.pull_map(self.inner, values))

    def curvature(self, direction):
        bent = self.outer.push_map(self.inner, self.tangent.curvature(direction))
        if self.outer.is_map_affine:
            return bent
        along = self.tangent.push(direction)
        return bent + second_directional(self.outer.map, (self.inner,), (along,))

    def pull_back(self, weights, directions, pushed):
        inside = self.tangent.push(directions)
        pulled = self.outer.pull_map(self.inner, weights)
        pulled_back = self.tangent.pull_back(pulled, directions, inside)
        if self.outer.is_map_affine:
            return pulled_back
        by_inner = jax.grad(lambda v: jnp.sum(weights * self.outer.push_map(v, inside)))
        return pulled_back + self.tangent.pull(by_inner(self.inner))


class PartlyKnownPrior(MappedPrior):
    """The prior of a field on the whole body, with known values inserted.

    Build it with :func:`partly_known`.

    Attributes
    ----------
    values : (N,)
        Values of the known coefficients.
    is_known : (N,) bool
    location, mesh, nominal
        As of the prior.
    """

    is_map_affine: ClassVar[bool] = True

    values: jax.Array
    is_known: jax.Array

    location: str = static(default="nodes")
    mesh: object | None = aside()
    nominal: tuple = aside(())

    @property
    def materials(self) -> Mapping[str, float | str]:
        """Materials of the unknown part of the field."""
        return self.prior.materials

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
    return PartlyKnownPrior(prior, *parts, prior.location, prior.mesh, prior.nominal)
