"""Whether readings determine the level of a field, or ratios of its values alone."""

from __future__ import annotations

import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.problems import AnyProblem
from invlift.app.runs.quantities import field_of, field_prior
from invlift.programs.compilation import program

#: Change of readings, relative to the largest, that is one of rounding when a field moves by 1.
NO_CHANGE = 1e-6


def check_level(problem: AnyProblem) -> list[Finding]:
    """A note if no reading changes with the level of the field; nothing without a field.

    So it is of a conductivity if only values of the solution are held and read: with twice the
    conductivity twice as much flows, and the solution is the same (div(exp(phi) grad u) = 0).
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
