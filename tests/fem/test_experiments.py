"""Several experiments on one body: those of each alone, in their order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh, interior_points

from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.experiments import Experiment, Experiments, assemble_experiments
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays

look = jax.jit(lambda model, phi: (model.linearise(phi)[0], model.expand(phi)[1].byproducts))

HELD = {"left": 0.3}
CONDITIONS = {
    "heated": {"source": 2.0, "dirichlet": HELD},
    "cooled": {"source": 1.0, "dirichlet": HELD, "robin": {"top": (2.0, 0.5)}},
    "pushed": {"dirichlet": {"left": 0.1}, "neumann": {"right": 1.0}},
    "well": {"source": 0.0, "dirichlet": HELD, "point_sources": [((0.31, 0.62), -0.7)]},
}


def experiments(mesh, conditions):
    for k, (name, own) in enumerate(conditions.items()):
        places = interior_points(2, 3, seed=k)
        yield Experiment(name, locate(mesh, sensors_from_arrays(places, np.zeros(3))), own)


def test_together_they_are_as_each_alone():
    mesh, location = box_mesh(2, 4), "cells"
    parts = list(experiments(mesh, CONDITIONS))
    model = assemble_experiments(mesh, parts, location=location)
    assert isinstance(model, Experiments)
    assert [each.num_loads for each in model.equations] == [3, 1]  # a matrix for three
    phi = jnp.asarray(np.random.default_rng(0).standard_normal(mesh.num_cells))
    (values, jacobian), solutions = look(model, phi)
    alone = [
        look(
            assemble_poisson(
                mesh, each.observation, location=location, **{"source": 0.0} | each.conditions
            ),
            phi,
        )
        for each in parts
    ]
    expected = [np.concatenate(each) for each in zip(*(own for own, _ in alone), strict=True)]
    np.testing.assert_allclose(values, expected[0], rtol=1e-12)
    np.testing.assert_allclose(jacobian, expected[1], rtol=1e-10, atol=1e-14)
    for each, (_, own) in zip(parts, alone, strict=True):
        np.testing.assert_allclose(solutions[f"solution_{each.name}"], own["solution"], rtol=1e-11)


def test_a_well_takes_out_what_flows_in():
    """Round a well the solution falls; its total, less the source, crosses the held boundary."""
    mesh = box_mesh(2, 6)
    places = np.array([[0.5, 0.5], [0.9, 0.9]])
    model = assemble_poisson(
        mesh,
        locate(mesh, sensors_from_arrays(places, np.zeros(2))),
        source=0.2,
        dirichlet={"boundary": 1.0},
        point_sources=[(places[0], -0.7)],
    )
    flux = model.on_mesh.boundary_flux("boundary")
    assert flux.further == ()
    phi = np.zeros(mesh.num_nodes)
    (readings, _), _ = look(model, phi)
    assert readings[0] < readings[1] < 1.0
    np.testing.assert_allclose(flux.of_draws(phi[None]), 0.7 - 0.2, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        ("well", {"point_sources": [((0.3, 1.2), 1.0)]}, "experiment well, point_source, 1"),
        ("well", {"point_sources": [((0.0, 0.25), 1.0)]}, "experiment well, point_source, 1"),
        ("pushed", {"neumann": {"rim": 1.0}}, "experiment pushed, neumann"),
        ("heated", {"source": np.nan}, "experiment heated, source"),
        ("heated", {"sorce": 1.0}, "experiment heated, condition sorce"),
        ("well", {"point_source": []}, "experiment well, condition point_source"),
    ],
)
def test_bad_input_names_the_experiment(name, change, where):
    mesh = box_mesh(2, 2)
    conditions = CONDITIONS | {name: CONDITIONS[name] | change}
    with pytest.raises(InputError) as caught:
        assemble_experiments(mesh, list(experiments(mesh, conditions)))
    assert caught.value.where == where


def test_readings_of_another_experiment_are_refused():
    mesh, points = box_mesh(2, 2), interior_points(2, 2)
    sensors = sensors_from_arrays(points, np.zeros(2), experiments=["heated", "cooled"])
    observation = locate(mesh, sensors)
    given = Experiment("heated", observation, CONDITIONS["heated"])
    with pytest.raises(InputError, match=r"column experiment: .*heated.* alone, found cooled"):
        assemble_experiments(mesh, [given])
    with pytest.raises(InputError, match=r"column experiment: .*one experiment, found cooled"):
        assemble_poisson(mesh, observation, **CONDITIONS["heated"])


def test_readings_located_on_another_mesh_are_refused():
    sensors = sensors_from_arrays(interior_points(2, 2), np.zeros(2))
    with pytest.raises(InputError, match=r"^observation: .* on the mesh .* found those of another"):
        assemble_poisson(box_mesh(2, 3), locate(box_mesh(2, 2), sensors), **CONDITIONS["heated"])
    same = assemble_poisson(box_mesh(2, 2), locate(box_mesh(2, 2), sensors), **CONDITIONS["heated"])
    assert same.on_mesh.fields[0][1].shape == (9, 2)


def test_names_must_differ_even_where_matrices_do():
    mesh = box_mesh(2, 2)
    first, second, *_ = experiments(mesh, CONDITIONS)
    for given in ([first, second._replace(name=first.name)], []):
        with pytest.raises(InputError) as caught:
            assemble_experiments(mesh, given)
        assert caught.value.where == "experiments"
