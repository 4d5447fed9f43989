"""Posteriors of draws that no sampler made, for tests of what becomes of draws."""

import jax
import numpy as np

from invlift.chains import Chain
from invlift.samplers.chains.results import Run
from invlift.standards import Standards


def posterior_of(problem, thetas, described=None):
    """Of unknowns (chains, draws, h + m), or of other positions that `described` takes."""
    described = jax.jit(jax.vmap(described or problem.described))
    draws = [jax.tree.map(np.asarray, described(theta)) for theta in thetas]
    stats = {"acceptance_rate": np.ones(len(thetas[0]))}
    chains = [Chain(each, stats=stats, step_size=1.0) for each in draws]
    return problem.posterior(Run(chains, 0.0, False, Standards()))


def near_prior(problem, draws=40, chains=2, spread=0.3):
    """A posterior of draws near the middle of the prior."""
    rng = np.random.default_rng(2)
    return posterior_of(
        problem, spread * rng.standard_normal((chains, draws, problem.num_unknowns))
    )
