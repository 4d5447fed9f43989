"""The complete electrode model: currents through electrodes, and voltages between them.

Electrodes E_k with contact impedances z_k lie on the boundary; the potential u inside and the
potential U_k of each electrode obey -div(exp(phi) grad u) = 0, u + z_k exp(phi) du/dn = U_k on E_k,
and what flows through E_k is the current I_k (Somersalo, Cheney & Isaacson 1992, "Existence and
uniqueness for electrode models for electric current computed tomography", SIAM J. Appl. Math. 52,
eqs 2.1 to 2.4).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array, hstack
from skfem.assembly.basis import FacetBasis

from invlift.errors import InputError, as_numbers
from invlift.fem.equations.conditions import check_anchored
from invlift.fem.equations.discretisation import cell_basis, facet_basis
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.equation_assembly import Form, linear_equation
from invlift.fem.equations.field_equation import known_conductivity
from invlift.fem.equations.forms import conduction, contact
from invlift.fem.mesh.checks import place
from invlift.fem.mesh.finer_mesh import Extrapolated, refinable
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.readings.base import FIELD
from invlift.programs.precision import require_float64
from invlift.unknowns.distributions import Distribution, as_distribution, is_distribution, repeated

#: What unknown contact impedances are called among the draws.
IMPEDANCE = "impedance"


def electrode_model(
    mesh: Mesh,
    electrodes: Sequence[str],
    currents: np.ndarray,
    voltages: np.ndarray | Sequence[np.ndarray],
    *,
    impedance: Distribution | float | np.ndarray | None = None,
    known: Mapping[str, float] | None = None,
    location: str = "nodes",
    refine_solution: int = 0,
) -> LinearEquation | Extrapolated:
    """Model voltages as a function of log-conductivity and of contact impedances.

    Of each solution only the electrode potentials are kept.

    Parameters
    ----------
    mesh : Mesh
        Triangles or tetrahedra; in the plane all is for each unit of thickness.
    electrodes : sequence of K str
        Boundary groups, one for each electrode.
    currents : (L, K) array
        Currents into the body at each electrode, one row an injection; each row adds up to zero.
    voltages : (M, K) array, or one for each injection
        Readings: each row holds weights of the electrodes' potentials that add up to zero, such as
        1 and -1 for a voltage between two electrodes.
    impedance : Distribution, number or (K,) array, optional
        Contact impedances, in length over conductivity.  Numbers are known impedances.  A
        distribution is that of one impedance; each electrode then has an independent unknown.
        Left out, they are unknowns whose distribution is given elsewhere.
    known : mapping of str to float, optional
        Named subdomain -> conductivity, where it is known.
    location : {"nodes", "cells"}
        Where log-conductivity lives.
    refine_solution : int, optional
        See :func:`invlift.assemble_poisson`.

    Returns
    -------
    LinearEquation or Extrapolated
        A model of N values of log-conductivity, followed by K contact impedances if these are
        unknown.  Readings are ordered by injection.  A distribution of impedances is found under
        ``further`` of the equation, as ``impedance``.

    Raises
    ------
    InputError
        If there are fewer than two electrodes, a group is unknown or inside the body, two of them
        overlap, a part of the mesh does not touch the first electrode, an impedance is not
        positive, or a shape or sum is not what it must be.
    """
    require_float64(points=mesh.points)
    num = len(electrodes)
    if num < 2:
        raise InputError("electrodes", "two or more", f"{num}", "name their boundary groups")
    currents, voltages = as_injections(currents, voltages, num)
    for name, rows in (("currents", currents), *(("voltages", each) for each in voltages)):
        sums = np.abs(rows.sum(axis=1))
        wrong = np.flatnonzero(~(sums <= 1e-9 * np.abs(rows).max(axis=1)))
        if wrong.size:
            expected, found = "numbers that add up to zero", f"{rows[wrong[0]].tolist()}"
            remedy = "what flows in must flow out, and only differences of potentials can be read"
            raise InputError(f"{name}, row {wrong[0]}", expected, found, remedy)
    is_unknown = is_distribution(impedance)
    is_known = impedance is not None and not is_unknown
    where, remedy = ("electrodes", "impedance"), "give positive ones, in length over conductivity"
    expected = f"a positive number, or {num}, or a distribution"
    values = as_numbers(where, impedance if is_known else np.ones(num), expected, remedy)
    is_good = values.shape in ((), (num,)) and np.all((values > 0.0) & np.isfinite(values))
    if not is_good or (is_unknown and not as_distribution(impedance).support[0] >= 0.0):
        found = f"{impedance!r}"[:80]
        if values.ndim == 1 and len(values) != num:
            found, remedy = f"{len(values)} numbers", "give one for each electrode"
        raise InputError(where, expected, found, remedy)
    basis = cell_basis(mesh)
    facets = [facet_basis(basis, mesh, group) for group in electrodes]
    numbers = np.concatenate([each.find for each in facets])
    owner = np.repeat(np.arange(num), [each.find.size for each in facets])
    is_wrong = (np.bincount(numbers)[numbers] > 1) | (basis.mesh.f2t[1, numbers] >= 0)
    if is_wrong.any():
        where = ("electrodes", "groups", electrodes[owner[np.argmax(is_wrong)]])
        expected, found = "facets of the outer boundary, of no other electrode", "others"
        raise InputError(where, expected, found, "name groups of the boundary that do not overlap")
    check_anchored(mesh, electrodes[:1])  # whose potential is fixed
    together = FacetBasis(basis.mesh, basis.elem, facets=numbers, intorder=2)
    size = basis.N + num
    num_coefficients = len(mesh.places_of(location))
    contacts = Form(
        together,
        contact,
        location=owner,
        start=num_coefficients,
        known=np.broadcast_to(values, num)[owner] if is_known else None,
        dofs=np.concatenate([together.element_dofs, basis.N + owner[None]]),
    )
    load = np.zeros((size, len(currents)))
    load[basis.N :] = currents.T
    equation = linear_equation(
        [
            Form(basis, conduction, location=location, known=known_conductivity(mesh, known)),
            contacts,
        ],
        load=load,
        held=np.array([basis.N]),  # the first electrode is the reference of the potential
        readings=[hstack([csr_array((len(each), basis.N)), csr_array(each)]) for each in voltages],
        num_coefficients=num_coefficients + (0 if is_known else num),
        name=FIELD,
    )
    further = {IMPEDANCE: repeated(impedance, num)} if is_unknown else {}
    known_of_mesh = equation.on_mesh._replace(further=further)
    # The interior potentials of dozens of injections would need more memory than the field.
    equation = replace(equation, nodal=equation.nodal[:0], solutions=(), on_mesh=known_of_mesh)
    options = {"impedance": impedance, "known": known, "location": location}

    def again(refinement: Refinement) -> LinearEquation:
        return electrode_model(refinement.mesh, electrodes, currents, voltages, **options)

    return refinable(equation, mesh, {0: location}, again, refine_solution)


def as_injections(
    currents: np.ndarray, voltages: np.ndarray | Sequence[np.ndarray], num: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return currents, (L, K), and one (M, K) array of voltages for all injections or one for each.

    Raises
    ------
    InputError
        If they do not have a column for each of K electrodes.
    """
    currents = np.atleast_2d(as_numbers("currents", currents))
    several = isinstance(voltages, list | tuple) and any(np.ndim(each) > 1 for each in voltages)
    voltages = [np.atleast_2d(as_numbers("voltages", each))
                for each in (voltages if several else [voltages])]  # fmt: skip
    for name, rows in (("currents", currents), *(("voltages", each) for each in voltages)):
        if rows.shape[1] != num:
            remedy = "give a number for each electrode"
            raise InputError(name, f"{num} columns", f"shape {rows.shape}", remedy)
    return currents, voltages


