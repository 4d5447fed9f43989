"""The pre-flight: it passes a sound problem and calls each flaw by its name."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problem_files import build, write_problem
from structured import box_mesh

import invlift
from invlift.app.checks import Finding, Report, check_problem
from invlift.app.checks.derivatives import (
    TAYLOR_STEPS,
    check_derivatives,
    evaluate,
    slope_finding,
    taylor_slope,
)
from invlift.app.checks.field import check_mesh, check_prior, check_sensors
from invlift.app.checks.predictions import check_level, check_predictions
from invlift.app.checks.starts import check_dependence, check_fit, check_method, check_sensitivity
from invlift.app.checks.time_step import check_time_step, time_step_doubts
from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.errors import InputError
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.state_space import StateSpacePosterior
from invlift.models.base import ForwardModel
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import inverse_problem, jax_problem
from invlift.problems.problem import InverseProblem, name_of_reading
from invlift.problems.starts.search import Start, find_start
from invlift.problems.time.ode_problem import ode_problem
from invlift.problems.time.state_space import state_space
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.chains.results import Run
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.standards import NO_STANDARDS
from invlift.unknowns.distributions import lognormal, normal
from invlift.unknowns.priors.base import StandardNormalPrior


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    """A small problem whose prior is resolved."""
    folder = tmp_path_factory.mktemp("problem")
    return read_problem(write_problem(folder, {"prior.range": 2.0}, mesh=box_mesh(2, 4)))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Of one with the mesh of other tests, with which it shares its programs."""
    spec = read_problem(write_problem(tmp_path_factory.mktemp("sound"), {"prior.range": 2.0}))
    return check_problem(build_problem(spec), spec)


def finding(report, name):
    (found,) = [each for each in report.findings if each.name == name]
    return found


DERIVATIVES = ["derivative of the forward map", "second derivative of the forward map"]


def test_a_sound_problem_passes(report):
    assert report.is_good
    assert report.verdict.startswith("Ready to run")
    for name in [*DERIVATIVES, "gradient of the log density", "adjoint", "step"]:
        assert finding(report, name).level == "ok", report
    for name in DERIVATIVES:
        assert "right" in finding(report, name).detail
    assert "16 nodes, 18 triangles, extent 1 x 1" in finding(report, "mesh").detail
    groups = finding(report, "groups").detail
    assert "boundary conditions on left" in groups
    assert "75 % of the boundary's facets are insulated" in groups
    assert "3 in use" in finding(report, "sensors").detail
    assert finding(report, "sensitivity").level == "ok"
    assert finding(report, "resolution").level == "ok"


class Bent(ForwardModel):
    """A nonlinear map of 4 coefficients to 2 readings whose Jacobian may be off by a factor."""

    matrix: jax.Array
    factor: jax.Array

    def __call__(self, coefficients):
        return jnp.tanh(self.matrix @ coefficients)

    def value_and_jacobian(self, coefficients):
        return self(coefficients), self.factor * jax.jacfwd(self.__call__)(coefficients)


@pytest.mark.parametrize(
    ("factor", "level"), [(1.0, "ok"), (1.03, "bad"), (0.0, "bad"), (np.nan, "bad")]
)
def test_a_wrong_jacobian_is_called_wrong(factor, level):
    rng = np.random.default_rng(1)
    forward = Bent(jnp.asarray(rng.standard_normal((2, 4))), jnp.asarray(factor))
    prior = StandardNormalPrior(jnp.zeros(4))
    problem = InverseProblem(forward, prior, known_noise(0.1), jnp.asarray([0.2, -0.4]))
    lifted = LiftedPosterior(problem)
    position = jnp.asarray(0.3 * rng.standard_normal(6))
    report = Report(check_derivatives(lifted, evaluate(lifted, position), rng))
    found = finding(report, "derivative of the forward map")
    assert found.level == level, found
    assert report.is_good == (level == "ok")
    if level == "bad":
        assert "derivative of the forward map" in report.verdict


