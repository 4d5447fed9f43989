"""From an inverse problem to posterior draws."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path

import jax
import numpy as np

from invlift.compilation import quick_jit
from invlift.errors import InputError
from invlift.inverse.initial import initial_position
from invlift.inverse.lifted import LiftedPosterior
from invlift.inverse.problem import InverseProblem
from invlift.precision import require_float64
from invlift.samplers.chains import Plan, Progress, evaluate_point
from invlift.samplers.checkpoint import CheckpointStore, fingerprint
from invlift.samplers.run import Run, run_chains, single_threaded_blas
from invlift.samplers.trajectories import no_u_turn, quarter_period

#: Methods by name: constrained HMC with quarter-period and with dynamic trajectories.
METHODS = {"chmc": quarter_period, "chmc-nuts": no_u_turn}
#: Prior draws tried for a chain before giving up.
MAX_STARTS = 20


def sample(
    problem: InverseProblem,
    *,
    method: str = "chmc",
    chains: int = 4,
    warmup: int = 500,
    draws: int = 1000,
    seed: int = 0,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Run:
    """Draw from the posterior by constrained HMC on its lifted manifold.

    Parameters
    ----------
    problem : InverseProblem
        With d observations, h unknown noise scales, N coefficients.
    method : {"chmc", "chmc-nuts"}
        Quarter-period trajectories, or dynamic ones (NUTS).
    chains, warmup, draws : int
        Number of chains; iterations per chain that adapt the step size; draws per chain.
    seed : int
        Same seed, same machine: the same bits, whatever the executor.
    executor : concurrent.futures.Executor, optional
        Threads on the machine's cores if left out.
    checkpoint : path, optional
        Folder in which the chains are saved while they run; it must not hold any, unless they are
        to be resumed.
    resume : bool
        Go on with the chains saved in ``checkpoint``.
    on_progress : callable
        Told of every block of iterations, from the chains' threads.

    Returns
    -------
    Run
        Draws of ``log_conductivity`` (of ``parameters`` for a user's own function), (num_draws, N),
        of ``predicted``, the noise-free observations, (num_draws, d) and, if the noise scale is
        unknown, of ``sigma``, (num_draws,); moments of ``solution`` for the Poisson map.

    Raises
    ------
    InputError
        If an argument is out of range, no start with a finite density is found, or the folder
        holds chains that are not to be resumed or belong to another problem.

    Notes
    -----
    Au, Graham & Thiery (2023), Algorithm 3, with the integrator of Graham, Thiery & Beskos (2022),
    Algorithm 1.
    """
    require_float64(observed=problem.observed)
    if method not in METHODS:
        raise InputError("method", f"one of {', '.join(METHODS)}", f"{method!r}", "choose one")
    for name, value, least in (
        ("chains", chains, 1),
        ("warmup", warmup, 1),
        ("draws", draws, 1),
        ("seed", seed, 0),
    ):
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_integer or not least <= value < 2**63:
            raise InputError(name, f"an integer of at least {least}", f"{value!r}", "correct it")
    if resume and checkpoint is None:
        raise InputError("resume", "a folder checkpoint with saved chains", "none", "name it")
    lifted = LiftedPosterior(problem)
    plan = Plan(METHODS[method], record, int(warmup), int(draws))
    store = None
    if checkpoint is not None:
        store = CheckpointStore(Path(checkpoint))
        store.claim(fingerprint(lifted, plan, seed), is_resuming=resume)
    with single_threaded_blas(), store.lock() if store else nullcontext():
        positions = np.stack([find_start(lifted, seed, chain) for chain in range(chains)])
        return run_chains(
            lifted, plan, positions, seed, executor=executor, store=store, on_progress=on_progress
        )


_initial_position = quick_jit(initial_position)


def record(system: LiftedPosterior, point) -> tuple[dict, dict]:
    """What to keep of a draw, and what to keep only the moments of."""
    problem = system.problem
    zeta, _, _ = system.split(point.position)
    kept = {problem.forward.coefficients_name: point.coefficients, "predicted": point.predicted}
    if problem.noise.num_parameters:
        kept["sigma"] = problem.noise.sigma(zeta)
    return kept, point.byproducts


def find_start(lifted: LiftedPosterior, seed: int, chain: int) -> np.ndarray:
    """A start on the manifold for a chain, (Q,): :func:`initial_position` of a prior draw.

    Another draw is tried where one has no finite density.

    Raises
    ------
    InputError
        If none of 20 draws has.
    """
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), chain), 2**31 - 1)
    for attempt in range(MAX_STARTS):
        position = _initial_position(lifted, jax.random.fold_in(key, attempt))
        point = evaluate_point(lifted, position)
        if all(np.all(np.isfinite(x)) for x in (position, point.logdensity, point.logdensity_grad)):
            return np.asarray(position)
    raise InputError(
        f"chain {chain}, start",
        "a prior draw at which the forward map is finite",
        f"none in {MAX_STARTS} draws",
        "check the prior (a smaller std), the noise scale and the forward map (its source, say)",
    )
