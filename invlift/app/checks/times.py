"""Readings of a field that changes in time: when they are, and what stands for all times."""

from __future__ import annotations

import numpy as np

from invlift.app.checks.findings import Finding
from invlift.fem.time.equations import SteadyAndShifted
from invlift.fem.time.shifts import TOLERANCE
from invlift.models.base import AroundModel
from invlift.problems.problem import InverseProblem


def check_times(problem: InverseProblem) -> list[Finding]:
    """How many times, before and after the first change, and how well responses are met."""
    model = getattr(problem.model, "model", None)
    while isinstance(model, AroundModel):  # of a refined mesh, or a correction
        model = model.model
    if not isinstance(model, SteadyAndShifted):
        return []
    times, num_steady = problem.sensors.times, model.steady.loads.size
    is_before = ~np.asarray(problem.model.matrix)[:, num_steady:].any(axis=1)
    distinct = np.unique(times)
    detail = f"{len(distinct)} from {distinct[0]:.6g} to {distinct[-1]:.6g}, by solutions of "
    detail += f"{model.shifted.shifts.size} steady equations"
    if model.error is not None:
        detail += f" (error below {model.error:.1g} of each mode's response)"
    if before := np.count_nonzero(is_before):
        detail += f"; {before} readings are not after the first change, and of the steady state"
    is_rough = model.error is not None and model.error > TOLERANCE
    return [Finding("note" if before or is_rough else "ok", "times", detail)]
