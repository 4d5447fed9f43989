"""Exact conditioning of a generator against ABC in the space of its inputs, and time of a step.

    python tests/benchmarks/bench_generators.py abc [--radii R ...] [--methods NAME ...]
        [--budget SECONDS]
    python tests/benchmarks/bench_generators.py rejection
    python tests/benchmarks/bench_generators.py time

Run it pinned to one core.  ``abc`` is the stochastic Lotka-Volterra model of the example, 100
readings (Graham & Storkey 2017, section 7.1).  The uniform kernel is a ball of the radius; the
normal one has the standard deviation radius / 10, at which the distance of 100 readings is about
the radius.  All chains start from exact draws, which no ABC sampler would find itself.  Each method
goes on, in one compiled loop, until the largest R-hat over the four rates is below 1.05 and the
smallest bulk ESS above 400, or its time is over; the figure is that ESS per second of processor
time for sampling, of four chains one after the other.  A method that does not converge at a radius
is not tried at smaller ones.

- exact: ``chmc`` on the inputs that give the readings exactly;
- hmc: steps of a trajectory behind the name, with a normal kernel;
- rwm, slice: random walk and elliptical slice sampling of all inputs at once;
- turns: elliptical slice sampling of the inputs of the rates and of all others in turn (the
  paper's choice; Murray & Graham 2016), by ``Alternate``;
- fresh: ABC-MCMC as usual (Marjoram et al. 2003), a random walk in the rates and new noise.

``rejection`` draws from the prior and tells the smallest distance.  ``time`` is that of a step of
constrained HMC on generators with D readings, with their structure and without.
"""

from __future__ import annotations

import argparse
import runpy
import time
from functools import partial
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.jacobians import Diagonal, Triangular
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.noise.scales import known_scale
from invlift.problems.starts.landing import onto_manifold
from invlift.programs.pytrees import static
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels import (
    HMC,
    ConstrainedHMC,
    EllipticalSlice,
    PreconditionedCrankNicolson,
    RandomWalk,
)
from invlift.samplers.kernels.alternate import Alternate

EXAMPLE = Path(__file__).parents[2] / "examples" / "generators" / "lotka_volterra.py"
NUM_RATES = 4
NUM_CHAINS, STORED, MOST_STORED, WARMUP = 4, 1000, 16_000, 3000
MAX_R_HAT, MIN_ESS, MIN_SECONDS = 1.05, 400.0, 2.0


#: Steps that are timed, sizes, and arrays of D numbers that a step has in use: 256 bytes for each.
NUM_STEPS, SIZES, SWEPT = 40, [100, 300, 1000, 3000, 10_000, 30_000, 100_000], 32


class Ball(invlift.Noise):
    """The uniform kernel of ABC: readings within a distance, the scale, of the simulator's."""

    def loglikelihood(self, predicted, zeta, observed):
        distance = jnp.linalg.norm(predicted - observed)
        return jnp.where(distance <= self.sigma(zeta), 0.0, -jnp.inf)


def uniform(radius):
    return Ball(known_scale(radius))


def normal(radius):
    return invlift.known_noise(radius / 10.0)


class Half(OrdinaryPosterior):
    """The rates given the other inputs, or these given the rates: the position has the rest."""

    given: jax.Array
    moves_rates: bool = static()

    def merged(self, theta):
        is_rate = jnp.arange(theta.size) < NUM_RATES
        return jnp.where(is_rate == self.moves_rates, theta, self.given)

    def loglikelihood(self, theta):
        return super().loglikelihood(self.merged(theta))


class InTurn(OrdinaryPosterior):
    """For :class:`Alternate`."""

    def parts(self, position):
        return tuple(Half(self.problem, position, which) for which in (True, False))


class SliceOfHalf(EllipticalSlice, settings=True):
    def step(self, target, rng_key, state, tuning):
        state, found = super().step(target, rng_key, state, tuning)
        return state._replace(position=target.merged(state.position)), found


