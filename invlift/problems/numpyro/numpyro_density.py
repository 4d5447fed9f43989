"""Density of a NumPyro model in unconstrained coordinates, as NumPyro's samplers use it."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

from invlift.problems.numpyro.numpyro_problem import NumPyroProblem
from invlift.problems.numpyro.numpyro_sites import ONE_AT_A_TIME
from invlift.programs.pytrees import Module
from invlift.targets import Described
from invlift.unknowns.named import pack, unpack
from invlift.unknowns.priors.named import Shapes


class UnconstrainedDensity(Module):
    """Density of the latent sites of a NumPyro model, each mapped from its support to real numbers.

    Attributes
    ----------
    problem : NumPyroProblem
        With the readings that the model was given.
    """

    problem: NumPyroProblem

    @property
    def dimension(self) -> int:
        """Number Q of unconstrained variables."""
        return sum(math.prod(shape) for _, shape in self._shapes)

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (Q,), of a point on the lifted manifold, (m + d,)."""
        return pack(self._free(lifted), self._shapes)

    def logdensity(self, position: jax.Array) -> jax.Array:
        """Log density, (), at a position, (Q,)."""
        free = unpack(position, self._shapes)
        with ONE_AT_A_TIME:
            return -potential_energy(self.problem.model.sites.fn, (), {}, free)

    def loglikelihood(self, position: jax.Array) -> jax.Array:
        """Log density relative to the standard normal one, (), at a position, (Q,)."""
        return self.logdensity(position) + 0.5 * position @ position

    def describe(self, position: jax.Array) -> Described:
        """Return latent and deterministic sites by name at a position, (Q,), and no moments."""
        fn, free = self.problem.model.sites.fn, unpack(position, self._shapes)
        with ONE_AT_A_TIME:
            return constrain_fn(fn, (), {}, free, return_deterministic=True), {}

    def _free(self, lifted):
        """Return unconstrained values by site at a point on the lifted manifold."""
        model = self.problem.model
        values = model.at(lifted[: model.sites.num_white]).values
        latent = {site.name: values[site.name] for site in model.sites.latent}
        with ONE_AT_A_TIME:
            return unconstrain_fn(model.sites.fn, (), {}, latent)

    @property
    def _shapes(self) -> Shapes:
        values = jax.eval_shape(self._free, jnp.zeros(self.problem.model.sites.num_white))
        return tuple((name, value.shape) for name, value in values.items())
