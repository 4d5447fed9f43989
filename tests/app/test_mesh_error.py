"""The error of the mesh beside the noise: told by `check` and the verdict, and taken out."""

from dataclasses import replace
from functools import cache

import jax
import meshio
import numpy as np
import pytest
from crafted import run_from_prior
from problem_files import build, changed, readings, write_problem
from structured import box_mesh, interior_points
from threadpoolctl import threadpool_info, threadpool_limits

import invlift
from invlift.app.checks import mesh_error
from invlift.app.checks.mesh_error import Errors, errors_at, finer_model, mesh_doubts
from invlift.app.problem.problem_file import parse_problem
from invlift.app.runs.mesh_correction import corrected_at_mode
from invlift.errors import InputError
from invlift.problems.choice import lift_choice
from invlift.problems.laplace_approximation import laplace_approximation
from invlift.problems.starts.search import Fit

PLACES = interior_points(2, 30)
MESH = box_mesh(2, 8)


def model_of(times=0):
    observation = invlift.locate(MESH, invlift.sensors_from_arrays(PLACES, np.zeros(30)))
    conditions = {"source": 10.0, "dirichlet": {"left": 0.0}}
    return invlift.assemble_poisson(MESH, observation, refine_solution=times, **conditions)


@cache
def problem_of(sigma, std=0.7):
    """Thirty readings of a field of the prior by the equation on cells of an eighth of the width.

    The field is one of the given mesh.
    """
    prior = invlift.matern_prior(MESH, range=0.7, std=std, smoothness=1.0)
    rng = np.random.default_rng(0)
    field = np.asarray(prior.transform(rng.standard_normal(prior.num_white)))
    values = np.asarray(readings(model_of(3), field)) + sigma * rng.standard_normal(30)
    return invlift.inverse_problem(model_of(), prior, sigma, values)


def once(function):
    """A function that keeps what it has found for a problem, and the problem."""
    found = {}

    def call(problem):
        if id(problem) not in found:
            found[id(problem)] = problem, function(problem)
        return found[id(problem)][1]

    return call


mode_of, correction_of = once(laplace_approximation), once(corrected_at_mode)


def fit_of(problem):
    """The mode, without a search for a start."""
    sd = np.full(30, float(problem.noise.sigma(np.zeros(0))))
    return Fit(None, None, None, sd, mode_of(problem).mode, None)


def finding_of(problem):
    """At the mode, without the rest of `check`."""
    (finding,) = mesh_error.check_mesh_error(problem, finer_model(problem), fit_of(problem))
    return finding


def test_a_mesh_too_coarse_for_its_sensors_is_told(tmp_path):
    """Readings are off by about 0.1 on this mesh."""
    problem = problem_of(0.003)
    posterior = problem.posterior(run_from_prior(problem))
    errors = np.asarray(posterior.sensors.coordinates["mesh_error"])
    verdict = posterior.verdict()
    (doubt,) = [each for each in verdict.doubts if "mesh" in each]
    assert doubt.startswith("the mesh is too coarse for these sensors: its error moves readings by")
    assert f"at sensor {errors.argmax()} (" in doubt
    assert "the model is in doubt" in verdict.headline
    assert any("set [mesh] refine_solution = " in each for each in verdict.advice)
    assert errors.max() > 10.0
    posterior.write(tmp_path)
    written = meshio.read(tmp_path / "sensors.vtu").point_data["mesh_error"]
    np.testing.assert_array_equal(written, errors)
    places = meshio.read(tmp_path / "posterior.vtu").point_data["mesh_error"]
    # Of each reading the sum over the nodes is its error, of both signs.
    assert 0.1 < places.sum() / np.linalg.norm(errors) < 10.0
    loaded = invlift.load(tmp_path)
    np.testing.assert_array_equal(loaded.fields()["mesh_error"], places)
    assert doubt in loaded.verdict().doubts


@pytest.mark.parametrize(
    ("step", "begin"),
    [
        ("mesh_correction.laplace_approximation", corrected_at_mode),
        ("results.mesh_errors", lambda problem: problem.posterior(run_from_prior(problem))),
    ],
)
def test_threads_of_lapack_do_not_wait_for_each_other(monkeypatch, step, begin):
    """On a busy machine they take a hundred times as long as one."""

    def count(*_):
        pools = [each for each in threadpool_info() if each["user_api"] == "blas"]
        raise StopIteration({each["num_threads"] for each in pools})

    monkeypatch.setattr(f"invlift.app.runs.{step}", count)
    with threadpool_limits(2, user_api="blas"), pytest.raises(StopIteration) as stopped:
        begin(problem_of(0.1))
    assert stopped.value.value == {1}


