"""The pre-flight: it passes a sound problem and calls each flaw by its name."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from command_line import call
from problem_files import with_sensors, write_problem
from structured import box_mesh

import invlift
from invlift.app.checks import Finding, Report, check_problem
from invlift.app.checks.derivatives import (
    KERNEL,
    TAYLOR_STEPS,
    check_derivatives,
    evaluate,
    slope_finding,
    taylor_slope,
)
from invlift.app.checks.field import check_mesh, check_places, check_prior, check_sensors
from invlift.app.checks.predictions import check_level, check_predictions
from invlift.app.checks.starts import check_dependence, check_fit, check_method, check_sensitivity
from invlift.app.checks.time_step import check_time_step, time_step_doubts
from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.runs.sampling import target_of
from invlift.app.runs.starts import chosen_starts
from invlift.errors import InputError
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.state_space import StateSpacePosterior
from invlift.models.base import ForwardModel
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import inverse_problem, jax_problem
from invlift.problems.problem import InverseProblem
from invlift.problems.starts.search import Fit, Start, find_start
from invlift.problems.time.ode_problem import ode_problem
from invlift.problems.time.state_space import state_space
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.chains.results import Run
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.standards import NO_STANDARDS
from invlift.tables.sensors import read_sensors
from invlift.unknowns.distributions import lognormal, normal
from invlift.unknowns.priors.base import StandardNormalPrior

HELD = {"pde.source": 0.0, "pde.dirichlet": {"left": 100.0, "right": 110.0}}
UNKNOWN = {"distribution": "lognormal", "median": 0.1, "factor": 3.0}
GOOD = (102.1, 103.9, 105.0, 107.1, 107.9)
IN_FEET = (102.1, 103.9, 344.48, 107.1, 107.9)
PLACES = ("0.2,0.3", "0.4,0.6", "0.5,0.5", "0.7,0.2", "0.8,0.8")
TABLE = "name,x,y,value\n{},2.0\n" + "".join(f"W{k},{PLACES[k]},{GOOD[k]}\n" for k in range(1, 5))


def spec_of(folder, changes=None, first=f"W0,{PLACES[0]}"):
    """All are of one structure, and share its programs."""
    table = TABLE.format(first).replace(f"{PLACES[0]},2.0", f"{PLACES[0]},{GOOD[0]}")
    own = HELD | {"noise.sigma": 0.5, "prior.range": 2.0} | (changes or {})
    return read_problem(write_problem(folder, own, sensors=table))


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    return spec_of(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def sound(spec):
    return build_problem(spec)


@pytest.fixture
def with_table(sound, tmp_path):
    """The sound problem, with the sensors of another table."""

    def build(text):
        (tmp_path / "other.csv").write_text(text)
        return with_sensors(sound, read_sensors(tmp_path / "other.csv", 2))

    return build


def start_of(problem):
    """As a check finds it, by the same programs."""
    starts = chosen_starts(problem, "prior", 1)(KERNEL, target_of(problem, KERNEL), 5)
    return starts.with_first(lambda _, *arguments: evaluate(*arguments)).first


def finding(report, name):
    (found,) = [each for each in report.findings if each.name == name]
    return found


DERIVATIVES = ["derivative of the forward map", "second derivative of the forward map"]


def test_a_sound_problem_passes(sound, spec):
    report = check_problem(sound, spec)
    assert report.is_good
    assert report.verdict.startswith("Ready to run")
    ok = ["fit", "sensitivity", "resolution", "gradient of the log density", "adjoint", "step"]
    for name in [*DERIVATIVES, *ok]:
        assert finding(report, name).level == "ok", report
    for name in DERIVATIVES:
        assert "right" in finding(report, name).detail
    assert "16 nodes, 18 triangles, extent 1 x 1" in finding(report, "mesh").detail
    groups = finding(report, "groups").detail
    assert "boundary conditions on left, right" in groups
    assert "50 % of the boundary's facets are insulated" in groups
    assert "5 in use" in finding(report, "sensors").detail


def test_a_reading_in_another_unit_is_the_only_thing_that_is_bad(sound, spec):
    report = check_problem(replace(sound, observed=jnp.array(IN_FEET)), spec)
    assert [each.name for each in report.findings if each.level == "bad"] == ["fit"]
    detail = finding(report, "fit").detail
    assert "sensor W2, 344.48" in detail
    assert "the others are 102.1 to 107.9 (105 if it is in feet)" in detail
    assert finding(report, DERIVATIVES[0]).level == "ok"


def test_an_unknown_scale_does_not_hide_it(tmp_path):
    problem = build_problem(spec_of(tmp_path, {"noise.sigma": UNKNOWN}))
    assert check_fit(problem, start_of(problem)).level == "ok"  # negative control
    problem = replace(problem, observed=jnp.array(IN_FEET))
    found = check_fit(problem, start_of(problem))
    assert found.level == "bad"
    for part in ("above its prior (", "the model fits no better than a constant", "sensor W2"):
        assert part in found.detail


def test_misfit_is_judged_by_groups_too(sound):
    """All readings together may hide one of two groups that is not explained."""
    groups = np.repeat(["new", "old"], [4, 36])
    sensors = sensors_from_arrays(np.full((40, 2), 0.5), np.full(40, 105.0), groups=groups)
    problem = replace(with_sensors(sound, sensors), observed=jnp.asarray(sensors.values))
    for size, level in ((3.0, "note"), (1.0, "ok")):
        eta = np.where(groups == "new", size, 0.0)
        fit = Fit(np.full(40, 105.0), eta, *np.full((2, 40), 0.1), *np.zeros((2, 1)))
        found = check_fit(problem, Start(np.zeros(1), eta, eta, fit))
        assert found.level == level
        assert ("group new" in found.detail) == (level == "note")
        assert "group old" not in found.detail


def test_sensors_in_metres_on_a_mesh_in_millimetres_are_refused(tmp_path, sound):
    assert check_places(sound) == []
    mesh = box_mesh(2, 3)
    path = write_problem(tmp_path, mesh=replace(mesh, points=1000.0 * mesh.points))
    (found,) = check_places(build_problem(read_problem(path)))
    assert found.level == "bad"
    assert "0.05 % of the mesh" in found.detail
    assert call("run", path, "--method", "pcn", "--chains", "1") == 2


class Bent(ForwardModel):
    """A nonlinear map of 4 coefficients to 2 readings whose Jacobian may be off by a factor."""

    matrix: jax.Array
    factor: jax.Array

    def __call__(self, coefficients):
        return jnp.tanh(self.matrix @ coefficients)

    def value_and_jacobian(self, coefficients):
        return self(coefficients), self.factor * jax.jacfwd(self.__call__)(coefficients)


@pytest.mark.parametrize(("factor", "level"), [(1.0, "ok"), (1.03, "bad"), (np.nan, "bad")])
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


def test_a_lifted_form_of_its_own_is_looked_at_likewise():
    problem = state_space(
        lambda t, state, push, rate: {"x": jnp.tanh(rate * state["x"]) + push[0]},
        {"rate": lognormal(0.0, 0.3)},
        lambda push, rate: {"x": push[0]},
        {"x": [0.3, 0.5, -0.2]},
        0.1,
    )
    lifted, rng = Scaled(problem), np.random.default_rng(1)
    position = jnp.asarray(0.3 * rng.standard_normal(lifted.dimension))
    report = Report(check_derivatives(lifted, evaluate(lifted, position), rng))
    assert finding(report, "derivative of the constraint").level == "bad"
    assert finding(report, "second derivative of the constraint").level == "ok"
    assert finding(report, "gradient of the log density").level == "ok"
    assert check_dependence(problem) == []  # not asked of a path


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
    for size, power, rounding, low, high in (
        (1e-6, 3, 1.0, 2.9, 3.1),
        (1.0, 3, 5e4, 2.8, 3.2),  # of more round-off than one solve has
        (1.0, 2, 5e4, 1.8, 2.2),
        (0.0, 1, 1e8, -np.inf, 0.5),
    ):

        def value(h, size=size, power=power, rounding=rounding):
            return np.array([1.0 + size * h**power + rounding * noise[h]])

        assert low < taylor_slope(value, lambda h: 1.0)[0] < high
    found = slope_finding("f", lambda h: np.array([1.0 + 3 * h]), lambda h: 1.0 + 3 * h)
    assert found.level == "ok"
    assert found.detail.startswith("right to round-off")
    assert found.detail.endswith("which change by 3.7e-01)")
    # NaN compares false with everything: it must not pass for round-off.
    right, nothing = (lambda h: np.array([np.sin(h)])), (lambda h: np.array([np.nan]))
    assert slope_finding("f", nothing, right).level == "bad"
    assert slope_finding("f", right, nothing).level == "bad"


def test_mesh_and_prior_are_judged(sound):
    """Slivers, an edge that inflates the prior, and a range that the mesh does not resolve."""
    assert check_mesh(sound.mesh).level == "ok"
    found = check_mesh(mesh_from_arrays(sound.mesh.points * [1.0, 1e-3], sound.mesh.cells))
    assert found.level == "note"
    assert "18 slivers below 0.1, the first is cell 0" in found.detail
    edge, resolution = check_prior(sound)
    assert (edge.level, resolution.level) == ("note", "ok")
    assert 'boundary = "robin"' in edge.detail

    def asked_for(**nominal):
        parts = tuple(each._replace(**nominal) for each in sound.prior.nominal)
        return check_prior(replace(sound, prior=replace(sound.prior, nominal=parts)))

    for std, level in ((1.5, "note"), (3.0, "bad")):
        found = asked_for(std=std)[0]
        assert found.level == level
        assert "unit of length" in found.detail
    for length, level in ((0.1, "bad"), (0.2, "note"), (2.0, "ok")):
        assert asked_for(correlation_range=length)[1].level == level


def test_readings_at_a_point_source_are_noted(tmp_path, with_table):
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
        found = check_sensors(
            with_table(table.format(*place, kind)), read_problem(write_problem(tmp_path, changes))
        )
        said = "row 3 reads within a cell of a point source" in found.detail
        assert said == is_noted, (place, source)


def test_noise_of_the_table_that_is_not_used_is_noted(tmp_path, with_table, spec):
    problem = with_table("x,y,value,sigma\n0.3,0.4,2.0,0.1\n0.2,0.5,3.0,0.1\n")
    found = check_sensors(problem, spec)
    assert found.level == "note"
    assert "column sigma is not used" in found.detail
    of_column = spec_of(tmp_path, {"noise.sigma": "column"})
    assert check_sensors(problem, of_column).level == "ok"


def test_rows_at_one_place_are_counted(with_table, spec):
    """With their names; only of a row with the same value it's said that it may be a copy."""
    rows = "name,x,y,value\nA,0.3,0.4,2.0\nB,0.5,0.4,3.0\nC,0.3,0.4,{}\n"
    for value, said in (("3.0", "another"), ("2.0", "the same")):
        found = check_sensors(with_table(rows.format(value)), spec)
        assert found.level == "note"
        text = f"another: row 4 (C) that of row 2 (A) with {said} value"
        assert f"3 in use; 1 row repeats the place of {text}" in found.detail
        assert ("remove a row that was copied" in found.detail) == (said == "the same")


