"""Where the errors of readings are made: sums are those of the readings, near what makes them."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from structured import box_mesh

import invlift
from invlift.fem import linalg
from invlift.fem.electrodes.complete import electrode_model
from invlift.fem.electrodes.point_electrodes import point_electrode_model
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.error_map import error_map
from invlift.fem.equations.surveys import join_surveys
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays

HELD = {"dirichlet": {"left": 1.0}, "robin": {"right": (2.0, 0.5)}}
PLACES = np.array([[0.72, 0.3], [0.31, 0.64], [0.45, 0.55]])
readings = jax.jit(lambda model, coefficients: model(coefficients))


def plain(mesh, places=PLACES, **options):
    sensors = sensors_from_arrays(places, np.zeros(len(places)))
    options = {"source": 5.0, **HELD, **options}
    return assemble_poisson(mesh, locate(mesh, sensors), **options)


def with_flux(mesh):
    """Through a boundary where values are held, last: what is not in the map."""
    nan = np.nan
    kinds, over = ["point", "average", "flux"], ["", "low", "left"]
    points = [[0.72, 0.3], [nan, nan], [nan, nan]]
    sensors = sensors_from_arrays(points, np.zeros(3), kinds=kinds, over=over)
    return assemble_poisson(mesh, locate(mesh, sensors), source=5.0, **HELD)


def in_time(mesh):
    times = np.array([0.05, 0.1, 0.3])
    sensors = sensors_from_arrays(PLACES, np.zeros(3), times=times)
    observation = locate(mesh, sensors)
    return assemble_poisson(mesh, observation, source=5.0, storage=1.0, initial=0.0, **HELD)


def with_barrier(mesh):
    """Across which the solution jumps: the mesh of the solution is cut."""
    facets = mesh.distinct_facets[0]
    wall = facets[(np.abs(mesh.points[facets][:, :, 0] - 0.5) < 1e-9).all(axis=1)][:4]
    groups = {name: mesh.boundaries[name] for name in ("left", "right")} | {"wall": wall}
    return plain(replace(mesh, boundaries=groups), barriers={"wall": 0.3})


def electrodes(mesh):
    top = mesh.boundaries["top"]
    order = np.argsort(mesh.points[top].mean(axis=1)[:, 0])
    own = {f"electrode_{k}": top[order[2 * k : 2 * k + 1]] for k in range(4)}
    mesh = invlift.mesh_from_arrays(mesh.points, mesh.cells, boundaries=own)
    pairs = np.eye(4)[:-1] - np.eye(4)[1:]
    return electrode_model(mesh, list(own), pairs, pairs, impedance=0.2)


def points(mesh):
    places = np.column_stack([np.linspace(0.3, 0.7, 4), np.ones(4)])
    pairs = np.eye(4)[:-1] - np.eye(4)[1:]
    return point_electrode_model(mesh, places, pairs, pairs, surface="top")


MODELS = {
    "refined": lambda mesh: plain(mesh, refine_solution=1),
    "flux": with_flux,
    "barrier": with_barrier,
    "surveys": lambda mesh: join_surveys({"a": plain(mesh), "b": plain(mesh, source=2.0)}),
    "time": in_time,
    "electrodes": electrodes,
    "points": points,
}


def on_refined(model, phi):
    """Of the equation on the refined mesh, without an extrapolation."""
    finer = model.on_mesh.solved_on
    return readings(plain(finer.mesh), finer.nodes @ phi)


#: Readings whose errors are those of the map, where they are not those of the model.
BEFORE = {"refined": on_refined}

QUICK = {"flux", "electrodes"}


@pytest.mark.parametrize(
    "kind",
    sorted(QUICK)
    + [pytest.param(kind, marks=pytest.mark.slow) for kind in sorted({*MODELS} - QUICK)],
)
def test_sums_are_the_errors_of_the_readings(kind):
    mesh = box_mesh(2, 8)
    model = MODELS[kind](mesh)
    phi = np.sin(3.0 * mesh.points[:, 0]) + 0.5 * mesh.points[:, 1] ** 2
    with linalg.iteratively():
        finer = model.on_mesh.refined(1)
    errors = np.asarray(readings(finer, phi) - BEFORE.get(kind, readings)(model, phi))
    weights = np.random.default_rng(0).choice([-1.0, 1.0], (2, errors.size))
    found = error_map(model, finer, 1, phi, weights)
    assert found.shape == (2, model.on_mesh.solved_on.mesh.num_nodes)
    weights[:, errors.size - (kind == "flux") :] = 0.0
    np.testing.assert_allclose(found.sum(axis=1), weights @ errors, rtol=0.02)
    assert np.abs(errors).max() > 1e-4


def test_errors_are_made_where_the_solution_or_its_adjoint_is_steep():
    """Near a well and a sensor, which are far from each other."""
    mesh = box_mesh(2, 16)
    well, sensor = np.array([[0.26, 0.72], [0.77, 0.31]])
    model = plain(mesh, sensor[None], source=0.0, point_sources=[(well, 1.0)])
    phi = np.zeros(mesh.num_nodes)
    with linalg.iteratively():
        finer = model.on_mesh.refined(1)
    (found,) = np.abs(error_map(model, finer, 1, phi, np.ones((1, 1))))

    def ratio(*places):
        """Of what is made at nodes near these places to that at others, in the mean."""
        near = np.min([np.linalg.norm(mesh.points - at, axis=1) for at in places], axis=0) < 0.15
        return found[near].mean() / found[~near].mean()

    assert ratio(well, sensor) > 4.0
    assert ratio([0.26, 0.25], [0.75, 0.75]) < 0.5  # negative control
