"""Distributions in place of numbers: at each value the model is that of the number."""

import jax
import numpy as np
import pytest
from crafted import near_prior
from structured import box_mesh

import invlift
from invlift.app.runs.results import load
from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.discretisation import cell_basis
from invlift.fem.equations.equation_assembly import Form, linear_equation
from invlift.fem.equations.experiments import Experiment, Experiments, assemble_experiments
from invlift.fem.equations.field_equation import known_conductivity
from invlift.fem.equations.forms import conduction, reaction
from invlift.fem.fields.matern_prior import matern_prior
from invlift.fem.fields.random_field import RandomField, random_field
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.noise import known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.unknowns.distributions import lognormal, normal

look = jax.jit(lambda model, c: (model.linearise(c)[0][0], model.expand(c)[1].byproducts))
SOME, POSITIVE = normal(0.0, 1.0), lognormal(median=1.0, factor=2.0)
KNOWN = {
    "source": {"low": 2.0, "high": -1.0},
    "dirichlet": {"left": 0.3, "bottom": 1.0 + np.linspace(0.0, 1.0, 25)},
    "neumann": {"right": 0.7},
    "robin": {"top": (2.0, 0.5)},
    "point_sources": [((0.31, 0.62), -0.7)],
}
#: Each group alone is in the contract of fields.
WHERE_GROUPS_MEET = {
    "dirichlet": {"left": random_field(KNOWN["dirichlet"]["bottom"], 2.0), "bottom": SOME}
}


def observation(mesh, seed=0, kinds=("point", "flux", "flux", "average"), **options):
    """A point, a flux where u is held, one through a Robin boundary, and a mean."""
    rng, num = np.random.default_rng(seed), len(kinds)
    over = np.array(["", "left", "top", "right"])[:num]
    points = np.where((over == "")[:, None], 0.2 + 0.6 * rng.random((num, 2)), np.nan)
    sensors = sensors_from_arrays(points, np.zeros(num), kinds=kinds, over=over)
    return locate(mesh, sensors, **options)


def test_at_each_value_it_is_the_model_of_the_number():
    mesh = box_mesh(2, 4)
    model = assemble_poisson(mesh, observation(mesh), **KNOWN | WHERE_GROUPS_MEET)
    assert list(model.on_mesh.further) == ["dirichlet_left", "dirichlet_bottom"]
    phi = np.random.default_rng(1).standard_normal(mesh.num_nodes)
    values, solutions = look(model, np.append(phi, [0.9, 0.8]))
    at = {"dirichlet": {"left": KNOWN["dirichlet"]["bottom"] + 1.8, "bottom": 0.8}}
    known = assemble_poisson(mesh, observation(mesh), **KNOWN | at)
    assert not known.on_mesh.further
    expected, solution = look(known, phi)
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(solutions["solution"], solution["solution"], rtol=1e-11, atol=1e-12)


def test_what_experiments_share_is_one_unknown():
    """And what they do not is one of each; matrices, kinds of readings and offsets combine."""
    mesh = box_mesh(2, 4)
    observations = [observation(mesh, seed) for seed in range(2)]
    shared = KNOWN | {"dirichlet": {"left": SOME, "bottom": 0.2}, "source": SOME}
    own = [
        {"robin": {"top": (POSITIVE, 0.5)}},
        {"robin": {"top": (2.0, SOME)}, "source": SOME},
    ]
    parts = [Experiment(*each) for each in zip("ab", observations, own, strict=True)]
    model = assemble_experiments(mesh, parts, shared=shared)
    assert isinstance(model, Experiments)
    assert len(model.equations) == 2
    values = {
        "source": 0.9, "dirichlet_left": 0.8, "a_robin_top_coefficient": 0.7, "b_source": 0.6,
        "b_robin_top_ambient": 0.5,
    }  # fmt: skip
    assert set(model.on_mesh.further) == set(values)
    phi = np.random.default_rng(1).standard_normal(mesh.num_nodes)
    found = look(model, np.append(phi, [values[name] for name in model.on_mesh.further]))[0]
    base = KNOWN | {"dirichlet": {"left": 0.8, "bottom": 0.2}, "source": 0.9}
    of_each = [
        {"robin": {"top": (0.7, 0.5)}},
        {"robin": {"top": (2.0, 0.5)}, "source": 0.6},
    ]
    expected = [
        look(assemble_poisson(mesh, each, **base | changes), phi)[0]
        for each, changes in zip(observations, of_each, strict=True)
    ]
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-11)


