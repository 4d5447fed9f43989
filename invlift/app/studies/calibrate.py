"""Simulation-based calibration of a problem: ranks of true values among posterior draws.

Talts, Betancourt, Simpson, Vehtari & Gelman (2018), arXiv:1804.06788.  Simulations differ only in
the data, which are arguments of compiled programs, so that all simulations share these programs.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from invlift.app.problem.table_errors import check_options
from invlift.app.problems import with_readings
from invlift.app.runs.progress import given_or_shown, simulations_display
from invlift.app.runs.sampling import check_sampler, find_kernel, target_of, versions
from invlift.app.runs.scalars import LOG_LIKELIHOOD, RankedScalars, names_of_fields, random_entries
from invlift.app.runs.starts import STARTS
from invlift.app.studies.calibration_table import read_simulations, write_simulations
from invlift.app.studies.simulate import simulate_problem
from invlift.chains import Chain
from invlift.errors import InputError, first_line, printable
from invlift.files.output_folder import OutputFolder
from invlift.files.tables import Table, integer
from invlift.keywords import earlier_names
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.posterior.output.files import write_json
from invlift.posterior.statistics.calibration import (
    FINE,
    Calibration,
    Simulation,
    effective_draws,
    rank_of,
)
from invlift.problems.problem import InverseProblem
from invlift.programs.compilation import num_cores, program
from invlift.programs.digest import digest
from invlift.programs.precision import require_float64
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.turns import Turns
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels.base import Kernel

logger = logging.getLogger(__name__)

TABLE, RECORD, FIGURE = "calibration.csv", "calibration.json", "calibration.png"
#: Draws of a chain per stored draw: first value, doubled while stored draws would be dependent, and
#: largest value. Third, the fewest draws of a chain, as fewer do not show such dependence.
FIRST_DRAWS, MOST_DRAWS, FEWEST_DRAWS = 2, 32, 100
#: Simulations in which a quantity must have different values.
NUM_TRIED = 8
_NOT_FINITE = "draws that are not finite"


class CalibrationTable(Table):
    """Sizes of a calibration."""

    simulations: integer(1, 10**6)
    """The number of simulations, 200 for example."""
    draws: integer(7, 9999) = 63
    """The draws that each truth is ranked among."""


@program
def _describe(target, where):
    return target.describe(where)[0]


@earlier_names(kernel="method")
def calibrate(
    problem: InverseProblem,
    method: str | Kernel = "chmc",
    *,
    simulations: int,
    draws: int = 63,
    warmup: int = 200,
    seed: int = 0,
    starts: str = "prior",
    directory: str | Path | None = None,
    resume: bool = False,
    on_simulation: Callable[[Simulation, int], None] | None = None,
) -> Calibration:
    """Rank true values among posterior draws, in simulations from prior and noise.

    In each simulation, unknowns are drawn from the prior and readings are simulated from them. One
    chain samples the posterior given these readings and is thinned to nearly independent draws.  If
    the draws are from the posterior, the ranks of the true values among them are uniform (Talts et
    al. 2018, arXiv:1804.06788, theorem 1 and section 5.1).  Simulations run in parallel on the
    cores of the machine.

    Parameters
    ----------
    problem : InverseProblem
        The problem; its data are not used.
    method, warmup, starts
        See :func:`~invlift.app.runs.sampling.sample`.
    simulations : int
        Number of simulations, M.
    draws : int
        Number of draws L among which each truth is ranked, 7 to 9,999.  Chains run until the
        smallest effective sample size of all quantities is L, or to 32 L draws.  Histograms need
        divisors of L + 1: 64 and 100 have many.
    seed : int
        Simulation k depends only on (seed, k), not on the number of cores and simulations.
    directory : path, optional
        Folder for `calibration.csv`, rewritten after each simulation, and `calibration.json`.
    resume : bool
        Continue the calibration in ``directory`` up to the requested number of simulations, or to
        the number there if it is larger.
    on_simulation : callable
        Called after each simulation, with the simulation and the number of finished ones.  By
        default notebooks and terminals show a bar.

    Returns
    -------
    Calibration
        After Ctrl-C it contains the simulations finished until then.  A simulation whose chain
        fails is included, with the reason as its outcome.

    Raises
    ------
    InputError
        If an argument is out of range, readings cannot be simulated, or the directory contains a
        calibration that is not to be resumed or differs in its settings.
    """
    problem = with_readings(problem, "problem", "calibrate")
    require_float64(observed=problem.observed)
    kernel = find_kernel(method)
    check_options(CalibrationTable, simulations=simulations, draws=draws)
    check_sampler(kernel, warmup=warmup, seed=seed, starts=starts)
    if directory is None and resume:
        raise InputError("resume", "a directory with a calibration", "none", "name it")
    if directory is not None:
        _folder(directory := Path(directory)).check(is_resuming=resume)
    display = given_or_shown(on_simulation, simulations_display, simulations)
    locked = _folder(directory).lock() if directory else nullcontext()
    with single_threaded_blas(), locked, display as on_simulation:
        task = _Task(problem, kernel, draws, warmup, seed, starts, random_entries(problem, seed))
        identity = task.identity()
        saved = _simulations_done(directory, identity) if directory else []
        simulations = max(simulations, *(each.simulation + 1 for each in saved), 0)
        asked_for = range(simulations)
        done = {each.simulation: each for each in saved}

        def keep(simulation: Simulation) -> None:
            done[simulation.simulation] = simulation
            if directory is not None:
                write_simulations(directory / TABLE, done.values(), identity)
            on_simulation(simulation, sum(number in done for number in asked_for))

        _run([number for number in asked_for if number not in done], task.simulate, keep)
        wanted = [done[number] for number in asked_for if number in done]
        calibration = Calibration(wanted, task.names, draws, simulations)
        if directory is not None:
            is_cut_short = len(wanted) < simulations
            record = {"identity": identity, "versions": versions(), "is_interrupted": is_cut_short}
            write_json(directory / RECORD, record | calibration.record())
        return calibration


# The directory ------------------------------------------------------------------------------------


def _folder(directory: Path) -> OutputFolder:
    return OutputFolder(directory, "calibration", RECORD)


def _simulations_done(directory: Path, identity: Mapping[str, Any]) -> list[Simulation]:
    """Return the simulations in a directory; an empty directory gets the identity of this one.

    Raises an InputError if the directory has another calibration, or a file is damaged.
    """
    path, table = directory / RECORD, directory / TABLE
    if not path.exists():
        write_json(path, {"identity": identity})
    try:
        recorded = dict(json.loads(path.read_text("utf-8"))["identity"])
        is_own = all(recorded.get(key) == value for key, value in identity.items())
        if is_own:
            return _whole_rows(table, identity) if table.exists() else []
    except (ValueError, LookupError, TypeError) as error:
        what, remedy = "the files of a calibration", "begin anew in another directory"
        raise InputError(f"{directory}", what, first_line(error), remedy) from None
    _folder(directory).check_identity(recorded, identity)


def _whole_rows(table: Path, identity: Mapping[str, Any]) -> list[Simulation]:
    """Return the simulations with undamaged rows of a table; log the number of other rows."""
    simulations, num_damaged = read_simulations(table, identity)
    if num_damaged:
        them = "its simulation is" if num_damaged == 1 else "their simulations are"
        rows = f"{num_damaged} row{'s' * (num_damaged > 1)}"
        logger.warning("%s: %s cut off or changed; %s run again", table, rows, them)
    return simulations


# One simulation -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """Problem, kernel and settings of all simulations."""

    problem: InverseProblem
    kernel: Kernel
    num_kept: int
    num_warmup: int
    seed: int
    starts: str
    entries: dict[str, dict[str, int]]
    turns: Turns = field(default_factory=Turns)

    def identity(self) -> dict[str, Any]:
        """Return the settings that determine the ranks, for JSON.

        The number of simulations is not among them.
        """
        observed, censored = np.asarray(self.problem.observed), self.problem.noise.censored
        limits = np.zeros(observed.shape) if censored is None else np.where(censored, observed, 0.0)
        without_data = replace(self.problem, observed=limits)
        return {
            "method": type(self.kernel).__name__,
            "warmup": self.num_warmup,
            "num_draws": self.num_kept,
            "seed": self.seed,
            "starts": self.starts,
            "problem": digest(without_data, self.kernel, self.entries),
            "names": list(self.names),
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of quantities that differ between simulations: numbers first, entries last."""
        truths = []
        for simulation in range(NUM_TRIED):
            with suppress(InputError):
                truths.append(self._simulated(simulation)[1])
        truths = truths or [self._simulated(0)[1]]  # raises the error of the first simulation
        columns = {name: [truth[name] for truth in truths] for name in truths[0]}
        entries = [name for names in self.entries.values() for name in names]
        varying = [
            name
            for name, column in columns.items()
            if len(truths) == 1 or np.ptp(column) > 1e-9 * np.max(np.abs(column))
        ]
        is_late = {LOG_LIKELIHOOD: 2} | dict.fromkeys(entries, 3)
        return tuple(sorted(varying, key=lambda name: is_late.get(name, "_field_" in name)))

    def simulate(self, simulation: int) -> Simulation:
        """Simulate readings, sample their posterior, and rank the truth."""
        began, failure = time.perf_counter(), "no readings"
        try:
            problem, truth = self._simulated(simulation)
            failure = "no chain"
            result = self._chain(problem, self._seeds(simulation)[1])
        except InputError as error:
            reason = printable(" ".join(f"{failure} ({error.where}: {error.found})".split()))
            return Simulation(simulation, reason, {}, seconds=time.perf_counter() - began)
        outcome, ess, draws = self._judged(result)
        ranks = {name: rank_of(truth[name], draws[name], self.num_kept) for name in self.names}
        ranks = {} if outcome == _NOT_FINITE else ranks
        numbers = result.step_size, np.mean(result.stats["acceptance_rate"])
        numbers = *map(float, numbers), time.perf_counter() - began
        return Simulation(simulation, outcome, ranks, result.num_draws, ess, *numbers)

    def _chain(self, problem: InverseProblem, seed: int) -> Chain:
        """Run a chain until it is long enough, or to its largest length."""
        target = target_of(problem, self.kernel)

        def next_goal(results: Sequence[Chain]) -> int | None:
            num_draws, (outcome, *_) = results[0].num_draws, self._judged(results[0])
            is_longest = num_draws >= MOST_DRAWS * self.num_kept
            return None if is_longest or outcome in (FINE, _NOT_FINITE) else 2 * num_draws

        num_draws = max(FIRST_DRAWS * self.num_kept, FEWEST_DRAWS)
        plan, starts = Plan(self.kernel, self.num_warmup, num_draws), STARTS[self.starts]
        starts, recorder = starts(self.kernel, target, seed, 1), self._recorder(target)
        run = run_chains(recorder, plan, starts, seed, next_goal=next_goal, turns=self.turns)
        return run.chains[0]

    def _judged(self, result: Chain) -> tuple[str, float, dict[str, np.ndarray]]:
        """Return the outcome of a chain, its smallest effective sample size, and draws by name."""
        every = self._scalars(result.draws)
        draws = {name: every[name] for name in self.names}
        values = list(draws.values())
        if not np.isfinite(values).all():
            return _NOT_FINITE, float("nan"), draws
        if not np.ptp(values, axis=1).any():
            return "the chain never moved", 0.0, draws
        ess = effective_draws(draws)
        return (FINE if ess >= self.num_kept else "too few effective draws"), ess, draws

    def _seeds(self, simulation: int) -> tuple[int, int]:
        """Return the seeds of data and chain of a simulation."""
        states = np.random.SeedSequence((self.seed, simulation)).generate_state(2, np.uint64)
        return tuple(int(state) >> 1 for state in states)

    def _recorder(self, target) -> RankedScalars:
        places = {
            vector: np.array([*entries.values()], int) for vector, entries in self.entries.items()
        }
        return RankedScalars(target, names_of_fields(self.problem), jax.device_put(places))

    def _simulated(self, simulation: int) -> tuple[InverseProblem, dict[str, float]]:
        """Return the problem with simulated readings, and the true values by name."""
        problem, theta = simulate_problem(self.problem, self._seeds(simulation)[0])
        truth = _describe(self._recorder(OrdinaryPosterior(problem)), theta)
        each = self._scalars({name: np.asarray(value)[None] for name, value in truth.items()})
        return problem, {name: float(value[0]) for name, value in each.items()}

    def _scalars(self, recorded: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return scalars (num_draws,) by name, from scalars and vectors (num_draws, k)."""
        scalars = {}
        for name, values in recorded.items():
            names = self.entries.get(name, [name])
            scalars |= dict(zip(names, np.atleast_2d(values.T), strict=True))
        return scalars


def _run(numbers: Iterable[int], simulate: Callable, keep: Callable) -> None:
    """Run simulations on all cores and keep each; after Ctrl-C, also those already running."""
    executor = ThreadPoolExecutor(num_cores(), thread_name_prefix="simulation")
    waiting = [executor.submit(simulate, number) for number in numbers]
    try:
        for future in as_completed(list(waiting)):
            waiting.remove(future)
            keep(future.result())
    except KeyboardInterrupt:
        executor.shutdown(cancel_futures=True)
        for future in waiting:
            if not future.cancelled():
                keep(future.result())
    finally:
        executor.shutdown(cancel_futures=True)
