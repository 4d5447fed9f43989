"""Runs of draws that no sampler made, for tests of what becomes of draws."""

from functools import partial

import jax
import numpy as np

from invlift.chains import Chain
from invlift.samplers.chains.results import Run
from invlift.samplers.kernels import ConstrainedHMC


def run_of(problem, thetas, described=None):
    """Of unknowns (chains, draws, h + m), or of other positions that `described` takes."""
    kept = jax.jit(partial(jax.lax.map, described or problem.described))
    stats = {"acceptance_rate": np.ones(len(thetas[0]))}
    draws = [jax.tree.map(np.asarray, kept(theta)) for theta in thetas]
    seconds = {"warmup_seconds": 0, "sampling_seconds": 0}
    chains = [Chain(each, stats, step_size=1.0, **seconds) for each in draws]
    return Run(chains, 0.0, False, ConstrainedHMC.standards)


def run_from_prior(problem, num=10):
    """One chain of draws from the prior, with byproducts of the model."""

    def described(theta):
        coefficients = problem.prior.transform(problem.split(theta)[1])
        predicted, expansion = problem.model.expand(coefficients)
        return problem.describe(theta, coefficients, predicted) | expansion.byproducts

    thetas = np.random.default_rng(1).standard_normal((1, num, problem.num_unknowns))
    return run_of(problem, thetas, described)


def near_prior(problem, draws=40, chains=2, spread=0.3):
    """A posterior of draws near the middle of the prior."""
    rng = np.random.default_rng(2)
    thetas = spread * rng.standard_normal((chains, draws, problem.num_unknowns))
    return problem.posterior(run_of(problem, thetas))
