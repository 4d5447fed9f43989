"""Checks of electrodes: size, spacing, injections, and errors of the mesh near them."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from scipy.spatial.distance import pdist

from invlift.app.checks.findings import Finding
from invlift.fem.electrodes.complete import IMPEDANCE
from invlift.fem.electrodes.quadrupoles import (
    distinct,
    electrode_numbers,
    geometric_factors,
    patterns_of,
    patterns_of_pairs,
)
from invlift.fem.mesh.functionals import facet_sizes
from invlift.models.joined import Combinations
from invlift.problems.descriptions import ends_of
from invlift.problems.problem import InverseProblem, coefficients_at
from invlift.programs.compilation import program
from invlift.unknowns.priors.mapped import PartlyKnownPrior

#: Relative errors of readings of uniform ground from which on there is a note, and a doubt in the
#: verdict on a run.
FAR_OFF, TOO_FAR_OFF = 0.03, 0.1

REMEDY = "refine the mesh near electrodes, or take it further out"

#: Number of edges across an electrode with which readings elsewhere have an error of about 1 %.
FEW_EDGES = 3
#: Addition to impedances that gives the voltages of a fine mesh, in units of the length of an edge
#: divided by the conductivity: tests/benchmarks/bench_electrode_mesh.py.
ADDED = 0.1
#: Fraction of an impedance from which on there is a note on this addition.
MUCH_ADDED = 0.1
REFINE = "refine the mesh at the ends of the electrodes, or set [mesh] refine_solution"


@program
def _readings(model, coefficients):
    return model(coefficients)


def check_electrodes(problem: InverseProblem) -> Finding:
    """Report the number and size of electrodes, the injections, and errors due to the mesh."""
    sensors, names = problem.sensors, problem.sensors.electrode_groups
    num, advice = len(names or sensors.positions), ""
    if names:
        driven, weights = patterns_of(sensors, names)
        is_at_driven = bool((driven * weights).any())
        level, of_them, advice = _contacts(problem, names, is_at_driven)
    else:
        numbers = electrode_numbers(sensors, range(1, num + 1), are_points=True)
        level, of_them = _points(problem, numbers)
        driven = patterns_of_pairs(numbers + 1, num + 1).currents  # the first is far away
    detail = f"{num} {of_them}; {len(distinct(driven)[0])} "
    detail += "pairs of them drive a current" if sensors.currents is None else "currents are driven"
    if isinstance(model := problem.model, Combinations):
        num = np.linalg.matrix_rank(np.asarray(model.matrix))
        detail += f"; the readings are combinations of {num} numbers"
    return Finding(level, "electrodes", detail + advice)


def _contacts(
    problem: InverseProblem, names: Sequence[str], is_at_driven: bool
) -> tuple[str, str, str]:
    """Return the level, the sizes of electrodes with an area, and notes on a mesh too coarse.

    Near the ends of an electrode the current density varies over a distance of impedance times
    conductivity.  With longer edges the resistance to a current is too low there.
    """
    mesh, known = problem.mesh, problem.model.on_mesh
    facets = [mesh.facets(name) for name in names]
    counts = np.array([len(each) for each in facets])
    sizes = np.array([facet_sizes(mesh.points[each]).sum() for each in facets])
    what = "wide" if mesh.dim == 2 else "in area"
    detail = f"electrodes of {ends_of(counts, 'd')} boundary facets, {ends_of(sizes, '.3g')} {what}"
    # Edges of the mesh on which the equation is solved; in space two triangles make a square.
    across = np.array([len(known.solved_on.mesh.facets(name)) for name in names])
    across = across if mesh.dim == 2 else np.sqrt(across / 2.0)
    notes = []
    if across.min() < FEW_EDGES:
        notes.append(f"fewer than {FEW_EDGES} edges are across an electrode")
    if IMPEDANCE in known.further and is_at_driven:
        white = np.zeros((1, problem.prior.num_white))
        (median,) = np.asarray(coefficients_at(problem.prior, white))
        first = problem.prior.firsts[IMPEDANCE]
        impedances = median[first : first + len(names)]
        conductivity = np.exp(np.median(median[: len(known.fields[0].points)]))
        added = ADDED * sizes ** (1.0 / (mesh.dim - 1)) / across / conductivity
        if (added > MUCH_ADDED * impedances).any():
            text = "voltages at electrodes that drive are too low, as if impedances were smaller "
            text += f"by {added.max():.2g}, a tenth of an edge divided by the conductivity (the "
            notes.append(f"{text}prior median of the impedances is {np.median(impedances):.2g})")
    return "note" if notes else "ok", detail, "; ".join(["", *notes, *([REFINE] if notes else [])])


def _points(problem: InverseProblem, numbers: np.ndarray) -> tuple[str, str]:
    """Return the level, the smallest spacing, and errors of readings of uniform flat ground."""
    positions = problem.sensors.positions
    detail = f"point electrodes, the closest two {pdist(positions).min():.3g} apart"
    errors = _errors_of_uniform_ground(problem, numbers)
    if not errors.size:
        return "ok", detail
    detail = f"{detail}; {_in_words(errors)}"
    return ("ok", detail) if errors.max() < FAR_OFF else ("note", f"{detail}: {REMEDY}")


def _errors_of_uniform_ground(problem: InverseProblem, numbers: np.ndarray) -> np.ndarray:
    """Return relative errors of readings of uniform ground on the mesh; (0,) if unknown.

    The exact readings are known for flat ground.
    """
    positions, prior = problem.sensors.positions, problem.prior
    if np.ptp(positions[:, -1]) > 0.0 or isinstance(prior, PartlyKnownPrior):
        return np.zeros(0)
    factors = geometric_factors(positions, numbers)
    size = jax.eval_shape(prior.transform, np.zeros(prior.num_white)).shape
    readings = np.asarray(_readings(problem.model, np.zeros(size)))
    return np.abs(readings * factors - 1.0)[np.isfinite(factors)]


def _in_words(errors: np.ndarray) -> str:
    text = f"readings of uniform ground are up to {100 * errors.max():.2g} % wrong on this mesh "
    text += f"(median {100 * np.median(errors):.2g} %)"
    return text


def electrode_doubts(problem: InverseProblem) -> list[tuple[str, str]]:
    """Return doubts about the mesh of point electrodes, each with a remedy."""
    sensors = problem.sensors
    if sensors is None or sensors.electrodes is None or sensors.electrode_groups:
        return []
    names = range(1, len(sensors.positions) + 1)
    errors = _errors_of_uniform_ground(problem, electrode_numbers(sensors, names, are_points=True))
    if not (errors > TOO_FAR_OFF).any():  # there are none of ground that is not flat
        return []
    text = f"the mesh ends too near its electrodes, or is too coarse at them: {_in_words(errors)}"
    return [(text, REMEDY)]
