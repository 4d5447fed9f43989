"""Linear equations on any elements: exact solutions, and matrices that are integrated once."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import skfem
from scipy.sparse import csr_array
from skfem.helpers import dot
from skfem.models.elasticity import lame_parameters, linear_elasticity
from structured import box_mesh, interior_points

from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.discretisation import (
    boundary_load,
    cell_basis,
    facet_basis,
    load_form,
    mass_form,
)
from invlift.fem.equations.equation_arguments import Functionals, Input
from invlift.fem.equations.equation_assembly import Form, linear_equation
from invlift.fem.equations.forms import Elasticity, conduction, reaction
from invlift.fem.equations.terms import GeneralTerm, WeightedTerm
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays

readings = jax.jit(lambda equation, c: equation(c))
linearisation = jax.jit(lambda equation, c: equation.linearise(c)[0])


def test_matrices_that_are_integrated_once_are_those_of_any_form():
    dim, location = 3, "cells"
    mesh, points = box_mesh(dim, 3), interior_points(dim, 5)
    sensors = locate(mesh, sensors_from_arrays(points, np.zeros(5)))
    conditions = {"dirichlet": {"left": 0.3}, "robin": {"top": (2.0, 0.5)}}
    once = assemble_poisson(mesh, sensors, source=1.5, location=location, **conditions)
    basis, top = cell_basis(mesh), facet_basis(cell_basis(mesh), mesh, "top")
    load = skfem.asm(load_form, basis, source=np.full(basis.dx.shape, 1.5))
    equation = linear_equation(
        Form(basis, lambda phi, element: conduction(phi, element), location=location),
        readings=basis.probes(points.T),
        load=load + 2.0 * 0.5 * skfem.asm(boundary_load, top),
        held=np.unique(mesh.facets("left")),
        values=0.3,
        constant=2.0 * skfem.asm(mass_form, top),
    )
    phi = jnp.asarray(np.random.default_rng(0).standard_normal(equation.num_coefficients))
    assert isinstance(once.terms[0], WeightedTerm)
    assert isinstance(equation.terms[0], GeneralTerm)
    for found, expected in zip(linearisation(equation, phi), linearisation(once, phi), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


# u = sin(x + 1) cos(2 y) [cosh z] under exp(x), with 1/2 u beside it: phi is linear, so every
# element has it exactly.  u is held on the whole boundary.


def exact(x):
    return jnp.sin(x[0] + 1.0) * jnp.cos(2.0 * x[1]) * (jnp.cosh(x[2]) if len(x) == 3 else 1.0)


def source(x):
    flux = lambda x: jnp.exp(x[0]) * jax.grad(exact)(x)  # noqa: E731
    return -jnp.trace(jax.jacfwd(flux)(x)) + 0.5 * exact(x)


at_many = cache(lambda fn: jax.jit(jax.vmap(fn)))


def at(fn, places):
    """Values at places (dim, ...), padded to few shapes: each shape would compile anew."""
    flat = places.reshape(places.shape[0], -1).T
    padded = np.pad(flat, ((0, -len(flat) % 6000), (0, 0)))
    return np.asarray(at_many(fn)(padded))[: len(flat)].reshape(places.shape[1:])


def error(grid, element, factor=1.0):
    """Root mean square error at sensors."""
    basis = skfem.Basis(grid, element, intorder=4)
    points = interior_points(grid.dim(), 60, seed=7)
    load = skfem.LinearForm(lambda v, w: w.f * v).assemble(
        basis, f=at(source, np.asarray(basis.global_coordinates()))
    )
    held = basis.get_dofs()
    places = basis.doflocs[:, held.flatten()]
    nodes = grid.nvertices
    equation = linear_equation(
        [Form(basis, conduction), Form(basis, reaction, start=nodes)],
        readings=basis.probes(points.T),
        load=factor * load,
        held=held,
        values=at(exact, places),
    )
    coefficients = jnp.concatenate([grid.p[0, :nodes], jnp.full(nodes, jnp.log(0.5))])
    return np.sqrt(np.mean((readings(equation, coefficients) - at(exact, points.T)) ** 2))


def rate(factor=1.0):
    grids = (skfem.MeshQuad.init_tensor(*[np.linspace(0.0, 1.0, n + 1)] * 2) for n in (8, 16))
    errors = [error(grid, skfem.ElementQuad1(), factor) for grid in grids]
    return np.log2(errors[0] / errors[1])


def test_errors_fall_as_the_element_promises():
    assert abs(rate() - 2.0) < 0.45
    assert rate(factor=1.02) < 0.5  # negative control: a slightly wrong load


def test_a_linear_displacement_is_exact():
    """Under a constant stress nothing pulls inside; the boundary holds the displacement."""
    grid = skfem.MeshQuad.init_tensor(np.linspace(0, 2, 5), np.linspace(0, 1, 4))
    basis = skfem.Basis(grid, skfem.ElementVector(skfem.ElementQuad1()))
    held = basis.get_dofs()
    places, numbers = basis.doflocs, held.flatten()
    component = np.arange(basis.N) % 2
    strain = np.array([[0.1, 0.05], [-0.02, 0.3]])
    displacement = np.sum(strain[component] * places.T, axis=1)
    interior = np.setdiff1d(np.arange(basis.N), numbers)
    for form in (Elasticity(0.25), Elasticity(0.25, is_plane_stress=True)):
        equation = linear_equation(
            Form(basis, form, location="cells"),
            readings=csr_array(np.eye(basis.N)[interior]),
            held=held,
            values=displacement[numbers],
        )
        found = readings(equation, jnp.full(grid.nelements, 2.0))
        np.testing.assert_allclose(found, displacement[interior], atol=1e-13)


@pytest.mark.parametrize(
    ("form", "modulus", "ratio"),
    [
        (Elasticity(0.25), 1.0, 0.25),
        # Plane stress is plane strain of another material.
        (Elasticity(0.25, is_plane_stress=True), 1.5 / 1.25**2, 0.2),
    ],
)
def test_a_bent_beam_is_that_of_another_assembly(form, modulus, ratio):
    grid = skfem.MeshQuad.init_tensor(np.linspace(0, 2, 5), np.linspace(0, 1, 4))
    basis = skfem.Basis(grid, skfem.ElementVector(skfem.ElementQuad1()))
    load = skfem.LinearForm(lambda v, w: -1.0 * v[1]).assemble(basis)
    held, probes = basis.get_dofs(lambda x: x[0] < 1e-9), basis.probes(np.array([[2.0], [1.0]]))
    beam = linear_equation(
        Form(basis, form, location="cells"), load=load, held=held, readings=probes
    )
    stiffness = linear_elasticity(*lame_parameters(np.exp(0.7) * modulus, ratio)).assemble(basis)
    expected = probes @ skfem.solve(*skfem.condense(stiffness, load, D=held))
    found = readings(beam, jnp.full(grid.nelements, 0.7))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_reactions_are_the_fluxes_that_hold():
    """u = x between two sides of a box, of k = 2: with a constant matrix beside it as well."""
    grid = skfem.MeshHex.init_tensor(*[np.linspace(0.0, 1.0, 3)] * 3)
    basis = skfem.Basis(grid, skfem.ElementHex1())
    sides = [basis.get_dofs(lambda x, at=at: np.abs(x[0] - at) < 1e-9).flatten() for at in (0, 1)]
    weights = np.zeros((2, basis.N))
    for row, side in zip(weights, sides, strict=True):
        row[side] = 1.0
    stiffness = skfem.BilinearForm(lambda u, v, w: dot(u.grad, v.grad))
    for constant in (None, csr_array(0.5 * stiffness.assemble(basis))):
        equation = linear_equation(
            Form(basis, conduction, location="cells"),
            readings=Functionals(csr_array((2, basis.N)), csr_array(np.eye(2))),
            held=np.concatenate(sides),
            values=np.repeat([0.0, 1.0], [len(side) for side in sides]),
            constant=constant,
            reactions=csr_array(weights),
        )
        conductivity = 2.0 if constant is None else 2.5
        found = readings(equation, jnp.full(grid.nelements, np.log(2.0)))
        np.testing.assert_allclose(found, [-conductivity, conductivity], rtol=1e-11)


def test_reactions_are_the_forces_that_hold():
    """A sheet of modulus 3, stretched by a tenth, with sides that are free."""
    grid = skfem.MeshQuad.init_tensor(np.linspace(0, 2, 5), np.linspace(0, 1, 4))
    basis = skfem.Basis(grid, skfem.ElementVector(skfem.ElementQuad1()))
    left, right = (
        basis.get_dofs(lambda x, at=at: np.abs(x[0] - at) < 1e-9).all("u^1") for at in (0, 2)
    )
    corner = basis.nodal_dofs[1, np.abs(grid.p).sum(axis=0) < 1e-9]
    force = np.zeros((1, basis.N))
    force[0, right] = 1.0
    equation = linear_equation(
        Form(basis, Elasticity(0.25, is_plane_stress=True), location="cells"),
        readings=Functionals(csr_array((1, basis.N)), csr_array([[1.0]])),
        held=np.concatenate([left, right, corner]),
        values=np.concatenate([np.zeros(left.size), np.full(right.size, 0.2), np.zeros(1)]),
        reactions=csr_array(force),
    )
    found = readings(equation, jnp.full(grid.nelements, np.log(3.0)))
    np.testing.assert_allclose(found, 3.0 * 0.1, rtol=1e-11)


@pytest.mark.parametrize("ratio", [0.5, -1.0, np.nan])
def test_a_poisson_ratio_that_no_body_has(ratio):
    with pytest.raises(InputError, match="a number between -1 and"):
        Elasticity(ratio)


def test_loads_and_readings_of_several_experiments_are_those_of_each():
    grid = skfem.MeshQuad().refined(2)
    basis = skfem.Basis(grid, skfem.ElementQuad1())
    held = basis.get_dofs(lambda x: x[0] < 1e-9)
    rng = np.random.default_rng(1)
    load, values = rng.random((basis.N, 3)), rng.random((held.flatten().size, 3))
    probes = basis.probes(interior_points(2, 4).T).tocsr()
    own = [probes[:2], probes[1:3], probes[2:]]
    together = linear_equation(
        Form(basis, conduction), readings=own, load=load, held=held, values=values
    )
    assert together.observation.shape[1] == 4  # readings at one place share an adjoint
    phi = jnp.asarray(rng.standard_normal(basis.N))
    parts = []
    for rows, b, g in zip(own, load.T, values.T, strict=True):
        alone = linear_equation(Form(basis, conduction), readings=rows, load=b, held=held, values=g)
        parts.append(linearisation(alone, phi))
    for found, *expected in zip(linearisation(together, phi), *parts, strict=True):
        np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-12, atol=1e-14)


def test_many_readings_take_no_table_of_all_nodes():
    """What a model keeps grows with what each reading is made of."""
    mesh, num = box_mesh(2, 8), 400
    sensors = locate(mesh, sensors_from_arrays(interior_points(2, num), np.zeros(num)))
    model = assemble_poisson(mesh, sensors, source=1.0, dirichlet={"left": 0.0})
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(model)]
    assert max(sizes) <= 9 * max(num, len(mesh.cells))


def test_coefficients_are_any_sequence_of_their_number():
    mesh = box_mesh(2, 2)
    sensors = locate(mesh, sensors_from_arrays(interior_points(2, 1), np.zeros(1)))
    model = assemble_poisson(mesh, sensors, source=1.0, dirichlet={"left": 0.0})
    zeros = np.zeros(model.num_coefficients)
    for method in (model, model.value_and_jacobian):
        jax.tree.map(np.testing.assert_array_equal, method(list(zeros)), method(zeros))
        with pytest.raises(InputError, match=f"{zeros.size} values"):
            method(zeros[1:])


def test_a_further_degree_of_freedom():
    """An electrode's potential U, on the top through a contact: what flows in must flow out."""
    grid = skfem.MeshQuad.init_tensor(np.linspace(0, 1, 4), np.linspace(0, 1, 6))
    basis = skfem.Basis(grid, skfem.ElementQuad1())
    top = basis.boundary(grid.facets_satisfying(lambda x: x[1] > 1 - 1e-9))
    size = basis.N + 1
    electrode = np.full((1, top.element_dofs.shape[1]), basis.N)

    def contact(log_impedance, element):
        jump = jnp.concatenate([element.value, -jnp.ones((1, element.value.shape[1]))])
        return jnp.einsum("iq,jq,q->ij", jump, jump, jnp.exp(-log_impedance) * element.weight)

    current = np.zeros(size)
    current[-1] = 2.0
    everywhere = np.zeros(top.element_dofs.shape[1], dtype=int)
    equation = linear_equation(
        [
            Form(basis, conduction),
            Form(
                top, contact, location=everywhere, start=basis.N,
                dofs=np.concatenate([top.element_dofs, electrode]),
            ),
        ],
        readings=csr_array(np.eye(size)[-1:]),
        load=current,
        held=basis.get_dofs(lambda x: x[1] < 1e-9),
    )  # fmt: skip
    assert equation.num_coefficients == basis.N + 1
    # A column of height and width one, of conductivity 3, beneath a contact of impedance 0.2.
    coefficients = jnp.full(basis.N + 1, np.log(3.0)).at[-1].set(np.log(0.2))
    np.testing.assert_allclose(readings(equation, coefficients), 2.0 * (1 / 3 + 0.2), rtol=1e-12)


