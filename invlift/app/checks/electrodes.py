"""Electrodes: how large or how close they are, and what they are driven by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import pdist

from invlift.app.checks.findings import Finding
from invlift.app.field_problem import FieldProblem
from invlift.fem.mesh.functionals import facet_sizes
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.voltages import electrode_numbers, geometric_factors
from invlift.inverse.priors.partly_known import PartlyKnownPrior
from invlift.inverse.reduced import reduced
from invlift.programs.compilation import program

#: Share of a reading of uniform ground that a mesh may miss it by without a note.
FAR_OFF = 0.03


@program
def _readings(model, coefficients):
    return model(coefficients)


def check_electrodes(field: FieldProblem) -> Finding:
    """Number and size, pairs that drive, and how well the mesh has uniform ground."""
    sensors, names = field.sensors, field.sensors.electrode_groups
    num = len(names or sensors.positions)
    numbers = electrode_numbers(sensors, names or range(1, num + 1), are_points=not names)
    pairs = len(np.unique(np.sort(numbers[:, :2], axis=1), axis=0))
    level, of_them = _contacts(field.mesh, names) if names else _points(field, numbers)
    detail = f"{num} {of_them}; {pairs} pairs of them drive a current"
    if (num := reduced(field.problem).num_observations) < len(sensors.values):
        detail += f"; the readings are combinations of {num} numbers, which stand for them"
    return Finding(level, "electrodes", detail)


def _contacts(mesh: Mesh, names: Sequence[str]) -> tuple[str, str]:
    facets = [mesh.facets(name) for name in names]
    counts = [len(each) for each in facets]
    sizes = [facet_sizes(mesh.points[each]).sum() for each in facets]
    what = "wide" if mesh.dim == 2 else "in area"
    detail = f"electrodes of {min(counts)} to {max(counts)} boundary facets, "
    return "ok", detail + f"{min(sizes):.3g} to {max(sizes):.3g} {what}"


def _points(field: FieldProblem, numbers: np.ndarray) -> tuple[str, str]:
    """How close they are, and what the mesh makes of uniform ground with a flat surface."""
    positions, model = field.sensors.positions, field.problem.model
    detail = f"point electrodes, the closest two {pdist(positions).min():.3g} apart"
    if np.ptp(positions[:, -1]) > 0.0 or isinstance(field.prior, PartlyKnownPrior):
        return "ok", detail
    size = len(field.mesh.places_of(field.prior.location))
    factors = geometric_factors(positions, numbers)
    found = np.asarray(_readings(model, np.zeros(size)))
    errors = np.abs(found * factors - 1.0)[np.isfinite(factors)]
    detail += f", of uniform ground readings are up to {100 * errors.max():.2g} % off (median "
    detail += f"{100 * np.median(errors):.2g} %)"
    if errors.max() < FAR_OFF:
        return "ok", detail
    return "note", f"{detail}: refine the mesh near electrodes, or take it further out"
