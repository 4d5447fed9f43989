"""Point electrodes on the ground: closed forms, sums over wave numbers, and mistakes."""

from functools import cache

import numpy as np
import pytest
import skfem
from numpy.polynomial.laguerre import laggauss
from numpy.polynomial.legendre import leggauss
from refusals import refused
from scipy.special import k0
from structured import box_mesh

from invlift.fem.electrodes.point_electrodes import point_electrode_model
from invlift.fem.electrodes.wave_numbers import TOLERANCE, wave_numbers
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.programs.compilation import Program

X = np.arange(6.0)
LINE = np.column_stack([X, 0.0 * X])
#: Dipoles a, b and m, n next to each other and up to two spacings apart, and Wenner's array.
ROWS = np.array([(a, a + 1, a + g, a + g + 1) for g in (2, 3) for a in range(5 - g)]
                + [(0, 3, 1, 2), (1, 4, 2, 3)])  # fmt: skip

evaluate = Program(lambda model, coefficients: model(coefficients), effort="none")


def growing(first, last, size, growth):
    """Numbers from the first to at least the last, whose steps grow."""
    found = [first]
    while found[-1] < last:
        found.append(found[-1] + size)
        size *= growth
    return np.array(found)


def ground(size=0.2, growth=1.25, out=25.0):
    """Triangles below the line, fine near it, with a node at each electrode and at depth 1."""
    inner = growing(0.0, 1.0, size / 2, growth)
    depth = np.concatenate([inner / inner[-1], 1.0 + growing(0.4, out, 0.5, growth)])
    beside = growing(size, out, size * growth, growth)
    line = np.linspace(0.0, 5.0, round(5.0 / size) + 1)
    grid = skfem.MeshTri.init_tensor(
        np.concatenate([-beside[::-1], line, 5.0 + beside]), -depth[::-1]
    )
    return mesh_of(grid)


def mesh_of(grid):
    """A mesh of a grid, with its ``top`` and, without the ``bottom``, its ``walls``."""
    points, cells = grid.p.T, grid.t.T.copy()
    is_turned = np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]]) < 0.0
    cells[is_turned, -2:] = cells[is_turned, :-3:-1]
    facets = grid.facets.T[grid.boundary_facets()]
    heights = points[facets, -1].max(axis=1)
    is_bottom = np.isclose(heights, points[:, -1].min())
    groups = {"top": facets[np.isclose(points[facets, -1].min(axis=1), 0.0)]}
    groups |= {"bottom": facets[is_bottom], "walls": facets[~is_bottom]}
    centres = points[cells, -1].mean(axis=1)
    layers = {"upper": np.flatnonzero(centres > -1.0), "lower": np.flatnonzero(centres < -1.0)}
    return mesh_from_arrays(points, cells, boundaries=groups, subdomains=layers)


def readings(potentials):
    a, b, m, n = ROWS.T
    return potentials[m, a] - potentials[n, a] - potentials[m, b] + potentials[n, b]


def layered(upper, lower, depth=1.0):
    """Readings over two layers by images (Telford, Geldart & Sheriff 1990, section 8.3)."""
    distance = np.abs(X[:, None] - X) + np.eye(6)  # where it is not read
    share, number = (lower - upper) / (lower + upper), np.arange(1, 400)[:, None, None]
    images = share**number / np.hypot(distance, 2.0 * number * depth)
    return readings(upper / (2.0 * np.pi) * (1.0 / distance + 2.0 * images.sum(axis=0)))


@pytest.fixture(scope="module")
def potentials():
    """Those of all electrodes for a current from each that leaves far away."""
    mesh = ground()

    @cache
    def model_of(surface):
        currents = np.eye(6)
        return point_electrode_model(
            mesh, LINE, currents, currents, surface=surface, location="cells"
        )

    def found(upper, lower, surface="top"):
        model = model_of(surface)
        field = np.full(mesh.num_cells, -np.log(upper))
        field[mesh.subdomains["lower"]] = -np.log(lower)
        return np.reshape(evaluate(model, field), (6, 6))

    return found


