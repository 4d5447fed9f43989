"""What distributions, priors and scales of the noise are: transformations of standard normals.

A value x = T(z) has its distribution where z has the standard normal one, or where z has a density
relative to it that makes up for the difference (Au, Graham & Thiery 2023, sections 3 and 5.1).
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

        ``pushed`` is X'(w) D, (N, k), from ``push``: it need not be computed once more.
        """
        ...


class Transformation(Module):
    """Standard normal variables, (m,), to a value of some shape.

    A subclass writes ``num_white`` and ``transform``, and ``log_reference`` and ``sample`` as well
    where the variables are not quite standard normal; derivatives follow from these by automatic
    differentiation, unless it brings a :class:`Tangent` of its own in ``linearise``.
    """

    #: Whether the value is mean + S w.
    is_affine: ClassVar[bool] = False
    #: Whether ``linearise`` has derivatives of its own.
    has_tangent: ClassVar[bool] = False
    #: That of a field; not annotated, as it would come before the fields of a subclass.
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
        """Whether each entry of a value is made of one variable, in the same order."""
        return False

    def transform(self, white: jax.Array) -> jax.Array:
        """The value for variables (m,)."""
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
        """The variables, (m,), of which this is the value; NaN where there are none.

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
        """Those of unknown numbers before the data, by their names among the draws.

        The name of the value itself is empty.
        """
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
