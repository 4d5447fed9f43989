"""The equation of a field for experiments that share a matrix, from their conditions and readings.

A Robin condition whose flux is read or that has an unknown gets an additional degree of freedom,
held at the ambient value.  The inflow through the boundary is then the reaction at it, as on a
Dirichlet boundary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import skfem
from scipy.sparse import block_diag, csr_array
from skfem.element import DiscreteField

from invlift.errors import InputError, as_numbers, positive_number
from invlift.fem.equations.conditions import (
    by_name,
    exchange_load,
    facet_mass,
    location_of,
    numbers_of_subdomains,
)
from invlift.fem.equations.discretisation import OfThickness, cell_basis, facet_basis
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.equation_arguments import Functionals, Input
from invlift.fem.equations.equation_assembly import Form, linear_equation
from invlift.fem.equations.flux import flux_weights, held_facets
from invlift.fem.equations.forms import (
    Weighted,
    across,
    along_line,
    anisotropic,
    conduction,
    exchange,
)
from invlift.fem.equations.unknown_conditions import Parts
from invlift.fem.mesh.functionals import rows_of
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.base import FIELD, FLUXES, UNKNOWNS, Weights
from invlift.fem.readings.locate import Observation
from invlift.unknowns.distributions import Distribution, is_distribution, one_number


class Body(NamedTuple):
    """Mesh, known conductivity and form of conduction of a field.

    Attributes
    ----------
    mesh : Mesh
    basis : skfem.Basis
        Linear elements on the cells.
    location : {"nodes", "cells"}
    known : (num_cells,) array
        Log-conductivity where it is known, NaN elsewhere.
    conduction : Weighted
        The form of div(exp(phi) grad u).
    lines : mapping of str to float or str
        Conductivity times width along each group, or the name of an unknown one.
    barriers : mapping of str to float or str
        Resistance of each group across which the solution jumps, or the name of an unknown one.
        The equation has them only on a mesh that is cut along them.
    unknowns : mapping of str to Distribution
        Unknowns of the anisotropy, of lines and of barriers.
    further : tuple of str
        Names of the unknowns on which the form of conduction depends.
    """

    mesh: Mesh
    basis: skfem.Basis
    location: str
    known: np.ndarray
    conduction: Weighted = conduction
    lines: Mapping[str, float | str] = MappingProxyType({})
    barriers: Mapping[str, float | str] = MappingProxyType({})
    unknowns: Mapping[str, Distribution] = MappingProxyType({})
    further: tuple[str, ...] = ()

    @property
    def num_coefficients(self) -> int:
        """Number N of coefficients of the field."""
        return len(self.mesh.places_of(self.location))


def body_of(
    mesh: Mesh,
    location: str = "nodes",
    *,
    known: Mapping[str, float] | None = None,
    thickness: float | str | Mapping[str, float] | np.ndarray | None = None,
    anisotropy: Mapping[str, float | Distribution] | None = None,
    lines: Mapping[str, float | Distribution] | None = None,
    barriers: Mapping[str, float | Distribution] | None = None,
) -> Body:
    """Make the body from the arguments of :func:`invlift.assemble_poisson`.

    Raises
    ------
    InputError
        As :func:`known_conductivity` and :func:`~invlift.fem.equations.forms.anisotropic`; if a
        body in space has a thickness or lines, a value is not positive, or a line is a barrier.
    """
    form, turned = conduction, {}
    if anisotropy is not None:
        given = [by_name("anisotropy", anisotropy).get(key) for key in ("ratio", "angle")]
        turned = {key: one_number(("anisotropy", key), each, is_positive=key == "ratio")
                  for key, each in zip(("ratio", "angle"), given, strict=True)
                  if is_distribution(each)}  # fmt: skip
        form = anisotropic(*given, mesh.dim, turned)
    turned = {f"anisotropy_{key}": each for key, each in turned.items()}
    of_thickness = None if thickness is None else _thickness(mesh, thickness)
    basis = cell_basis(mesh, of_thickness)
    known = known_conductivity(mesh, known)
    if lines and mesh.dim != 2:
        remedy = "leave them out, or mesh the zone as a subdomain"
        raise InputError("lines", "none of a body in space", "some", remedy)
    along, of_lines = _by_group(mesh, "lines", lines, "conductivity times width")
    between, of_barriers = _by_group(mesh, "barriers", barriers, "width by conductivity")
    if both := along.keys() & between.keys():
        remedy = "mesh what flows along it as a line beside the barrier"
        raise InputError(("barriers", both.pop()), "a group that is no line", "a line", remedy)
    unknowns = turned | of_lines | of_barriers
    return Body(mesh, basis, location, known, form, along, between, unknowns, tuple(turned))


def _by_group(
    mesh: Mesh, key: str, given: Mapping[str, float | Distribution], what: str
) -> tuple[dict[str, float | str], dict[str, Distribution]]:
    """Return the number or the unknown's name of each group, and the unknowns' distributions."""
    numbers, unknowns = {}, {}
    for group, value in by_name(key, given).items():
        where = (key, group)
        mesh.facets(group, where)
        if is_distribution(value):
            name = re.sub(r"\W", "_", f"{key.removesuffix('s')}_{group}")
            if name in unknowns:
                remedy = "rename a group: names have letters and digits in results"
                raise InputError(where, "an unknown of another name", name, remedy)
            unknowns[name] = one_number(where, value, is_positive=True)
            numbers[group] = name
        else:
            numbers[group] = positive_number(where, value, f"give {what}")
    return numbers, unknowns


def _thickness(mesh: Mesh, given) -> OfThickness:
    """Return the thickness at the nodes or in the cells."""
    if mesh.dim != 2:
        remedy = "leave it out"
        raise InputError("thickness", "none of a body in space", "one", remedy)
    if isinstance(given, OfThickness):  # of a refined mesh
        return given
    if isinstance(given, Mapping):
        values, is_nodal = numbers_of_subdomains(mesh, "thickness", given), False
    elif isinstance(given, str):
        values = mesh.field(given, "thickness")
        is_nodal = given in mesh.point_fields or given not in mesh.cell_fields
    elif np.ndim(given) == 0:
        values, is_nodal = np.full(mesh.num_cells, given, dtype=float), False
    else:
        values = as_numbers("thickness", given)
        is_nodal = location_of(mesh, "thickness", values) == "nodes"
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
    if bad.size:
        expected, found = "a positive thickness everywhere", f"{values[bad[0]]:g}"
        remedy = "correct it; of subdomains, name all"
        raise InputError("thickness", expected, found, remedy)
    return OfThickness(values, is_nodal)


def known_conductivity(mesh: Mesh, known: Mapping[str, float] | None) -> np.ndarray:
    """Return the log-conductivity of cells in subdomains where it is known, NaN elsewhere.

    Raises
    ------
    InputError
        If there is no such subdomain, a value is not a positive number, two subdomains overlap, or
        the conductivity is known everywhere.
    """
    remedy = "give its conductivity"
    logarithms = np.log(numbers_of_subdomains(mesh, "conductivity", known, remedy))
    if not np.isnan(logarithms).any():
        remedy = "leave out the one in which it is to be found"
        raise InputError("conductivity", "a part where it is unknown", "none", remedy)
    return logarithms


def field_equation(
    body: Body,
    names: Sequence[str],
    observations: Sequence[Observation],
    parts: Sequence[Parts],
    numbers: Mapping[str, np.ndarray],
    further: Sequence[Form] = (),
) -> LinearEquation:
    """Assemble the equation of the readings of L experiments as a function of all coefficients.

    Parameters
    ----------
    body : Body
    names : sequence of L str
    observations : sequence of L Observation
    parts : sequence of L Parts
        Conditions of the experiments, with u held at the same nodes and the same Robin
        coefficients.
    numbers : mapping of str to (k,) array of int
        Indices of the coefficients of each further unknown, also of those of other equations.
    further : sequence of Form
        Additional forms on the nodes of the mesh, after those of conduction and exchange.

    Raises
    ------
    InputError
        If a flux is read on a boundary group without a Dirichlet or a Robin condition, or a line
        is where the solution is given.
    """
    mesh, basis, first = body.mesh, body.basis, parts[0]
    groups = list(dict.fromkeys(
        name for each in observations if FLUXES in each.parts
        for name in each.parts[FLUXES].places.ravel().tolist() if name
    ))  # fmt: skip
    for group in body.lines:
        if not groups and np.isin(mesh.facets(group), first.held).all():
            expected = "a group off the Dirichlet boundary"
            remedy = "leave it out: it has no effect"
            raise InputError(("lines", group), expected, "one where the solution is given", remedy)
    apart = [group for group in first.robin if _is_apart(group, groups, parts)]
    outside = {group: mesh.num_nodes + k for k, group in enumerate(apart)}
    size = mesh.num_nodes + len(outside)
    held = np.concatenate([first.held, np.array([*outside.values()], dtype=int)])
    tests, shares = _tests(body, groups, first, outside, size)
    of_body = {"location": body.location, "known": body.known, "tests": tests}
    of_body |= {"further": [int(numbers[name][0]) for name in body.further]}
    forms = [
        Form(basis, body.conduction, **of_body),
        *(_exchange(body, first, group, dof, numbers) for group, dof in outside.items()),
        *(_along(body, group, value, numbers) for group, value in body.lines.items()),
        *(_across(body, group, numbers) for group in mesh.sides),
        *further,
    ]

    def on_all(nodal) -> np.ndarray:
        """Extend nodal values of each experiment to all degrees of freedom: (size, L)."""
        rows = [np.zeros(mesh.num_nodes) if each is None else each for each in nodal]
        return np.concatenate([np.stack(rows, axis=1), np.zeros((len(outside), len(rows)))])

    load, values = on_all([p.load for p in parts]), on_all([p.values for p in parts])
    constant = csr_array((mesh.num_nodes, mesh.num_nodes))
    for group, (coefficient, _) in first.robin.items():
        if group not in outside:
            constant = constant + facet_mass(basis, mesh, group, coefficient)
    for k, part in enumerate(parts):
        for group, (coefficient, ambient) in part.robin.items():
            if group not in outside:
                load[: mesh.num_nodes, k] += exchange_load(basis, mesh, group, coefficient, ambient)
                continue
            if np.ndim(ambient) == 0:
                values[outside[group], k] = ambient
                continue
            if isinstance(coefficient, str):
                where, found = ("robin", group, "ambient"), "a field"
                remedy = "give a number, or a coefficient that is known"
                raise InputError(where, "a number, as the coefficient is unknown", found, remedy)
            inflow = exchange_load(basis, mesh, group, coefficient, ambient)
            load[: mesh.num_nodes, k] += inflow
            load[outside[group], k] -= inflow.sum()
    inputs = []
    for name in dict.fromkeys(name for part in parts for name in part.units):
        units = [part.units.get(name) for part in parts]
        for j, number in enumerate(numbers[name]):
            of_load, of_values = (
                on_all([None if u is None or u[i] is None else u[i][j] for u in units])
                for i in (0, 1)
            )
            for k, unit in enumerate(units):
                if unit is not None and unit.ambient is not None:
                    of_values[outside[unit.ambient], k] = 1.0
            inputs.append(Input(int(number), of_load, of_values[held]))
    num_coefficients = body.num_coefficients + sum(len(each) for each in numbers.values())
    return linear_equation(
        forms,
        readings=[_readings(body, each, size, groups, numbers) for each in observations],
        load=load,
        held=held,
        values=values[held],
        constant=block_diag([constant, csr_array((len(outside), len(outside)))], format="csr"),
        experiments=names,
        inputs=inputs,
        reactions=csr_array(shares),
        num_coefficients=num_coefficients,
        name=FIELD,
    )


def _is_apart(group: str, read: Sequence[str], parts: Sequence[Parts]) -> bool:
    """Return whether a Robin condition needs a degree of freedom for its ambient value."""
    units = (unit for part in parts for unit in part.units.values())
    is_unknown = isinstance(parts[0].robin[group][0], str)
    return is_unknown or group in read or any(unit.ambient == group for unit in units)


def check_unknown(body: Body, observation: Observation, first: int) -> None:
    """Refuse readings of the log-conductivity where it is known.

    Raises
    ------
    InputError
        If there is such a reading; the message contains its index, which starts from ``first``.
    """
    if FIELD not in observation.parts:
        return
    places, weights = observation.parts[FIELD]
    known = body.known[places // (body.mesh.dim + 1)]
    rows = np.flatnonzero((~np.isnan(known) & (weights != 0.0)).any(axis=1))
    if rows.size:
        expected, found = "a place where the conductivity is unknown", "one where it is known"
        where = ("observed", "index", int(first + rows[0]))
        raise InputError(where, expected, found, "remove the reading")


def _exchange(body: Body, parts: Parts, group: str, dof: int, numbers) -> Form:
    """Return the form of a Robin condition with the degree of freedom outside."""
    facets = facet_basis(body.basis, body.mesh, group)
    num = facets.element_dofs.shape[1]
    dofs = np.concatenate([facets.element_dofs, np.full((1, num), dof)])
    coefficient, _ = parts.robin[group]
    if np.ndim(coefficient):
        coefficient = np.asarray(coefficient)[facets.element_dofs]
    return Form(facets, exchange, dofs=dofs, **_coefficient(facets, coefficient, numbers))


def _coefficient(facets, value: float | np.ndarray | str, numbers) -> dict[str, np.ndarray]:
    """Return the arguments of a form for a known coefficient, or for the name of an unknown one."""
    num = facets.element_dofs.shape[1]
    if isinstance(value, str):
        return {"location": np.full(num, numbers[value][0])}
    return {"known": np.asarray(value) if np.ndim(value) else np.full(num, value)}


def _along(body: Body, group: str, value: float | str, numbers) -> Form:
    """Return the form of the flow along a line."""
    edges = facet_basis(body.basis, body.mesh, group)
    return Form(edges, along_line, **_coefficient(edges, value, numbers))


def _across(body: Body, group: str, numbers) -> Form:
    """Return the form of the flow across a barrier."""
    sides = body.mesh.sides[group]
    facets, others = (
        facet_basis(body.basis, replace(body.mesh, boundaries={group: side}), group)
        for side in sides
    )
    thickness = body.basis.thickness
    if thickness is not None and not thickness.is_nodal:
        facets.dx = 0.5 * (facets.dx + others.dx)  # the thickness of both sides, as on a line
    partner = np.arange(body.mesh.num_nodes)
    partner[sides[0]] = sides[1]
    dofs = facets.element_dofs
    # Basis functions of nodes that both sides share have no jump.
    is_double = (partner[dofs] != dofs).astype(float)
    facets.basis = [
        (DiscreteField(np.asarray(each) * is_own[:, None], grad=each.grad),)
        for (each,), is_own in zip(facets.basis, is_double, strict=True)
    ]
    whole = np.concatenate([dofs, partner[dofs]])
    coefficient = _coefficient(facets, body.barriers[group], numbers)
    return Form(facets, across, dofs=whole, **coefficient)


def _tests(body: Body, groups: Sequence[str], parts: Parts, outside: Mapping[str, int], size: int):
    """Return the weights of residuals in fluxes, (p, dim + 1, num_cells) and (p, size)."""
    mesh, basis = body.mesh, body.basis
    cells = basis.mesh.t
    gradients = np.stack([basis.basis[i][0].grad[:, :, 0] for i in range(mesh.dim + 1)])
    tests, shares = np.zeros((len(groups), *cells.shape)), np.zeros((len(groups), size))
    is_held = held_facets(mesh, parts.held_groups)
    for k, group in enumerate(groups):
        if group in outside:
            shares[k, outside[group]] = 1.0
            continue
        is_own = held_facets(mesh, [group])
        if not is_held[is_own].all():
            known = ", ".join([*parts.held_groups, *outside])
            raise InputError(
                ("flux", group),
                f"a boundary group with a Dirichlet or a Robin condition: {known}",
                f"{group!r}",
                "correct it: the flux through all others is given, or 0",
            )
        weights = flux_weights(mesh, cells, gradients, group, parts.held_groups)
        tests[k], shares[k, : mesh.num_nodes] = weights
    return tests, shares


def _readings(
    body: Body, observation: Observation, size: int, groups: Sequence[str], numbers
) -> Functionals:
    """Return the matrices of the readings of one experiment."""
    num = len(observation.kept)
    fluxes = observation.parts.get(FLUXES)
    reactions = np.zeros((num, len(groups)))
    if fluxes is not None:
        for places, weights in zip(fluxes.places.T, fluxes.weights.T, strict=True):
            for k, group in enumerate(groups):
                reactions[:, k] += np.where(places == group, weights, 0.0)
    num_coefficients = body.num_coefficients + sum(len(each) for each in numbers.values())
    matrix = csr_array((num, num_coefficients))
    if FIELD in observation.parts:
        matrix = matrix + _of_field(body, observation.parts[FIELD], num_coefficients)
    if UNKNOWNS in observation.parts:
        places, weights = observation.parts[UNKNOWNS]
        of_names = np.array([[numbers[each][0] if each else 0 for each in row] for row in places])
        matrix = matrix + rows_of(of_names, weights, num_coefficients)
    solution = rows_of(observation.nodes, observation.weights, size)
    return Functionals(solution, csr_array(reactions), matrix)


def _of_field(body: Body, read: Weights, size: int) -> csr_array:
    """Return the rows from coefficients to log-conductivity at corners of cells."""
    cells = read.places // (body.mesh.dim + 1)
    numbers = body.mesh.cells.ravel()[read.places] if body.location == "nodes" else cells
    return rows_of(numbers, read.weights, size)
