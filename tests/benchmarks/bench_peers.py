"""The disc example against other samplers, on the same compiled forward map in the same run.

    python tests/benchmarks/bench_peers.py [--draws N] [--mici-draws N] [--nuts-draws N]
        [--peer-draws N]

Run it pinned to one core.  Peers: Mici's constrained HMC on the same lifted posterior (Gaussian
splitting, 3 fixed steps, derivatives by this package's compiled functions); and on the ordinary
posterior BlackJAX's NUTS (windowed adaptation, diagonal metric), preconditioned Crank-Nicolson (its
step size adapted to accept a quarter) and elliptical slice sampling.  Prints for each the smallest
bulk ESS per second over the noise scale, mean and standard deviation of the field; and, of one
CHOLMOD factorisation of the same stiffness matrix, the time.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import invlift

invlift.enable_x64()  # before anything starts JAX

import jax
import jax.numpy as jnp
import numpy as np
from cvxopt import cholmod, matrix, spmatrix
from discs import example, scalars, smallest

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.problems.starts.search import find_start
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels import ConstrainedHMC


def smallest_ess(problem, positions: list[np.ndarray]) -> tuple[float, float]:
    """Smallest bulk ESS and largest R-hat from chains of theta, (draws, h + m) each."""

    @jax.jit
    def unpack(problem, theta):
        zeta, white = problem.split(theta)
        return problem.noise.sigma(zeta), problem.prior.transform(white)

    found = [
        jax.lax.map(lambda theta: unpack(problem, theta), jnp.asarray(chain)) for chain in positions
    ]
    return smallest(scalars([x for x, _ in found], [np.asarray(x) for _, x in found]))


def tell(name: str, ess: float, r_hat: float, seconds: float) -> float:
    rate = ess / seconds
    print(f"{name:>28}: {rate:9.4f} ESS/s ({ess:.0f} in {seconds:.0f} s), R-hat {r_hat:.3f}")
    return ess / seconds


def run_invlift(problem, num_draws: int) -> float:
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = invlift.sample(
            problem, chains=4, warmup=500, draws=num_draws, seed=1, executor=one_at_a_time
        )
    draws = scalars(
        [chain.draws["sigma"] for chain in run.chains],
        [chain.draws["log_conductivity"] for chain in run.chains],
    )
    seconds = sum(chain.sampling_seconds for chain in run.chains)
    return tell("invlift", *smallest(draws), seconds)


def run_mici(problem, num_draws: int, step_size: float) -> float:
    import mici
    from mici_system import system_of

    lifted = LiftedPosterior(problem)
    system = system_of(lifted)
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(
        system,
        step_size=step_size,
        projection_solver=mici.solvers.solve_projection_onto_manifold_newton,
    )
    sampler = mici.samplers.StaticMetropolisHMC(
        system, integrator, np.random.default_rng(1), n_step=3
    )
    starts = [
        find_start(ConstrainedHMC(), lifted, 1, chain, evaluate_state)[0] for chain in range(2)
    ]
    sampler.sample_chains(0, 5, starts[:1], display_progress=False)  # compiles
    began = time.perf_counter()
    _, traces, _ = sampler.sample_chains(
        100,
        num_draws,
        starts,
        display_progress=False,
        adapters=[mici.adapters.DualAveragingStepSizeAdapter(0.8)],
    )
    seconds = (time.perf_counter() - began) * num_draws / (num_draws + 100)
    ess, r_hat = smallest_ess(
        problem, [trace[:, : problem.num_unknowns] for trace in traces["pos"]]
    )
    return tell("Mici C-HMC, 3 fixed steps", ess, r_hat, seconds)


def run_nuts(problem, num_draws: int) -> float:
    import blackjax  # starts JAX

    logdensity = OrdinaryPosterior(problem).logdensity

    def warm_up(key, position):
        adaptation = blackjax.window_adaptation(blackjax.nuts, logdensity)
        (state, parameters), _ = adaptation.run(key, position, num_draws)
        return state, parameters

    @jax.jit
    def step(key, state, parameters):
        return blackjax.nuts(logdensity, **parameters).step(key, state)[0]

    chains, seconds = [], 0.0
    for chain in range(2):
        key_start, key_warm, key_draw = jax.random.split(jax.random.key(chain), 3)
        start = 0.1 * jax.random.normal(key_start, (problem.num_unknowns,))
        state, parameters = jax.jit(warm_up)(key_warm, start)
        step(key_draw, state, parameters)
        positions = []
        began = time.perf_counter()
        for index in range(num_draws):
            state = step(jax.random.fold_in(key_draw, index), state, parameters)
            positions.append(np.asarray(state.position))
        seconds += time.perf_counter() - began
        chains.append(np.stack(positions))
    return tell("BlackJAX NUTS", *smallest_ess(problem, chains), seconds)


def run_ordinary(problem, name: str, num_draws: int) -> float:
    """pCN or elliptical slice sampling of theta with its standard normal prior."""

    loglikelihood = OrdinaryPosterior(problem).loglikelihood

    def crank_nicolson(key, state, log_step):
        """Proposals sqrt(1 - b^2) theta + b xi (Cotter et al. 2013); b adapted while warming up."""
        theta, value = state
        key_noise, key_accept = jax.random.split(key)
        size = jnp.exp(jnp.minimum(log_step, 0.0))
        noise = jax.random.normal(key_noise, theta.shape)
        proposal = jnp.sqrt(1.0 - size**2) * theta + size * noise
        new = loglikelihood(proposal)
        accepted = jnp.log(jax.random.uniform(key_accept)) < new - value
        chosen = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), (proposal, new), state)
        return chosen, accepted

    def elliptical_slice(key, state, log_step):
        """Murray, Adams & MacKay (2010), figure 2."""
        theta, value = state
        key_noise, key_level, key_angle = jax.random.split(key, 3)
        noise = jax.random.normal(key_noise, theta.shape)
        level = value + jnp.log(jax.random.uniform(key_level))
        angle = 2 * jnp.pi * jax.random.uniform(key_angle)

        def turn(loop):
            key, low, high, angle, *_ = loop
            key, key_next = jax.random.split(key)
            low, high = jnp.where(angle < 0, angle, low), jnp.where(angle < 0, high, angle)
            angle = jax.random.uniform(key_next, minval=low, maxval=high)
            return key, low, high, angle, *at(angle)

        def at(angle):
            proposal = jnp.cos(angle) * theta + jnp.sin(angle) * noise
            return proposal, loglikelihood(proposal)

        loop = (key_angle, angle - 2 * jnp.pi, angle, angle, *at(angle))
        *_, proposal, new = jax.lax.while_loop(lambda loop: loop[-1] <= level, turn, loop)
        return (proposal, new), jnp.asarray(True)

    kernel = {"pCN": crank_nicolson, "elliptical slice": elliptical_slice}[name]

    @jax.jit
    def run(key, theta):
        def body(carry, key_and_gain):
            state, log_step = carry
            key, gain = key_and_gain
            state, accepted = kernel(key, state, log_step)
            return (state, log_step + gain * (accepted - 0.25)), state[0]

        gains = jnp.where(jnp.arange(2 * num_draws) < num_draws, 0.05, 0.0)
        start = ((theta, loglikelihood(theta)), jnp.asarray(-3.0))
        return jax.lax.scan(body, start, (jax.random.split(key, 2 * num_draws), gains))[1]

    keys = jax.random.split(jax.random.key(2), 2)
    starts = [0.1 * jax.random.normal(key, (problem.num_unknowns,)) for key in keys]
    run = run.lower(keys[0], starts[0]).compile()
    began = time.perf_counter()
    chains = [
        np.asarray(run(key, start))[num_draws:] for key, start in zip(keys, starts, strict=True)
    ]
    seconds = 0.5 * (time.perf_counter() - began)
    return tell(name, *smallest_ess(problem, chains), seconds)


def cholmod_seconds(problem) -> float:
    """Median time of one CHOLMOD factorisation of the stiffness matrix."""
    forward = problem.model
    size = forward.free.shape[0]
    stiffness = np.asarray(jax.vmap(lambda e: forward._stiffness(forward.volumes, e))(np.eye(size)))
    rows, cols = np.nonzero(np.tril(stiffness))
    lower = spmatrix(stiffness[rows, cols], rows.tolist(), cols.tolist(), (size, size))
    best = np.inf
    for supernodal in (0, 2):
        cholmod.options["supernodal"] = supernodal
        symbolic = cholmod.symbolic(lower)
        times = []
        for _ in range(200):
            began = time.perf_counter()
            cholmod.numeric(lower, symbolic)
            times.append(time.perf_counter() - began)
        best = min(best, float(np.median(times)))
    rhs = matrix(np.ones(size))
    cholmod.solve(symbolic, rhs)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--mici-draws", type=int, default=500)
    parser.add_argument("--nuts-draws", type=int, default=500)
    parser.add_argument("--peer-draws", type=int, default=20_000)
    options = parser.parse_args()
    problem = example(0.01)
    with single_threaded_blas():
        factorisation = cholmod_seconds(problem)
        own = run_invlift(problem, options.draws)
        print(
            f"CHOLMOD factorisation {1e3 * factorisation:.3f} ms: "
            f"{own * factorisation:.4f} effective draws per factorisation time"
        )
        for rate in (
            run_mici(problem, options.mici_draws, 0.5),
            run_nuts(problem, options.nuts_draws),
            run_ordinary(problem, "pCN", options.peer_draws),
            run_ordinary(problem, "elliptical slice", options.peer_draws),
        ):
            print(f"{'ratio':>28}: {own / rate:.1f}")


if __name__ == "__main__":
    main()