def test_orders_are_seen_of_a_coefficient_in_large_units():
    """A storage of 1e6 beside a field: a step of 1 in its unit would move nothing."""

    def model(storage, phi):
        return jnp.stack([jnp.exp(phi) / storage * 1e6, jnp.tanh(phi + storage / 1e6)])

    unknowns = {"storage": lognormal(np.log(1e6), 0.5), "phi": normal(0.0, 0.5)}
    lifted = LiftedPosterior(inverse_problem(model, unknowns, known_noise(0.1), np.ones(2)))
    position, rng = jnp.full(lifted.dimension, 0.3), np.random.default_rng(1)
    for found in check_derivatives(lifted, evaluate(lifted, position), rng)[:3]:
        assert found.level == "ok"
        assert "the Taylor remainder shrinks with order" in found.detail


class Scaled(StateSpacePosterior):
    """The Jacobian is off by a factor."""

    def apply_jacobian(self, point, vector):
        return 1.03 * super().apply_jacobian(point, vector)


@pytest.mark.parametrize(("lift", "level"), [(StateSpacePosterior, "ok"), (Scaled, "bad")])
def test_a_lifted_form_of_its_own_is_looked_at_likewise(lift, level):
    problem = state_space(
        lambda t, state, push, rate: {"x": jnp.tanh(rate * state["x"]) + push[0]},
        {"rate": lognormal(0.0, 0.3)},
        lambda push, rate: {"x": push[0]},
        {"x": [0.3, 0.5, -0.2]},
        0.1,
    )
    lifted, rng = lift(problem), np.random.default_rng(1)
    position = jnp.asarray(0.3 * rng.standard_normal(lifted.dimension))
    report = Report(check_derivatives(lifted, evaluate(lifted, position), rng))
    assert finding(report, "derivative of the constraint").level == level
    assert finding(report, "second derivative of the constraint").level == "ok"
    assert finding(report, "gradient of the log density").level == "ok"


def test_taylor_slope_tells_right_from_wrong():
    right = np.cos(0.4)
    for claim, low, high in ((right, 1.9, 2.1), (1.02 * right, 0.9, 1.3), (0.0, 0.9, 1.1)):
        slope, remainder = taylor_slope(
            lambda h: np.sin(np.array([0.4 + h])),
            lambda h, claim=claim: np.sin(0.4) + h * np.array([claim]),
        )
        assert low < slope < high
        assert 0 < remainder < 1


def test_taylor_slope_leaves_out_what_a_solver_rounds():
    """Of a cubic remainder that ends in noise; noise from the beginning is no right derivative."""
    noise = {h: 1e-11 * (-1.0) ** k for k, h in enumerate(TAYLOR_STEPS)}
    slope, _ = taylor_slope(lambda h: np.array([1.0 + 1e-6 * h**3 + noise[h]]), lambda h: 1.0)
    assert abs(slope - 3.0) < 0.1
    for right, low, high in ((3, 2.8, 3.2), (2, 1.8, 2.2)):  # of more round-off than one solve has
        slope, _ = taylor_slope(
            lambda h, power=right: np.array([1.0 + h**power + 5e4 * noise[h]]), lambda h: 1.0
        )
        assert low < slope < high
    slope, _ = taylor_slope(lambda h: np.array([1.0 + 1e8 * noise[h]]), lambda h: 1.0)
    assert slope < 0.5


def test_taylor_slope_of_a_linear_function_is_round_off():
    slope, remainder = taylor_slope(lambda h: np.array([1.0 + 3 * h]), lambda h: 1.0 + 3 * h)
    assert np.isnan(slope)
    assert remainder < 1e-14
    found = slope_finding("f", lambda h: np.array([1.0 + 3 * h]), lambda h: 1.0 + 3 * h)
    assert found.level == "ok"
    assert found.detail.startswith("right to round-off")
    assert found.detail.endswith("which change by 3.7e-01)")


def test_derivatives_that_are_not_finite_are_not_called_right():
    """NaN compares false with everything: it must not pass for round-off."""

    def nothing(h):
        return np.array([np.nan])

    assert slope_finding("f", nothing, lambda h: np.array([h])).level == "bad"
    assert slope_finding("f", lambda h: np.array([np.sin(h)]), nothing).level == "bad"


