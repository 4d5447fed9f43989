"""Leave-one-out predictions by runs without a reading, for readings with unreliable weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import logsumexp, ndtr

from invlift.app.runs.results import posterior_of
from invlift.app.runs.sampling import sample
from invlift.errors import InputError
from invlift.posterior.output.files import write_table
from invlift.posterior.statistics.diagnostics import diagnose
from invlift.posterior.statistics.leave_one_out import LeaveOneOut
from invlift.problems.censored import with_censored
from invlift.problems.inverse_problem import InverseProblem

#: The table in the folder of a run.
TABLE = "loo_refit.csv"


@dataclass(frozen=True)
class Refit:
    """Prediction of a reading by a run without it.

    Attributes
    ----------
    row : int
        Number of the reading, from 0.
    sensor : str
    observed, mean, sd : float
        The reading; mean and standard deviation of its prediction without noise.
    pit : float
        P(new reading <= the reading), with noise.
    elpd, elpd_error : float
        Log density of the reading, and its Monte Carlo standard error.
    weighted, pareto_k : float
        Log density from the weighted draws of the run with all readings, and the Pareto shape of
        the tail of the weights.
    is_converged : bool
        The verdict on the run.
    """

    row: int
    sensor: str
    observed: float
    mean: float
    sd: float
    pit: float
    elpd: float
    elpd_error: float
    weighted: float
    pareto_k: float
    is_converged: bool


def least_reliable(loo: LeaveOneOut, num: int) -> list[int]:
    """Return the numbers of the readings with the largest Pareto k, the largest first."""
    return np.argsort(-loo.pareto_k, kind="stable")[:num].tolist()


def refit(
    problem: InverseProblem, loo: LeaveOneOut, rows: Sequence[int], **options
) -> Iterator[Refit]:
    """Sample the posterior without each of the given readings in turn.

    Parameters
    ----------
    problem : InverseProblem
        A problem with d readings, with a separate density each.
    loo : LeaveOneOut
        Leave-one-out predictions of a run of the problem.
    rows : sequence of int
        Numbers of the readings, from 0.
    **options
        Options of :func:`~invlift.app.runs.sampling.sample`.

    Yields
    ------
    Refit
        The result of each run, as soon as it is finished.

    Raises
    ------
    InputError
        If the readings do not have separate densities, or no other reading has a value.
    """
    if not problem.can_leave_out:
        expected, found = "a model whose readings have noise of their own", type(problem).__name__
        raise InputError("refit", expected, f"a {found}", "take the quick estimate")
    for row in rows:
        noise = problem.noise.without_reading(row, problem.num_observations)
        run = sample(with_censored(replace(problem, noise=noise)), **options)
        # Only the problem with all readings has the density of the reading that was left out.
        posterior = posterior_of(problem, replace(run, problem=""))
        if not posterior.fit.is_loo_of_sensors:
            remedy = "take the quick estimate"
            raise InputError("refit", "one density for each reading", "others", remedy)
        chains = [chain[:, row] for chain in posterior.fit.log_likelihood]
        whole = np.concatenate(chains)
        densities = [np.exp(chain - whole.max()) for chain in chains]
        pooled, ess = np.concatenate(densities), diagnose([x[:, None] for x in densities]).ess_mean
        predicted, scores = (
            np.concatenate([each[:, row] for each in draws])
            for draws in (posterior.fit.predictions, posterior.fit.scores)
        )
        names = posterior.sensors.labels
        yield Refit(
            row=row,
            sensor=str(row if names is None else names[row]),
            observed=float(np.asarray(problem.observed)[row]),
            mean=float(predicted.mean()),
            sd=float(predicted.std(ddof=1)),
            pit=float(ndtr(scores).mean()),
            elpd=float(logsumexp(whole) - np.log(whole.size)),
            elpd_error=float(pooled.std(ddof=1) / pooled.mean() / np.sqrt(ess[0])),
            weighted=float(loo.elpd[row]),
            pareto_k=float(loo.pareto_k[row]),
            is_converged=posterior.verdict().is_converged,
        )


def write_refits(folder: Path, refits: Sequence[Refit]) -> Path:
    """Write the table of refits into the folder of a run."""
    path = folder / TABLE
    write_table(path, pd.DataFrame([asdict(each) for each in refits]).set_index("row"))
    return path
