"""Whether readings are where the prior predicts them: a wrong unit shows there."""

from __future__ import annotations

import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.studies.simulate import draw_predictions
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.problems.reading_names import name_of_reading

#: Draws from the prior, and the fewest that must be finite for a comparison.
NUM_DRAWS, FEWEST = 100, 20


def check_predictions(problem: InverseProblem | ManifoldProblem, seed: int) -> list[Finding]:
    """Readings beside what draws from the prior predict for them, without noise.

    Remarkable if most of them are outside the range of all draws by more than its width, or by more
    than the same factor where all draws have one sign. Nothing where there are no readings, or
    where the model is hardly ever finite.
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
