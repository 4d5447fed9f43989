"""Exact readings, without noise."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.noise.base import Noise
from invlift.noise.scales import KnownScale


class ExactReadings(Noise):
    """Exact readings, y = F: the posterior is a density on the manifold F = y.

    Only constrained samplers draw from it; the lifted form has no noise variables.
    """

    is_exact: ClassVar[bool] = True

    def invert(self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array) -> jax.Array:
        """Return zero, (d,): no noise is needed to explain the readings."""
        return jnp.zeros_like(predicted)

    def sample(self, rng: np.random.Generator, predicted: np.ndarray, zeta: np.ndarray):
        """The readings themselves, (d,)."""
        return predicted

    def loglikelihood(
        self, predicted: jax.Array, zeta: jax.Array, observed: jax.Array
    ) -> jax.Array:
        """Return zero, (): every draw reproduces the readings."""
        return jnp.zeros(())


def exact_readings() -> ExactReadings:
    """Return the noise of exact readings, which is none."""
    return ExactReadings(KnownScale(jax.device_put(np.float64(0.0))))
