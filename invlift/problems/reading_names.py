"""What messages call readings and constraints."""

from __future__ import annotations

from invlift.models.named_readings import labels_of
from invlift.problems.problem import InverseProblem


def name_of_reading(problem: InverseProblem, index: int) -> str:
    """What messages call a reading: by its name, by its sensor on a mesh, or by its number."""
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
    """Of the readings, if they have names and the target is that of a problem."""
    model = getattr(getattr(target, "problem", None), "model", None)
    return labels_of(getattr(model, "readings", ()))
