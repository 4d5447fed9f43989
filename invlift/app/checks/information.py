"""Checks of the information in readings on each unknown, and on storage of a transient field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import jax
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.fem.time.equations import ShiftedEquations
from invlift.models.base import ForwardModel
from invlift.problems.problem import InverseProblem, prediction
from invlift.problems.starts.search import Fit
from invlift.unknowns.distributions import Distribution

#: Factor of a storage so large that no change has arrived at any reading.
ENDLESS = 1e12
#: Factors of other times at which readings might have more information.
FACTORS = 10.0 ** np.arange(1, 7)
#: Norm of differences, in sd of the noise, below which two sets of readings are equal.
ALIKE = 1.0
#: Smallest ratio of posterior to prior standard deviation of an unknown for a note.
HARDLY_LESS = 0.9


def check_information(problem: InverseProblem, fit: Fit | None) -> list[Finding]:
    """Return notes on unknowns without information, and on times that do not resolve the diffusion.

    For a transient field, and for a field with further unknowns such as contact impedances.

    Parameters
    ----------
    problem : InverseProblem
    fit : Fit or None
        Fit at the posterior mode. The findings hold for the field at the mode.
    """
    if fit is None or problem.noise.is_exact:
        return []
    is_in_time = any(map(_is_in_time, jax.tree.leaves(problem.model, is_leaf=_is_in_time)))
    if not (is_in_time or problem.model.on_mesh.further):
        return []
    theta = np.concatenate([np.zeros(problem.noise.num_parameters), fit.white])

    @cache
    def predicted(factor: float) -> np.ndarray:
        """Predict the readings with the storage times a factor, as at times divided by it."""
        model = _with_storage(problem.model, factor)
        return problem.of_searched(np.asarray(prediction(replace(problem, model=model), theta)))

    of_times = _of_times(predicted, fit.sd) if is_in_time else []
    return [*of_times, *_of_unknowns(problem, fit)]


def _is_in_time(part) -> bool:
    return isinstance(part, ShiftedEquations)


def _with_storage(model: ForwardModel, factor: float) -> ForwardModel:
    """Return the model with its storage, and so each shift, multiplied by a factor."""

    def scaled(part):
        return replace(part, shifts=factor * part.shifts) if _is_in_time(part) else part

    return jax.tree.map(scaled, model, is_leaf=_is_in_time)


def _of_times(predicted: Callable[[float], np.ndarray], sd: np.ndarray) -> list[Finding]:
    """Return a note if all readings are before a change arrives, or after it has ended."""

    def difference(one, other):
        return float(np.linalg.norm((one - other) / sd))

    now, before = predicted(1.0), predicted(ENDLESS)
    name, detail = "diffusion time", "nothing that changes has arrived yet at any reading: they "
    if (gap := difference(now, before)) < ALIKE:
        arrived = (f for f in FACTORS if difference(predicted(1.0 / f), before) >= ALIKE)
        if (factor := next(arrived, None)) is None:
            return []
        detail += f"all together differ from the state before by {gap:.2g} sd of the noise; times "
        detail += f"after the changes, or periods, that are {factor:g} times longer would show it"
        return [Finding("note", name, detail)]
    if (gap := difference(now, predicted(0.1))) >= ALIKE:
        return []
    others = (f for f in FACTORS if difference(predicted(f), predicted(0.1 * f)) >= ALIKE)
    if (factor := next(others, None)) is None:
        return []
    detail = "all readings are of the state in which the changes end: with a tenth of the storage, "
    detail += f"all together change by {gap:.2g} sd of the noise; times after the changes, or "
    detail += f"periods, that are {factor:g} times shorter would show the storage"
    return [Finding("note", name, detail)]


def _of_unknowns(problem: InverseProblem, fit: Fit) -> list[Finding]:
    """Return notes on unknowns whose standard deviation the readings hardly reduce.

    The Laplace approximation is used. The sum of the variance reductions of all white variables of
    a field is an upper bound of the reduction in any direction. Entries of a vector of independent
    numbers are judged one by one.
    """
    prior = problem.prior
    name = problem.coefficients_name
    parts = prior.split(fit.white_sd) if prior.shapes else [(name, prior, fit.white_sd)]
    findings = []
    for name, part, own in parts:
        own = np.asarray(own)
        share = np.sqrt(max(1.0 - np.sum(1.0 - own**2), 0.0))
        if isinstance(part, Distribution) and part.is_elementwise:  # independent numbers
            untold = own[own >= HARDLY_LESS]
            share = untold.min(initial=1.0) if untold.size else 0.0
            name = name if untold.size == own.size else f"{untold.size} of {own.size} {name}s"
        if own.size and share >= HARDLY_LESS:
            detail = f"the readings tell next to nothing of {name}: its standard deviation stays "
            detail += f"{100.0 * share:.3g} % of that of its prior, or more"
            findings.append(Finding("note", name, detail))
    return findings
