"""The disc problem against BlackJAX's NUTS on the ordinary posterior with the same forward map.

    python tests/benchmarks/bench_disc.py [--noise 0.01] [--peer-draws 150] [--no-peer]

Run it pinned to one core (`taskset -c 0`).  Prints, for each sampler, the smallest bulk effective
sample size per second of sampling over the noise scale and the field's mean and standard
deviation; for constrained HMC also the factorisations per effective draw and the time to compile.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import invlift
from invlift.posterior.diagnostics import diagnose
from invlift.samplers.run import single_threaded_blas

EXAMPLE = Path(__file__).parents[2] / "examples/disc/problem.toml"
#: Standard normal draws behind the example's readings, whose noise is 0.01 times these.
NOISE = np.loadtxt(Path(__file__).with_name("disc_noise.csv"))


def build(noise: float):
    """The disc problem with readings at another noise level."""
    field = invlift.build_problem(invlift.read_problem(EXAMPLE))
    observed = np.asarray(field.problem.observed) + (noise - 0.01) * NOISE
    problem = field.problem
    return invlift.inverse_problem(problem.forward, problem.prior, problem.noise, observed)


def smallest(draws: dict[str, list[np.ndarray]]) -> tuple[float, float]:
    """Smallest bulk ESS and largest R-hat over the scalars, each a list of chains."""
    found = [diagnose([chain[:, None] for chain in chains], name) for name, chains in draws.items()]
    return min(float(x.ess_bulk[0]) for x in found), max(float(x.r_hat[0]) for x in found)


def scalars(sigma, fields) -> dict[str, list[np.ndarray]]:
    return {
        "sigma": list(sigma),
        "mean": [field.mean(axis=1) for field in fields],
        "std": [field.std(axis=1) for field in fields],
    }


def run_invlift(problem, method: str) -> float:
    settings = {"chains": 4, "warmup": 500, "draws": 1000, "seed": 20260101}
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = invlift.sample(problem, method=method, executor=one_at_a_time, **settings)
    chains = run.chains
    ess, r_hat = smallest(
        scalars([c.draws["sigma"] for c in chains], [c.draws["log_conductivity"] for c in chains])
    )
    seconds = sum(chain.sampling_seconds for chain in chains)
    total = sum(int(chain.stats["num_factorisations"].sum()) for chain in chains)
    steps = np.mean([chain.stats["num_steps"].mean() for chain in chains])
    print(
        f"{method:>12}: {ess / seconds:8.2f} ESS/s, {total / ess:6.1f} factorisations per "
        f"effective draw, {steps:.1f} steps per draw, R-hat {r_hat:.3f}, compiled in "
        f"{run.compile_seconds:.0f} s, largest constraint error "
        f"{max(c.stats['constraint_error'].max() for c in chains):.1e}"
    )
    return ess / seconds


def run_peer(problem, draws: int, chains: int = 2) -> float:
    def warm_up(key, position):
        adaptation = blackjax.window_adaptation(blackjax.nuts, problem.logdensity)
        (state, parameters), _ = adaptation.run(key, position, draws)
        return state, parameters

    @jax.jit
    def step(key, state, parameters):
        return blackjax.nuts(problem.logdensity, **parameters).step(key, state)[0]

    sigma, fields, seconds = [], [], 0.0
    for chain in range(chains):
        key_start, key_warm, key_draw = jax.random.split(jax.random.key(chain), 3)
        start = 0.1 * jax.random.normal(key_start, (problem.num_unknowns,))
        state, parameters = jax.jit(warm_up)(key_warm, start)
        step(key_draw, state, parameters)
        positions = []
        began = time.perf_counter()
        for index in range(draws):
            state = step(jax.random.fold_in(key_draw, index), state, parameters)
            positions.append(np.asarray(state.position))
        seconds += time.perf_counter() - began
        zeta, white = np.stack(positions)[:, :1], np.stack(positions)[:, 1:]
        sigma.append(np.asarray(jax.vmap(problem.noise.sigma)(jnp.asarray(zeta))))
        fields.append(np.asarray(jax.vmap(problem.prior.coefficients)(jnp.asarray(white))))
    ess, r_hat = smallest(scalars(sigma, fields))
    print(
        f"BlackJAX NUTS: {ess / seconds:8.4f} ESS/s ({chains} chains of {draws} + {draws}, "
        f"{seconds / (chains * draws):.3f} s per draw), R-hat {r_hat:.2f}"
    )
    return ess / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--peer-draws", type=int, default=150)
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    invlift.enable_x64()
    single_threaded_blas()
    problem = build(options.noise)
    rate = run_invlift(problem, "chmc")
    if not options.no_peer:
        print(f"ratio: {rate / run_peer(problem, options.peer_draws):.0f}")


if __name__ == "__main__":
    main()