def electrode_groups(mesh: Mesh, pattern: str | Sequence[str], where: str) -> list[str]:
    """Return the boundary groups of electrodes, from a list or a pattern such as ``electrode_*``.

    Groups that match a pattern are sorted by the numbers in their names.

    Raises
    ------
    InputError
        If fewer than two groups match the pattern, or there is no group of a given name.
    """
    if not isinstance(pattern, str):
        for name in pattern:
            mesh.facets(name, where)
        return list(pattern)
    found = fnmatch.filter(mesh.boundaries, pattern)
    if len(found) < 2:
        known = ", ".join(mesh.boundaries) or "none at all"
        expected = f"two or more boundary groups of mesh {mesh.name!r} (it has: {known})"
        remedy = 'name what their names have in common, "electrode_*" for example, or list them'
        raise InputError(where, expected, f"{len(found)} like {pattern!r}", remedy)

    def numbered(name: str) -> list:
        parts = re.split(r"(\d+)", name)
        return [int(part) if part.isdecimal() else part for part in parts]

    return sorted(found, key=numbered)


def mesh_with_electrodes(
    mesh: Mesh, positions: np.ndarray, width: float, name: str
) -> tuple[Mesh, list[str]]:
    """Add a boundary group for each of K electrodes; return the mesh and the groups' names.

    The group of an electrode holds the facets of the outer boundary whose midpoints are within half
    a width of its position.

    Parameters
    ----------
    mesh : Mesh
    positions : (K, 2 or 3) array
        As for :func:`positions_in`.
    width : float
        Width of an electrode, in the unit of the positions.
    name : str
        Name of the positions in messages.

    Raises
    ------
    InputError
        If positions have another dimension than the mesh, no facet is near an electrode, or a facet
        is near two electrodes.
    """
    positions = positions_in(mesh, positions, name)
    middles = mesh.points[mesh.boundary_facets].mean(axis=1)
    groups, owner = {}, np.zeros(len(middles), dtype=int)
    for number, position in enumerate(positions, start=1):
        distances = np.linalg.norm(middles - position, axis=1)
        is_near = distances <= 0.5 * width
        if not is_near.any():
            raise InputError(
                f"{name}, electrode {number}",
                f"the middle of a boundary facet within {0.5 * width:g} of {place(position)}",
                f"the closest {distances.min():.4g} away",
                "check the units, refine the mesh there, or give a larger width",
            )
        if shared := owner[is_near].max():
            raise InputError(
                f"{name}, electrode {number}",
                f"boundary facets of no other electrode within {0.5 * width:g} of "
                f"{place(position)}",
                f"some of electrode {shared}",
                "give a smaller width",
            )
        owner[is_near] = number
        groups[f"electrode_{number}"] = mesh.boundary_facets[is_near]
    return replace(mesh, boundaries=mesh.boundaries | groups), list(groups)


