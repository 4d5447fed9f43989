"""Manifolds that have a name: their constraint without redundant rows, and points on them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.pytrees import Module


class Manifold(Module, settings=True):
    """Arrays of a shape, free.  A subclass writes ``constraint`` and ``point``.

    Attributes
    ----------
    shape : tuple of int
    """

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def constraint(self, value: jax.Array) -> jax.Array:
        """c, (d,), which vanishes on the manifold, with a Jacobian of full rank there."""
        del value
        return jnp.zeros(0)

    def point(self, rng_key: jax.Array) -> jax.Array:
        """A random point on it: here standard normal entries."""
        return jax.random.normal(rng_key, self.shape)


class Orthonormal(Manifold, settings=True):
    """Matrices (n, r) with orthonormal columns, or unit vectors (n,)."""

    def constraint(self, value: jax.Array) -> jax.Array:
        """The upper triangle of (U^T U - I) / 2, (r (r + 1) / 2,): the lower one repeats it."""
        columns = value.reshape(self.shape[0], -1)
        gram = columns.T @ columns
        rows = np.triu_indices(len(gram))
        return 0.5 * (gram - jnp.eye(len(gram)))[rows]

    def point(self, rng_key: jax.Array) -> jax.Array:
        """A draw from the uniform distribution (Chikuse 2003, theorem 2.2.1)."""
        normal = jax.random.normal(rng_key, (self.shape[0], math.prod(self.shape[1:])))
        columns, upper = jnp.linalg.qr(normal)
        return (columns * jnp.sign(jnp.diagonal(upper))).reshape(self.shape)


def sphere(n: int) -> Manifold:
    """The unit vectors (n,): for n = 3 the sphere of the space we live in.

    Raises
    ------
    InputError
        If n is less than 2.
    """
    return Orthonormal((_checked("sphere, n", n, 2),))


def stiefel(n: int, r: int) -> Manifold:
    """The matrices (n, r) with orthonormal columns: a Stiefel manifold.

    For r = n, the orthogonal group, it has two parts, of determinants 1 and -1, between which no
    chain moves.

    Raises
    ------
    InputError
        If r is less than 1 or more than n.
    """
    columns = _checked("stiefel, r", r, 1)
    return Orthonormal((_checked("stiefel, n", n, max(2, columns)), columns))


def as_manifold(where: str, given: Manifold | tuple[int, ...]) -> Manifold:
    """A manifold, or the arrays of a shape.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(given, Manifold):
        return given
    is_shape = isinstance(given, tuple) and all(
        isinstance(size, int | np.integer) for size in given
    )
    if not is_shape or any(size < 1 for size in given):
        raise InputError(
            where, "a shape, such as (3, 2) or (), or a manifold", f"{given!r}"[:80],
            "give one, or invlift.sphere(n) or invlift.stiefel(n, r)",
        )  # fmt: skip
    return Manifold(tuple(map(int, given)))


def _checked(where: str, number: int, least: int) -> int:
    is_integer = isinstance(number, int | np.integer) and not isinstance(number, bool)
    if not is_integer or number < least:
        raise InputError(where, f"an integer of at least {least}", f"{number!r}"[:80], "correct it")
    return int(number)
