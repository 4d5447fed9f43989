"""Steps of constrained HMC on a diffusion: time, iterations of the projection, and step size.

    python tests/benchmarks/bench_diffusions.py [time | step-size | dense] [--iterations 150]

The FitzHugh-Nagumo diffusion of the example, read exactly (Graham, Thiery & Beskos 2022, section
7.1), with S steps in each of T intervals.  ``dense`` is the time with T against that of the same
constraint without a structure.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import jax
import numpy as np

import invlift
from invlift.app.sampling import sample
from invlift.inverse.targets.lifted import lifted_posterior
from invlift.samplers.constrained.landing import onto_manifold
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels import ConstrainedHMC

EXAMPLE = Path(__file__).parents[2] / "examples" / "diffusions" / "fitzhugh_nagumo.py"


def problem_of(num_steps, num_readings):
    spec = importlib.util.spec_from_file_location("fitzhugh_nagumo", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.STEPS, example.NUM_READINGS = num_steps, num_readings
    return example.problem()


def time_of_step(num_steps, num_readings, is_dense=False, size=0.1, count=20):
    """Seconds, evaluations of the Jacobian for a step, and share of steps that failed."""
    problem = problem_of(num_steps, num_readings)
    target = lifted_posterior(problem)
    position = onto_manifold(target, np.asarray(target.rough_position(jax.random.key(1))))
    if is_dense:
        dense = invlift.inverse_problem(problem.model, problem.prior, None, problem.observed)
        target = lifted_posterior(dense)
    integrator = ConstrainedHMC().integrator

    @jax.jit
    def steps(position, key):
        point = target.point(position)
        state = build_state(point, sample_momentum(target, key, point))

        def move(state, _):
            state = constrained_step(integrator, target, state, size)
            return state, (state.num_failures, state.work[0])

        state, (failures, work) = jax.lax.scan(move, state, length=count)
        return state.position, failures[-1], work[-1] / count

    for seed in range(10):  # away from the start
        position, *_ = steps(position, jax.random.key(seed))
    times, works, failed = [], [], 0
    for seed in range(3):
        begin = time.perf_counter()
        position, failures, work = jax.block_until_ready(steps(position, jax.random.key(9 + seed)))
        times.append((time.perf_counter() - begin) / count)
        works.append(float(work))
        failed += int(failures)
    return np.median(times), np.mean(works), failed / (3 * count)


def report(name, numbers, cases):
    found = [time_of_step(*case) for case in cases]
    for number, (seconds, work, failed) in zip(numbers, found, strict=True):
        print(
            f"{name} {number}: {1e3 * seconds:.3g} ms a step, {work:.2f} Jacobians, "
            f"{failed:.0%} failed",
            flush=True,
        )
    slope = np.polyfit(np.log(numbers), np.log([each[0] for each in found]), 1)[0]
    print(f"exponent of the time in {name}: {slope:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["time", "step-size", "dense"])
    parser.add_argument("--iterations", type=int, default=150)
    parsed = parser.parse_args()
    invlift.enable_x64()
    if parsed.what == "time":
        sizes = [25, 50, 100, 200, 400]
        report("S (T = 25)", sizes, [(each, 25) for each in sizes])
        report("T (S = 10)", sizes, [(10, each) for each in sizes])
    elif parsed.what == "dense":
        sizes = [25, 50, 100]
        report("T (S = 10)", sizes, [(10, each) for each in sizes])
        report("T (S = 10), dense", sizes, [(10, each, True) for each in sizes])
    else:
        for num_steps in (25, 100, 400):
            for splitting in ("gaussian", "stormer-verlet"):
                kernel = ConstrainedHMC(splitting=splitting)
                options = {"warmup": parsed.iterations, "draws": 20, "seed": 1}
                run = sample(problem_of(num_steps, 25), kernel, chains=2, **options)
                sizes = ", ".join(f"{each.step_size:.2f}" for each in run.chains)
                print(f"S = {num_steps}, T = 25, {splitting}: step sizes {sizes}", flush=True)


if __name__ == "__main__":
    main()
