"""A wrong density, and the default sampler of it, for negative controls."""

import jax
import jax.numpy as jnp

from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.samplers.kernels import ConstrainedHMC


class WithoutGramTerm(LiftedPosterior):
    """A wrong target, for negative controls: -(1/2) log det G is left out."""

    def point(self, position):
        zeta, white, eta = self.split(position)
        noise, observed = self.problem.noise, self.problem.observed

        def rest(zeta, eta):
            return noise.log_reference(zeta, eta) + noise.log_slope(observed, zeta, eta)

        value, (by_zeta, by_eta) = jax.value_and_grad(rest, (0, 1))(zeta, eta)
        gradient = jnp.concatenate([by_zeta, jnp.zeros_like(white), by_eta])
        return super().point(position)._replace(logdensity=value, logdensity_grad=gradient)


class ChmcWithoutGramTerm(ConstrainedHMC, settings=True):
    """The default sampler of that wrong target."""

    def init(self, target, position):
        return super().init(WithoutGramTerm(target.problem), position)

    def step(self, target, rng_key, state, tuning):
        return super().step(WithoutGramTerm(target.problem), rng_key, state, tuning)