@pytest.mark.parametrize(("lower", "most"), [(1.0, 0.013), (10.0, 0.01), (0.1, 0.015)])
def test_uniform_and_layered_ground(potentials, lower, most):
    truth = layered(1.0, lower)
    assert np.abs(readings(potentials(1.0, lower)) / truth - 1.0).max() < most
    # negative control: a lower layer of half the resistivity
    assert np.abs(readings(potentials(1.0, 0.5 * lower)) / truth - 1.0).max() > 3.0 * most


def test_the_ground_goes_on_beyond_the_mesh(potentials):
    """Of currents that leave far away."""
    truth = 1.0 / (2.0 * np.pi * np.arange(1, 6))
    assert np.abs(potentials(1.0, 1.0)[0, 1:] / truth - 1.0).max() < 0.01
    # negative control: walls that let nothing through
    assert np.abs(potentials(1.0, 1.0, "walls")[0, 1:] / truth - 1.0).max() > 0.05


def test_the_surface_mirrors_electrodes_far_below():
    """Two of them, at 12 times their distance, by the closed form of uniform ground."""
    beside, down = growing(0.0, 40.0, 0.25, 1.4), growing(0.0, 12.0, 0.25, 1.4)
    up = down / down[-1] * 12.0
    levels = np.unique([*(-12.0 - beside), *(up - 12.0), -0.5])
    line = np.concatenate([-beside[:0:-1], [0.0, 0.25, 0.5, 0.75], 1.0 + beside])
    mesh = mesh_of(skfem.MeshTri.init_tensor(line, levels))
    places = [[0.0, -12.0], [1.0, -12.0]]
    drive, read = np.eye(2)
    model = point_electrode_model(mesh, places, drive, read, surface="top")
    found = evaluate(model, np.zeros(mesh.num_nodes))
    exact = (1.0 + 1.0 / np.hypot(1.0, 24.0)) / (4.0 * np.pi)
    assert abs(found / exact - 1.0) < 0.01


@pytest.mark.parametrize(("ratio", "num"), [(4.0, 4), (40.0, 6), (400.0, 9)])
def test_few_wave_numbers_integrate(ratio, num):
    wave, weights = wave_numbers(2.0, 2.0 * ratio)
    assert wave.size == num
    distance = np.geomspace(2.0, 2.0 * ratio, 77)

    def worst(wave, weights):
        return np.abs(2.0 / np.pi * distance * (k0(np.outer(distance, wave)) @ weights) - 1.0).max()

    assert worst(wave, weights) < 1.1 * TOLERANCE
    # negative control: Gauss's rules to both sides of 1 / (2 r) and twice as many numbers
    (x, near), (y, far), middle = leggauss(num), laggauss(num), 0.25
    x, near = (x + 1.0) / 2.0, near / 2.0
    wave = middle * np.concatenate([x**2, 1.0 + y])
    weights = middle * np.concatenate([2.0 * x * near, np.exp(y) * far])
    assert worst(wave, weights) > 2.0 * TOLERANCE


def mistaken(**change):
    mesh = box_mesh(2, 2)
    given = {"positions": [[0.25, 1.0], [0.75, 1.0]], "currents": np.eye(2), "surface": "top"}
    return point_electrode_model(mesh, voltages=np.eye(2), **given | change)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"surface": "lid"}, ["'lid'"]),
        ({"surface": "boundary"}, ["electrodes, surface", "part of the outer boundary"]),
        ({"positions": [[0.5, 1.0], [0.5, 1.0]]}, ["electrodes, 2", "that of electrode 1"]),
        ({"positions": [[0.25, 1.0], [0.75, 1.1]]}, ["electrodes, 2", "0.1 outside", "same signs"]),
        ({"positions": [0.25, 0.75]}, ["electrodes, positions", "a row of", "shape (2,)"]),
        ({"positions": [["a", 1.0]]}, ["electrodes, positions: expected numbers", "'a'"]),
        ({"currents": [[1.0, -1.0, 0.0]]}, ["currents", "2 columns"]),
    ],
)
def test_mistakes_are_named(change, parts):
    with refused(*parts):
        mistaken(**change)


def test_a_position_just_outside_is_on_the_surface():
    np.testing.assert_allclose(
        evaluate(mistaken(positions=[[0.25, 1.0 + 1e-5], [0.75, 1.0]]), np.zeros(9)),
        evaluate(mistaken(), np.zeros(9)),
        rtol=1e-4,
    )