def test_a_random_field_has_its_covariance():
    places = np.random.default_rng(0).random((40, 2))
    modes = RandomField(0.0, 3.0, 0.9).modes(places, "rim")
    away = np.sqrt(20.0) / 0.9 * np.linalg.norm(places[:, None] - places, axis=2)
    covariance = 9.0 * (1 + away + away**2 / 3) * np.exp(-away)
    assert modes.shape[1] < 25
    np.testing.assert_allclose(modes @ modes.T, covariance, atol=0.4)
    np.testing.assert_allclose(np.sum(modes**2, axis=1).mean(), 9.0, rtol=0.011)
    crowded = np.concatenate([np.linspace(0, 0.02, 500), np.linspace(0.2, 1, 5)])  # few places
    few = RandomField(0.0, 3.0, 0.3).modes(np.stack([crowded, 0 * crowded], axis=1), "rim")
    assert np.sum(few**2, axis=1).min() >= 0.99 * 9.0
    for bad in (RandomField(0.0, -3.0, 0.9), RandomField(0.0, 3.0, 0.0)):
        with pytest.raises(InputError, match=r"^rim: expected a positive"):
            bad.modes(places, "rim")
    many = np.random.default_rng(0).random((300, 2))
    with pytest.raises(InputError, match=r"^rim: .*200 modes"):
        RandomField(0.0, 3.0, 1e-3).modes(many, "rim")


def test_the_problem_has_the_unknowns_of_its_model():
    mesh = box_mesh(2, 3)
    model = assemble_poisson(
        mesh, observation(mesh, kinds=("point",)), source=1.0,
        dirichlet={"left": SOME}, robin={"top": (POSITIVE, 0.0)},
    )  # fmt: skip
    prior = invlift.matern_prior(mesh, range=0.8, std=0.5, smoothness=1.0)
    problem = inverse_problem(model, prior, known_noise(0.1), np.ones(1))
    names = ["log_conductivity", "dirichlet_left", "robin_top_coefficient"]
    assert [name for name, _ in problem.prior.shapes] == names
    assert not problem.prior.is_affine
    kept = {*names, "predicted", "noise_score"}  # as without further unknowns
    assert set(problem.shapes_of_draws()) == kept


@pytest.mark.parametrize(
    ("changes", "where", "part"),
    [
        ({"robin": {"top": (SOME, 0.5)}}, "robin, top, coefficient", "positive number"),
        ({"source": normal(np.zeros(2), 1.0)}, "source", "one number"),
        ({"dirichlet": {"left": random_field(0.0, 1.0, -1.0)}}, "dirichlet, left", "positive"),
        ({"dirichlet": {"left": random_field(0.0, "1", 1.0)}}, "dirichlet, left", "found '1'"),
        ({"neumann": {"rigt": SOME}}, "neumann", "did you mean 'right'?"),
        ({"robin": {"top": (POSITIVE, np.ones(25))}}, "robin, top, ambient", "a number, as the"),
    ],
)
def test_mistakes_are_named(changes, where, part):
    mesh = box_mesh(2, 4)
    with pytest.raises(InputError, match=part) as caught:
        assemble_poisson(mesh, observation(mesh), **KNOWN | changes)
    assert caught.value.where == where


# Known regions ------------------------------------------------------------------------------------


def test_a_known_part_is_that_of_the_field_there():
    mesh = box_mesh(2, 4)
    conditions = {"source": 1.0, "dirichlet": {"left": 0.0}}
    phi = np.random.default_rng(1).standard_normal(mesh.num_cells)
    seen = observation(mesh, kinds=("point", "flux"))
    partly = assemble_poisson(mesh, seen, **conditions, known={"high": 3.0}, location="cells")
    phi_there = phi.copy()
    phi_there[mesh.subdomains["high"]] = np.log(3.0)
    whole = assemble_poisson(mesh, seen, **conditions, location="cells")
    found, expected = look(partly, phi), look(whole, phi_there)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    of_draws = partly.on_mesh.boundary_flux("left").of_draws(phi[None])
    np.testing.assert_allclose(of_draws, found[0][1], rtol=1e-11)


PLACES = np.array([[0.2, 0.3], [0.3, 0.7]])


