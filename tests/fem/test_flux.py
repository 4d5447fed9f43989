"""What flows through parts of the boundary: exact solutions, convergence, and the balance."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh
from test_poisson import exact_phi, exact_solution, manufactured, observe

from invlift.errors import InputError
from invlift.fem.assembly import assemble_poisson

solve = jax.jit(lambda forward, phi: forward.solve(phi))


def assembled(mesh, **conditions):
    places = np.full((1, mesh.dim), 0.4)
    return assemble_poisson(mesh, observe(mesh, places), **conditions)


def flux_of(forward, group, phi):
    """The flux of one field, of its discrete solution."""
    phi = jnp.asarray(phi)
    return forward.boundary_flux(
        group, np.asarray(phi)[None], np.asarray(solve(forward, phi))[None]
    )[0]


NORMALS = {"left": (0, -1.0), "right": (0, 1.0), "bottom": (1, -1.0), "top": (1, 1.0)}
NORMALS |= {"front": (2, -1.0), "back": (2, 1.0)}


@pytest.mark.parametrize("dim", [2, 3])
def test_linear_solutions_are_exact_on_every_side(dim):
    """Corners and edges belong to several sides, whose fluxes differ."""
    mesh, slope = box_mesh(dim, 3, size=2.0), np.array([2.0, -1.0, 3.0])[:dim]
    nodal = 1.0 + mesh.points @ slope
    forward = assembled(mesh, source=0.0, dirichlet=dict.fromkeys(mesh.boundaries, nodal))
    phi = np.full(mesh.num_nodes, np.log(2.5))
    for group in mesh.boundaries:
        axis, sign = NORMALS[group]
        expected = 2.5 * sign * slope[axis] * 2.0 ** (dim - 1)
        assert flux_of(forward, group, phi) == pytest.approx(expected, rel=1e-12)
    assert flux_of(forward, "boundary", phi) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_sides_that_are_not_held(dim):
    """u = x: what flows in at the right flows out at the left, nothing through the other sides."""
    mesh = box_mesh(dim, 3)
    forward = assembled(mesh, source=0.0, dirichlet={"left": 0.0}, neumann={"right": 1.5})
    phi = np.full(mesh.num_nodes, np.log(1.5))
    expected = {"left": -1.5, "right": 1.5, "top": 0.0, "boundary": 0.0}
    for group, value in expected.items():
        assert flux_of(forward, group, phi) == pytest.approx(value, abs=1e-12)


def exact_flux(group, dim):
    """Integral of exp(phi) du/dn over a side of the manufactured problem, by Gauss quadrature."""
    ticks, weights = np.polynomial.legendre.leggauss(12)
    ticks, weights = 0.5 + 0.5 * ticks, 0.5 * weights
    axis, sign = NORMALS[group]
    grid = np.stack(np.meshgrid(*[ticks] * (dim - 1), indexing="ij"), axis=-1).reshape(-1, dim - 1)
    weights = np.prod(np.meshgrid(*[weights] * (dim - 1), indexing="ij"), axis=0).ravel()
    points = np.insert(grid, axis, 0.5 + 0.5 * sign, axis=1)
    densities = jax.vmap(lambda x: jnp.exp(exact_phi(x)) * jax.grad(exact_solution)(x)[axis])
    return sign * float(weights @ np.asarray(densities(jnp.asarray(points))))


@pytest.mark.parametrize(
    ("dim", "sizes", "location"),
    [
        (2, (8, 16, 32), "nodes"),
        (2, (8, 16, 32), "cells"),
        pytest.param(3, (4, 7, 10), "nodes", marks=pytest.mark.slow),
    ],
)
def test_convergence(dim, sizes, location):
    """Of second order where u is held, of first order elsewhere."""
    groups = {"bottom": "bottom", "top": "top", "by gradient": "bottom", "left": "left"}
    errors = {name: [] for name in groups}
    for num in sizes:
        _, _, forward, phi = manufactured(dim, num, location)
        for name, group in groups.items():
            if name == "by gradient":  # negative control: as if u were not held anywhere
                forward = replace(forward, boundary_flux=replace(forward.boundary_flux, held=()))
            error = flux_of(forward, group, phi) - exact_flux(group, dim)
            errors[name].append(abs(error))
    rates = {k: -np.polyfit(np.log(sizes), np.log(e), 1)[0] for k, e in errors.items()}
    assert rates["bottom"] > 1.7, (rates, errors)
    assert rates["top"] > 1.7, (rates, errors)
    assert 0.7 < rates["left"] < 1.5, (rates, errors)
    assert rates["by gradient"] < 1.5, (rates, errors)
    assert errors["by gradient"][-1] > 3 * errors["bottom"][-1]


@pytest.mark.parametrize("location", ["nodes", "cells"])
def test_what_flows_in_balances_the_source(location):
    """To rounding, for any field: what the held sides give, and the others are known to give."""
    mesh = box_mesh(2, 5)
    forward = assembled(
        mesh,
        source={"low": 3.0},
        dirichlet={"left": 1.0, "top": 0.5},
        neumann={"right": 0.7},
        robin={"bottom": (2.0, 4.0)},
        location=location,
    )
    size = mesh.num_nodes if location == "nodes" else mesh.num_cells
    phi = np.random.default_rng(1).standard_normal(size)
    solution = np.asarray(solve(forward, jnp.asarray(phi)))
    held = [flux_of(forward, group, phi) for group in ("left", "top")]
    ends = mesh.facets("bottom")
    robin = np.sum(2.0 * (4.0 - solution[ends].mean(axis=1)) * 0.2)
    source = 3.0 * mesh.volumes[mesh.subdomains["low"]].sum()
    assert sum(held) == pytest.approx(-(source + 0.7 + robin), rel=1e-12)
    # negative control: the gradients beside the boundary do not balance it
    free = replace(forward, boundary_flux=replace(forward.boundary_flux, held=()))
    by_gradient = sum(flux_of(free, group, phi) for group in ("left", "top"))
    assert abs(by_gradient + source + 0.7 + robin) > 1e-2


def test_batches_are_as_one(monkeypatch):
    mesh = box_mesh(2, 3)
    forward = assembled(mesh, source=1.0, dirichlet={"left": 0.0}, robin={"top": (1.0, 2.0)})
    rng = np.random.default_rng(2)
    phi, solution = rng.standard_normal((2, 7, mesh.num_nodes))
    whole = forward.boundary_flux("left", phi, solution)
    monkeypatch.setattr("invlift.fem.flux._BATCH", 12)
    np.testing.assert_allclose(forward.boundary_flux("left", phi, solution), whole, rtol=1e-12)


def test_facets_inside_the_body_are_refused():
    mesh = box_mesh(2, 4)
    middle = np.flatnonzero(np.isclose(mesh.points[:, 0], 0.5))
    middle = middle[np.argsort(mesh.points[middle, 1])]
    mesh.boundaries["fault"] = np.sort(np.stack([middle[:-1], middle[1:]], axis=1), axis=1)
    forward = assembled(mesh, source=1.0, dirichlet={"left": 0.0})
    with pytest.raises(InputError, match=r"^flux, fault: .*4 of 4 facets inside"):
        flux_of(forward, "fault", np.zeros(mesh.num_nodes))
    with pytest.raises(InputError, match="boundary group"):
        flux_of(forward, "lft", np.zeros(mesh.num_nodes))
