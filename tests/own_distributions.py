"""A distribution of a user's own class."""

import jax.numpy as jnp
import numpyro.distributions as dist


class ByQuantiles(dist.Distribution):
    """Exponential, by its quantiles alone."""

    arg_constraints = {"rate": dist.constraints.positive}
    support = dist.constraints.positive

    def __init__(self, rate):
        self.rate = rate
        super().__init__(batch_shape=jnp.shape(rate))

    def icdf(self, q):
        return -jnp.log1p(-q) / self.rate