def test_a_posterior_has_the_known_value_in_all_of_the_part(tmp_path):
    """Whoever makes the problem, and also in cells that touch the border; a saved one as well."""
    mesh = box_mesh(2, 4)
    seen = locate(mesh, sensors_from_arrays(PLACES, np.zeros(2)))
    conditions = {"source": 1.0, "dirichlet": {"left": 0.0}}
    prior = matern_prior(mesh, range=1.0, std=0.5, smoothness=1.0)
    model = assemble_poisson(mesh, seen, **conditions, known={"high": 5.0})
    posterior = near_prior(inverse_problem(model, prior, 0.1, np.array([0.1, 0.2])))
    posterior.write(tmp_path)
    for found in (posterior, load(tmp_path)):
        inside = found.at([[0.8, 0.4], [0.51, 0.4]])
        np.testing.assert_allclose(inside, np.log(5.0))
        places = [[0.8, 0.4], [0.2, 0.4]]
        conductivity = found.at(places, "conductivity")
        np.testing.assert_allclose(conductivity, np.exp(found.at(places)))
        assert conductivity.name == "conductivity"
        nodes = mesh.points[:, 0] > 0.6
        np.testing.assert_allclose(found.fields()["conductivity_mean"][nodes], 5.0)
    np.testing.assert_allclose(posterior.mean_over("high"), np.log(5.0))
    np.testing.assert_allclose(posterior.mean_over("right"), np.log(5.0))
    halves = (posterior.mean_over("low") + np.log(5.0)) / 2
    np.testing.assert_allclose(posterior.mean_over(), halves)
    assert posterior.at([[0.4, 0.4]]).std() > 0.1


def test_of_two_fields_one_is_known_in_part():
    mesh = box_mesh(2, 4)
    prior = matern_prior(mesh, range=1.0, std=0.5, smoothness=1.0)
    basis = cell_basis(mesh)
    forms = [
        Form(basis, conduction, known=known_conductivity(mesh, {"high": 5.0})),
        Form(basis, reaction, start=mesh.num_nodes),
    ]
    model = linear_equation(forms, load=np.ones(basis.N), readings=basis.probes(PLACES.T))
    problem = inverse_problem(model, {"phi": prior, "psi": prior}, 0.1, np.array([0.1, 0.2]))
    posterior = near_prior(problem)
    np.testing.assert_allclose(posterior.at([[0.51, 0.4]], "phi"), np.log(5.0))
    assert posterior.at([[0.8, 0.4]], "psi").std() > 0.1


@pytest.mark.parametrize("known", [None, {"high": 5.0}])
def test_what_is_known_of_facets_is_not_known_of_cells(known):
    """Of as many facets as cells, the coefficient of a Robin condition is no conductivity."""
    mesh = box_mesh(2, 2)
    assert len(mesh.boundary_facets) == mesh.num_cells
    robin = {"boundary": (2.0, normal(0.0, 0.1))}
    seen = observation(mesh, kinds=("point",))
    model = assemble_poisson(mesh, seen, source=1.0, robin=robin, known=known)
    (field,) = model.on_mesh.fields
    if known is None:
        assert field.known is None
        assert field.known_cells is None
    else:
        np.testing.assert_array_equal(field.known_cells, known_conductivity(mesh, known))
        assert set(field.known[~np.isnan(field.known)]) == {np.log(5.0)}


def test_known_coefficients_count_among_all():
    """Also where they are the last, and nobody has said how many there are."""
    mesh = box_mesh(2, 4)
    basis = cell_basis(mesh)
    form = Form(basis, conduction, known=known_conductivity(mesh, {"high": 5.0}))
    readings = basis.probes(np.array([[0.3], [0.4]]))
    model = linear_equation(form, load=np.ones(basis.N), held=np.array([0]), readings=readings)
    assert model.num_coefficients == mesh.num_nodes
    assert np.isfinite(jax.jit(lambda model, c: model(c))(model, np.zeros(mesh.num_nodes))).all()


@pytest.mark.parametrize(
    ("known", "where"),
    [
        ({"high": -1.0}, "conductivity, high"),
        ({"hih": 1.0}, "conductivity, hih"),
        ({"high": 1.0, "low": 2.0}, "conductivity"),
    ],
)
def test_bad_known_parts_are_named(known, where):
    mesh = box_mesh(2, 2)
    with pytest.raises(InputError) as caught:
        assemble_poisson(mesh, observation(mesh), source=1.0, dirichlet={"left": 0.0}, known=known)
    assert caught.value.where == where
