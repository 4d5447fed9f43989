"""Electrodes that are points of the ground, such as stakes along a line.

On a mesh of the plane below a line, the conductivity does not change perpendicular to the plane:
see :mod:`invlift.fem.electrodes.wave_numbers`.
The ground extends beyond the mesh.  At the outer boundary the potential decays as that of a point
source in the middle of the electrodes in uniform ground, which is a Robin condition (Dey & Morrison
1979, "Resistivity modelling for arbitrarily shaped two-dimensional structures", Geophys. Prospect.
27, the "mixed" condition; in space by the same authors, "Resistivity modeling for arbitrarily
shaped three-dimensional structures", Geophysics 44).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist
from scipy.special import kve

from invlift.errors import InputError, as_numbers
from invlift.fem.electrodes.complete import as_injections
from invlift.fem.electrodes.wave_numbers import MAX_RATIO, WaveNumbers, wave_numbers
from invlift.fem.equations.conditions import check_anchored
from invlift.fem.equations.discretisation import cell_basis, facet_basis
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.equation_assembly import Form, linear_equation
from invlift.fem.equations.field_equation import known_conductivity
from invlift.fem.equations.form_assembly import element_of, integrated
from invlift.fem.equations.forms import conduction, reaction
from invlift.fem.mesh.checks import place
from invlift.fem.mesh.finer_mesh import Extrapolated, refinable
from invlift.fem.mesh.functionals import rows_of
from invlift.fem.mesh.geometry import find_closest_facet
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.base import FIELD
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.programs.precision import require_float64

#: Largest distance of an electrode outside the mesh, as a fraction of the smallest spacing.
CLOSE = 1e-3
#: Smallest allowed spacing as a fraction of the largest: far below that of a survey's electrodes.
APART = 2.0 / MAX_RATIO


def point_electrode_model(
    mesh: Mesh,
    positions: np.ndarray,
    currents: np.ndarray,
    voltages: np.ndarray | Sequence[np.ndarray],
    *,
    surface: str,
    known: Mapping[str, float] | None = None,
    location: str = "nodes",
    refine_solution: int = 0,
) -> LinearEquation | WaveNumbers | Extrapolated:
    """Model voltages between points of the ground as a function of log-conductivity.

    No potential is kept: at a point source it is infinite, and its value on a mesh depends on the
    mesh.

    Parameters
    ----------
    mesh : Mesh
        Triangles of the plane below a line of electrodes, with a conductivity that does not change
        perpendicular to the plane, or tetrahedra; finer near the electrodes.
    positions : (K, dim) array
        On the surface or below, in L.
    currents : (L, K) array
        Currents into the ground at each electrode, one row an injection.  If a row does not add up
        to zero, the rest leaves at infinity.
    voltages : (M, K) array, or one for each injection
        Readings: each row holds weights of the electrodes' potentials, relative to infinity.
    surface : str
        The boundary group of the ground's surface, with zero flux.  The ground extends beyond all
        other parts of the boundary.
    known : mapping of str to float, optional
        Named subdomain -> conductivity, where it is known.
    location : {"nodes", "cells"}
        Where log-conductivity lives.
    refine_solution : int, optional
        See :func:`invlift.assemble_poisson`.

    Returns
    -------
    LinearEquation, WaveNumbers or Extrapolated
        A model of N values of log-conductivity; readings are ordered by injection.
        For a unit of current they are resistances, in 1 / (C L) with conductivities in C.

    Raises
    ------
    InputError
        If there is no such group, or it is inside the body or all of its boundary, a position is
        outside the mesh by more than 1e-3 of the smallest distance between electrodes, two are in
        the same place, or a shape is not what it must be.
    """
    require_float64(points=mesh.points)
    positions = as_numbers(("electrodes", "positions"), positions)
    if positions.ndim != 2:
        expected, remedy = "a row of coordinates for each electrode", "give an array (K, dim)"
        found = f"shape {positions.shape}"
        raise InputError(("electrodes", "positions"), expected, found, remedy)
    currents, voltages = as_injections(currents, voltages, len(positions))
    distances = pdist(positions)
    places = _places(mesh, positions, distances)
    basis = cell_basis(mesh)
    ground, outer = facet_basis(basis, mesh, surface).find, basis.mesh.boundary_facets()
    facets = np.setdiff1d(outer, ground)
    if not np.isin(ground, outer).all() or not facets.size:
        expected, found = "a part of the outer boundary", "all of it, or facets inside"
        remedy = "name the surface: the ground continues beyond the rest of the boundary"
        raise InputError(("electrodes", "surface"), expected, found, remedy)
    rest = replace(mesh, boundaries={"rest": basis.mesh.facets.T[facets]})
    check_anchored(rest, rest.boundaries)
    sides, cells = facet_basis(basis, rest, "rest"), known_conductivity(mesh, known)
    equation = linear_equation(
        [
            Form(basis, conduction, location=location, known=cells),
            Form(sides, reaction, location=location, known=cells[sides.tind]),
        ],
        load=(currents @ places).T,
        readings=[csr_array(each) @ places for each in voltages],
        num_coefficients=len(mesh.places_of(location)),
        name=FIELD,
    )
    equation = replace(equation, nodal=equation.nodal[:0], solutions=())

    def again(refinement: Refinement) -> LinearEquation | WaveNumbers:
        options = {"surface": surface, "known": known, "location": location}
        return point_electrode_model(refinement.mesh, positions, currents, voltages, **options)

    def finished(
        model: LinearEquation | WaveNumbers,
    ) -> LinearEquation | WaveNumbers | Extrapolated:
        return refinable(model, mesh, {0: location}, again, refine_solution)

    inside, outside = element_of(basis), element_of(sides)
    away = outside.place - np.mean(positions, axis=0)[:, None, None]
    radius = np.linalg.norm(away, axis=0)
    # Boundary facets that face the electrodes have zero flux.
    cosine = np.maximum(np.sum(away * np.swapaxes(sides.normals, 1, 2), axis=0) / radius, 0.0)
    if mesh.dim == 3:
        outside = outside._replace(weight=outside.weight * cosine / radius)
        fallen = jax.device_put(integrated(reaction, outside))
        terms = equation.terms[0], replace(equation.terms[1], **fallen)
        return finished(replace(equation, terms=terms))
    # The surface mirrors electrodes that are below it.
    depth = find_closest_facet(mesh.points[mesh.facets(surface)], positions)[2].max()
    farthest = max(2.0 * distances.max(), np.hypot(distances.max(), 2.0 * depth))
    wave, weights = wave_numbers(distances.min(), min(farthest, MAX_RATIO * distances.min()))
    # Half of a current flows to each side of the plane.  A matrix A / w has the solution w u.
    scale = np.pi / weights[:, None, None]
    reach = np.multiply.outer(wave, radius)
    decay = wave[:, None, None] * kve(1, reach) / kve(0, reach) * cosine
    found = []
    for number, factor, fall in zip(wave, scale, decay, strict=True):
        across = number * inside.value[:, None]
        gradient = np.concatenate([inside.gradient, across], axis=1)
        with_across = inside._replace(gradient=gradient, weight=factor * inside.weight)
        fallen = outside._replace(weight=factor * fall * outside.weight)
        found.append((integrated(conduction, with_across), integrated(reaction, fallen)))
    each = jax.tree.map(lambda *parts: np.stack(parts), *found)
    return finished(WaveNumbers(equation, jax.device_put(each), equation.on_mesh))


def _places(mesh: Mesh, positions: np.ndarray, distances: np.ndarray) -> csr_array:
    """Return basis functions at positions, (K, num_nodes); project those just outside."""
    if not distances.size:
        raise InputError("electrodes", "two or more", f"{len(positions)}", "add the others")
    if distances.min() <= APART * distances.max():
        pairs = np.triu_indices(len(positions), 1)
        first, second = (each[np.argmin(distances)] + 1 for each in pairs)
        found, remedy = f"that of electrode {first}", "correct one of the positions"
        raise InputError(("electrodes", int(second)), "a place of its own", found, remedy)
    found = locate(mesh, sensors_from_arrays(positions, np.zeros(len(positions))), "project")
    outside = np.flatnonzero(found.distances > CLOSE * distances.min())
    if outside.size:
        at = positions[outside[0]]
        raise InputError(
            ("electrodes", int(outside[0] + 1)),
            f"a position in the mesh {mesh.name!r}, which spans {mesh.extent}",
            f"{place(at)}, {found.distances[outside[0]]:.4g} outside",
            "make the mesh of these positions, with the same signs and in the same unit",
        )
    return rows_of(found.nodes, found.weights, mesh.num_nodes)