def test_meshes_that_are_not_joined_are_noted():
    """A line that is there twice, nodes of one side alone on it, and a patch on a mesh."""
    coarse, fine = box_mesh(2, 2), box_mesh(2, 4)
    assert "behind" not in check_mesh(fine).detail
    beside = np.eye(2)[0]
    for other, places, num in (
        (coarse, coarse.points + beside, "4 "),
        (fine, fine.points + beside, ""),
        (coarse, 0.3 + 0.4 * coarse.points, ""),
    ):
        cells = np.concatenate([coarse.cells, other.cells + coarse.num_nodes])
        found = check_mesh(mesh_from_arrays(np.concatenate([coarse.points, places]), cells))
        assert found.level == "note"
        assert f"{num}facets of the boundary with cells behind them" in found.detail
        assert "2 parts that share no node" in found.detail


def test_a_reading_that_the_field_does_not_move_is_noted(tmp_path):
    problem = build_problem(spec_of(tmp_path, first="W0,0.0,0.5"))
    found = check_sensitivity(problem, start := start_of(problem))
    assert found.level == "note", found
    assert "1 readings contain no information, the first is sensor W0" in found.detail
    found = check_sensitivity(problem, start._replace(sensitivity=1e-6 * start.sensitivity))
    assert found.level == "bad"
    assert "much less than the noise; are source, boundary values and units right?" in found.detail