def test_a_coarse_mesh_slivers_and_the_edge_are_noted(spec):
    mesh = box_mesh(2, 4)
    assert check_mesh(mesh).level == "ok"
    flat = mesh_from_arrays(mesh.points * [1.0, 1e-3], mesh.cells)
    found = check_mesh(flat)
    assert found.level == "note"
    assert "32 slivers below 0.1, the first is cell 0" in found.detail
    field = build_problem(spec)
    edge, resolution = check_prior(field)
    assert (edge.level, resolution.level) == ("note", "ok")
    assert 'boundary = "robin"' in edge.detail
    assert check_prior(asked_for(field, correlation_range=0.3))[1].level == "note"


def asked_for(field, **nominal):
    """The same field, of which something else was asked for."""
    prior = replace(
        field.prior, nominal=tuple(each._replace(**nominal) for each in field.prior.nominal)
    )
    return replace(field, prior=prior)


def test_sensors_outside_are_noted(tmp_path):
    table = "x,y,value\n0.3,0.4,2.0\n1.2,0.5,3.0\n"
    for outside, fate in (("drop", "left out"), ("project", "moved onto the mesh")):
        path = write_problem(tmp_path / outside, {"observations.outside": outside}, sensors=table)
        spec = read_problem(path)
        found = check_sensors(build_problem(spec), spec)
        assert found.level == "note"
        assert "1 outside the mesh by up to 0.2" in found.detail
        assert fate in found.detail


def test_readings_at_a_point_source_are_noted(tmp_path):
    """At a node or within a cell; not where they are of the conductivity, or beside."""
    table = "x,y,kind,value\n0.9,0.9,point,2.0\n{},{},{},3.0\n"
    node, inside = [1 / 3, 1 / 3], [0.45, 0.4]
    for source, place, kind, is_noted in (
        (node, (0.34, 0.34), "point", True),
        (inside, (0.5, 0.45), "point", True),
        (node, (0.34, 0.34), "log_conductivity", False),
        (inside, (0.1, 0.9), "point", False),
    ):
        changes = {"pde.point_source": [{"place": source, "strength": 1.0}]}
        spec = read_problem(write_problem(tmp_path, changes, sensors=table.format(*place, kind)))
        found = check_sensors(build_problem(spec), spec)
        said = "row 3 reads within a cell of a point source" in found.detail
        assert said == is_noted, (place, source)


def test_noise_of_the_table_that_is_not_used_is_noted(tmp_path):
    table = "x,y,value,sigma\n0.3,0.4,2.0,0.1\n0.2,0.5,3.0,0.1\n"
    for sigma, level in ((0.2, "note"), ("column", "ok")):
        path = write_problem(tmp_path / level, {"noise.sigma": sigma}, sensors=table)
        spec = read_problem(path)
        found = check_sensors(build_problem(spec), spec)
        assert found.level == level
        assert ("column sigma is not used" in found.detail) == (level == "note")


def test_rows_at_one_place_are_counted(tmp_path):
    """With their names; only of a row with the same value it's said that it may be a copy."""
    rows = "name,x,y,value\nA,0.3,0.4,2.0\nB,0.5,0.4,3.0\nC,0.3,0.4,{}\n"
    for value, said in (("3.0", "another"), ("2.0", "the same")):
        spec = read_problem(write_problem(tmp_path / said, sensors=rows.format(value)))
        found = check_sensors(build_problem(spec), spec)
        assert found.level == "note"
        text = f"another: row 4 (C) that of row 2 (A) with {said} value"
        assert f"3 in use; 1 row repeats the place of {text}" in found.detail
        assert ("remove a row that was copied" in found.detail) == (said == "the same")


def test_parts_that_do_not_touch_are_noted():
    mesh = box_mesh(2, 2)
    twin = mesh.points + np.array([1.0, 0.0])  # the line between them is there twice
    cells = np.concatenate([mesh.cells, mesh.cells + mesh.num_nodes])
    found = check_mesh(mesh_from_arrays(np.concatenate([mesh.points, twin]), cells))
    assert found.level == "note"
    assert "2 parts that share no node" in found.detail
    assert "4 facets of the boundary with cells behind them, the first near (1, " in found.detail


def test_meshes_that_are_not_joined_are_noted():
    """Nodes of one side alone on the line between two halves, and a patch that lies on a mesh."""
    coarse, fine = box_mesh(2, 2), box_mesh(2, 4)
    assert "behind" not in check_mesh(fine).detail
    for other, places in ((fine, fine.points + np.eye(2)[0]), (coarse, 0.3 + 0.4 * coarse.points)):
        cells = np.concatenate([coarse.cells, other.cells + coarse.num_nodes])
        mesh = mesh_from_arrays(np.concatenate([coarse.points, places]), cells)
        assert "facets of the boundary with cells behind them" in check_mesh(mesh).detail


