"""From an inverse problem to posterior draws."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import numpy as np

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.inverse.problem import InverseProblem
from invlift.inverse.scale_coordinate import with_scale_coordinate
from invlift.inverse.starts import initial_position
from invlift.inverse.targets.laplace_whitened import LaplaceWhitened, laplace_whitened
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.precision import require_float64
from invlift.pytrees import Module, static
from invlift.samplers.chains.chain import Plan, Progress, evaluate_state
from invlift.samplers.chains.parallel import run_chains, single_threaded_blas
from invlift.samplers.chains.results import Run
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.base import Kernel

#: Targets of an inverse problem, by what kernels call them.
TARGETS = {
    "manifold": LiftedPosterior,
    "density": OrdinaryPosterior,
    "laplace": laplace_whitened,
}
#: Prior draws tried for a chain before giving up.
MAX_STARTS = 20
#: Standard deviations of the noise by which a start may miss the readings, and the number of starts
#: that do before giving up.
MAX_MISFIT, MAX_MISFITS = 10.0, 4

logger = logging.getLogger(__name__)


def sample(
    problem: InverseProblem,
    kernel: str | Kernel = "chmc",
    *,
    chains: int = 4,
    warmup: int = 200,
    draws: int = 1000,
    seed: int = 0,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Run:
    """Draw from the posterior.

    Parameters
    ----------
    problem : InverseProblem
        With d observations, N coefficients.
    kernel : str or Kernel
        A name from :data:`invlift.samplers.kernels.KERNELS`, or a kernel with options of its own,
        ``ConstrainedHMC(retraction="newton")`` say.  By default constrained HMC on the lifted
        manifold over about a quarter period (Au, Graham & Thiery 2023, Algorithm 3, with the
        integrator of Graham, Thiery & Beskos 2022, Algorithm 1).
    chains, warmup, draws : int
        Number of chains; iterations per chain that tune the kernel; draws per chain.
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
        Draws of the coefficients, (num_draws, N), called ``log_conductivity`` on a mesh and
        ``parameters`` for a user's own function; of ``predicted``, the noise-free observations,
        (num_draws, d); of unknown parameters of noise and prior, ``sigma`` say.  Moments of what
        else the model computes, of ``solution`` on a mesh.

    Raises
    ------
    InputError
        If an argument is out of range, no start with a finite density is found, or the folder
        holds chains that are not to be resumed or belong to another problem.
    """
    require_float64(observed=problem.observed)
    kernel = find_kernel(kernel)
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
    target = target_of(problem, kernel)
    plan = Plan(kernel, int(warmup), int(draws))
    store = None
    if checkpoint is not None:
        store = CheckpointStore(Path(checkpoint), fingerprint(target, plan, seed))
    with single_threaded_blas(), store.lock() if store else nullcontext():
        if store:
            store.claim(is_resuming=resume)
        starts = Starts(kernel, target, seed, chains)
        return run_chains(
            target, plan, starts, seed, executor=executor, store=store, on_progress=on_progress
        )


def target_of(problem: InverseProblem, kernel: Kernel) -> Any:
    """The target of a problem that a kernel walks on, in the coordinates that suit the data."""
    return TARGETS[kernel.walks_on](with_scale_coordinate(problem))


def find_kernel(kernel: str | Kernel) -> Kernel:
    """A kernel by its name, with the defaults of its options, or the kernel itself.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if kernel not in KERNELS:
        raise InputError("kernel", f"one of {', '.join(KERNELS)}", f"{kernel!r}", "choose one")
    return KERNELS[kernel]()


class Starts(Module):
    """Where chains start: ``starts[chain]`` is :func:`find_start`.

    Attributes
    ----------
    kernel : Kernel
    target : LiftedPosterior, OrdinaryPosterior or LaplaceWhitened
    seed, num_chains : int
    """

    kernel: Kernel
    target: LiftedPosterior | OrdinaryPosterior | LaplaceWhitened
    seed: int = static()
    num_chains: int = static()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return self.num_chains, self.target.dimension

    def __getitem__(self, chain: int) -> np.ndarray:
        """Start of a chain; a warning is logged if it does not reproduce the readings."""
        position, misfit = find_start(self.kernel, self.target, self.seed, chain)
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
    kernel: Kernel, target, seed: int, chain: int, evaluate_fn: Callable = evaluate_state
) -> tuple[np.ndarray, np.ndarray]:
    """A start for a chain: :func:`~invlift.inverse.starts.initial_position` of a prior draw.

    Another draw is tried where one has no finite density, as ``evaluate_fn`` finds it, or leads to
    values that do not reproduce the readings; if none does, the best is taken.

    Returns
    -------
    position : (target.dimension,)
    misfit : (d,)
        How far the readings are from the predictions there, in standard deviations of the noise;
        zero if the noise has unknown parameters: its scale grows with what does not fit.

    Raises
    ------
    InputError
        If none of 20 draws has a finite density.
    """
    problem = target.problem
    best, least, num_found = None, np.inf, 0
    for attempt in range(MAX_STARTS):
        lifted = np.asarray(_start(problem, seed, chain, attempt))
        position = np.asarray(target.from_lifted(lifted))
        state = evaluate_fn(kernel, target, position)
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((lifted, state))):
            continue
        num_found += 1
        misfit = np.abs(lifted[problem.num_unknowns :])
        misfit = np.zeros_like(misfit) if problem.noise.num_parameters else misfit
        if best is None or misfit.max() < least:
            best, least = (position, misfit), misfit.max()
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


def _attempted_start(problem: InverseProblem, seed, chain, attempt):
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), chain), 2**31 - 1)
    return initial_position(problem, jax.random.fold_in(key, attempt))


_start = Program(_attempted_start, "none")