class Fresh(PreconditionedCrankNicolson, settings=True):
    """All inputs but those of the rates are drawn anew."""

    def propose(self, rng_key, position, step_size):
        near = super().propose(rng_key, position, step_size)
        new = jax.random.normal(rng_key, position.shape)
        return jnp.where(jnp.arange(position.size) < NUM_RATES, near, new)


#: Name to kernel of ABC, target and sampler.
METHODS = {
    "normal hmc 10": (normal, OrdinaryPosterior, HMC(num_steps=10)),
    "normal hmc 50": (normal, OrdinaryPosterior, HMC(num_steps=50)),
    "normal hmc 250": (normal, OrdinaryPosterior, HMC(num_steps=250)),
    "normal slice": (normal, OrdinaryPosterior, EllipticalSlice()),
    "normal turns": (normal, InTurn, Alternate(SliceOfHalf())),
    "normal rwm": (normal, OrdinaryPosterior, RandomWalk()),
    "uniform slice": (uniform, OrdinaryPosterior, EllipticalSlice()),
    "uniform turns": (uniform, InTurn, Alternate(SliceOfHalf())),
    "uniform rwm": (uniform, OrdinaryPosterior, RandomWalk()),
    "uniform fresh": (uniform, OrdinaryPosterior, Fresh()),
}


@partial(jax.jit, static_argnums=0)
def warmed_up(kernel, target, position, key, schedule):
    """Last state of a warm-up and its tuning."""
    adaptation = kernel.adaptation

    def step(carry, each):
        state, adapted = carry
        key, stage = each
        tuning = adaptation.tuning(adapted, True)
        state, found = kernel.step(target, key, state, tuning)
        return (state, adaptation.update(adapted, stage, kernel.position(state), found)), None

    carry = kernel.init(target, position), adaptation.init(position.size)
    carry = jax.tree.map(lambda leaf: jnp.asarray(leaf), carry)
    keys = jax.random.split(key, len(schedule))
    (state, adapted), _ = jax.lax.scan(step, carry, (keys, schedule))
    return state, adaptation.tuning(adapted, False)


@partial(jax.jit, static_argnums=0)
def further(kernel, target, state, tuning, key, thinning):
    """State after STORED times ``thinning`` iterations, and the rates' inputs in between."""

    def move(state, key):
        def step(number, state):
            return kernel.step(target, jax.random.fold_in(key, number), state, tuning)[0]

        state = jax.lax.fori_loop(0, thinning, step, state)
        return state, kernel.position(state)[:NUM_RATES]

    return jax.lax.scan(move, state, jax.random.split(key, STORED))


def sampled(kernel, target, starts, budget):
    """Draws (chains, n, rates), their number with those left out, and processor seconds."""
    schedule = jnp.asarray(kernel.adaptation.schedule(WARMUP))
    keys = jax.random.split(jax.random.key(1), NUM_CHAINS)
    chains = [
        warmed_up(kernel, target, jnp.asarray(start), key, schedule)
        for start, key in zip(starts, keys, strict=True)
    ]
    further(kernel, target, *chains[0], keys[0], 1)[1].block_until_ready()  # compiles
    draws, thinning, length, seconds, number = None, 1, 0, 0.0, 0
    while True:
        began = time.process_time()
        new = []
        for chain, (state, tuning) in enumerate(chains):
            key = jax.random.fold_in(keys[chain], number)
            state, found = further(kernel, target, state, tuning, key, thinning)
            chains[chain] = state, tuning
            new.append(np.asarray(found))
        seconds += time.process_time() - began
        number, length = number + 1, length + STORED * thinning
        draws = np.stack(new) if draws is None else np.concatenate([draws, np.stack(new)], axis=1)
        r_hat, ess = summary(draws)
        is_enough = r_hat < MAX_R_HAT and ess > MIN_ESS and seconds > MIN_SECONDS
        if is_enough or seconds > budget:
            return draws, r_hat, ess, length, seconds
        if draws.shape[1] >= MOST_STORED:  # every other one, and as many more as there are
            draws, thinning = draws[:, 1::2], 2 * thinning