@pytest.mark.parametrize(
    ("change", "table", "level", "words"),
    [
        ({"pde.source": 0.0}, "0.3,0.4,2.0\n0.6,0.7,2.9\n", "bad", "are source"),
        (
            {},
            "0.0,0.5,2.0\n0.6,0.7,2.9\n",
            "note",
            "1 readings contain no information, the first is sensor 0",
        ),
        ({}, "0.3,0.4,2.0\n0.6,0.7,2.9\n", "ok", "readings vary by"),
    ],
)
def test_readings_that_the_field_does_not_move(tmp_path, change, table, level, words):
    spec = read_problem(write_problem(tmp_path, change, sensors="x,y,value\n" + table))
    lifted = LiftedPosterior(build_problem(spec))
    found = check_sensitivity(
        lifted.problem, find_start(ConstrainedHMC(), lifted, 1, 0, evaluate_state)
    )
    assert found.level == level, found
    assert words in found.detail


HELD = {"pde.source": 0.0, "pde.dirichlet.right": 1.0}


@pytest.mark.parametrize(
    ("changes", "kind", "is_noted"),
    [
        (HELD, "point", True),
        ({"pde.dirichlet.right": 1.0}, "point", False),
        ({"pde.source": 0.0, "pde.neumann.right": 1.0}, "point", False),
        (HELD, "log_conductivity", False),
        (HELD | {"conductivity.known.high": 2.0}, "point", False),
    ],
)
def test_a_level_that_no_reading_tells_is_noted(tmp_path, changes, kind, is_noted):
    table = f"x,y,value,kind\n0.3,0.4,0.3,{kind}\n0.6,0.7,0.6,point\n"
    problem = build(write_problem(tmp_path, changes, sensors=table))
    found = check_level(problem)
    assert [each.level for each in found] == ["note"] * is_noted, found


def cooling():
    return ode_problem(
        lambda t, state, rate: {"body": -rate * state["body"]},
        {"rate": lognormal(median=0.3, factor=1.6)},
        lambda rate: {"body": jnp.asarray(80.0)},
        [0.0, 1.0, 2.5],
        {"body": [80.0, 58.0, 33.0]},
        noise=0.5,
    )


def test_readings_are_called_by_their_names():
    problem = cooling()
    start = Start(np.zeros(4), np.array([0.0, 900.0, 1.0]), np.array([0.0, 3.0, 5.0]))
    found = check_sensitivity(problem, start)
    assert "1 readings contain no information, the first is body[0.0]" in found.detail
    assert "at body[1.0], which contradicts" in check_fit(problem, start).detail


def test_readings_in_another_unit_than_the_model_are_noted():
    celsius = cooling().observed
    for readings, level in (
        (celsius, "ok"), (celsius + 273.15, "note"), (1e3 * celsius, "note"), (-celsius, "note"),
    ):  # fmt: skip
        (found,) = check_predictions(replace(cooling(), observed=readings), 1)
        assert (found.level, found.name) == (level, "readings")
        assert ("is a unit wrong" in found.detail) == (level == "note")


def dosed(**options):
    """A fast absorption, read for a month: 400 steps of 1.8 hours are too long for it."""
    return ode_problem(
        lambda t, state, rate: {"gut": -rate * state["gut"], "blood": rate * state["gut"]},
        {"rate": lognormal(median=1.5, factor=2.0)},
        lambda rate: {"gut": jnp.asarray(100.0), "blood": jnp.asarray(0.0)},
        [2.0, 8.0, 720.0],
        {"blood": [95.0, 99.0, 100.0]},
        noise=1.0,
        start=0.0,
        **options,
    )


