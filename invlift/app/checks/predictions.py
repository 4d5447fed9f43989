"""Checks of what the prior predicts: wrong units, and a level that no reading determines."""

from __future__ import annotations

import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.problems import AnyProblem
from invlift.app.runs.quantities import field_of, field_prior
from invlift.app.studies.simulate import draw_predictions
from invlift.problems.problem import name_of_reading
from invlift.programs.compilation import program

#: Number of draws from the prior, and fewest finite ones for a comparison.
NUM_DRAWS, FEWEST = 100, 20
#: Relative change of readings up to which it is rounding, if a field moves by 1.
NO_CHANGE = 1e-6


def check_predictions(problem: AnyProblem, seed: int) -> list[Finding]:
    """Compare the readings with noise-free predictions of draws from the prior.

    The finding is a note if most readings are outside the range of all draws by more than its
    width, or by more than the ratio of its ends if all draws have one sign. Nothing if there are no
    readings, or if the model is finite for few draws.
    """
    if not problem.has_readings:
        return []
    observed, predicted = np.asarray(problem.observed), draw_predictions(problem, NUM_DRAWS, seed)
    predicted = predicted[np.isfinite(predicted).all(axis=1)]
    if len(predicted) < FEWEST:
        return []
    low, high = predicted.min(axis=0), predicted.max(axis=0)
    is_far = _far(observed, low, high)
    if problem.noise.censored is not None:  # a limit may be far from all readings within it
        signs = np.asarray(problem.noise.censored)
        is_far &= (signs == 0.0) | (signs * (observed - np.where(signs > 0.0, high, low)) > 0.0)
    detail = f"{observed.min():.3g} to {observed.max():.3g}; the prior predicts, without noise, "
    detail += "{:.3g} to {:.3g} (95 % of all)".format(*np.quantile(predicted, [0.025, 0.975]))
    if 2 * is_far.sum() <= observed.size:
        return [Finding("ok", "readings", detail)]
    first = int(np.argmax(is_far))
    detail += f"; {is_far.sum()} of {observed.size} are far outside, the first is "
    detail += f"{name_of_reading(problem, first)}: {observed[first]:.3g} where {len(predicted)} "
    detail += f"draws give {low[first]:.3g} to {high[first]:.3g}; is a unit wrong, or the prior?"
    return [Finding("note", "readings", detail)]


def _far(observed, low, high):
    is_far = np.maximum(low - observed, observed - high) > high - low
    of_one_sign, sign = low * high > 0.0, np.sign(low)
    least, most = np.minimum(np.abs(low), np.abs(high)), np.maximum(np.abs(low), np.abs(high))
    is_far |= of_one_sign & (sign * observed * most < least * least)
    return is_far


def check_level(problem: AnyProblem) -> list[Finding]:
    """Return a note if no reading changes with the level of the field; nothing without a field.

    This happens for a conductivity if all boundary conditions and readings are values of the
    solution: twice the conductivity gives twice the flux and the same solution (div(exp(phi) grad
    u) = 0).
    """
    if problem.mesh is None:
        return []
    prior = problem.prior
    move = np.where(field_prior(problem).pointwise_std() > 0.0, 1.0, 0.0)  # 0 where it is known
    if prior.shapes:
        name = field_of(problem).name
        parts = [move if each == name else np.zeros(shape).ravel() for each, shape in prior.shapes]
        move = np.concatenate(parts)
    white = np.zeros(prior.num_white)
    before, after = (np.asarray(_readings(problem.model, prior, white, by * move)) for by in (0, 1))
    if not move.any() or not np.isfinite(after).all():
        return []
    if np.abs(after - before).max() > NO_CHANGE * np.abs(before).max():
        return []
    detail = "no reading changes if the whole field moves by a constant: readings determine "
    detail += "only ratios of the conductivity, and the prior its level; a known source, flux, "
    detail += "transfer coefficient or conductivity somewhere would determine it"
    return [Finding("note", "level", detail)]


@program
def _readings(model, prior, white, move):
    return model(prior.transform(white) + move)
