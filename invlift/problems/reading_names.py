"""Names of readings and constraints in messages."""

from __future__ import annotations

from invlift.models.named_readings import labels_of
from invlift.problems.problem import InverseProblem


def name_of_reading(problem: InverseProblem, index: int) -> str:
    """Return the name of a reading for messages: its label, its sensor, or its index."""
    combination = index
    problem, index = problem.reading_asked_for(index)
    if index is None:
        return f"combination {combination} of the readings"
    if labels := labels_of(problem.model.readings):
        return labels[index]
    labels = getattr(problem.sensors, "labels", None)
    if labels is not None:
        return f"sensor {labels[index]}"
    return f"sensor {index}" if problem.model.solutions else f"reading {index}"


def names_of_constraints(target) -> list[str]:
    """Return the names of the readings, if the target is that of a problem with named readings."""
    model = getattr(getattr(target, "problem", None), "model", None)
    return labels_of(getattr(model, "readings", ()))
