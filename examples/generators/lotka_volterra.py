"""Prey and predators that move at random, simulated and read without noise: see README.md."""

import jax
import jax.numpy as jnp
import numpy as np

import invlift
from invlift.lift.jacobians import Diagonal

#: Truth of the simulated readings: growth, predation, death and conversion, per step.
TRUTH = {"growth": 0.4, "predation": 0.005, "death": 0.05, "conversion": 0.001}
START = np.array([100.0, 100.0])
NUM_STEPS, SEED = 50, 1
#: Populations beyond which the simulator stops: most draws from the prior grow without bound.
LARGEST = 1e4


def step(populations, growth, predation, death, conversion):
    """Prey and predators, (..., 2), after a step without noise."""
    prey, predators = populations[..., 0], populations[..., 1]
    meetings = prey * predators
    change = growth * prey - predation * meetings, conversion * meetings - death * predators
    return populations + jnp.stack(change, axis=-1)


def simulator(noise, **rates):
    """Populations after each step, (T, 2), of standard normal noise, (T, 2)."""

    def follow(populations, each):
        there = jnp.clip(step(populations, **rates) + each, -LARGEST, LARGEST)
        return there, there

    return jax.lax.scan(follow, jnp.asarray(START), noise)[1]


def simulated(num_steps=NUM_STEPS, seed=SEED):
    """Readings, (T, 2): what the simulator gives with the true rates."""
    noise = np.random.default_rng(seed).standard_normal((num_steps, 2))
    return np.asarray(simulator(jnp.asarray(noise), **TRUTH))


def unknowns(num_steps):
    """The rates, and last the noise of each step."""
    axes = {"step": np.arange(1, num_steps + 1), "species": ["prey", "predators"]}
    noise = invlift.Unknown(invlift.normal(np.zeros((num_steps, 2)), 1.0), axes=axes)
    return {name: invlift.lognormal(-2.0, 1.0) for name in TRUTH} | {"noise": noise}


def problem_of(readings):
    """The rates and noise with which the simulator gives readings, (T, 2), exactly.

    Each step starts from the reading before it, so that a reading has noise of its own.
    """
    before = np.concatenate([START[None], readings[:-1]])

    def one_step(noise, **rates):
        return (step(before, **rates) + noise).ravel()

    given = unknowns(len(readings))
    return invlift.inverse_problem(one_step, given, None, readings.ravel(), structure=Diagonal())


def near(readings, noise):
    """The rates and noise with which the simulator gives readings, (T, 2), up to some noise."""

    def all_steps(noise, **rates):
        return simulator(noise, **rates).ravel()

    return invlift.inverse_problem(all_steps, unknowns(len(readings)), noise, readings.ravel())


def problem():
    """That of the simulated readings."""
    return problem_of(simulated())
