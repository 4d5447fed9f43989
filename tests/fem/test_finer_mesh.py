"""Models that are extrapolated from two refined meshes: what they are, and what is left of errors.

The true error is that of an equation on cells of an eighth of the width, extrapolated.
"""

from dataclasses import replace

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
from invlift.fem.mesh.splitting import split
from invlift.fem.readings.locate import locate, weights_on
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


def model_of(mesh, conditions, points=None, *, location="nodes", **options):
    points = interior_points(mesh.dim, 20) if points is None else points
    observation = locate(mesh, sensors_from_arrays(points, np.zeros(len(points))))
    return assemble_poisson(mesh, observation, location=location, **conditions, **options)


#: Calls a model by one program for each structure and shape.
readings = jax.jit(lambda model, coefficients: model(coefficients))
solved = jax.jit(lambda model, phi: model.expand(phi)[1].byproducts["solution"])


def field_of(mesh, kind, location="nodes"):
    places = mesh.places_of(location)
    if kind == "smooth":
        return np.sin(3.0 * places[:, 0]) + 0.5 * places[:, 1]
    return np.random.default_rng(3).standard_normal(len(places))


#: Nodes of all meshes below, at which readings are values at nodes.
AT_NODES = np.array([[0.25, 0.5], [0.5, 0.25], [0.75, 0.75], [1.0, 0.5]])


def on_two_meshes(mesh, conditions, of_model):
    """Of models that are assembled on the mesh with edges halved twice, and once, extrapolated."""
    refinements = refined(mesh, 2), refined(mesh, 1)
    models = [
        (each, model_of(each.mesh, conditions(each.mesh), AT_NODES, location="cells"))
        for each in refinements
    ]
    return extrapolated(*(np.asarray(of_model(*each)) for each in models))


def test_it_is_extrapolated_from_the_models_of_two_refined_meshes():
    """All that is an array over nodes or cells is interpolated, and groups are the same."""
    mesh = box_mesh(2, 4)

    def conditions(mesh):
        x, y = mesh.points.T
        outside = np.where(y > 0.99, 0.5 + x, np.nan)
        return {
            "source": mesh.cell_fields["ramp_in_cells"],
            "dirichlet": {"left": 1.0 + y},
            "neumann": {"right": jax.numpy.asarray(2.0 - y)},
            "robin": {"top": (1.0 + x, outside)},
        }

    phi, given = field_of(mesh, "rough", "cells"), conditions(mesh)
    model = model_of(mesh, given, AT_NODES, location="cells", refine_solution=2)

    def expected(of_model):
        def at(refinement, model):
            return of_model(model, refinement.of_field("cells") @ phi)

        return on_two_meshes(mesh, conditions, at)

    np.testing.assert_allclose(readings(model, phi), expected(readings), rtol=1e-12)
    solution = expected(lambda *each: solved(*each)[: mesh.num_nodes])
    np.testing.assert_allclose(solved(model, phi), solution, rtol=1e-12)
    again = model_of(mesh, given, AT_NODES, location="cells").on_mesh.refined(2)
    np.testing.assert_array_equal(readings(model, phi), readings(again, phi))
    sensors = sensors_from_arrays([[0.5, 0.5]], np.zeros(1), groups=["a"])
    shifted = locate(mesh, sensors, offsets={"a": normal(0.0, 1.0)})  # of no effect on a flux
    model = assemble_poisson(mesh, shifted, location="cells", refine_solution=2, **given)
    through = model.on_mesh.boundary_flux("left")
    flux = expected(lambda model, at: model.on_mesh.boundary_flux("left").of_draws(at[None]))
    assert (through.further, through.lengths) == ((), 0)
    np.testing.assert_allclose(through.of_draws(phi[None]), flux, rtol=1e-12)


