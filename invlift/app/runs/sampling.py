"""Sample the posterior of an inverse problem."""

from __future__ import annotations

import importlib.metadata
import logging
import math
import os
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from invlift.app.problem.run_tables import UNTIL_CONVERGED, OutputTable, SamplerTable
from invlift.app.problem.table_errors import check_options
from invlift.app.runs.progress import given_or_shown, progress_display
from invlift.app.runs.quantities import recorded
from invlift.app.runs.starts import Starts, chosen_starts
from invlift.chains import Chain
from invlift.errors import InputError
from invlift.files.tables import table_of_dataclass
from invlift.keywords import earlier_names
from invlift.lift.targets.manifold import ManifoldTarget
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.posterior import Quantity
from invlift.problems.choice.lift_choice import Choice, choose
from invlift.problems.choice.merged import merged
from invlift.problems.choice.partly_lifted import (
    Lift,
    laplace_reference,
    partly_lifted_problem,
    referred,
)
from invlift.problems.problem import InverseProblem
from invlift.problems.scale_coordinate import with_scale_coordinate
from invlift.programs.digest import digest
from invlift.programs.memory import memory_size
from invlift.programs.precision import require_float64
from invlift.samplers.chains.chain import Progress
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.results import Run, cut_to_one_length
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.chains.state import gather
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.base import Kernel
from invlift.targets import ConstrainedTarget, Target

#: First number of draws per chain if draws = "converged".
FIRST_GOAL = 200
#: Number of draws from which available memory is checked, and approximate number of statistics of
#: each draw.
MANY_DRAWS, NUM_STATISTICS = 100_000, 10

logger = logging.getLogger(__name__)


