"""The complete electrode model: currents through electrodes, and voltages between them.

Electrodes E_k with contact impedances z_k lie on the boundary; the potential u inside and the
potential U_k of each electrode obey -div(exp(phi) grad u) = 0, u + z_k exp(phi) du/dn = U_k on E_k,
and what flows through E_k is the current I_k (Somersalo, Cheney & Isaacson 1992, "Existence and
uniqueness for electrode models for electric current computed tomography", SIAM J. Appl. Math. 52,
eqs 2.1 to 2.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from scipy.sparse import csr_array, hstack
from skfem.assembly.basis import FacetBasis

from invlift.errors import InputError
from invlift.fem.discretisation import cell_basis, facet_basis
from invlift.fem.equation import LinearEquation
from invlift.fem.equation_assembly import Form, linear_equation
from invlift.fem.forms import conduction, exchange
from invlift.fem.mesh.mesh import Mesh, check_anchored
from invlift.fem.terms import Element
from invlift.programs.precision import require_float64


def electrode_model(
    mesh: Mesh,
    electrodes: Sequence[str],
    currents: np.ndarray,
    voltages: np.ndarray | Sequence[np.ndarray],
    *,
    location: str = "nodes",
) -> LinearEquation:
    """Voltages as a function of log-conductivity and of contact impedances.

    Parameters
    ----------
    mesh : Mesh
        Triangles or tetrahedra; in the plane all is for each unit of thickness.
    electrodes : sequence of K str
        Boundary groups, one for each electrode.
    currents : (L, K) array
        What each of L injections drives into the body at each electrode; each row adds up to zero.
    voltages : (M, K) array, or one for each injection
        What is read: rows are weights of the electrodes' potentials that add up to zero, such as
        1 and -1 for a voltage between two of them.
    location : {"nodes", "cells"}
        Where log-conductivity lives.

    Returns
    -------
    LinearEquation
        Of N values of log-conductivity and then K contact impedances, which are positive, in length
        over conductivity; the readings of one injection after those of the other.

    Raises
    ------
    InputError
        If there are fewer than two electrodes, a group is unknown or inside the body, two of them
        overlap, a part of the mesh does not touch the first electrode, or a shape or sum is not
        what it must be.
    """
    require_float64(points=mesh.points)
    num = len(electrodes)
    currents = np.atleast_2d(np.asarray(currents, dtype=float))
    several = isinstance(voltages, list | tuple) and any(np.ndim(each) > 1 for each in voltages)
    voltages = [np.atleast_2d(np.asarray(each, dtype=float))
                for each in (voltages if several else [voltages])]  # fmt: skip
    if num < 2:
        raise InputError("electrodes", "two or more", f"{num}", "name their boundary groups")
    for name, rows in (("currents", currents), *(("voltages", each) for each in voltages)):
        if rows.shape[1] != num:
            remedy = "give a number for each electrode"
            raise InputError(name, f"{num} columns", f"shape {rows.shape}", remedy)
        sums = np.abs(rows.sum(axis=1))
        wrong = np.flatnonzero(~(sums <= 1e-9 * np.abs(rows).max(axis=1)))
        if wrong.size:
            expected, found = "numbers that add up to zero", f"{rows[wrong[0]].tolist()}"
            remedy = "what flows in must flow out, and only differences of potentials can be read"
            raise InputError(f"{name}, row {wrong[0]}", expected, found, remedy)
    basis = cell_basis(mesh)
    facets = [facet_basis(basis, mesh, group) for group in electrodes]
    numbers = np.concatenate([each.find for each in facets])
    owner = np.repeat(np.arange(num), [each.find.size for each in facets])
    is_wrong = (np.bincount(numbers)[numbers] > 1) | (basis.mesh.f2t[1, numbers] >= 0)
    if is_wrong.any():
        where = f"electrodes, {electrodes[owner[np.argmax(is_wrong)]]}"
        expected, found = "facets of the outer boundary, of no other electrode", "others"
        raise InputError(where, expected, found, "name groups of the boundary that do not overlap")
    check_anchored(mesh, electrodes[:1])  # whose potential is held
    together = FacetBasis(basis.mesh, basis.elem, facets=numbers, intorder=2)
    size = basis.N + num
    num_coefficients = mesh.num_nodes if location == "nodes" else mesh.num_cells
    contacts = Form(
        together,
        contact,
        location=owner,
        start=num_coefficients,
        dofs=np.concatenate([together.element_dofs, basis.N + owner[None]]),
    )
    load = np.zeros((size, len(currents)))
    load[basis.N :] = currents.T
    return linear_equation(
        [Form(basis, conduction, location=location), contacts],
        load=load,
        held=np.array([basis.N]),  # potentials are relative to that of the first electrode
        readings=[hstack([csr_array((len(each), basis.N)), csr_array(each)]) for each in voltages],
    )


def contact(impedance: jax.Array, element: Element) -> jax.Array:
    """The exchange with the electrode over a facet, (m + 1, m + 1), whose potential is last."""
    return exchange(1.0 / impedance, element)
