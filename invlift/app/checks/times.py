"""Checks of the times of readings of a transient field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from invlift.app.checks.findings import Finding
from invlift.fem.equations.experiments import Experiments
from invlift.fem.equations.surveys import Survey
from invlift.fem.readings.sensors import Sensors
from invlift.fem.time.equations import SteadyAndShifted
from invlift.fem.time.shifts import SHORTEST, TOLERANCE
from invlift.models.base import AroundModel, ForwardModel
from invlift.problems.descriptions import ends_of
from invlift.problems.problem import InverseProblem


def check_times(problem: InverseProblem) -> list[Finding]:
    """Check each survey: number of times, readings before the first change, error of responses."""
    return [
        _of_times(problem.sensors.take(where), model, matrix, survey)
        for where, model, matrix, survey in _in_time(problem.model)
    ]


def _in_time(model: ForwardModel) -> Iterator[tuple[Any, SteadyAndShifted, np.ndarray, str]]:
    """Yield the indices of transient readings, their model, its weights, and their survey."""
    if isinstance(model, Experiments):
        for each, where in zip(model.equations, model.places, strict=True):
            for _, *parts in _in_time(each.model if isinstance(each, Survey) else each):
                yield np.asarray(where), *parts[:2], each.name
        return
    matrix, inner = getattr(model, "matrix", None), getattr(model, "model", None)
    while isinstance(inner, AroundModel):  # a refined mesh or a correction
        inner = inner.model
    if isinstance(inner, SteadyAndShifted):
        yield slice(None), inner, np.asarray(matrix), ""


def _of_times(sensors: Sensors, model: SteadyAndShifted, matrix, survey: str) -> Finding:
    is_before = ~matrix[:, model.steady.loads.size :].any(axis=1)
    distinct, lengths = np.unique(sensors.times), sensors.averaged_over
    detail = f"{len(distinct)} from {distinct[0]:.6g} to {distinct[-1]:.6g}, by solutions of "
    detail += f"{model.shifted.shifts.size} steady equations"
    if model.error is not None:
        detail += f" (error below {model.error:.1g} of each mode's response)"
    if lengths is not None and (num := np.count_nonzero(lengths > 0.0)):
        are = "means" if sensors.moment is None else "means or moments"
        over = ends_of(lengths[lengths > 0.0], ".6g")
        detail += f"; {num} readings are {are} over {over} before them"
    if before := np.count_nonzero(is_before):
        detail += (
            f"; {before} readings are not later than the first change: they are of the steady state"
        )
    is_rough = model.error is not None and model.error > TOLERANCE
    if is_rough:
        detail += (
            f"; leave out readings sooner after a change than {SHORTEST:g} of the longest time"
        )
    what = f"times of survey {survey}" if survey else "times"
    return Finding("note" if before or is_rough else "ok", what, detail)
