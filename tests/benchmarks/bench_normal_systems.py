"""What a step costs where many readings are lifted: systems by products, or factorised.

    python tests/benchmarks/bench_normal_systems.py [--rings 12] [--sensors 300] [--noise 1e-5]
        [--lifted 100] [--size 0.8] [--steps 15] [--turns 6]

Sensors spread over the disc, of known noise.  Lifts so many combinations of their readings, or all
readings, and makes integrator steps of fresh momentum with both ways of solving on the normal
space, in turns.  Prints milliseconds of processor time for a step, and their ratio in each turn.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import invlift

invlift.enable_x64()  # before anything starts JAX

import discs
import jax
import jax.numpy as jnp
import numpy as np

from invlift.app.runs.sampling import target_of
from invlift.lift.targets import lifted
from invlift.problems.choice import lift_choice
from invlift.problems.starts.search import find_start
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels import ConstrainedHMC

KERNEL = ConstrainedHMC()


def steps(target, state, keys, size):
    """A state after a step for each key, and factorisations and failures of each step."""

    def step(state, key):
        begun = build_state(state.point, sample_momentum(target, key, state.point))
        end = constrained_step(KERNEL.integrator, target, begun, size)
        return end, (end.work[0], end.num_failures)

    return jax.lax.scan(step, state, keys)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rings", type=int, default=12)
    parser.add_argument("--sensors", type=int, default=300)
    parser.add_argument("--noise", type=float, default=1e-5)
    parser.add_argument("--lifted", type=int, default=100)
    parser.add_argument("--size", type=float, default=0.8)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--turns", type=int, default=6)
    options = parser.parse_args()
    problem, most = discs.simulated(options.rings, options.sensors, options.noise), lifted.MAX_DENSE
    lift_choice.number_to_lift = lambda directions, others: options.lifted
    is_all = options.lifted == options.sensors
    target = problem.lifted() if is_all else target_of(problem, KERNEL)
    with single_threaded_blas():
        position = jnp.asarray(find_start(KERNEL, target, 1, 0, evaluate_state)[0])
        point = jax.jit(lambda target, position: target.point(position))(target, position)
        start = build_state(point, jnp.zeros(target.dimension))
        keys, programs = jax.random.split(jax.random.key(0), options.steps), {}
        for name, number in (("products", most), ("factorised", options.lifted)):
            lifted.MAX_DENSE = number
            compiled = jax.jit(partial(steps, size=options.size)).lower(target, start, keys)
            programs[name] = compiled.compile()
        taken = {name: [] for name in programs}
        for turn in range(options.turns):
            for name in sorted(programs, reverse=turn % 2 == 1):
                began = time.process_time()
                found = jax.block_until_ready(programs[name](target, start, keys))
                taken[name].append(1e3 * (time.process_time() - began) / options.steps)
                if turn == 0:
                    work, failures = (np.asarray(each) for each in found[1])
                    print(f"{name}: {work.mean():.1f} factorisations a step, "
                          f"{failures.sum()} failures")  # fmt: skip
    ratios = np.divide(taken["products"], taken["factorised"])
    medians = [f"{name} {np.median(each):.1f} ms a step" for name, each in taken.items()]
    print(f"{options.lifted} of {options.sensors} lifted: {', '.join(medians)}; "
          f"ratio {np.round(np.sort(ratios), 2)}")  # fmt: skip


if __name__ == "__main__":
    main()
