"""Models whose equation is solved on a refined mesh: what they are, and what is left of the error.

The true error is that of an equation on cells of an eighth of the width.
"""

import jax
import numpy as np
import pytest
from structured import box_mesh, interior_points

from invlift.errors import InputError
from invlift.fem import linalg
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.experiments import Experiment, assemble_experiments
from invlift.fem.fields.random_field import random_field
from invlift.fem.mesh.finer_mesh import extrapolated
from invlift.fem.mesh.refinement import refined
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.unknowns.distributions import normal

#: Smooth loads; a well, at which the solution has no bound.
CONDITIONS = {
    "smooth": {"source": 5.0, "dirichlet": {"left": 1.0}, "robin": {"top": (2.0, 0.5)}},
    "well": {
        "source": 0.0,
        "dirichlet": {"left": 0.0, "right": 1.0},
        "point_sources": [((0.52, 0.47), 1.0)],
    },
}


def model_of(mesh, conditions, *, num=20, location="nodes", **options):
    sensors = sensors_from_arrays(interior_points(mesh.dim, num), np.zeros(num))
    observation = locate(mesh, sensors)
    return assemble_poisson(mesh, observation, location=location, **conditions, **options)


#: Calls a model by one program for each structure and shape.
readings = jax.jit(lambda model, coefficients: model(coefficients))
solved = jax.jit(lambda model, phi: model.expand(phi)[1].byproducts["solution"])


def field_of(mesh, kind, location="nodes"):
    places = mesh.places_of(location)
    if kind == "smooth":
        return np.sin(3.0 * places[:, 0]) + 0.5 * places[:, 1]
    return np.random.default_rng(3).standard_normal(len(places))


def test_it_is_the_model_of_the_refined_mesh():
    """All that is an array over nodes or cells is interpolated, and groups are the same."""
    location = "cells"
    mesh = box_mesh(2, 4)
    x, y = mesh.points.T
    outside = np.where(y > 0.99, 0.5 + x, np.nan)
    conditions = {
        "source": mesh.cell_fields["ramp_in_cells"],
        "dirichlet": {"left": 1.0 + y},
        "neumann": {"right": jax.numpy.asarray(2.0 - y)},
        "robin": {"top": (1.0 + x, outside)},
    }
    finer = refined(mesh, 2)
    phi = field_of(mesh, "rough", location)
    model = model_of(mesh, conditions, location=location, refine_solution=2)
    there = {
        "source": finer.mesh.cell_fields["ramp_in_cells"],
        "dirichlet": {"left": 1.0 + finer.mesh.points[:, 1]},
        "neumann": {"right": 2.0 - finer.mesh.points[:, 1]},
        "robin": {"top": (1.0 + finer.mesh.points[:, 0], 0.5 + finer.mesh.points[:, 0])},
    }
    direct = model_of(finer.mesh, there, location=location)
    there = finer.of_field(location) @ phi
    np.testing.assert_allclose(readings(model, phi), readings(direct, there), rtol=1e-12)
    solution = solved(direct, there)
    np.testing.assert_allclose(solved(model, phi), solution[: mesh.num_nodes], rtol=1e-12)
    again = model_of(mesh, conditions, location=location).on_mesh.refined(2)
    np.testing.assert_array_equal(readings(model, phi), readings(again, phi))
    sensors = sensors_from_arrays([[0.5, 0.5]], np.zeros(1), groups=["a"])
    shifted = locate(mesh, sensors, offsets={"a": normal(0.0, 1.0)})  # of no effect on a flux
    options = {"location": location, "refine_solution": 2}
    model = assemble_poisson(mesh, shifted, **conditions, **options)
    further, _, flux_of = model.on_mesh.boundary_flux("left")
    expected = direct.on_mesh.boundary_flux("left")[2](there[None])
    assert further == ()
    np.testing.assert_allclose(flux_of(phi[None]), expected, rtol=1e-12)


