"""A user's JAX function as a model."""

from __future__ import annotations

from collections.abc import Callable

import jax

from invlift.models.base import ForwardModel
from invlift.programs.pytrees import static


class JaxFunction(ForwardModel):
    """Any differentiable JAX function as a model.

    Attributes
    ----------
    fn : callable
        ``fn(parameters, *arguments) -> observations``, (N,) to (d,), written in JAX operations.
    arguments : tuple of pytrees
        Data the function needs; arrays given here are not baked into the compiled program.
    """

    fn: Callable = static()
    arguments: tuple = ()

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free observations, (d,), for parameters of shape (N,)."""
        return self.fn(coefficients, *self.arguments)