@pytest.mark.parametrize(("options", "level"), [({}, "note"), ({"max_step": 0.1}, "ok")])
def test_steps_too_long_for_a_rate_are_noted_before_a_run_and_after(options, level):
    problem = dosed(**options)
    (found,) = check_time_step(problem, 1)
    assert (found.name, found.level) == ("time step", level)
    assert ("max_step" in found.detail) == (level == "note")
    # The draws of a run whose posterior was cut off where the solution ends.
    rates = np.linspace(0.5, 1.5, 30)
    predicted = np.asarray(jax.jit(jax.vmap(problem.model))(rates[:, None]))
    chain = invlift.Chain({"rate": rates, "predicted": predicted})
    run = Run([chain] * 2, 0.0, False, NO_STANDARDS)
    assert len(time_step_doubts(problem, run)) == (level == "note")


def test_a_prediction_of_zero_under_relative_noise_is_told_by_its_reading():
    noise = gaussian_noise(lognormal(median=0.1, factor=2.0), relative=True)
    given = ode_problem(
        lambda t, state, rate: {"blood": rate},
        {"rate": lognormal(median=1.0, factor=2.0)},
        lambda rate: {"blood": jnp.asarray(0.0)},
        [0.0, 1.0, 2.0],
        {"blood": [0.1, 1.0, 2.0]},
        noise,
    )
    words = r"blood\[0.0\] the first: 0.1 where 0 is predicted"
    with pytest.raises(InputError, match=words):
        find_start(ConstrainedHMC(), LiftedPosterior(given), 1, 0, evaluate_state)


def test_a_prior_far_below_what_was_asked_for_is_named(spec):
    for std, level in ((1.5, "note"), (3.0, "bad")):
        found = check_prior(asked_for(build_problem(spec), std=std))[0]
        assert found.level == level
        assert "unit of length" in found.detail


def test_a_range_far_below_the_mesh_width_is_bad(spec):
    for length, level in ((0.1, "bad"), (0.2, "note"), (2.0, "ok")):
        found = check_prior(asked_for(build_problem(spec), correlation_range=length))[1]
        assert found.level == level


def test_verdicts():
    ok, note, bad = (Finding(level, level, "") for level in ("ok", "note", "bad"))
    assert Report([ok]).verdict == "Ready to run."
    assert Report([ok, note]).verdict == "Ready to run; take note of note."
    assert Report([ok, note]).is_good
    assert not Report([ok, note, bad]).is_good


def test_unknowns_that_no_reading_depends_on_are_noted():
    unknowns = {"a": normal(0.0, 1.0), "b": normal(0.0, 1.0), "c": normal(np.zeros(2), 1.0)}
    used = []

    def model(a, b, c):
        return jnp.array([1.0, 2.0]) * a + jnp.where(a > 0.0, 0.0, c[1]) + (b if used else 0.0)

    def notes():
        problem = inverse_problem(model, unknowns, 0.1, np.array([1.0, 2.0]))
        return [each.detail for each in check_dependence(problem)]

    assert notes() == ["no reading depends on b, whose posterior is the prior"]
    used.append(1)
    assert notes() == []
    path = state_space(
        lambda t, state, push, rate: {"level": rate * state["level"] + push[0]},
        unknowns={"rate": normal(0.0, 1.0)},
        initial=lambda push, rate: {"level": push[0]},
        readings={"level": [0.1, 0.2, 0.3]},
        noise=0.1,
    )
    assert check_dependence(path) == []


def test_readings_without_a_mesh_are_not_called_sensors():
    assert name_of_reading(cooling(), 1) == "body[1.0]"
    bare = jax_problem(lambda x: x, 2, known_noise(1.0), np.zeros(2))
    assert name_of_reading(bare, 1) == "reading 1"


def test_nuts_is_recommended_where_few_unknowns_have_many_readings_and_are_nearly_normal():
    times = jnp.linspace(0.0, 1.0, 12)
    observed = np.asarray(0.3 + 0.5 * times)

    def line(theta):
        return theta[0] + theta[1] * times

    def banana(theta):
        return theta[0] + theta[1] ** 2 + 0.0 * times

    def flat(theta):
        return jnp.broadcast_to(jnp.sum(theta), 3)

    (found,) = check_method(jax_problem(line, 2, known_noise(0.1), observed))
    assert (found.level, found.name) == ("note", "method")
    assert "12 readings of 2 unknowns" in found.detail
    # Negative controls: a curved posterior, and more unknowns than readings.
    assert check_method(jax_problem(banana, 2, known_noise(0.01), observed)) == []
    assert check_method(jax_problem(flat, 5, known_noise(0.1), observed[:3])) == []
