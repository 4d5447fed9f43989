"""Comparison of samplers on one posterior, with equal numbers of chains and equal times."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from invlift.app.problem.run_tables import SamplerTable
from invlift.app.problem.table_errors import check_options
from invlift.app.problems import AnyProblem
from invlift.app.runs.progress import comparison_display, given_or_shown
from invlift.app.runs.sampling import find_kernel, target_of
from invlift.app.runs.scalars import Scalars, names_of_fields
from invlift.app.runs.starts import chosen_starts
from invlift.errors import InputError
from invlift.files.output_folder import OutputFolder
from invlift.keywords import earlier_names
from invlift.posterior.output.files import as_json, write_json
from invlift.posterior.statistics.comparison import Efficiency, efficiency
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.programs.precision import require_float64
from invlift.samplers.chains.chain import Progress
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels.base import Kernel
from invlift.targets import Target

#: NUTS in the coordinates of the samplers of NumPyro, for NumPyro models.
NUMPYRO_NUTS = "numpyro-nuts"
#: Note for a method that was interrupted.
INTERRUPTED = "stopped before its time was over"
#: Files of a comparison.
RECORD, TABLE, FIGURE = "comparison.json", "comparison.csv", "comparison.png"
#: Largest number of draws of a chain, even if time is left.
MAX_DRAWS = 1_000_000


@earlier_names(seconds="budget")
def compare(
    problem: AnyProblem,
    methods: Iterable[str] | Mapping[str, str | Kernel],
    *,
    budget: float = 60.0,
    chains: int = 4,
    warmup: int = 200,
    seed: int = 0,
    on_progress: Callable[[str, Progress], None] | None = None,
) -> Iterator[Efficiency]:
    """Run samplers on one posterior, one after the other.

    All have the same problem and forward map, the same number of chains and the same time, without
    compilation and the search for starts.  Warm-up ends after the given number of iterations, or
    after half of the time.

    Parameters
    ----------
    methods : names, or mapping of str to name or Kernel
        A mapping gives a name to each, for example ``{"hmc, dense": HMC(metric="dense")}``.  A
        NumPyro model also has "numpyro-nuts": NUTS in the coordinates of the samplers of NumPyro.
    budget : float
        Time of each chain, s.
    chains, warmup, seed : int
        See :func:`~invlift.app.runs.sampling.sample`.
    on_progress : callable
        Called after every block of iterations, with the name of the method and its progress.  By
        default notebooks and terminals show a bar for each method.

    Yields
    ------
    Efficiency
        The result of each method, as soon as it is finished.  After Ctrl-C the method that was
        running is the last.

    Raises
    ------
    InputError
        If a method is unknown, or an argument is out of range.  If a single method cannot sample,
        the reason is the ``note`` of its row.
    """
    named = dict(methods) if isinstance(methods, Mapping) else {name: name for name in methods}
    samplers = {name: _sampler(problem, method) for name, method in named.items()}
    check_options(SamplerTable, chains=chains, warmup=warmup, seed=seed)
    check_options(SamplerTable, budget=budget)
    require_float64()
    return _rows(problem, samplers, budget, chains, warmup, seed, on_progress)


def _sampler(
    problem: InverseProblem | ManifoldProblem, method: str | Kernel
) -> tuple[Kernel, Callable[[], Target]]:
    """Return the kernel of a method, and a function that makes its target."""
    if method == NUMPYRO_NUTS:
        # The imports for this method take a second.
        from invlift.problems.numpyro.numpyro_density import UnconstrainedDensity
        from invlift.problems.numpyro.numpyro_problem import NumPyroProblem

        if not isinstance(problem, NumPyroProblem):
            expected = f"a NumPyro model, for {NUMPYRO_NUTS}"
            raise InputError("methods", expected, "another problem", "take nuts")
        return find_kernel("nuts"), partial(UnconstrainedDensity, problem)
    kernel = find_kernel(method)
    return kernel, partial(target_of, problem, kernel)


def _rows(problem, samplers, seconds, chains, warmup, seed, on_progress) -> Iterator[Efficiency]:
    display = given_or_shown(on_progress, comparison_display, list(samplers))
    fields = names_of_fields(problem)
    with display as on_progress:
        for name, (kernel, make_target) in samplers.items():
            plan = Plan(kernel, warmup, MAX_DRAWS, max_seconds=seconds)
            try:
                target = make_target()
                with single_threaded_blas():
                    starts = chosen_starts(problem, "prior", chains)(kernel, target, seed)
                    recorder = Scalars(target, fields)
                    tell = partial(on_progress, name)
                    run = run_chains(recorder, plan, starts, seed, on_progress=tell)
            except InputError as error:
                yield Efficiency(name, note=str(error))
                continue
            try:
                row, is_last = efficiency(name, run.chains, run.standards), run.is_interrupted
            except KeyboardInterrupt:  # statistics of many draws take time; do not lose the draws
                row, is_last = efficiency(name, run.chains, run.standards), True
            yield replace(row, note=INTERRUPTED) if run.is_interrupted else row
            if is_last:
                return


# The record ---------------------------------------------------------------------------------------


def of_comparison(folder: Path) -> OutputFolder:
    """Return the folder of a comparison."""
    return OutputFolder(folder, "comparison", RECORD, (TABLE, FIGURE))


def write_comparison(folder: Path, rows: Sequence[Efficiency], identity: Mapping[str, Any]) -> None:
    """Write the rows of the finished methods, for :func:`read_comparison`."""
    record = json.loads(as_json({"identity": identity, "rows": [vars(row) for row in rows]}))
    write_json(folder / RECORD, record | {"checksum": _checksum(record)})


def read_comparison(folder: Path, identity: Mapping[str, Any]) -> list[Efficiency]:
    """Read the rows of a comparison to be continued, with the same identity.

    Raises
    ------
    InputError
        If there is no record, or it is damaged or belongs to another comparison.
    """
    path = folder / RECORD
    of_comparison(folder).check(is_resuming=True)
    try:
        record = dict(json.loads(path.read_text("utf-8")))
        is_whole = record.pop("checksum", None) == _checksum(record)
        recorded, rows = record["identity"], [_row(each) for each in record["rows"]]
    except (ValueError, LookupError, TypeError):
        is_whole = False
    remedy = "begin anew in another directory, by --out"
    if not is_whole:
        found = "one that is cut off or changed"
        raise InputError(f"{path}", "a record as it was written", found, remedy)
    of_comparison(folder).check_identity(recorded, identity)
    return rows


def _row(values: Mapping[str, Any]) -> Efficiency:
    return Efficiency(**{name: math.nan if x is None else x for name, x in values.items()})


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