def summary(draws):
    """Largest R-hat and smallest bulk ESS."""
    rates = [draws[..., k] for k in range(NUM_RATES)]
    return max(az.rhat(each) for each in rates), min(az.ess(each, method="bulk") for each in rates)


def report(name, found):
    draws, r_hat, ess, length, seconds = found
    means = ", ".join(f"{value:.4g}" for value in np.exp(draws - 2.0).mean(axis=(0, 1)))
    print(
        f"{name:>22}: {ess / seconds:9.3g} ESS/s (ESS {ess:.0f} of {NUM_CHAINS} x {length} in "
        f"{seconds:.1f} s)  R-hat {r_hat:.3f}  means {means}",
        flush=True,
    )
    return r_hat < MAX_R_HAT


def against_abc(options):
    example = runpy.run_path(str(EXAMPLE))
    readings = example["simulated"]()
    target = example["problem_of"](readings).lifted()
    kernel = ConstrainedHMC()
    run = invlift.sample(target.problem, chains=NUM_CHAINS, warmup=300, draws=100, seed=2)
    ends = [chain.draws for chain in run.chains]
    starts = np.stack([
        np.concatenate([[np.log(each[name][-1]) + 2.0 for name in example["TRUTH"]],
                        np.ravel(each["noise"][-1])])
        for each in ends
    ])  # fmt: skip
    if "exact" in options.methods:
        report("exact", sampled(kernel, target, starts, options.budget))
    for method in options.methods:
        if method == "exact":
            continue
        make, target_class, kernel = METHODS[method]
        for radius in options.radii:
            noise = make(radius)
            target = target_class(example["near"](readings, noise))
            if not report(f"{method}, {radius:g}", sampled(kernel, target, starts, options.budget)):
                break


