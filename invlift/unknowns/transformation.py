"""Base class of distributions, priors and noise scales: transformations of standard normals.

A value x = T(z) has its distribution if z is standard normal, or if z has a density relative to the
standard normal one that corrects the difference (Au, Graham & Thiery 2023, sections 3 and 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.programs.derivatives import second_directional
from invlift.programs.pytrees import Module


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

        ``pushed`` is X'(w) D, (N, k), from ``push``, so that it is not computed again.
        """
        ...


class Transformation(Module):
    """Map from standard normal variables, (m,), to a value of some shape.

    A subclass implements ``num_white`` and ``transform``.  If its variables are only approximately
    standard normal, it also implements ``log_reference`` and ``sample``.  Derivatives follow by
    automatic differentiation, unless ``linearise`` returns another :class:`Tangent`.
    """

    #: True if the value is mean + S w.
    is_affine: ClassVar[bool] = False
    #: True if ``linearise`` has its own derivatives, in place of automatic differentiation.
    has_tangent: ClassVar[bool] = False
    #: Mesh of a field; not annotated, as it would come before the fields of a subclass.
    mesh = None

    @property
    def num_white(self) -> int:
        """Number m of standard normal variables."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a value."""
        white = jax.ShapeDtypeStruct((self.num_white,), float)
        return jax.eval_shape(self.transform, white).shape

    @property
    def is_elementwise(self) -> bool:
        """True if each entry of a value depends on one variable, in the same order."""
        return False

    def transform(self, white: jax.Array) -> jax.Array:
        """Return the value for variables (m,)."""
        raise NotImplementedError

    def linearise(self, white: jax.Array) -> tuple[jax.Array, Tangent]:
        """The entries of the value, (N,), and their derivatives there."""
        return linearised(lambda w: jnp.ravel(self.transform(w)), white, self.is_elementwise)

    def log_reference(self, white: jax.Array) -> jax.Array:
        """Log density of the variables relative to the standard normal one, (), normalised."""
        return jnp.zeros(())

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Exact draw of the variables, (m,)."""
        return rng.standard_normal(self.num_white)

    def whiten(self, value: np.ndarray) -> np.ndarray:
        """Return the variables, (m,), that give this value; NaN where there are none.

        Raises
        ------
        InputError
            If the transformation has no inverse, as most priors.
        """
        remedy = "give another, or an array of standard normal variables"
        raise InputError("starts", "a distribution with an inverse", type(self).__name__, remedy)

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """Unknown parameters of the distribution itself, by name, at variables (m,)."""
        return {}

    @property
    def distributions(self) -> dict[str, Transformation]:
        """Prior distributions of unknown numbers, by their names in the draws.

        The name of the value itself is empty.
        """
        return {}


def linearised(
    transform: Callable, white: jax.Array, is_elementwise: bool = False
) -> tuple[jax.Array, Tangent]:
    """Return the value of a transformation, (N,), at w (m,), and its derivatives by JAX.

    Derivatives cost less if each value depends on one variable, in the same order.
    """
    if is_elementwise:
        value, slopes = jax.jvp(transform, (white,), (jnp.ones_like(white),))
        return value, _Elementwise(transform, white, slopes)
    return transform(white), _Autodiff(transform, white)


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
    """Derivatives of a transformation in which each value depends on one variable."""

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
    """Apply a function of vectors to one, (n,), or to each column of (n, k)."""
    if values.ndim == 1:
        return of_vector(values)
    return jax.vmap(of_vector, in_axes=-1, out_axes=-1)(values)
