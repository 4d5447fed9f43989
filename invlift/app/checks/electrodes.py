"""Electrodes: how large or how close they are, and what they are driven by."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from scipy.spatial.distance import pdist

from invlift.app.checks.findings import Finding
from invlift.fem.electrodes.injections import distinct, patterns_of_pairs
from invlift.fem.electrodes.quadrupoles import electrode_numbers, geometric_factors, patterns_of
from invlift.fem.mesh.functionals import facet_sizes
from invlift.fem.mesh.mesh import Mesh
from invlift.models.combinations import Combinations
from invlift.problems.problem import InverseProblem
from invlift.programs.compilation import program
from invlift.unknowns.priors.partly_known import PartlyKnownPrior

#: Share of a reading of uniform ground that a mesh may miss it by without a note, and without a
#: doubt in the verdict on a run.
FAR_OFF, TOO_FAR_OFF = 0.03, 0.1

REMEDY = "refine the mesh near electrodes, or take it further out"


@program
def _readings(model, coefficients):
    return model(coefficients)


def check_electrodes(problem: InverseProblem) -> Finding:
    """Number and size, pairs that drive, and how well the mesh has uniform ground."""
    sensors, names = problem.sensors, problem.sensors.electrode_groups
    num = len(names or sensors.positions)
    if names:
        level, of_them = _contacts(problem.mesh, names)
        driven = patterns_of(sensors, names).currents
    else:
        numbers = electrode_numbers(sensors, range(1, num + 1), are_points=True)
        level, of_them = _points(problem, numbers)
        driven = patterns_of_pairs(numbers + 1, num + 1).currents  # the first is far away
    detail = f"{num} {of_them}; {len(distinct(driven)[0])} "
    detail += "pairs of them drive a current" if sensors.currents is None else "currents are driven"
    if isinstance(model := problem.model, Combinations):
        num = np.linalg.matrix_rank(np.asarray(model.matrix))
        detail += f"; the readings are combinations of {num} numbers"
    return Finding(level, "electrodes", detail)


def _contacts(mesh: Mesh, names: Sequence[str]) -> tuple[str, str]:
    facets = [mesh.facets(name) for name in names]
    counts = [len(each) for each in facets]
    sizes = [facet_sizes(mesh.points[each]).sum() for each in facets]
    what = "wide" if mesh.dim == 2 else "in area"
    detail = f"electrodes of {min(counts)} to {max(counts)} boundary facets, "
    return "ok", detail + f"{min(sizes):.3g} to {max(sizes):.3g} {what}"


def _points(problem: InverseProblem, numbers: np.ndarray) -> tuple[str, str]:
    """How close they are, and what the mesh makes of uniform ground with a flat surface."""
    positions = problem.sensors.positions
    detail = f"point electrodes, the closest two {pdist(positions).min():.3g} apart"
    errors = _errors_of_uniform_ground(problem, numbers)
    if not errors.size:
        return "ok", detail
    detail = f"{detail}; {_in_words(errors)}"
    return ("ok", detail) if errors.max() < FAR_OFF else ("note", f"{detail}: {REMEDY}")


def _errors_of_uniform_ground(problem: InverseProblem, numbers: np.ndarray) -> np.ndarray:
    """By what share readings of uniform ground are wrong on the mesh; (0,) where nobody knows.

    That of flat ground is known in closed form.
    """
    positions, prior = problem.sensors.positions, problem.prior
    if np.ptp(positions[:, -1]) > 0.0 or isinstance(prior, PartlyKnownPrior):
        return np.zeros(0)
    factors = geometric_factors(positions, numbers)
    size = jax.eval_shape(prior.transform, np.zeros(prior.num_white)).shape
    found = np.asarray(_readings(problem.model, np.zeros(size)))
    return np.abs(found * factors - 1.0)[np.isfinite(factors)]


def _in_words(errors: np.ndarray) -> str:
    text = f"readings of uniform ground are up to {100 * errors.max():.2g} % wrong on this mesh "
    text += f"(median {100 * np.median(errors):.2g} %)"
    return text


def electrode_doubts(problem: InverseProblem) -> list[tuple[str, str]]:
    """What is wrong with the mesh of point electrodes, if anything is, and what to do."""
    sensors = problem.sensors
    if sensors is None or sensors.electrodes is None or sensors.electrode_groups:
        return []
    names = range(1, len(sensors.positions) + 1)
    errors = _errors_of_uniform_ground(problem, electrode_numbers(sensors, names, are_points=True))
    is_far = errors.size and errors.max() > TOO_FAR_OFF
    text = f"the mesh ends too near its electrodes, or is too coarse at them: {_in_words(errors)}"
    return [(text, REMEDY)] if is_far else []
