"""Constrained HMC on a diffusion: cost of a step, its size, effective draws, and calibration.

    python tests/benchmarks/bench_diffusions.py
        [time | dense | step-size | noise | effective | blocks | chaos | peer | calibration]
        [--iterations 150] [--seed 1]

Run it pinned to one core.  The FitzHugh-Nagumo diffusion of the example (Graham, Thiery & Beskos
2022, section 7), with S steps in each of T intervals, read exactly except for ``noise``:

- ``time``: of a step, with S and with T; ``dense``: with T, against that of the same constraint
  without a structure.
- ``step-size``: of two splittings, with S.  ``noise``: the same, and of HMC, with the standard
  deviation of the noise.
- ``effective``: time for each effective draw, with S.  ``peer``: the same of Mici's constrained HMC
  with the same compiled functions.
- ``blocks``: the same given states at the ends of blocks of R readings, in two ways in turn, beside
  the whole path with momenta that are not kept, as blocks have them.  ``chaos``: how many steps of
  both fail on a stochastic Lorenz equation, from a path led through its readings.
- ``calibration``: ranks of 200 simulations of a small diffusion, and of the density without the
  Gram term.
"""

import argparse
import importlib.util
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift
from invlift.app.runs.sampling import sample
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.posterior.statistics.diagnostics import diagnose
from invlift.problems.starts.landing import onto_manifold
from invlift.problems.starts.search import find_start
from invlift.problems.time.diffusion_blocks import DiffusionInBlocks, blocks_of
from invlift.problems.time.diffusion_problem import DiffusionProblem
from invlift.programs.compilation import Program
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels import HMC, ConstrainedHMC
from invlift.samplers.kernels.alternate import Alternate

EXAMPLE = Path(__file__).parents[2] / "examples" / "diffusions" / "fitzhugh_nagumo.py"


#: What effective draws are counted of, and after how many iterations of warm-up in how many chains.
NAMES = "sigma_w", "epsilon", "gamma", "beta", "voltage_0", "recovery_0"
WARMUP, NUM_CHAINS = 100, 2
#: Standard deviations of the noise, of which the last is a third of that of the voltage.
NOISES = 10.0 ** np.array([-2.0, -1.5, -1.0, -0.5])
#: Mean acceptance rate that a step size is found for, factor between the sizes that are tried, and
#: where the search begins.
GOAL, RATIO = 0.8, 1.25
GUESSES = {"gaussian": 0.6, "stormer-verlet": 0.2}


