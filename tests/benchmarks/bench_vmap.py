"""Chains one after another, in threads, and mapped over by one program, on the disc.

    python tests/benchmarks/bench_vmap.py [--chains 4]

All make the same draws.  Pinned to one core it compares programs, on all cores what a user gets.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import invlift

invlift.enable_x64()  # before anything starts JAX

import jax
import jax.numpy as jnp
from discs import example

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.problems.starts.fit import initial_position
from invlift.programs.compilation import num_cores
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels import ConstrainedHMC

STEP_SIZE = 0.65
ROUNDS = 5


def draws(lifted, key, num_draws):
    """Steps taken from a start by so many transitions."""

    kernel = ConstrainedHMC()

    def transition(number, carry):
        state, num_steps = carry
        own_key = jax.random.fold_in(key, number)
        state, info = kernel.step(lifted, own_key, state, STEP_SIZE)
        return state, num_steps + info["num_steps"]

    start = kernel.init(lifted, initial_position(lifted.problem, key))
    return jax.lax.fori_loop(0, num_draws, transition, (start, jnp.asarray(0)))[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    lifted = LiftedPosterior(example(1e-2))
    keys = jax.random.split(jax.random.key(1), options.chains)
    one, mapped = jax.jit(draws), jax.jit(jax.vmap(draws, (None, 0, None)))

    def in_turn(num_draws):
        return [int(one(lifted, key, num_draws)) for key in keys]

    def in_threads(num_draws):
        with ThreadPoolExecutor(workers) as executor:
            return list(executor.map(lambda key: int(one(lifted, key, num_draws)), keys))

    def at_once(num_draws):
        return mapped(lifted, keys, num_draws).tolist()

    workers = num_cores()
    seconds = {in_turn: [], in_threads: [], at_once: []}
    with single_threaded_blas():
        assert in_turn(2) == in_threads(2) == at_once(2)  # compiles both
        for _ in range(ROUNDS):
            for run, found in seconds.items():
                before = time.perf_counter()
                run(options.draws)
                found.append(time.perf_counter() - before)
    turns, threads, once = map(median, seconds.values())
    print(
        f"{options.chains} chains of {options.draws} draws: in turn {turns:.2f} s, in threads on "
        f"{workers} cores {threads:.2f} s, mapped {once:.2f} s"
    )


if __name__ == "__main__":
    main()
