"""From an inverse problem to posterior draws."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import jax
import numpy as np

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.inverse.problem import InverseProblem
from invlift.inverse.starts import initial_position
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.precision import require_float64
from invlift.pytrees import pytree
from invlift.samplers.chains.chain import Plan, Progress, evaluate_point
from invlift.samplers.chains.run import Run, run_chains, single_threaded_blas
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.kernels.chmc import no_u_turn, quarter_period

#: Methods by name: constrained HMC with quarter-period and with dynamic trajectories.
METHODS = {"chmc": quarter_period, "chmc-nuts": no_u_turn}
#: Prior draws tried for a chain before giving up.
MAX_STARTS = 20
#: Standard deviations of the noise by which a start may miss the readings, and the number of starts
#: that do before giving up.
MAX_MISFIT, MAX_MISFITS = 10.0, 4

logger = logging.getLogger(__name__)


def sample(
    problem: InverseProblem,
    *,
    method: str = "chmc",
    chains: int = 4,
    warmup: int = 200,
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
        store = CheckpointStore(Path(checkpoint), fingerprint(lifted, plan, seed))
    with single_threaded_blas(), store.lock() if store else nullcontext():
        if store:
            store.claim(is_resuming=resume)
        starts = Starts(lifted, seed, chains)
        return run_chains(
            lifted, plan, starts, seed, executor=executor, store=store, on_progress=on_progress
        )


def record(system: LiftedPosterior, point) -> tuple[dict, dict]:
    """What to keep of a draw, and what to keep only the moments of."""
    problem = system.problem
    zeta, _, _ = system.split(point.position)
    kept = {problem.forward.coefficients_name: point.coefficients, "predicted": point.predicted}
    if problem.noise.num_parameters:
        kept["sigma"] = problem.noise.sigma(zeta)
    return kept, point.byproducts


@pytree
@dataclass(frozen=True)
class Starts:
    """Where chains start: ``starts[chain]`` is :func:`find_start`.

    Attributes
    ----------
    lifted : LiftedPosterior
    seed, num_chains : int
    """

    lifted: LiftedPosterior
    seed: int = field(metadata={"static": True})
    num_chains: int = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension Q."""
        return self.num_chains, self.lifted.dimension

    def __getitem__(self, chain: int) -> np.ndarray:
        """Start of a chain, (Q,); a warning is logged if it does not reproduce the readings."""
        position = find_start(self.lifted, self.seed, chain)
        misfit = misfits(self.lifted, position)
        far = np.flatnonzero(misfit > MAX_MISFIT)
        if far.size:
            # Said before hours are spent on it.
            logger.warning(
                "chain %d starts from values that miss the readings of sensors %s by up to %.3g "
                "standard deviations of the noise: they may contradict each other or the model (a "
                "boundary value, a unit, too small a noise)",
                chain,
                ", ".join(map(str, far[:8])) + (" and others" if far.size > 8 else ""),
                misfit.max(),
            )
        return position


def find_start(
    lifted: LiftedPosterior, seed: int, chain: int, evaluate_fn: Callable = evaluate_point
) -> np.ndarray:
    """A start on the manifold for a chain, (Q,): :func:`initial_position` of a prior draw.

    Another draw is tried where one has no finite density, as ``evaluate_fn`` finds it, or leads to
    values that do not reproduce the readings; if none does, the best is taken.

    Raises
    ------
    InputError
        If none of 20 draws has a finite density.
    """
    best, least, num_found = None, np.inf, 0
    for attempt in range(MAX_STARTS):
        position = _start(lifted, seed, chain, attempt)
        point = evaluate_fn(lifted, position)
        numbers = (position, point.logdensity, point.logdensity_grad)
        if not all(np.all(np.isfinite(part)) for part in numbers):
            continue
        num_found += 1
        misfit = np.max(misfits(lifted, position))
        if best is None or misfit < least:
            best, least = np.asarray(position), misfit
        if least <= MAX_MISFIT or num_found == MAX_MISFITS:
            break
    if best is None:
        raise InputError(
            f"chain {chain}, start",
            "a prior draw at which the forward map is finite",
            f"none in {MAX_STARTS} draws",
            "check the prior (a smaller std), the noise scale and the forward map (its source, "
            "say)",
        )
    return best


def _attempted_start(lifted: LiftedPosterior, seed, chain, attempt):
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), chain), 2**31 - 1)
    return initial_position(lifted, jax.random.fold_in(key, attempt))


_start = Program(_attempted_start, "none")


def misfits(lifted: LiftedPosterior, position) -> np.ndarray:
    """How far the readings are from the predictions at a position, in sd of the noise, (d,).

    Zero if the noise scale is unknown: it grows with what does not fit.
    """
    misfit = np.abs(np.asarray(position)[lifted.problem.num_unknowns :])
    return np.zeros_like(misfit) if lifted.problem.noise.num_parameters else misfit
