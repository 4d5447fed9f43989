"""Simulation-based calibration (Talts et al. 2018): ranks of the truth among posterior draws."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from invlift.posterior.statistics.calibration import UniformRanks
from invlift.problems.starts.fit import initial_position
from invlift.programs.compilation import Program

NUM_REPLICATIONS = 240
#: Ranks 0 ... 7 among seven draws far apart: 30 replications expected at each.
NUM_KEPT, THINNING, NUM_WARMUP, STEP_SIZE = 7, 12, 60, 0.4


def ranks_of(system, kernel, rng_key, truth, quantities_fn: Callable):
    """Ranks of what ``quantities_fn`` makes of the true theta among those of posterior draws."""
    key_start, key_run = jax.random.split(rng_key)
    size = system.problem.num_unknowns

    def body(state, key):
        state, _ = kernel.step(system, key, state, STEP_SIZE)
        return state, kernel.position(state)[:size]

    start = kernel.init(system, initial_position(system.problem, key_start))
    keys = jax.random.split(key_run, NUM_WARMUP + NUM_KEPT * THINNING)
    draws = jax.lax.scan(body, start, keys)[1][NUM_WARMUP + THINNING - 1 :: THINNING]
    return jnp.sum(jax.vmap(quantities_fn)(draws) < quantities_fn(truth), axis=0)


def uniformity(replicate: Callable, *cases: tuple, num=NUM_REPLICATIONS) -> list[np.ndarray]:
    """P-values of uniform ranks ``replicate(key, *case)``, for each case by quantity.

    One replication after another: side by side all would wait for the longest trajectory, and a
    sparse factorisation takes minutes to compile.
    """
    keys = jax.random.split(jax.random.key(77), num)
    ranks_of_one = Program(replicate, "none")
    uniform, found = UniformRanks(num, NUM_KEPT), []
    for case in cases:
        ranks = np.array([ranks_of_one(key, *map(np.float64, case)) for key in keys])
        found.append(np.array([uniform.p_value(column) for column in ranks.T]))
    return found
