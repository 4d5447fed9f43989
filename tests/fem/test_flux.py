"""What flows through parts of the boundary: exact solutions, convergence, and the balance."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh
from test_poisson import at, exact_phi, exact_solution, manufactured, observe

from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson

solve = jax.jit(lambda forward, phi: forward.expand(phi)[1].byproducts["solution"])


def assembled(mesh, **conditions):
    places = np.full((1, mesh.dim), 0.4)
    return assemble_poisson(mesh, observe(mesh, places), **conditions)


def flux_of(forward, group, phi):
    """The flux of one field, of its discrete solution."""
    flux = forward.on_mesh.boundary_flux(group)
    assert flux.further == ()
    return flux.of_draws(np.asarray(phi)[None])[0]


def by_gradients(forward, group, mesh, phi, at_nodes):
    """Of gradients in the cells behind a side, with the mean of the field at the facet's nodes."""
    solution, facets = np.asarray(solve(forward, jnp.asarray(phi))), mesh.facets(group)
    exterior = {tuple(sorted(each)): k for k, each in enumerate(mesh.boundary_facets.tolist())}
    axis, sign = NORMALS[group]
    total = 0.0
    for facet in facets:
        corners = mesh.cells[mesh.boundary_cells[exterior[tuple(sorted(facet.tolist()))]]]
        matrix = np.column_stack([np.ones(len(corners)), mesh.points[corners]])
        slope = np.linalg.solve(matrix, solution[corners])[1 + axis]
        size = np.ptp(mesh.points[facet], axis=0).max() ** (mesh.dim - 1) / (mesh.dim - 1)
        total += sign * size * slope * np.exp(at_nodes[facet]).mean()
    return total


@pytest.mark.parametrize(("dim", "thickness", "lengths"), [(2, None, 0), (2, 5.0, 1), (3, None, 1)])
def test_unit_of_a_flux(dim, thickness, lengths):
    """C U in the plane, per unit of thickness; C U L in space, and with a thickness."""
    mesh = box_mesh(dim, 2)
    forward = assembled(mesh, source=1.0, dirichlet={"left": 0.0}, thickness=thickness)
    assert forward.on_mesh.boundary_flux("left").lengths == lengths


NORMALS = {"left": (0, -1.0), "right": (0, 1.0), "bottom": (1, -1.0), "top": (1, 1.0)}
NORMALS |= {"front": (2, -1.0), "back": (2, 1.0)}


def test_linear_solutions_are_exact_on_every_side():
    """Corners and edges belong to several sides, whose fluxes differ."""
    dim = 3
    mesh, slope = box_mesh(dim, 3, size=2.0), np.array([2.0, -1.0, 3.0])
    nodal = 1.0 + mesh.points @ slope
    forward = assembled(mesh, source=0.0, dirichlet=dict.fromkeys(mesh.boundaries, nodal))
    phi = np.full(mesh.num_nodes, np.log(2.5))
    for group in mesh.boundaries:
        axis, sign = NORMALS[group]
        expected = 2.5 * sign * slope[axis] * 2.0 ** (dim - 1)
        assert flux_of(forward, group, phi) == pytest.approx(expected, rel=1e-12)
    assert flux_of(forward, "boundary", phi) == pytest.approx(0.0, abs=1e-12)


def test_sides_whose_flux_is_given():
    """u = x: what flows in at the right flows out at the left, nothing through the other sides."""
    mesh = box_mesh(3, 3)
    forward = assembled(mesh, source=0.0, dirichlet={"left": 0.0}, neumann={"right": 1.5})
    phi = np.full(mesh.num_nodes, np.log(1.5))
    assert flux_of(forward, "left", phi) == pytest.approx(-1.5, rel=1e-12)
    for group in ("right", "top", "boundary"):
        with pytest.raises(InputError, match=f"^flux, {group}: .*Robin condition: left, found"):
            forward.on_mesh.boundary_flux(group)


def flux_density(x):
    return jnp.exp(exact_phi(x)) * jax.grad(exact_solution)(x)


@cache
def exact_flux(group, dim):
    """Integral of exp(phi) du/dn over a side of the manufactured problem, by Gauss quadrature."""
    ticks, weights = np.polynomial.legendre.leggauss(12)
    ticks, weights = 0.5 + 0.5 * ticks, 0.5 * weights
    axis, sign = NORMALS[group]
    grid = np.stack(np.meshgrid(*[ticks] * (dim - 1), indexing="ij"), axis=-1).reshape(-1, dim - 1)
    weights = np.prod(np.meshgrid(*[weights] * (dim - 1), indexing="ij"), axis=0).ravel()
    points = np.insert(grid, axis, 0.5 + 0.5 * sign, axis=1)
    return sign * float(weights @ at(flux_density, points)[:, axis])


def test_convergence():
    """Of second order where u is held; negative control: by the gradients beside it of first."""
    dim, sizes, location = 2, (8, 16), "nodes"
    errors = {"bottom": [], "top": [], "by gradients": []}
    for num in sizes:
        mesh, _, forward, phi = manufactured(dim, num, location)
        for group in ("bottom", "top"):
            errors[group].append(abs(flux_of(forward, group, phi) - exact_flux(group, dim)))
        by_hand = by_gradients(forward, "bottom", mesh, phi, at(exact_phi, mesh.points))
        errors["by gradients"].append(abs(by_hand - exact_flux("bottom", dim)))
    rates = {k: -np.polyfit(np.log(sizes), np.log(e), 1)[0] for k, e in errors.items()}
    assert rates["bottom"] > 1.7, (rates, errors)
    assert rates["top"] > 1.7, (rates, errors)
    assert rates["by gradients"] < 1.5, (rates, errors)
    assert errors["by gradients"][-1] > 3 * errors["bottom"][-1]


def test_facets_inside_the_body_are_refused():
    mesh = box_mesh(2, 4)
    middle = np.flatnonzero(np.isclose(mesh.points[:, 0], 0.5))
    middle = middle[np.argsort(mesh.points[middle, 1])]
    mesh.boundaries["fault"] = np.sort(np.stack([middle[:-1], middle[1:]], axis=1), axis=1)
    forward = assembled(mesh, source=1.0, dirichlet={"left": 0.0})
    with pytest.raises(InputError, match=r"^flux, fault: .*4 of 4 facets inside"):
        flux_of(forward, "fault", np.zeros(mesh.num_nodes))
    with pytest.raises(InputError, match=r"^flux, lft: .*boundary group"):
        flux_of(forward, "lft", np.zeros(mesh.num_nodes))