def problem_of(num_steps, num_readings, sigma=None):
    """Of exact readings, or of some with noise: the same normal variables with any sigma."""
    spec = importlib.util.spec_from_file_location("fitzhugh_nagumo", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.STEPS, example.NUM_READINGS = num_steps, num_readings
    return example.problem_of(*example.simulated(sigma or 0.0), sigma)


class KeepsPositions(DiffusionPosterior):
    """Draws are positions, beside the numbers."""

    def describe(self, point):
        draws, moments = super().describe(point)
        return {name: draws[name] for name in NAMES} | {"position": point.position}, moments


class ProblemOfPositions(DiffusionProblem):
    """Of that target."""

    def lifted(self):
        return KeepsPositions(self)


def of_class(kind, problem):
    """The same problem as one of another class."""
    return kind(*(getattr(problem, field.name) for field in fields(problem)))


def posterior_draws(problem, chains, draws, warmup=WARMUP):
    """Target, and positions drawn from the posterior, (chains, draws, Q); they are told of."""
    problem = of_class(ProblemOfPositions, problem)
    options = {"chains": chains, "warmup": warmup, "draws": draws, "seed": 1}
    with ThreadPoolExecutor(1) as one_at_a_time:
        found = sample(problem, executor=one_at_a_time, **options).chains
    sizes = ", ".join(f"{each.step_size:.3g}" for each in found)
    means = ", ".join(f"{each.draws['gamma'].mean():.3g}" for each in found)
    print(f"  chains with steps of {sizes}; means of gamma {means}", flush=True)
    return problem.lifted(), np.stack([each.draws["position"] for each in found])


@jax.jit
def transitions(kernel, target, positions, size):
    """Acceptance rates, and whether a step failed, (num,) each, of transitions from positions."""

    def one(each):
        number, position = each
        start = kernel.init(target, position)
        _, found = kernel.step(target, jax.random.key(number), start, size)
        return found["acceptance_rate"], found["num_projection_failures"] > 0

    return jax.lax.map(one, (jnp.arange(len(positions)), positions))


def report_step_size(title, kernel, target, positions, guess):
    """The step size that the warm-up looks for, with its standard error; returned as well.

    It is where the mean acceptance rate of transitions from posterior draws is GOAL, between two
    sizes a factor RATIO apart by interpolation; its standard error is that of the jackknife over
    chains.  What a warm-up ends with scatters around it.
    """
    chains, draws, _ = positions.shape
    rates, failed = {}, {}

    def rate(power):
        if power not in rates:
            size = guess * RATIO**power
            found, has_failed = transitions(kernel, target, np.concatenate(positions), size)
            rates[power] = np.asarray(found).reshape(chains, draws).mean(axis=1)
            failed[power] = np.mean(has_failed)
        return rates[power]

    low = 0
    while rate(low).mean() < GOAL:
        low -= 1
    while rate(low + 1).mean() > GOAL:
        low += 1

    def size_by(kept):
        above, below = rate(low)[kept].mean(), rate(low + 1)[kept].mean()
        return guess * RATIO ** (low + (above - GOAL) / (above - below))

    size = size_by(slice(None))
    others = [size_by(np.arange(chains) != chain) for chain in range(chains)]
    error = np.sqrt((chains - 1) / chains * np.sum((others - np.mean(others)) ** 2))
    print(
        f"{title}: step size {size:.3f}, standard error {error:.3f}; in {failed[low]:.1%} and "
        f"{failed[low + 1]:.1%} of the transitions with {guess * RATIO**low:.2f} and "
        f"{guess * RATIO ** (low + 1):.2f} a step failed",
        flush=True,
    )
    return size


def report_spread(title, sizes):
    low, high, mean = min(sizes), max(sizes), np.mean(sizes)
    print(f"{title}: {low:.3f} to {high:.3f}, {1 - low / mean:.0%} below and "
          f"{high / mean - 1:.0%} above their mean", flush=True)  # fmt: skip


def step_sizes(cases, chains, draws, warmup=WARMUP):
    """Of both splittings, for problems by title."""
    found = {splitting: [] for splitting in GUESSES}
    for title, problem in cases.items():
        target, positions = posterior_draws(problem, chains, draws, warmup)
        for splitting, guess in GUESSES.items():
            kernel = ConstrainedHMC(splitting=splitting)
            full = f"{title}, {splitting}"
            found[splitting].append(report_step_size(full, kernel, target, positions, guess))
    for splitting, sizes in found.items():
        report_spread(splitting, sizes)


def step_sizes_by_steps(iterations):
    cases = {f"S = {each}, T = 25": problem_of(each, 25) for each in (25, 50, 100, 200, 400)}
    step_sizes(cases, 8, iterations)


def step_sizes_by_noise(iterations):
    # One problem, of which noise and readings are exchanged, so that all share programs.
    each = {sigma: problem_of(20, 25, float(sigma)) for sigma in NOISES}
    first = each[NOISES[0]]
    cases = {
        f"S = 20, T = 25, sigma_y = {sigma:.3g}": replace(
            first, noise=other.noise, observed=other.observed
        )
        for sigma, other in each.items()
    }
    step_sizes(cases, 16, iterations, warmup=200)
    for title, problem in cases.items():
        found = sample(problem, HMC(), chains=8, warmup=400, draws=20, seed=1).chains
        sizes = np.array([each.step_size for each in found])
        scatter = ", ".join(f"{size:.3g}" for size in sizes)
        print(f"{title}, HMC, diagonal metric: median {np.median(sizes):.3g} ({scatter})")


def time_of_step(num_steps, num_readings, is_dense=False, size=0.1, count=20):
    """Processor seconds and evaluations of the Jacobian for a step, share of steps that failed.

    From posterior draws: where most starts are, which are about as far from them as draws of the
    prior, steps of this size fail.
    """
    problem = problem_of(num_steps, num_readings)
    target, positions = posterior_draws(problem, 1, 40, warmup=150)
    if is_dense:
        dense = invlift.inverse_problem(problem.model, problem.prior, None, problem.observed)
        target = dense.lifted()
    integrator = ConstrainedHMC().integrator

    @jax.jit
    def steps(position, key):
        point = target.point(position)
        state = build_state(point, sample_momentum(target, key, point))

        def move(state, _):
            state = constrained_step(integrator, target, state, size)
            return state, None

        state, _ = jax.lax.scan(move, state, length=count)
        return state.num_failures, state.work[0]

    times, works, failed = [], [], []
    for number, position in enumerate(positions[0, ::10]):
        key = jax.random.key(number)
        jax.block_until_ready(steps(position, key))
        begin = time.process_time()
        failures, work = jax.block_until_ready(steps(position, key))
        times.append((time.process_time() - begin) / count)
        works.append(float(work) / count)
        failed.append(int(failures) / count)
    return np.median(times), np.mean(works), np.mean(failed)


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


def effective(title, draws, seconds):
    """Seconds for an effective draw of each of the numbers."""
    found = diagnose(list(draws))
    least = int(np.argmin(found.ess_bulk))
    ess = found.ess_bulk[least]
    print(
        f"{title}: {1e3 * seconds / ess:.3g} ms for an effective draw of {NAMES[least]} "
        f"({ess:.0f} in {seconds:.1f} s), R-hat {found.r_hat.max():.3f}",
        flush=True,
    )
    return seconds / found.ess_bulk


def own_draws(problem, iterations, chains=NUM_CHAINS, kernel="chmc"):
    """Draws, (chains, draws, 6), and seconds of processor time that they took after warm-up."""
    last, seconds = time.process_time(), 0.0

    def count(progress):
        nonlocal last, seconds
        now = time.process_time()
        seconds += 0.0 if progress.is_warmup else now - last
        last = now

    options = {"chains": chains, "warmup": WARMUP, "draws": iterations, "seed": 1}
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = sample(problem, kernel, executor=one_at_a_time, on_progress=count, **options)
    steps = np.mean([each.stats["num_steps"] for each in run.chains])
    sizes = ", ".join(f"{each.step_size:.3g}" for each in run.chains)
    number = steps * chains * iterations
    print(f"  {1e3 * seconds / number:.3g} ms a step, of {sizes}; {steps:.1f} in a transition")
    draws = [np.stack([each.draws[name] for name in NAMES], axis=1) for each in run.chains]
    return np.array(draws), seconds


def mici_draws(problem, iterations):
    """The same of Mici: Newton's projection, trajectories that end where they turn back."""
    import mici
    from mici_system import system_of

    target = problem.lifted()
    system = system_of(target)
    sampler = mici.samplers.DynamicMultinomialHMC(
        system, mici.integrators.ConstrainedLeapfrogIntegrator(system), np.random.default_rng(1)
    )
    starts = [
        find_start(ConstrainedHMC(), target, 1, i, evaluate_state).position
        for i in range(NUM_CHAINS)
    ]
    # As in the paper's appendix N: else first rejections lead to very short steps.
    adapter = mici.adapters.DualAveragingStepSizeAdapter(0.8, log_step_size_reg_coefficient=0.1)
    options = {"display_progress": False}
    warm = sampler.sample_chains(WARMUP, 1, starts, adapters=[adapter], **options)
    began = time.process_time()
    traces = sampler.sample_chains(0, iterations, warm.final_states, **options).traces["pos"]
    seconds = time.process_time() - began

    @jax.jit
    def unknowns(position):
        white = problem.split(position[: problem.num_unknowns])[1]
        named = problem.model.describe(problem.prior.transform(white))
        return jnp.stack([named[name] for name in NAMES])

    return np.array([jax.lax.map(unknowns, jnp.asarray(trace)) for trace in traces]), seconds


def effective_by_steps(iterations):
    sizes = [25, 50, 100, 200]
    found = [
        effective(f"S = {each}, T = 25", *own_draws(problem_of(each, 25), iterations, chains=4))
        for each in sizes
    ]
    slopes = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    of_each = ", ".join(f"{name} {slope:.2f}" for name, slope in zip(NAMES, slopes, strict=True))
    print(f"exponents of the time for an effective draw in S: {of_each}", flush=True)


def blocks_beside_whole(iterations):
    whole = problem_of(25, 100)

    def in_blocks(size):
        class InBlocks(DiffusionProblem):
            def lifted(self):
                ways = (blocks_of(self, first, size) for first in (size, size // 2))
                return DiffusionInBlocks(self, ways=tuple(ways))

        return of_class(InBlocks, whole)

    title = "S = 25, T = 100"
    alone = ConstrainedHMC(persistence=0.0)
    effective(f"{title}, whole", *own_draws(whole, iterations))
    effective(f"{title}, whole, fresh momenta", *own_draws(whole, iterations, kernel=alone))
    for size in (2, 5, 10):
        parted = in_blocks(size)
        effective(f"{title}, R = {size}", *own_draws(parted, iterations, kernel=Alternate()))


def lorenz(num_readings, spacing=0.2, fine=200):
    """Lorenz's equations (1963) driven at random, with noisy readings of the first part."""

    def drift(t, state, strength, rho):
        x, y, z = state["x"], state["y"], state["z"]
        return {"x": 10.0 * (y - x), "y": x * (rho - z) - y, "z": x * y - 8.0 / 3.0 * z}

    start = {"x": -5.0, "y": -6.0, "z": 22.0}
    rng, step = np.random.default_rng(1), spacing / fine
    state, readings = dict(start), []
    for _ in range(num_readings):
        for _ in range(fine):
            slope, push = drift(0.0, state, 1.0, 28.0), np.sqrt(step) * rng.standard_normal(3)
            moves = zip(state, slope.values(), push, strict=True)
            state = {name: state[name] + step * by + own for name, by, own in moves}
        readings.append(state["x"] + 0.5 * rng.standard_normal())
    return invlift.diffusion_problem(
        drift,
        lambda t, state, strength, rho: dict.fromkeys(state, strength),
        unknowns={
            "strength": invlift.lognormal(median=1.0, factor=2.0),
            "rho": invlift.normal(28.0, 2.0),
        },
        initial=lambda strength, rho: start,
        times=spacing * np.arange(1, num_readings + 1),
        readings={"x": np.array(readings)},
        noise=0.5,
        steps_per_interval=10,
        start=0.0,
    )


@partial(Program, effort="none")
def is_step_failed(target, position, number, size):
    point = target.point(position)
    start = build_state(point, sample_momentum(target, jax.random.key(number), point))
    return constrained_step(ConstrainedHMC().integrator, target, start, size).num_failures > 0


def steps_of_chaos(iterations):
    problem = lorenz(60)
    parted, whole = problem.lifted(), DiffusionPosterior(problem)
    drawn = 0.3 * jax.random.normal(jax.random.key(0), (whole.dimension,))
    position = onto_manifold(whole, np.asarray(whole.rough_position(drawn)))
    for title, target in (("R = 5", parted.parts(position)[0]), ("whole", whole)):
        for size in (0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 0.001):
            failed = sum(bool(is_step_failed(target, position, each, size)) for each in range(8))
            print(f"{title}, step of {size}: {failed} of 8 fail", flush=True)


def beside_mici(iterations):
    problem, size = problem_of(25, 25), "S = 25, T = 25"
    own = effective(f"invlift, {size}", *own_draws(problem, iterations)).max()
    other = effective(f"Mici, {size}", *mici_draws(problem, iterations)).max()
    print(f"effective draws in the same time: {other / own:.1f} times as many", flush=True)


class WithoutGramTerm(DiffusionPosterior):
    """Negative control: as if the manifold were flat."""

    def logdensity(self, position, gram):
        return jnp.zeros(())


class WrongProblem(DiffusionProblem):
    """Of that density."""

    def lifted(self):
        return WithoutGramTerm(self)


def calibrations(seed):
    """Ranks of a level that is pulled back to zero by noise that grows with it."""
    problem = invlift.diffusion_problem(
        lambda t, state, rate, strength: {"level": -rate * state["level"]},
        lambda t, state, rate, strength: {"level": strength * jnp.sqrt(1.0 + state["level"] ** 2)},
        unknowns={
            "rate": invlift.lognormal(median=1.0, factor=1.8),
            "strength": invlift.lognormal(median=0.5, factor=1.8),
        },
        initial=lambda **unknowns: {"level": 1.0},
        times=0.5 * np.arange(1, 13),
        readings={"level": np.zeros(12)},
        noise=invlift.lognormal(median=0.1, factor=2.0),
        start=0.0,
        steps_per_interval=5,
        scheme="milstein",
    )
    wrong = of_class(WrongProblem, problem)
    for title, each in (("its posterior", problem), ("without the Gram term", wrong)):
        found = invlift.calibrate(each, simulations=200, draws=15, warmup=100, seed=seed)
        values = ", ".join(f"{name} {value:.2g}" for name, value in found.p_values().items())
        is_good = found.verdict().is_calibrated
        print(f"{title}: calibrated: {is_good}; p-values: {values}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    others = {
        "step-size": step_sizes_by_steps,
        "noise": step_sizes_by_noise,
        "effective": effective_by_steps,
        "blocks": blocks_beside_whole,
        "chaos": steps_of_chaos,
        "peer": beside_mici,
    }
    parser.add_argument("what", choices=["time", "dense", *others, "calibration"])
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1, help="of the calibration")
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
    elif parsed.what == "calibration":
        calibrations(parsed.seed)
    else:
        others[parsed.what](parsed.iterations)


if __name__ == "__main__":
    main()