def test_texts_are_evaluated_on_the_refined_mesh():
    """Expressions have their values there; fields of the mesh are interpolated, as arrays are."""
    mesh = box_mesh(2, 4)
    finer, phi = refined(mesh, 2), field_of(mesh, "rough")
    texts = {
        "source": "ramp_in_cells",
        "dirichlet": {"left": random_field("exp(-9 * y**2)", 0.1, 1.0)},
        "neumann": {"right": "sin(5 * y)"},
        "robin": {"top": ("exp(x)", "ramp")},
        "thickness": "1 + x**2",
    }
    there = {
        "source": finer.mesh.cell_fields["ramp_in_cells"],
        "dirichlet": {"left": np.exp(-9.0 * finer.mesh.points[:, 1] ** 2)},
        "neumann": {"right": np.sin(5.0 * finer.mesh.points[:, 1])},
        "robin": {"top": (np.exp(finer.mesh.points[:, 0]), finer.mesh.point_fields["ramp"])},
        "thickness": 1.0 + finer.mesh.points[:, 0] ** 2,
    }
    coefficients = np.append(phi, np.zeros(40))  # the scores of the random field
    model = model_of(mesh, texts, refine_solution=2)
    found = readings(model, coefficients[: model.num_coefficients])
    expected = readings(model_of(finer.mesh, there), finer.of_field("nodes") @ phi)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    here = {key: mesh.field(texts[key]) for key in ("source", "thickness")}  # negative control
    arrays = model_of(mesh, texts | here, refine_solution=2)
    assert (
        np.abs(readings(arrays, coefficients[: model.num_coefficients]) / expected - 1.0).max()
        > 1e-4
    )


def test_readings_of_all_kinds_are_of_the_refined_solution():
    mesh, nan = box_mesh(2, 4), np.nan
    points = [[0.31, 0.42], [nan, nan], [0.5, 0.5], [0.3, 0.6], [0.4, 0.4], [nan, nan]]
    sensors = sensors_from_arrays(
        points,
        np.zeros(6),
        kinds=["point", "average", "average", "difference", "log_conductivity", "flux"],
        over=["", "low", "", "", "", "left"],
        radius=np.array([nan, nan, 0.2, nan, nan, nan]),
        minus=[[nan, nan]] * 3 + [[0.8, 0.8]] + [[nan, nan]] * 2,
        groups=["a", "b", "b", "b", "b", "b"],
    )
    conditions = {"source": 3.0, "dirichlet": {"left": random_field(1.0, 0.5, 1.0), "right": 0.5}}
    observation = locate(mesh, sensors, offsets={"a": normal(0.0, 1.0)})
    model = assemble_experiments(mesh, [Experiment("", observation, conditions)])
    further = model.on_mesh.further.values()
    size = sum(np.size(each.transform(np.zeros(each.shape))) for each in further)
    values = np.random.default_rng(5).standard_normal(mesh.num_nodes + size)
    once, twice = (np.asarray(readings(model.on_mesh.refined(times), values)) for times in (2, 3))
    here = np.asarray(readings(model, values))
    assert here[4] == pytest.approx(once[4], abs=1e-12)  # that of the field itself
    left, error = (np.delete(np.abs(twice - each), 4) for each in (once, here))
    assert (error > 1e-3).all()
    assert (left < 0.25 * error).all()  # as of first order at least: the field is rough


@pytest.mark.parametrize("refine_solution", [-1, 4, 1.5, True])
def test_other_numbers_are_refused(refine_solution):
    with pytest.raises(InputError, match="refine_solution"):
        model_of(box_mesh(2, 2), CONDITIONS["smooth"], refine_solution=refine_solution)


def shares_within_a_factor_2(mesh, conditions, kind, times):
    """Of the estimate, and of a fourth of it, as the error of the refined mesh is."""
    model, phi = model_of(mesh, conditions), field_of(mesh, kind)
    with linalg.iteratively():
        models = model, model.on_mesh.refined(times), model.on_mesh.refined(3)
    here, finer, finest = (np.asarray(readings(each, phi)) for each in models)
    ratio = extrapolated(finer - here, times) / extrapolated(finest - here, 3)
    return [np.mean((share * ratio > 0.5) & (share * ratio < 2.0)) for share in (1.0, 0.25)]


@pytest.mark.parametrize(
    ("dim", "num", "load", "times", "kind"),
    [
        (2, 8, "well", 2, "rough"),
        (2, 6, "smooth", 1, "smooth"),
    ],
)
def test_the_estimate_is_within_a_factor_2(dim, num, load, times, kind):
    """For 9 readings of 10; near wells edges are halved twice for that."""
    right, wrong = shares_within_a_factor_2(box_mesh(dim, num), CONDITIONS[load], kind, times)
    assert right >= 0.9
    assert wrong < 0.5  # negative control