def check_positions(
    mesh: Mesh, names: Sequence[str], positions: np.ndarray, name: str, where: str
) -> None:
    """Check that electrode positions, (K, 2 or 3), agree with the electrodes' boundary groups.

    The group with the nearest centre must be the group of the electrode.

    Raises
    ------
    InputError
        If another group is nearer; the message names the first such electrode of the file ``name``.
        Also as :func:`positions_in`.
    """
    positions = positions_in(mesh, positions, name)
    centres = np.array([mesh.points[mesh.facets(each, where)].mean(axis=(0, 1)) for each in names])
    distances = np.linalg.norm(positions[:, None] - centres, axis=2)
    nearest = distances.argmin(axis=1)
    wrong = np.flatnonzero(nearest != np.arange(len(names)))
    if wrong.size:
        first = wrong[0]
        expected = f"the group nearest to each electrode of {name}"
        found = f"{names[first]!r} for electrode {first + 1} at {place(positions[first])}, where "
        found += f"{names[nearest[first]]!r} is nearest"
        remedy = "order the groups as the file's electrodes, or correct the positions there: they "
        remedy += "are in the mesh's unit"
        raise InputError(where, expected, found, remedy)


def positions_in(mesh: Mesh, positions: np.ndarray, name: str) -> np.ndarray:
    """Convert positions, (K, 2 or 3), to the dimension of the mesh, (K, dim).

    For a mesh of the plane the first coordinate that is 0 at all positions is dropped.

    Raises
    ------
    InputError
        If positions have another dimension than the mesh; the message contains ``name``.
    """
    zeros = np.flatnonzero(~positions.any(axis=0))
    if positions.shape[1] > mesh.dim and zeros.size:
        positions = np.delete(positions, zeros[0], axis=1)
    if positions.shape[1] != mesh.dim:
        expected = f"{mesh.dim} coordinates of each electrode for the mesh {mesh.name!r}"
        remedy = "give a mesh of the dimension of the electrodes"
        raise InputError(name, expected, f"{positions.shape[1]}", remedy)
    return positions
