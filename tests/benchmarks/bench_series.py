"""Posteriors of models in time with real data (Au, Graham & Thiery 2023, Table 1), by samplers.

    python tests/benchmarks/bench_series.py [PROBLEM ...] [--samplers NAME ...] [--warmup N]
        [--draws N] [--mici-draws N] [--seeds N]

Run it pinned to one core.  Prints for each sampler the smallest bulk ESS over the parameters per
second of processor time for sampling, the largest R-hat and what failed (divergences, or
projections onto the manifold), beside the paper's figures; then mean and standard deviation of each
parameter by three samplers, with their Monte Carlo standard errors.  With ``--seeds N`` how many of
N runs of the default settings have all R-hat below 1.01.

Peers: Mici's constrained HMC on the same lifted posterior, with dynamic trajectories and
derivatives by this package's compiled functions; NumPyro's NUTS on the same log density.  All start
from where this package's chains start.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import invlift

invlift.enable_x64()  # before anything starts JAX

import jax
import jax.numpy as jnp
import numpy as np
from one_core import sampled

from invlift.app.problems import load, read_python_problem
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.posterior.statistics.diagnostics import diagnose_field
from invlift.problems.starts.search import find_start
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels import KERNELS

EXAMPLES = Path(__file__).parents[2] / "examples"
#: File and name of each problem, and the paper's ESS/s by C-HMC and HMC, diagonal and dense.
PROBLEMS = {
    "hare_lynx": ("hare_lynx/hare_lynx.py:problem", (35, 15, 300)),
    "soil_hn": ("soil_carbon/soil_carbon.py:hn", (6.6, 2.1, 3.4)),
    "soil_ak": ("soil_carbon/soil_carbon.py:ak", (17, 4.4, 2.8)),
    "potassium": ("voltage_clamp/voltage_clamp.py:potassium", (52, 23, 29)),
    "sodium": ("voltage_clamp/voltage_clamp.py:sodium", (3.9, 1.6, 3.0)),
}
NUM_CHAINS = 4


class Result(NamedTuple):
    """Draws of parameters, (chains, draws, P), seconds that they took, and what failed."""

    names: list[str]
    draws: np.ndarray
    seconds: float
    failures: str


def parameters(problem, theta) -> dict[str, jax.Array]:
    """The paper's parameters at theta, (h + m,): scalars and noise scales, without our shares."""
    zeta, white = problem.split(theta)
    found = problem.model.describe(problem.prior.transform(white))
    scalars = {
        name: value
        for name, value in found.items()
        if jnp.ndim(value) == 0 and not name.endswith("_share")
    }
    return scalars | {
        f"{name}[{index}]": value
        for name, values in problem.noise.parameters(zeta).items()
        for index, value in enumerate(jnp.ravel(values))
    }


def result(problem, thetas, seconds: float, failures: str) -> Result:
    """From draws of theta, (chains, draws, h + m)."""
    shown = jax.jit(lambda all: jax.lax.map(lambda theta: parameters(problem, theta), all))
    chains = [shown(jnp.asarray(theta)) for theta in thetas]
    names = list(chains[0])
    return Result(
        names,
        np.stack([np.stack([chain[name] for name in names], axis=1) for chain in chains]),
        seconds,
        failures,
    )


def own(name: str, **options) -> Callable[..., Result]:
    """A sampler of this package."""

    def run(problem, settings) -> Result:
        made, seconds = sampled(
            problem, KERNELS[name](**options), chains=NUM_CHAINS, warmup=settings.warmup,
            draws=settings.draws, seed=settings.seed,
        )  # fmt: skip
        chains = [chain.draws for chain in made.chains]
        names = jax.eval_shape(lambda: parameters(problem, jnp.zeros(problem.num_unknowns)))
        columns = [np.stack([column(draws, each) for each in names], axis=1) for draws in chains]
        stats = [chain.stats for chain in made.chains]
        key = made.standards.failures
        failed = sum(int(np.count_nonzero(each[key])) for each in stats)
        return Result(
            list(names),
            np.stack(columns),
            seconds,
            f"{failed} of {NUM_CHAINS * settings.draws} {made.standards.failures_in_brief}",
        )

    return run


def column(draws, name: str) -> np.ndarray:
    """Draws of a scalar, (draws,), by its name: ``k1``, or ``sigma[0]``."""
    if name in draws:
        return draws[name]
    vector, _, index = name.rstrip("]").partition("[")
    return np.asarray(draws[vector]).reshape(len(draws[vector]), -1)[:, int(index)]


def mici(problem, settings) -> Result:
    """Mici's constrained HMC with Newton's projection and multinomial dynamic trajectories."""
    import mici
    from mici_system import system_of

    lifted = LiftedPosterior(problem)
    # Log density of what is not standard normal, as truncated priors.
    system = system_of(lifted, lambda lifted, q: lifted.problem.log_reference(*lifted.split(q)))
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system)
    sampler = mici.samplers.DynamicMultinomialHMC(
        system, integrator, np.random.default_rng(settings.seed)
    )
    starts = [
        find_start(KERNELS["chmc"](), lifted, settings.seed, i, evaluate_state)[0]
        for i in range(NUM_CHAINS)
    ]
    adapter = mici.adapters.DualAveragingStepSizeAdapter(0.8)
    options = {"display_progress": False, "adapters": [adapter]}
    warm = sampler.sample_chains(settings.mici_draws, 1, starts, **options)
    began = time.process_time()
    _, traces, stats = sampler.sample_chains(
        0, settings.mici_draws, warm.final_states, display_progress=False
    )
    seconds = time.process_time() - began
    failed = sum(
        int(np.sum(each)) for key, of in stats.items() if "diverging" in key or "error" in key
        for each in of
    )  # fmt: skip
    thetas = [trace[:, : problem.num_unknowns] for trace in traces["pos"]]
    return result(problem, thetas, seconds, f"{failed} failures")


