"""Exact conditioning of a generator against ABC in the space of its inputs, and time of a step.

    python tests/benchmarks/bench_generators.py abc [--radii R ...] [--methods NAME ...]
        [--budget SECONDS]
    python tests/benchmarks/bench_generators.py time

Run it pinned to one core.  ``abc`` is the stochastic Lotka-Volterra model of the example, 100
readings (Graham & Storkey 2017, section 7.1): the smallest bulk ESS over the four rates per second
of processor time for sampling, and the largest R-hat, of two chains.  The uniform kernel is a ball
of the radius; the normal one has the standard deviation radius / 10, at which the distance of 100
readings is about the radius.  All chains start from exact draws, which no ABC sampler would find
itself.  ``time`` is that of a step of constrained HMC on an element-wise generator with D readings,
with its structure and without.
"""

from __future__ import annotations

import argparse
import runpy
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import jax
import jax.numpy as jnp
import numpy as np

from invlift.inverse.jacobians import Diagonal
from invlift.inverse.noise.scales import known_scale
from invlift.inverse.targets.lifted import lifted_posterior
from invlift.samplers.constrained.landing import onto_manifold
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels import ConstrainedHMC

EXAMPLE = Path(__file__).parents[2] / "examples" / "generators" / "lotka_volterra.py"
METHODS = {
    "ball rwm": "rwm",
    "ball slice": "elliptical-slice",
    "normal rwm": "rwm",
    "normal slice": "elliptical-slice",
    "normal hmc": "hmc",
}
NUM_CHAINS, WARMUP, NUM_EXACT = 2, 300, 5000
#: An ABC chain ends by its budget.
MANY = 100_000


class Ball(invlift.Noise):
    """The uniform kernel of ABC: readings within a distance, the scale, of the simulator's."""

    def loglikelihood(self, predicted, zeta, observed):
        distance = jnp.linalg.norm(predicted - observed)
        return jnp.where(distance <= self.sigma(zeta), 0.0, -jnp.inf)


def sampled(problem, kernel, **options):
    """Run, and processor seconds of sampling."""
    began = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = invlift.sample(
            problem,
            kernel,
            chains=NUM_CHAINS,
            warmup=WARMUP,
            seed=1,
            executor=one_at_a_time,
            max_field_megabytes=1.0,
            **options,
        )
    processor, clock = time.process_time() - began[0], time.perf_counter() - began[1]
    # Chains measure by the clock: what share of it the processor had is that of the whole run.
    return run, sum(chain.sampling_seconds for chain in run.chains) * processor / clock


def report(name, problem, rates, run, seconds):
    table = invlift.build_posterior(problem, run).summary().loc[rates]
    ess = table["ess_bulk"].min()
    means = ", ".join(f"{value:.4g}" for value in table["mean"])
    print(
        f"{name:>24}: {ess / seconds:8.3g} ESS/s ({ess:.0f} of {run.chains[0].num_draws} draws a "
        f"chain in {seconds:.0f} s)  R-hat {table['r_hat'].max():.3f}  means {means}",
        flush=True,
    )


def against_abc(options):
    example = runpy.run_path(str(EXAMPLE))
    readings, rates = example["simulated"](), list(example["TRUTH"])
    problem = example["problem_of"](readings)
    run, seconds = sampled(problem, "chmc", draws=NUM_EXACT)
    report("exact", problem, rates, run, seconds)
    last = [[chain.draws[name][-1] for name in rates] for chain in run.chains]
    noise = [np.ravel(chain.draws["noise"][-1]) for chain in run.chains]
    starts = np.concatenate([np.log(last) + 2.0, noise], axis=1)
    for method in options.methods:
        for radius in options.radii:
            kernel = invlift.known_noise(radius / 10.0)
            if method.startswith("ball"):
                kernel = Ball(known_scale(radius))
            problem = example["near"](readings, kernel)
            run, seconds = sampled(
                problem, METHODS[method], draws=MANY, starts=starts, max_seconds=options.budget
            )
            report(f"{method} {radius:g}", problem, rates, run, seconds)


def time_of_step(size, structure, count=40):
    """Processor seconds of a step of length 0.5 with D readings; share that failed."""
    times = np.linspace(0.0, 2.0, size)

    def decay(rate, noise):
        return jnp.exp(0.2 * noise - (1.0 + 0.3 * rate) * times)

    inputs = np.random.default_rng(2).standard_normal(size + 1)
    unknowns = {"rate": invlift.normal(0.0, 1.0), "noise": invlift.normal(np.zeros(size), 1.0)}
    observed = np.asarray(decay(inputs[0], inputs[1:]))
    problem = invlift.inverse_problem(decay, unknowns, None, observed, structure=structure)
    target, integrator = lifted_posterior(problem), ConstrainedHMC().integrator

    @jax.jit
    def steps(target, position, key):
        point = target.point(position)
        state = build_state(point, sample_momentum(target, key, point))

        def move(state, _):
            return constrained_step(integrator, target, state, 0.5), None

        state, _ = jax.lax.scan(move, state, length=count)
        return state.position, state.num_failures

    position = onto_manifold(target, inputs)
    found, failed = [], 0
    for seed in range(6):
        began = time.process_time()
        position, failures = steps(target, position, jax.random.key(seed))
        failed += int(failures)
        found.append((time.process_time() - began) / count)
    return np.median(found[1:]), failed / (6 * count)


def times_of_steps():
    for name, structure, sizes in (
        ("structure", Diagonal(), [100, 1000, 10_000, 30_000, 100_000]),
        ("dense", None, [100, 200, 400]),
    ):
        found, failed = zip(*[time_of_step(size, structure) for size in sizes], strict=True)
        line = ", ".join(f"{s}: {1e3 * t:.3g} ms" for s, t in zip(sizes, found, strict=True))
        slope, last = (
            np.polyfit(np.log(sizes[begin:]), np.log(found[begin:]), 1)[0] for begin in (0, -3)
        )
        print(
            f"{name}, D = {line}; exponent {slope:.2f}, of the last three {last:.2f}; "
            f"{np.mean(failed):.1%} failed",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["abc", "time"])
    parser.add_argument("--radii", type=float, nargs="+", default=[100.0, 10.0, 1.0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--budget", type=float, default=60.0)
    options = parser.parse_args()
    against_abc(options) if options.what == "abc" else times_of_steps()


if __name__ == "__main__":
    main()