def test_what_is_recommended_takes_the_error_out(monkeypatch):
    """Each refinement leaves a fourth; many are dearer than a correction."""
    problem = problem_of(0.1)
    again = replace(problem, model=model_of(1))
    for given, worst, left, words in (
        (problem, 1.1, 0.0, "refine_solution=1"),
        (problem, 4.1, 0.0, "refine_solution=2"),
        (problem, 100.0, 0.0, "corrected_at_mode(problem)"),
        # Counted from the mesh as it is solved on.
        (again, 1.1, 2.0, "refine_solution=2, or refine the mesh"),
        # A correction is made on the given mesh: how it would do there is not known here.
        (again, 100.0, 0.0, "refine_solution=3, and refine the mesh at these readings"),
    ):
        ((doubt, advice),) = mesh_doubts(given, Errors(np.array([0.1, worst]), np.full(2, left)))
        assert words in advice
    assert "refine_solution = 1 is set and is not enough; its error still moves readings" in doubt
    assert not mesh_doubts(problem, Errors(np.array([0.1, np.nan]), np.zeros(2)))
    # A mesh that may not be refined further, as a whole, is to be refined itself.
    monkeypatch.setattr(mesh_error, "MAX_SAMPLED", 81 * 4)
    ((_, advice),) = mesh_doubts(again, Errors(np.full(30, 1.1), np.full(30, 2.0)))
    assert advice == "refine the mesh at these readings"
    monkeypatch.setattr(mesh_error, "MAX_NODES", 17**2 * 4 - 1)
    finer = finer_model(again)
    assert finer.model is None
    (finding,) = mesh_error.check_mesh_error(again, finer, fit=object())
    assert (finding.level, "not estimated" in finding.detail) == ("note", True)


def test_the_told_errors_are_the_true_ones():
    """In standard deviations of the noise, at the mode, beside cells of an eighth of the width."""
    problem = problem_of(0.003)
    field = problem.prior.transform(mode_of(problem).mode)
    true, estimate = (
        np.abs(np.asarray(readings(model_of(times), field) - readings(problem.model, field)))
        for times in (3, 1)
    )
    assert np.mean((estimate > 0.5 * true) & (estimate < 2.0 * true)) >= 0.9
    told = float(finding_of(problem).detail.split("up to ")[1].split(" sd")[0])
    assert told == pytest.approx(true.max() / 0.003, rel=0.1)
    assert finding_of(problem_of(1.0)).level == "ok"


def test_shifts_of_means_are_exact():
    """Readings are so accurate that a system of the unknowns has no digits left."""
    sigma, problem = 0.003, problem_of(0.003)
    finer, fit = finer_model(problem), fit_of(problem)
    prior, model = problem.prior, problem.model
    by_white = jax.jit(jax.jacfwd(lambda white: model(prior.transform(white))))
    scaled, field = np.asarray(by_white(fit.white)) / sigma, prior.transform(fit.white)
    bias = np.asarray(readings(finer.model, field) - readings(model, field)) / sigma
    product = scaled @ scaled.T
    expected = bias @ product @ np.linalg.solve(np.eye(30) + product, bias)
    assert errors_at(problem, finer, fit).shift == pytest.approx(np.sqrt(expected), rel=1e-4)
    nothing = np.zeros(fit.white.size), np.zeros(30)
    assert mesh_error._moved(problem, fit.white, fit.sd, *nothing)[1] == 0.0