def rejection(options):
    """Smallest distance of draws from the prior."""
    example = runpy.run_path(str(EXAMPLE))
    readings = example["simulated"]()
    problem = example["near"](readings, invlift.known_noise(1.0))

    @jax.jit
    def distances(key):
        inputs = jax.random.normal(key, (10_000, problem.num_unknowns))
        return jnp.linalg.norm(jax.vmap(problem.predict)(inputs) - problem.observed, axis=1)

    began = time.process_time()
    found = np.concatenate([distances(jax.random.key(k)) for k in range(options.draws // 10_000)])
    found = np.where(np.isfinite(found), found, np.inf)
    seconds = time.process_time() - began
    print(f"{found.size} draws in {seconds:.0f} s: the smallest distance is {found.min():.4g}")


def elementwise(rate, noise):
    """Decay at D times, each reading with noise of its own."""
    return jnp.exp(0.2 * noise - (1.0 + 0.3 * rate) * jnp.linspace(0.0, 2.0, noise.size))


def autoregressive(rate, noise):
    """A level that is pulled back, each reading made of the one before."""

    def follow(level, each):
        level = level * jnp.exp(-0.1 - 0.03 * rate) + 0.2 * each * jnp.sqrt(1.0 + level**2)
        return level, level

    return jax.lax.scan(follow, 1.0, noise)[1]


def steps_of(generator, size, structure):
    """What takes steps of length 0.5 on a generator with D readings, and where it begins."""
    inputs = np.random.default_rng(2).standard_normal(size + 1)
    unknowns = {"rate": invlift.normal(0.0, 1.0), "noise": invlift.normal(np.zeros(size), 1.0)}
    observed = np.asarray(generator(inputs[0], jnp.asarray(inputs[1:])))
    problem = invlift.inverse_problem(generator, unknowns, None, observed, structure=structure)
    target, integrator = problem.lifted(), ConstrainedHMC().integrator

    @jax.jit
    def steps(target, position, key):
        point = target.point(position)
        state = build_state(point, sample_momentum(target, key, point))

        def move(state, _):
            return constrained_step(integrator, target, state, 0.5), None

        state, _ = jax.lax.scan(move, state, length=NUM_STEPS)
        return state.num_failures, state.work[0]

    position = onto_manifold(target, inputs)
    steps = steps.lower(target, position, jax.random.key(0)).compile()
    return partial(steps, target, position), steps


def timed(call, repeats):
    """Processor seconds, the least of some, and what was returned."""
    found = []
    for seed in range(repeats):
        began = time.process_time()
        result = jax.block_until_ready(call(jax.random.key(seed)))
        found.append(time.process_time() - began)
    return min(found), result


@jax.jit
def sweeps(numbers):
    """Reads and writes them a hundred times."""
    return jax.lax.fori_loop(0, 100, lambda _, numbers: 0.999 * numbers + 1e-3, numbers)


def exponent(sizes, values):
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


def times_of_steps(options):
    for name, generator, structure, sizes in (
        ("element-wise, Diagonal()", elementwise, Diagonal(), SIZES),
        ("autoregressive, Triangular()", autoregressive, Triangular(), [100, 200, 400, 800]),
        ("element-wise, dense", elementwise, None, [100, 200, 400]),
        ("autoregressive, dense", autoregressive, None, [100, 200, 400]),
    ):
        print(name)
        found, counts, swept = [], [], []
        for size in sizes:
            call, compiled = steps_of(generator, size, structure)
            seconds, (failures, work) = timed(call, 9)
            memory = compiled.memory_analysis().temp_size_in_bytes / size
            counts.append(compiled.cost_analysis()["flops"])
            found.append(seconds / NUM_STEPS)
            line = f"  D = {size:6}: {1e6 * found[-1]:9.1f} us a step, {int(work) / NUM_STEPS:.1f} "
            line += f"Jacobians, {int(failures)} of {NUM_STEPS} failed; {counts[-1] / size:.0f} "
            line += f"operations and {memory:.0f} bytes for each reading"
            if structure == Diagonal():
                numbers = jnp.ones(SWEPT * size)
                timed(lambda _, numbers=numbers: sweeps(numbers), 2)
                least = min(timed(lambda _, numbers=numbers: sweeps(numbers), 9)[0] for _ in "ab")
                swept.append(least / 100 / numbers.size)
                line += f"; {1e9 * swept[-1]:.3f} ns for each number of a sweep over {SWEPT} arrays"
            print(line, flush=True)
        sizes, found = np.array(sizes), np.array(found)
        print(f"  exponent {exponent(sizes, found):.2f}, of operations "
              f"{exponent(sizes, counts):.2f}")  # fmt: skip
        if structure == Diagonal():
            few, many = sizes <= 10_000, sizes >= 10_000
            weights = 1.0 / found[few]  # relative errors
            slope, constant = np.polyfit(sizes[few], found[few], 1, w=weights)
            error = np.abs(constant + slope * sizes[few] - found[few]) / found[few]
            print(f"  up to 10,000: {1e6 * constant:.0f} us + {1e9 * slope:.0f} ns D, to "
                  f"{error.max():.0%}; exponent there {exponent(sizes[few], found[few]):.2f}, from "
                  f"10,000 on {exponent(sizes[many], found[many]):.2f}, of a sweep "
                  f"{1.0 + exponent(sizes[many], np.array(swept)[many]):.2f}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["abc", "rejection", "time"])
    parser.add_argument("--radii", type=float, nargs="+", default=[100.0, 30.0, 10.0, 3.0, 1.0])
    names = ["exact", *METHODS]
    parser.add_argument("--methods", nargs="+", default=names, choices=names)
    parser.add_argument("--budget", type=float, default=300.0)
    parser.add_argument("--draws", type=int, default=1_000_000)
    options = parser.parse_args()
    {"abc": against_abc, "rejection": rejection, "time": times_of_steps}[options.what](options)


if __name__ == "__main__":
    main()
