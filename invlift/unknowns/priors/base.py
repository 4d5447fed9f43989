"""What a prior must be: a transformation of standard normal variables.

The coefficients of the model are x = X(w) with w standard normal (Au, Graham & Thiery 2023, section
5.1).  Where X is affine, x = mean + S w, which makes much of the lift cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from invlift.programs.derivatives import second_directional
from invlift.programs.pytrees import Module
from invlift.unknowns.distributions import Distribution


class Tangent(Protocol):
    """Derivatives of the transformation X at one w; m standard normal variables, N coefficients.

    ``push`` and ``pull`` take a vector or columns, as ``AffinePrior.sqrt`` does.
    """

    def push(self, directions: jax.Array) -> jax.Array:
        """X'(w) D, (N,) or (N, k), for D of (m,) or (m, k)."""
        ...

    def pull(self, values: jax.Array) -> jax.Array:
        """X'(w)^T V, (m,) or (m, k), for V of (N,) or (N, k)."""
        ...

    def curvature(self, direction: jax.Array) -> jax.Array:
        """X''(w)[v, v], (N,), for v of (m,)."""
        ...

    def pull_back(self, weights: jax.Array, directions: jax.Array, pushed: jax.Array) -> jax.Array:
        """Gradient of <A, X'(w) D> by w, (m,), for constant A of (N, k) and D of (m, k).

        ``pushed`` is X'(w) D, (N, k), from ``push``: it need not be computed once more.
        """
        ...


class Prior(Module):
    """Standard normal w, (m,), to coefficients x, (N,).

    A subclass writes ``num_white`` and ``transform``, and ``log_reference`` and ``sample`` if w is
    not quite standard normal; derivatives follow from these by automatic
    differentiation, unless it brings a :class:`Tangent` of its own in ``linearise``.  A prior of a
    field on a mesh also has ``location`` ("nodes" or "cells"), ``mesh`` and ``pointwise_std()``.
    """

    is_affine: ClassVar[bool] = False
    #: Whether the coefficients are the variables themselves.
    is_identity: ClassVar[bool] = False
    #: Of a field that is made of materials, the conductivity of each by its name: a number, or the
    #: name of the parameter that it is.
    materials: ClassVar[Mapping[str, float | str]] = MappingProxyType({})

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the coefficients, as a distribution has one of its values."""
        white = jax.ShapeDtypeStruct((self.num_white,), float)
        return jax.eval_shape(self.transform, white).shape

    def transform(self, white: jax.Array) -> jax.Array:
        """Coefficients X(w), (N,), for w of (m,)."""
        raise NotImplementedError

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """X(w), (N,), and its derivatives there."""
        return linearised(self.transform, white)

    def log_reference(self, white: jax.Array) -> jax.Array:
        """Log density of w, (m,), relative to the standard normal one, (), normalised; 0 here."""
        del white
        return jnp.zeros(())

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Exact draw of w, (m,)."""
        return rng.standard_normal(self.num_white)

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """Quantities of the prior that are unknown, by name, to be kept with the draws."""
        del white
        return {}

    @property
    def distributions(self) -> dict[str, Distribution]:
        """Those of unknown numbers before the data, by their names among the draws."""
        return {}


def linearised(
    transform: Callable, white: jax.Array, is_elementwise: bool = False
) -> tuple[jax.Array, Tangent]:
    """The value of a transformation, (N,), at w (m,), and its derivatives by JAX.

    They take less where each value is made of one variable, in the same order.
    """
    if is_elementwise:
        value, slopes = jax.jvp(transform, (white,), (jnp.ones_like(white),))
        return value, _Elementwise(transform, white, slopes)
    return transform(white), _Autodiff(transform, white)


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


class _Autodiff(NamedTuple):
    """Derivatives of a transformation by JAX."""

    transform: Callable
    white: jax.Array

    def push(self, directions):
        along = jax.linearize(self.transform, self.white)[1]
        return on_columns(along, directions)

    def pull(self, values):
        back = jax.vjp(self.transform, self.white)[1]
        return on_columns(lambda column: back(column)[0], values)

    def curvature(self, direction):
        return second_directional(self.transform, (self.white,), (direction,))

    def pull_back(self, weights, directions, pushed):
        def weighed(white):
            return jnp.sum(weights * _Autodiff(self.transform, white).push(directions))

        return jax.grad(weighed)(self.white)


class _Elementwise(NamedTuple):
    """The same of a transformation of which each value is made of one variable."""

    transform: Callable
    white: jax.Array
    slopes: jax.Array

    def push(self, directions):
        return (self.slopes * directions.T).T

    pull = push

    def curvature(self, direction):
        return self._bends * direction**2

    def pull_back(self, weights, directions, pushed):
        return self._bends * jnp.sum(weights * directions, axis=1)

    @property
    def _bends(self):
        return second_directional(self.transform, (self.white,), (jnp.ones_like(self.white),))


def on_columns(of_vector: Callable, values: jax.Array) -> jax.Array:
    """A function of vectors, of one, (n,), or of each column of (n, k)."""
    if values.ndim == 1:
        return of_vector(values)
    return jax.vmap(of_vector, in_axes=-1, out_axes=-1)(values)