@earlier_names(kernel="method", max_seconds="budget")
def sample(
    problem: InverseProblem | ConstrainedTarget,
    method: str | Kernel = "chmc",
    *,
    chains: int = 4,
    warmup: int = 200,
    draws: int | Literal["converged"] = 1000,
    seed: int = 0,
    starts: Literal["prior", "laplace"] | np.ndarray | Mapping[str, np.ndarray] = "prior",
    budget: float | None = None,
    max_field_megabytes: float = 200.0,
    executor: Executor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Draw from the posterior.

    Parameters
    ----------
    problem : InverseProblem or Target
        A problem with d observations and N coefficients.  Or a target of the kind that the kernel
        needs: :class:`~invlift.problems.manifolds.given_manifold.ManifoldProblem`, or a target
        class of the user.
    method : str or Kernel
        A name from :data:`invlift.samplers.kernels.KERNELS`, or a kernel with options, for example
        ``ConstrainedHMC(retraction="newton")``.  The default is constrained HMC on the lifted
        manifold with trajectories of about a quarter period (Au, Graham & Thiery 2023, Algorithm
        3, with the integrator of Graham, Thiery & Beskos 2022, Algorithm 1).
    chains, warmup : int
        Number of chains, and number of iterations per chain that tune the kernel.
    draws : int or "converged"
        Draws per chain.  "converged" draws until the verdict is good
        (:meth:`invlift.posterior.Posterior.verdict`).  The verdict is computed after 200 draws,
        and then each time the number of draws has grown by half.
    seed : int
        Seed of the random numbers. The same seed on the same machine and number of cores gives
        identical draws.
    starts : {"prior", "laplace"} or (chains, m) or (chains, Q) array
        "prior" takes draws from the prior and moves them towards the data.  "laplace" takes draws
        from the Laplace approximation of the posterior; they are closer to each other, so that
        R-hat detects less.  An array has standard normal variables, (m,) for each chain, that the
        prior transforms into the unknowns; with exact readings they are moved to points that
        reproduce the readings.  For a target an array has positions, which may be only roughly on
        its manifold; the default is random positions.  For unknowns with names, arrays by name,
        (chains, ...) each, in the units of the unknowns.
    budget : float, optional
        Time after which all chains end, with the draws made until then, s.
    max_field_megabytes : float
        Memory of all chains together for the stored draws of large quantities, MB, in equal parts:
        log-conductivity and solution on a mesh, and unknowns and paths of more than 1,000 entries.
        If the draws need more, only every second, fourth, ... draw is stored.  Mean, standard
        deviation and effective sample size still use all draws.
    executor : concurrent.futures.Executor, optional
        The default is threads on the cores of the machine.  Any other executor runs the chains in
        processes, a few seconds at a time: ``ProcessPoolExecutor``,
        ``distributed.Client(...).get_executor()``.
    checkpoint : path, optional
        Folder in which the chains are saved while they run.  It must not contain chains, except
        with ``resume``.
    resume : bool
        Continue the chains saved in ``checkpoint``.
    on_progress : callable, optional
        Called after every block of iterations, from the threads of the chains.  By default
        notebooks and terminals show a bar for each chain.  Otherwise lines go to the log of
        ``invlift.app.runs.progress``, level INFO:
        ``logging.basicConfig(filename="run.log", level=logging.INFO)`` writes them to a file.

    Returns
    -------
    Run
        Draws of the coefficients, (num_draws, N), on a mesh perhaps fewer: ``log_conductivity`` on
        a mesh, ``parameters`` for a function of the user.  Draws of ``predicted``, the noise-free
        observations, (num_draws, d), of unknown parameters of noise and prior, such as ``sigma``,
        and of the ``solution`` on a mesh.  Moments of further results of a model.  After Ctrl-C, or
        if the cell of a notebook is interrupted, the run has the draws made so far, and
        ``is_interrupted`` is true.

    Raises
    ------
    InputError
        If an argument is out of range, no start with a finite density is found, or the folder
        contains chains that are not to be resumed or belong to another problem.

    Examples
    --------
    >>> problem = invlift.inverse_problem(
    ...     lambda x: jnp.stack([x, x**2]), {"x": invlift.normal(1.0, 1.0)}, 0.1, [1.9, 4.1]
    ... )
    >>> run = invlift.sample(problem, chains=2, warmup=50, draws=100, seed=1)
    >>> run.chains[0].draws["x"].shape
    (100,)
    >>> posterior = problem.posterior(run)
    >>> bool(1.9 < posterior.summary().loc["x", "mean"] < 2.1)
    True
    """
    _check_is_target(problem)
    require_float64()
    kernel = find_kernel(method)
    is_open = draws == UNTIL_CONVERGED
    first = FIRST_GOAL if is_open else draws
    check_sampler(kernel, chains=chains, warmup=warmup, draws=draws, seed=seed)
    check_options(SamplerTable, budget=budget)
    check_options(OutputTable, max_field_megabytes=max_field_megabytes)
    if resume and checkpoint is None:
        raise InputError("resume", "a folder checkpoint with saved chains", "none", "name it")
    _check_objects(executor, on_progress, checkpoint)
    find_starts = chosen_starts(problem, starts, chains)
    shown = chains, warmup, None if is_open else draws, kernel.standards.failures_in_brief
    display = given_or_shown(on_progress, progress_display, *shown)
    with single_threaded_blas(), display as on_progress, ExitStack() as lock:
        quantities, fields = recorded(problem)
        if not is_open and chains * draws > MANY_DRAWS:
            check_room(problem, fields, chains, draws, checkpoint)
        room = 1e6 * max_field_megabytes / chains / max(1, len(fields))
        plan = Plan(kernel, int(warmup), int(first), fields=fields, max_field_bytes=room)
        store = None
        if checkpoint is not None:
            store = CheckpointStore(Path(checkpoint), fingerprint(problem, plan, seed))
            lock.enter_context(store.lock())
        choice = starts.choice if isinstance(starts, Starts) else None
        if store is not None and resume and store.has_record:
            choice = Choice(None)  # the choice of the saved run is used
        choice = choice_of(problem, kernel) if choice is None else choice
        if store is not None:
            store = replace(store, choices=choice.arrays()).claim(is_resuming=resume)
            if (saved := max(store.chains(), default=-1) + 1) > chains:
                remedy = "resume with all of them: results are those of all chains"
                raise InputError("chains", f"{saved}, as the saved run has", f"{chains}", remedy)
            choice = Choice.of_arrays(store.choices)
        target = target_of(problem, kernel, choice)
        run = run_chains(
            target,
            plan,
            find_starts(kernel, target, seed),
            seed,
            executor=executor,
            store=store,
            max_seconds=budget,
            next_goal=partial(_next_goal, kernel, quantities) if is_open else None,
            on_progress=on_progress,
        )
    if not run.chains and budget is not None:
        kept = "" if checkpoint is None else "; their iterations are saved, resume=True continues"
        logger.warning(
            f"budget = {budget:g} s was over before all chains had a draw: the run has no "
            f"chains{kept}"
        )
    return replace(run, problem=digest(problem))


def check_sampler(kernel: Kernel, *, warmup: int, **options) -> None:
    """Check arguments by the keys of [sampler]; a kernel without tuning needs no warm-up."""
    check_options(SamplerTable, **options)
    if warmup != 0 or kernel.adaptation.is_tuned:  # else the table would check the default method
        check_options(SamplerTable, warmup=warmup)


def _check_is_target(problem) -> None:
    """Refuse an object that is neither a problem nor a target."""
    methods = "point", "parts", "logdensity", "loglikelihood"
    is_target = any(hasattr(problem, method) for method in methods)
    if not isinstance(problem, InverseProblem) and not is_target:
        expected = "a problem, or a target"
        remedy = "make one: invlift.inverse_problem, invlift.manifold_problem"
        raise InputError("problem", expected, f"{problem!r}"[:80], remedy)


def _check_objects(executor, on_progress, checkpoint) -> None:
    """Refuse arguments of `sample` with a wrong type."""
    for name, given, is_right, expected in (
        ("executor", executor, hasattr(executor, "submit"), "an executor of concurrent.futures"),
        ("on_progress", on_progress, callable(on_progress), "a function of one Progress"),
        ("checkpoint", checkpoint, isinstance(checkpoint, str | os.PathLike), "a path"),
    ):
        if given is not None and not is_right:
            raise InputError(name, expected, f"{given!r}"[:80], "correct it, or leave it out")


def check_room(problem, fields, chains: int, draws: int, folder: str | Path | None) -> None:
    """Refuse more draws than fit into memory and on disc.

    Raises
    ------
    InputError
        If they do not fit; the error says how much they need.
    """
    if isinstance(problem, InverseProblem):
        shapes = problem.shapes_of_draws()
        sizes = [math.prod(shape) for name, shape in shapes.items() if name not in fields]
    else:
        sizes = [problem.dimension]
    needed = 8 * chains * draws * (sum(sizes) + NUM_STATISTICS)
    rooms = {"of memory": memory_size()}
    if folder is not None:
        existing = next(path for path in [Path(folder), *Path(folder).absolute().parents]
                        if path.is_dir())  # fmt: skip
        rooms["free on the disc"] = shutil.disk_usage(existing).free
    for where, room in rooms.items():
        if needed > room:
            found = f"{chains} chains of {draws} draws, which take {needed / 1e9:.3g} GB"
            expected = f"draws that fit into the {room / 1e9:.3g} GB {where}"
            raise InputError("draws", expected, found, "ask for fewer")


def read_chains(
    problem: InverseProblem | ConstrainedTarget,
    kernel: Kernel,
    warmup: int,
    seed: int,
    folder: Path,
) -> Run:
    """Read the chains that a run has saved so far; the run may continue meanwhile.

    ``kernel``, ``warmup`` and ``seed`` are those of the run, ``folder`` is the ``checkpoint`` of
    :func:`sample`. Raises an InputError if the folder has no chains, or those of another run.
    """
    plan = Plan(kernel, warmup, 1, fields=recorded(problem)[1])
    run = fingerprint(problem, plan, seed)
    store = CheckpointStore(folder, run).claim(is_resuming=True)
    states = [store.load(chain, plan) for chain in store.chains()]
    chains = cut_to_one_length([gather(plan, state) for state in states])
    return Run(chains, 0.0, True, kernel.standards, num_chains_requested=len(states))


def _next_goal(
    kernel: Kernel, quantities: Sequence[Quantity], chains: Sequence[Chain]
) -> int | None:
    """Return the next number of draws per chain; None if the verdict is good.

    The result is the same whether the run was interrupted or not.
    """
    least, most = (extreme(chain.num_draws for chain in chains) for extreme in (min, max))
    goal = FIRST_GOAL
    while goal < least:
        goal += goal // 2
    if least < most or least < goal:  # resumed from disc
        return goal if least < goal else goal + goal // 2
    from invlift.posterior import Posterior  # slow: half of the import time of this module

    posterior = Posterior(cut_to_one_length(list(chains)), quantities, standards=kernel.standards)
    return None if posterior.verdict().is_converged else goal + goal // 2


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which the draws depend."""
    names = ("invlift", "jax", "jaxlib", "blackjax", "scikit-fem", "numpy", "scipy", "arviz")
    installed = {name: importlib.metadata.version(name) for name in names}
    return installed | {"python": platform.python_version()}


def choice_of(problem: InverseProblem | ConstrainedTarget, kernel: Kernel) -> Choice:
    """Return the choices (coordinates, reference) for a problem and kernel; none for a target."""
    _check_suits(problem, kernel)
    if not isinstance(problem, InverseProblem):
        return Choice(None)
    return choose(problem, target_kind=kernel.target_kind)


def _check_suits(problem: InverseProblem | ConstrainedTarget, kernel: Kernel) -> None:
    """Refuse a kernel that needs a kind of target that the problem does not have."""
    is_given = not isinstance(problem, InverseProblem)
    is_on_manifold = isinstance(problem, ManifoldTarget) if is_given else problem.noise.is_exact
    if is_on_manifold and kernel.target_kind != "manifold":
        why = "for a density on a manifold" if is_given else "as the readings are exact"
        others = "one of those that begin with constrained"
        remedy = f"take chmc, or {others if is_given else 'give the readings some noise'}"
        found = f"one on a {kernel.target_kind}"
        raise InputError("kernel", f"a constrained sampler, {why}", found, remedy)
    if is_given:
        return
    if not problem.noise.is_transformed and kernel.target_kind != "density":
        expected = "a sampler on a density, as the noise has a loglikelihood and no transform"
        raise InputError("kernel", expected, f"one on a {kernel.target_kind}", "take rwm, say")


def target_of(problem: InverseProblem, kernel: Kernel, choice: Choice | None = None) -> Target:
    """Return the target of a problem for a kernel, in coordinates suited to the data.

    The coordinates follow from ``choice``, by default from :func:`choice_of`.  A target is returned
    unchanged.
    """
    _check_suits(problem, kernel)
    if not isinstance(problem, InverseProblem):
        return problem
    choice = choice_of(problem, kernel) if choice is None else choice
    if choice.scale is not None:
        problem = with_scale_coordinate(problem, choice.scale)
    problem = merged(problem)
    searched = problem.searched
    condensed, reference = choice.condensed(searched), choice.reference
    if reference is None and kernel.target_kind == "laplace":  # none stored in the folder
        reference = laplace_reference(condensed)
    if isinstance(reference, Lift):
        problem = partly_lifted_problem(problem, reference, condensed)
    elif reference is not None or condensed is not searched:
        problem = referred(problem, reference, condensed)
    return problem.lifted() if kernel.target_kind == "manifold" else OrdinaryPosterior(problem)


def find_kernel(kernel: str | Kernel) -> Kernel:
    """Return a kernel by name, with default options, or the given kernel."""
    if isinstance(kernel, Kernel):
        if type(kernel) in KERNELS.values():
            check_options(table_of_dataclass(type(kernel)), **vars(kernel))
        return kernel
    if kernel not in KERNELS:
        raise InputError("method", f"one of {', '.join(KERNELS)}", f"{kernel!r}", "choose one")
    return KERNELS[kernel]()
