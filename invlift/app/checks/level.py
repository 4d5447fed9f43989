"""Check whether readings determine the level of a field, or only ratios of its values."""

from __future__ import annotations

import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.problems import AnyProblem
from invlift.app.runs.quantities import field_of, field_prior
from invlift.programs.compilation import program

#: Relative change of readings up to which it is rounding, if a field moves by 1.
NO_CHANGE = 1e-6


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