def numpyro_nuts(is_dense: bool) -> Callable[..., Result]:
    """NumPyro's NUTS; chains one after the other, each in one compiled loop."""

    def run(problem, settings) -> Result:
        from numpyro.infer import NUTS

        target = OrdinaryPosterior(problem)
        kernel = NUTS(potential_fn=lambda q: -target.logdensity(q), dense_mass=is_dense)

        def iterate(number):
            def one(state, _):
                state = kernel.sample(state, (), {})
                return state, (state.z, state.diverging)

            return jax.jit(lambda state: jax.lax.scan(one, state, length=number))

        own_kernel, thetas, seconds, failed = KERNELS["nuts"](), [], 0.0, 0
        compiled = None
        for chain in range(NUM_CHAINS):
            start = jnp.asarray(
                find_start(own_kernel, target, settings.seed, chain, evaluate_state)[0]
            )
            key = jax.random.key_data(jax.random.key(settings.seed * NUM_CHAINS + chain))
            state = kernel.init(key, settings.warmup, start, (), {})
            if compiled is None:
                counts = settings.warmup, settings.draws
                compiled = [iterate(number).lower(state).compile() for number in counts]
            warm_up, draw = compiled
            state = jax.block_until_ready(warm_up(state)[0])
            began = time.process_time()
            theta, diverging = jax.block_until_ready(draw(state)[1])
            seconds += time.process_time() - began
            thetas.append(theta)
            failed += int(diverging.sum())
        failures = f"{failed} of {NUM_CHAINS * settings.draws} divergences"
        return result(problem, thetas, seconds, failures)

    return run


#: By name, with the place of the paper's figure.
SAMPLERS: dict[str, tuple[Callable[..., Result], int | None]] = {
    "chmc": (own("chmc"), 0),
    "hmc-diagonal": (own("hmc", metric="diagonal"), 1),
    "hmc-dense": (own("hmc", metric="dense"), 2),
    "hmc-dense-5": (own("hmc", metric="dense", num_steps=5), 2),
    "nuts-dense": (own("nuts", metric="dense"), 2),
    "mici-chmc": (mici, 0),
    "numpyro-diagonal": (numpyro_nuts(False), 1),
    "numpyro-dense": (numpyro_nuts(True), 2),
}


def diagnosed(found: Result) -> dict[str, np.ndarray]:
    return diagnose_field(list(found.draws))


def moments_table(results: dict[str, Result]) -> None:
    """Mean and standard deviation of each parameter with their Monte Carlo standard errors."""
    print(f"{'':>12}" + "".join(f"{name + ': mean, sd':>44}" for name in results))
    tables = [(each, diagnosed(each)) for each in results.values()]
    for index, name in enumerate(tables[0][0].names):
        line = f"{name:>12}"
        for found, errors in tables:
            values = found.draws[..., index]
            mean, sd = values.mean(), values.std(ddof=1)
            by = errors["mcse_mean"][index], errors["mcse_sd"][index]
            line += f"{mean:12.5g} ({by[0]:7.1e}), {sd:10.4g} ({by[1]:7.1e})"
        print(line)


def count_converged(problem, num_seeds: int) -> None:
    """How many runs of the default settings have all R-hat of parameters below 1.01."""
    defaults = argparse.Namespace(warmup=200, draws=1000, seed=0)
    r_hats = []
    for defaults.seed in range(num_seeds):
        r_hats.append(np.max(diagnosed(own("chmc")(problem, defaults))["r_hat"]))
        print(f"  seed {defaults.seed}: R-hat {r_hats[-1]:.4f}", flush=True)
    print(f"  R-hat below 1.01 in {np.sum(np.array(r_hats) < 1.01)} of {num_seeds} runs of chmc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS), metavar="PROBLEM")
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS), choices=SAMPLERS)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--mici-draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0)
    settings = parser.parse_args()
    for name in settings.problems:
        place, paper = PROBLEMS[name]
        problem = load(read_python_problem(str(EXAMPLES / place)))
        print(f"{name}: {problem.num_unknowns} unknowns, {problem.num_observations} readings")
        results = {}
        with single_threaded_blas():
            for sampler in settings.samplers:
                run, column_of_paper = SAMPLERS[sampler]
                results[sampler] = found = run(problem, settings)
                numbers = diagnosed(found)
                worst = int(np.argmin(numbers["ess_bulk"]))
                ess, r_hat = numbers["ess_bulk"][worst], np.max(numbers["r_hat"])
                print(
                    f"{sampler:>18}: {ess / found.seconds:8.3g} ESS/s ({ess:.0f} of "
                    f"{found.names[worst]} in {found.seconds:.1f} s; paper "
                    f"{paper[column_of_paper]:g}), R-hat {r_hat:.4f}, {found.failures}",
                    flush=True,
                )
            shown = {
                key: results[key] for key in ("chmc", "hmc-dense", "nuts-dense") if key in results
            }
            if shown:
                moments_table(shown)
            if settings.seeds:
                count_converged(problem, settings.seeds)


if __name__ == "__main__":
    main()
