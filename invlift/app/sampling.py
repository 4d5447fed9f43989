"""From an inverse problem to posterior draws."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np

from invlift.app.starts import STARTS
from invlift.errors import InputError
from invlift.inverse.problem import InverseProblem
from invlift.inverse.scale_coordinate import with_scale_coordinate
from invlift.inverse.targets.laplace_whitened import laplace_whitened
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.precision import require_float64
from invlift.samplers.chains.chain import Plan, Progress
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


def sample(
    problem: InverseProblem,
    kernel: str | Kernel = "chmc",
    *,
    chains: int = 4,
    warmup: int = 200,
    draws: int = 1000,
    seed: int = 0,
    starts: Literal["prior", "laplace"] = "prior",
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
    starts : {"prior", "laplace"}
        Draws from the prior moved onto the data, or draws from the Laplace approximation of the
        posterior, which are closer to each other: R-hat then sees less.
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
    check_counts(chains=chains, warmup=warmup, draws=draws, seed=seed)
    if starts not in STARTS:
        raise InputError("starts", f"one of {', '.join(STARTS)}", f"{starts!r}", "choose one")
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
        return run_chains(
            target,
            plan,
            STARTS[starts](kernel, target, seed, chains),
            seed,
            executor=executor,
            store=store,
            on_progress=on_progress,
        )


def check_counts(**counts: int) -> None:
    """Check numbers of chains, iterations and draws, at least 1, and a seed, at least 0.

    Raises
    ------
    InputError
        If one is no such integer.
    """
    for name, value in counts.items():
        least = 0 if name == "seed" else 1
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not is_integer or not least <= value < 2**63:
            raise InputError(name, f"an integer of at least {least}", f"{value!r}", "correct it")


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