def arguments():
    basis = skfem.Basis(skfem.MeshTri().refined(1), skfem.ElementTriP1())
    return {
        "forms": Form(basis, conduction),
        "readings": basis.probes(np.array([[0.3], [0.4]])).tocsr(),
        "held": basis.get_dofs(lambda x: x[0] < 1e-9),
    }


def finer(form):
    return Form(skfem.Basis(form.basis.mesh.refined(1), skfem.ElementTriP1()), conduction)


def of(element):
    """A form of other elements, and readings of all their degrees of freedom."""
    basis = skfem.Basis(skfem.MeshTri().refined(1), element)
    return {"forms": Form(basis, conduction), "readings": csr_array(np.eye(basis.N)), "held": [0]}


def convection(phi, element):
    slope = element.gradient[:, 0]
    return conduction(phi, element) + jnp.einsum(
        "iq,jq,q->ij", element.value, slope, element.weight
    )


def of_numpy(phi, element):
    return np.exp(phi) * conduction(phi, element)


def loaded(phi, element):
    return element.value @ element.weight  # (m,), and not a column for each load


BAD = {
    "load": lambda given: {"load": np.ones(4)},
    "load, row 2": lambda given: {"load": np.array([0, 0, np.nan, 0, 0, 0, 0, 0, 0])},
    "values": lambda given: {"values": np.ones((3, 2)), "load": np.ones((9, 3))},
    "readings": lambda given: {"readings": [given["readings"], given["readings"][:, :5]]},
    "held": lambda given: {"held": np.arange(9)},
    "location": lambda given: {"forms": given["forms"]._replace(location="edges")},
    "forms": lambda given: {"forms": [given["forms"], finer(given["forms"])]},
    "constant, not symmetric": lambda given: {"constant": csr_array(np.tri(9))},
    "forms, not symmetric": lambda given: {"forms": given["forms"]._replace(matrix=convection)},
    "forms, a flat load": lambda given: {
        "forms": given["forms"]._replace(load=loaded), "load": np.ones((9, 3)),
    },
    "forms, of NumPy": lambda given: {"forms": given["forms"]._replace(matrix=of_numpy)},
    "forms, two fields": lambda given: of(skfem.ElementTriP1() * skfem.ElementTriP1()),
    "experiments": lambda given: {"experiments": ["a/b"]},
    "known": lambda given: {"forms": given["forms"]._replace(known=np.ones(3))},
    "tests": lambda given: {"forms": given["forms"]._replace(tests=np.ones((1, 3, 8)))},
    "readings, reactions": lambda given: {
        "readings": Functionals(given["readings"], csr_array(np.eye(1))),
    },
    "forms, other elements": lambda given: {
        "forms": [Form(skfem.Basis(skfem.MeshTri().refined(1), skfem.ElementTriP2()), conduction),
                  given["forms"]],
    },
    "held, none found": lambda given: {
        "held": given["forms"].basis.get_dofs(lambda x: x[0] < -1.0),
    },
    "inputs, from the end": lambda given: {"inputs": [Input(-1, load=np.ones(9))]},
    }  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_named(what):
    given = arguments()
    with pytest.raises(InputError) as caught:
        linear_equation(**given | BAD[what](given))
    expected = what if what == "load, row 2" else what.split(",")[0]
    assert caught.value.where == expected
    linear_equation(**given)  # what is named is all that is wrong