def test_texts_are_evaluated_on_the_refined_mesh():
    """Expressions have their values there; fields of the mesh are interpolated, as arrays are."""
    mesh = box_mesh(2, 4)
    phi = field_of(mesh, "rough", "cells")
    texts = {
        "source": "ramp_in_cells",
        "dirichlet": {"left": random_field("exp(-9 * y**2)", 0.1, 1.0)},
        "neumann": {"right": "sin(5 * y)"},
        "robin": {"top": ("exp(x)", "ramp")},
        "thickness": "1 + x**2",
    }

    def arrays(mesh):
        x, y = mesh.points.T
        return {
            "source": mesh.cell_fields["ramp_in_cells"],
            "dirichlet": {"left": np.exp(-9.0 * y**2)},
            "neumann": {"right": np.sin(5.0 * y)},
            "robin": {"top": (np.exp(x), mesh.point_fields["ramp"])},
            "thickness": 1.0 + x**2,
        }

    def found(conditions):
        options = {"location": "cells", "refine_solution": 2}
        model = model_of(mesh, conditions, AT_NODES, **options)
        # Behind the field are the scores of the random field.
        return readings(model, np.append(phi, np.zeros(40))[: model.num_coefficients])

    def at(refinement, model):
        return readings(model, refinement.of_field("cells") @ phi)

    expected = on_two_meshes(mesh, arrays, at)
    np.testing.assert_allclose(found(texts), expected, rtol=1e-12)
    here = {key: mesh.field(texts[key]) for key in ("source", "thickness")}  # negative control
    assert np.abs(found(texts | here) / expected - 1.0).max() > 1e-4


@pytest.mark.parametrize(("dim", "is_cut"), [(2, False), (3, False), (2, True)])
def test_readings_at_points_have_a_fourth_of_the_error_of_those_before(dim, is_cut):
    """Of quadratic functions of the places, for points and differences."""
    mesh, rng = box_mesh(dim, 4), np.random.default_rng(7)
    if is_cut:
        facets = mesh.distinct_facets[0]
        wall = facets[(np.abs(mesh.points[facets][:, :, 0] - 0.5) < 1e-9).all(axis=1)]
        mesh = replace(mesh, boundaries=mesh.boundaries | {"wall": wall})
    fine, coarse = refined(mesh, 1), refined(mesh, 0)
    if is_cut:
        fine, coarse = (split(each.mesh, ["wall"], "").after(each) for each in (fine, coarse))
    points = rng.uniform(0.05, 0.45, (12, dim))
    minus = np.where(np.arange(12)[:, None] < 6, np.nan, points + 0.5)
    sensors = sensors_from_arrays(points, np.zeros(12), minus=minus)
    bend = rng.standard_normal((dim, dim))

    def quadratic(at, is_beyond):
        return np.einsum("ki,ij,kj->k", at, bend, at) + 3.0 * is_cut * is_beyond

    def errors(refinement):
        points, cells = refinement.mesh.points, refinement.mesh.cells
        beyond = np.zeros(len(points), bool)
        # A node on the wall is of one side, that of its cells.
        beyond[cells[points[cells].mean(axis=1)[:, 0] > 0.5]] = True
        places, weights = weights_on(refinement, sensors)["solution"]
        exact = quadratic(sensors.points, False)
        exact[6:] -= quadratic(sensors.minus[6:], True)
        return (weights * quadratic(points, beyond)[places]).sum(axis=1) - exact

    before, after, plain = map(errors, (coarse, fine, fine.as_given()))
    assert np.abs(before).max() > 1e-3
    np.testing.assert_allclose(after, 0.25 * before, atol=1e-13)
    assert np.abs(plain - 0.25 * before).max() > 0.1 * np.abs(before).max()  # negative control


@pytest.mark.parametrize(("dim", "num", "gain"), [(2, 8, 5.0), (3, 4, 2.5)])
def test_extrapolation_gains_an_order(dim, num, gain):
    """On the readings of the finer of its two meshes, of a smooth solution at any points."""
    mesh = box_mesh(dim, num)
    phi = field_of(mesh, "smooth")
    with linalg.iteratively():
        model = model_of(mesh, CONDITIONS["smooth"], refine_solution=1)
        true = readings(model.on_mesh.refined(2 if dim == 2 else 1), phi)
    plain, found = (np.abs(readings(each, phi) - true) for each in (model.model, model))
    assert gain * np.sqrt(np.mean(found**2)) < np.sqrt(np.mean(plain**2))


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
    ratio = (finer - here) / (finest - here)
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