@pytest.mark.parametrize(
    ("std", "does_hold", "words"),
    [(0.05, True, 'refine_solution = "mode"'), (0.7, False, "; refine the mesh at these readings")],
)
def test_a_correction_is_recommended_where_it_holds(monkeypatch, std, does_hold, words):
    """What it leaves at draws of the posterior is told before it is made, and after."""
    sigma, problem = 0.03, problem_of(0.03, std)
    at_draws, told = errors_at(problem, finer_model(problem), fit_of(problem))[:2]
    problem_of_mode = correction_of(problem)
    fields = fields_of(problem_of_mode, mode_of(problem_of_mode))
    models = model_of(3), problem_of_mode.model, problem.model
    fine, corrected, plain = (
        np.array([readings(each, field) for field in fields]) for each in models
    )
    true = np.abs(fine - corrected).mean(axis=0).max() / sigma
    assert (true <= mesh_error.TOO_LARGE) == does_hold
    assert told.max() == pytest.approx(true, rel=0.5, abs=0.3)
    true = np.abs(fine - plain).mean(axis=0).max() / sigma
    assert at_draws.max() == pytest.approx(true, rel=0.5, abs=0.3)
    monkeypatch.setattr(mesh_error, "MAX_SAMPLED", 10)
    assert words in finding_of(problem).detail
    assert finding_of(problem_of_mode).level == ("ok" if does_hold else "note")
    ((_, advice),) = mesh_doubts(problem, Errors(np.full(30, 100.0), told))
    assert ("corrected_at_mode(problem)" in advice) == does_hold


@jax.jit
def transformed(problem, approximation, draws):
    return jax.vmap(lambda each: problem.prior.transform(approximation.colour(each)))(draws)


def fields_of(problem, approximation):
    """Draws of an approximation of the posterior, (20, N)."""
    draws = np.random.default_rng(0).standard_normal((20, problem.num_unknowns))
    return np.asarray(transformed(problem, approximation, draws))


def test_what_is_left_of_a_correction_is_told(monkeypatch):
    """By a mesh that is finer than the one that it was made with."""
    coarse = problem_of(0.003)
    corrected = correction_of(coarse)
    monkeypatch.setattr(mesh_error, "FEW_NODES", 10)
    finer, as_made = (finer_model(each) for each in (corrected, coarse))
    assert (finer.times, as_made.times) == (2, 1)
    at = corrected.model.added.centre
    blind, told, true = (
        np.abs(np.asarray(readings(each, at) - readings(corrected.model, at))).max()
        for each in (corrected.model.on_mesh.refined(1), finer.model, model_of(3))
    )
    assert blind < 1e-9  # negative control
    assert 0.3 * true < told < 3.0 * true


def test_the_problem_file_has_it(tmp_path, monkeypatch):
    """The prior's mean has the readings of the mesh as it was refined."""
    refined = build(write_problem(tmp_path / "a", {"mesh.refine_solution": 1}))
    plain = build(write_problem(tmp_path / "b"))
    at = np.zeros(16)
    expected = readings(plain.model.on_mesh.refined(1), at)
    np.testing.assert_allclose(readings(refined.model, at), expected, rtol=1e-12)
    assert refined.prior.mesh.num_nodes == 16
    given = []
    monkeypatch.setattr(
        "invlift.app.problem.build.corrected_at_mode", lambda each: given.append(each) or refined
    )
    found = build(write_problem(tmp_path / "d", {"mesh.refine_solution": "mode"}))
    assert found.model is refined.model
    assert given[0].model.on_mesh.solved_on.times == 0


def test_what_cannot_be_corrected_or_refined_is_refused():
    for value in (-1, 4, 1.5, "often"):
        with pytest.raises(InputError, match=r"\[mesh\] refine_solution"):
            parse_problem(changed({"mesh.refine_solution": value}), "problem.toml")
    unknown = {"x": invlift.normal(0.0, 1.0)}
    problem = invlift.inverse_problem(lambda x: x[None], unknown, 0.1, np.zeros(1))
    with pytest.raises(InputError, match="corrected_at_mode"):
        corrected_at_mode(problem)


@pytest.mark.slow  # programs of its own
def test_many_readings_of_which_one_is_censored_are_corrected(monkeypatch):
    """The combinations that stand for them are of the readings that are not."""
    problem = problem_of(0.03)
    whole = correction_of(problem).model.added.offset
    monkeypatch.setattr(lift_choice, "FEW", 5)
    monkeypatch.setattr(lift_choice, "MANY_READINGS", 20)
    noise = problem.noise.with_limits(np.where(np.arange(30) == 3, "<", ""))
    values = np.asarray(problem.observed)
    censored = invlift.inverse_problem(problem.model, problem.prior, noise, values)
    found = corrected_at_mode(censored).model.added.offset
    np.testing.assert_allclose(found, whole, rtol=0.2, atol=0.05 * np.abs(whole).max())
