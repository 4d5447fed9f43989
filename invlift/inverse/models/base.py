"""What the inverse problem asks of a forward map, and the door for a user's own JAX function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from invlift.derivatives import second_directional
from invlift.pytrees import pytree


class ForwardMap(Protocol):
    """Coefficients (N,) to noise-free observations (d,); a pytree.

    :class:`invlift.fem.PoissonMap` is one, :class:`JaxForward` another.

    Attributes
    ----------
    coefficients_name : str
        What the coefficients are called among the draws.
    """

    coefficients_name: str

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free observations F(phi), (d,)."""
        ...

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """F(phi), (d,), and dF/dphi, (d, N)."""
        ...

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Any]:
        """The same, and an expansion: a pytree that knows what further derivatives need.

        Its ``byproducts`` are a dict of arrays whose posterior moments are worth having.
        """
        ...

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Any]:
        """F(phi), (d,), and an expansion for directional derivatives alone."""
        ...

    def push_forward(self, expansion: Any, directions: jax.Array) -> tuple[jax.Array, Any]:
        """(dF/dphi) D, (d, k), for D of (N, k), where it was linearised, and D pushed forward.

        The latter is a pytree for :meth:`pull_back`.
        """
        ...

    def pull_back(self, expansion: Any, pushed: Any, weigh: Callable) -> jax.Array:
        """Gradient of <W, (dF/dphi) D> by phi, (N,), for the D pushed forward.

        W (d, d) is symmetric and k = d; ``weigh`` multiplies by it from the right, (r, d) to
        (r, d).
        """
        ...

    def derivative(self, expansion: Any, direction: jax.Array) -> jax.Array:
        """dF(phi + t v) / dt at t = 0, (d,), where the expansion is from, for v of (N,)."""
        ...

    def second_derivative(self, expansion: Any, direction: jax.Array) -> jax.Array:
        """d^2 F(phi + t v) / dt^2 at t = 0, (d,), where the expansion is from, for v of (N,)."""
        ...


class JaxExpansion(NamedTuple):
    """Where a :class:`JaxForward` was evaluated.

    Attributes
    ----------
    coefficients : (N,)
    jacobian : (d, N) or None
        dF/dphi, if it was computed.
    """

    coefficients: jax.Array
    jacobian: jax.Array | None

    @property
    def byproducts(self) -> dict[str, jax.Array]:
        """None."""
        return {}


@pytree
@dataclass(frozen=True)
class JaxForward:
    """Any differentiable JAX function as a forward map.

    Attributes
    ----------
    fn : callable
        ``fn(parameters, *arguments) -> observations``, (N,) to (d,), made of JAX operations.
    arguments : tuple of pytrees
        Data the function needs; arrays given here are not baked into the compiled program.
    """

    fn: Callable = field(metadata={"static": True})
    arguments: tuple = ()

    coefficients_name: ClassVar[str] = "parameters"

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free observations, (d,), for parameters of shape (N,)."""
        return self.fn(coefficients, *self.arguments)

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Observations, (d,), and their Jacobian, (d, N), in the mode that needs fewer sweeps."""
        size = jax.eval_shape(self, coefficients).shape[0]
        value, pullback = jax.vjp(self, coefficients)
        if size <= coefficients.shape[0]:
            return value, jax.vmap(lambda row: pullback(row)[0])(jnp.eye(size))
        return value, jax.jacfwd(self)(coefficients)

    def linearise(
        self, coefficients: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], JaxExpansion]:
        """:meth:`value_and_jacobian`, and where it was taken."""
        value, jacobian = self.value_and_jacobian(coefficients)
        return (value, jacobian), JaxExpansion(coefficients, jacobian)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, JaxExpansion]:
        """Observations, (d,), and where they are from."""
        return self(coefficients), JaxExpansion(coefficients, None)

    def push_forward(
        self, expansion: JaxExpansion, directions: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """(dF/dtheta) D, (d, k), for D of (N, k), and D."""
        return expansion.jacobian @ directions, directions

    def pull_back(
        self, expansion: JaxExpansion, pushed: jax.Array, weigh: Callable[[jax.Array], jax.Array]
    ) -> jax.Array:
        """Gradient of <W, (dF/dtheta) D>, (N,); ``weigh`` multiplies by W, (d, d), on the right."""
        _, pull_back = jax.vjp(
            lambda parameters: self.value_and_jacobian(parameters)[1], expansion.coefficients
        )
        return pull_back(weigh(pushed).T)[0]

    def derivative(self, expansion: JaxExpansion, direction: jax.Array) -> jax.Array:
        """Derivative of the observations along a direction (N,), (d,)."""
        return jax.jvp(self, (expansion.coefficients,), (direction,))[1]

    def second_derivative(self, expansion: JaxExpansion, direction: jax.Array) -> jax.Array:
        """Second derivative of the observations along a direction (N,), (d,)."""
        return second_directional(self, (expansion.coefficients,), (direction,))


@pytree
@dataclass(frozen=True)
class StandardNormalPrior:
    """theta ~ Normal(0, I): a user's function maps these to its own parameters.

    Attributes
    ----------
    mean : (N,)
        Zeros; their number is the number of parameters.
    """

    mean: jax.Array

    @property
    def num_white(self) -> int:
        """Number N of parameters."""
        return self.mean.shape[0]

    def coefficients(self, white: jax.Array) -> jax.Array:
        """The parameters themselves, (N,)."""
        return white

    def sqrt(self, white: jax.Array) -> jax.Array:
        """Identity, on (N,) or (N, k)."""
        return white

    def sqrt_transpose(self, values: jax.Array) -> jax.Array:
        """Identity, on (N,) or (N, k)."""
        return values