def test_a_level_that_no_reading_tells_is_noted(tmp_path, sound):
    assert [each.level for each in check_level(sound)] == ["note"]
    known = spec_of(tmp_path, {"conductivity.known.high": 2.0})
    assert check_level(build_problem(known)) == []


def cooling():
    return ode_problem(
        lambda t, state, rate: {"body": -rate * state["body"]},
        {"rate": lognormal(median=0.3, factor=1.6)},
        lambda rate: {"body": jnp.asarray(80.0)},
        [0.0, 1.0, 2.5],
        {"body": [80.0, 58.0, 33.0]},
        noise=0.5,
    )


def test_readings_of_a_model_in_time_have_names_and_units():
    problem = cooling()
    start = Start(np.zeros(4), np.array([0.0, 900.0, 1.0]), np.array([0.0, 3.0, 5.0]))
    found = check_sensitivity(problem, start)
    assert "1 readings contain no information, the first is body[0.0]" in found.detail
    assert "at body[1.0], which contradicts" in check_fit(problem, start).detail
    celsius = problem.observed
    for readings, level in (
        (celsius, "ok"), (celsius + 273.15, "note"), (1e3 * celsius, "note"), (-celsius, "note"),
    ):  # fmt: skip
        (found,) = check_predictions(replace(problem, observed=readings), 1)
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


@pytest.mark.parametrize(("options", "level"), [({}, "note"), ({"max_step": 0.5}, "ok")])
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


def test_readings_that_relative_noise_cannot_reach_are_told():
    noise = gaussian_noise(lognormal(median=0.1, factor=2.0), relative=True)
    readings = np.array([0.1, 1.0, -2.9])
    problem = jax_problem(lambda x: jnp.exp(x) * jnp.arange(3.0), 1, noise, readings)
    words = "signs of the predictions.*relative.*2 of 3.*reading 0 the first: 0.1 where 0 is"
    with pytest.raises(InputError, match=words):
        find_start(ConstrainedHMC(), LiftedPosterior(problem), 1, 0, evaluate_state)


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


def test_nuts_is_recommended_where_few_unknowns_have_many_readings_and_are_nearly_normal():
    times = jnp.linspace(0.0, 1.0, 12)

    def found(model, num_unknowns, sd, num=12):
        observed = np.asarray(0.3 + 0.5 * times)[:num]
        return check_method(jax_problem(model, num_unknowns, known_noise(sd), observed))

    (each,) = found(lambda x: x[0] + x[1] * times, 2, 0.1)
    assert (each.level, each.name) == ("note", "method")
    assert "12 readings of 2 unknowns" in each.detail
    # Negative controls: a curved posterior, and more unknowns than readings.
    assert found(lambda x: x[0] + x[1] ** 2 + 0.0 * times, 2, 0.01) == []
    assert found(lambda x: jnp.broadcast_to(jnp.sum(x), 3), 5, 0.1, num=3) == []
