"""The error of the mesh beside the noise: told by `check` and the verdict, and taken out."""

from dataclasses import replace

import jax
import meshio
import numpy as np
import pytest
from problem_files import build, changed, readings, write_problem
from structured import box_mesh, interior_points

import invlift
from invlift.app.checks import check_problem, mesh_error
from invlift.app.checks.mesh_error import (
    TOO_LARGE,
    Errors,
    Finer,
    check_mesh_error,
    errors_at,
    finer_model,
    mesh_doubts,
)
from invlift.app.problem.problem_file import parse_problem
from invlift.app.runs.mesh_correction import corrected_at_mode
from invlift.errors import InputError
from invlift.problems.choice import lift_choice
from invlift.problems.laplace_approximation import laplace_approximation
from invlift.problems.starts.search import Fit

PLACES = interior_points(2, 30)


def problem_of(mesh, sigma, *, std=0.7, refine_solution=0, seed=0):
    """Thirty readings of a field of the prior by the equation on cells of an eighth of the width.

    The field is one of the given mesh.
    """
    prior = invlift.matern_prior(mesh, range=0.7, std=std, smoothness=1.0)
    rng = np.random.default_rng(seed)
    field = np.asarray(prior.transform(rng.standard_normal(prior.num_white)))
    observation = invlift.locate(mesh, invlift.sensors_from_arrays(PLACES, np.zeros(30)))

    def model(times):
        conditions = {"source": 10.0, "dirichlet": {"left": 0.0}}
        return invlift.assemble_poisson(mesh, observation, refine_solution=times, **conditions)

    scale = sigma if np.isscalar(sigma) else 0.01
    values = np.asarray(readings(model(3), field)) + scale * rng.standard_normal(30)
    return invlift.inverse_problem(model(refine_solution), prior, sigma, values), field


def fit_of(problem):
    """The mode, without a search for a start."""
    sd, mode = np.full(30, float(problem.noise.sigma(np.zeros(0)))), laplace_approximation(problem)
    return Fit(None, None, None, sd, mode.mode, None)


def finding_of(problem):
    """At the mode, without the rest of `check`."""
    (finding,) = check_mesh_error(problem, finer_model(problem), fit_of(problem))
    return finding


def test_a_mesh_too_coarse_for_its_sensors_is_told(tmp_path):
    """Readings are off by about 0.1 on this mesh."""
    problem, _ = problem_of(box_mesh(2, 8), 0.003)
    (finding,) = [e for e in check_problem(problem).findings if e.name == "mesh error"]
    assert finding.level == "note"
    assert "refine_solution" in finding.detail
    posterior = problem.posterior(invlift.sample(problem, chains=2, warmup=20, draws=20))
    assert len(posterior.fit.sensors().observed) == 30
    errors = np.asarray(posterior.sensors.coordinates["mesh_error"])
    verdict = posterior.verdict()
    (doubt,) = [each for each in verdict.doubts if "mesh" in each]
    assert doubt.startswith("the mesh is too coarse for these sensors: its error moves readings by")
    assert f"at sensor {errors.argmax()} (" in doubt
    assert "the model is in doubt" in verdict.headline
    assert any("set [mesh] refine_solution = " in each for each in verdict.advice)
    assert errors.max() > 10.0 * TOO_LARGE
    posterior.write(tmp_path)
    written = meshio.read(tmp_path / "sensors.vtu").point_data["mesh_error"]
    np.testing.assert_array_equal(written, errors)
    places = meshio.read(tmp_path / "posterior.vtu").point_data["mesh_error"]
    assert places.shape == (81,)
    # Of each reading the sum over the nodes is its error, of both signs.
    assert 0.1 < places.sum() / np.linalg.norm(errors) < 10.0
    np.testing.assert_array_equal(invlift.load(tmp_path).fields()["mesh_error"], places)
    (again,) = [each for each in invlift.load(tmp_path).verdict().doubts if "mesh" in each]
    assert again == doubt


@pytest.mark.parametrize(
    ("worst", "words"),
    [(1.0, "refine_solution=1"), (4.0, "refine_solution=2"), (100.0, "corrected_at_mode(problem)")],
)
def test_what_is_recommended_takes_the_error_out(worst, words):
    """Each refinement leaves a fourth; many are dearer than a correction."""
    problem, _ = problem_of(box_mesh(2, 8), 0.1)
    ((_, advice),) = mesh_doubts(problem, Errors(np.array([0.1, worst + 0.1]), np.zeros(2)))
    assert words in advice
    assert not mesh_doubts(problem, Errors(np.array([0.1, np.nan]), np.zeros(2)))


def test_what_is_recommended_counts_from_the_mesh_as_it_is_solved_on(monkeypatch):
    """And a mesh that may not be refined further, as a whole, is to be refined itself."""
    problem, _ = problem_of(box_mesh(2, 8), 0.1, refine_solution=1)
    small, large = (Errors(np.full(30, size), np.full(30, 2.0)) for size in (1.1, 100.0))
    ((doubt, advice),) = mesh_doubts(problem, small)
    assert "refine_solution = 1 is set and is not enough; its error still moves readings" in doubt
    assert "refine_solution=2, or refine the mesh" in advice
    ((_, advice),) = mesh_doubts(problem, large)
    assert "refine_solution=3, and refine the mesh at these readings" in advice
    monkeypatch.setattr(mesh_error, "MAX_SAMPLED", 81 * 4)
    ((_, advice),) = mesh_doubts(problem, small)
    assert advice == "refine the mesh at these readings"
    monkeypatch.setattr(mesh_error, "MAX_NODES", 17**2 * 4 - 1)
    assert finer_model(problem).model is None


def test_a_mesh_that_is_fine_enough_is_not():
    assert finding_of(problem_of(box_mesh(2, 8), 1.0)[0]).level == "ok"
    found = [finding_of(problem_of(box_mesh(2, 8), 0.003, refine_solution=n)[0]) for n in (0, 2)]
    assert largest(found[1]) < 0.15 * largest(found[0])


def largest(finding):
    return float(finding.detail.split("up to ")[1].split(" sd")[0])


def test_the_told_errors_are_the_true_ones():
    """In standard deviations of the noise, at the mode, beside cells of an eighth of the width."""
    problem, _ = problem_of(box_mesh(2, 8), 0.01)
    again = problem.model.on_mesh.refined
    mode = laplace_approximation(problem).mode
    field = problem.prior.transform(mode)
    true, estimate = (
        factor * np.abs(np.asarray(readings(again(times), field) - readings(problem.model, field)))
        for factor, times in ((1.0, 3), (4.0 / 3.0, 1))
    )
    assert np.mean((estimate > 0.5 * true) & (estimate < 2.0 * true)) >= 0.9
    told = largest(finding_of(problem))
    assert told == pytest.approx(true.max() / 0.01, rel=0.1)


def test_shifts_of_means_are_exact():
    """Readings are so accurate that a system of the unknowns has no digits left."""
    sigma = 0.003
    problem, _ = problem_of(box_mesh(2, 8), sigma)
    finer, fit = finer_model(problem), fit_of(problem)
    prior, model = problem.prior, problem.model
    by_white = jax.jit(jax.jacfwd(lambda white: model(prior.transform(white))))
    scaled, field = np.asarray(by_white(fit.white)) / sigma, prior.transform(fit.white)
    bias = np.asarray(readings(finer.model, field) - readings(model, field)) * 16 / 15 / sigma
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
    sigma = 0.03
    problem, _ = problem_of(box_mesh(2, 8), sigma, std=std)
    at_draws, told = errors_at(problem, finer_model(problem), fit_of(problem))[:2]
    problem_of_mode = corrected_at_mode(problem)
    fields = fields_of(problem_of_mode, laplace_approximation(problem_of_mode))[:20]
    models = problem.model.on_mesh.refined(3), problem_of_mode.model
    fine, corrected = (np.array([readings(each, field) for field in fields]) for each in models)
    true = np.abs(fine - corrected).mean(axis=0).max() / sigma
    assert (true <= TOO_LARGE) == does_hold
    assert told.max() == pytest.approx(true, rel=0.5, abs=0.3)
    plain = np.array([readings(problem.model, field) for field in fields])
    assert at_draws.max() == pytest.approx(
        np.abs(fine - plain).mean(axis=0).max() / sigma, rel=0.5, abs=0.3
    )
    monkeypatch.setattr(mesh_error, "MAX_SAMPLED", 10)
    assert words in finding_of(problem).detail
    found = finding_of(problem_of_mode)
    assert found.level == ("ok" if does_hold else "note")
    (doubt,) = mesh_doubts(problem, Errors(np.full(30, 100.0), told))
    assert ("corrected_at_mode(problem)" in doubt[1]) == does_hold


def test_a_body_too_large_for_a_refined_mesh_says_so(monkeypatch):
    problem, _ = problem_of(box_mesh(2, 4), 0.1)
    monkeypatch.setattr(mesh_error, "MAX_NODES", 50)
    finer = finer_model(problem)
    assert finer == Finer(None, reason=finer.reason)
    finding = finding_of(problem)
    assert (finding.level, "not estimated" in finding.detail) == ("note", True)


@jax.jit
def transformed(problem, approximation, draws):
    return jax.vmap(lambda each: problem.prior.transform(approximation.colour(each)))(draws)


def fields_of(problem, approximation):
    """Draws of an approximation of the posterior, (400, N)."""
    draws = np.random.default_rng(0).standard_normal((400, problem.num_unknowns))
    return np.asarray(transformed(problem, approximation, draws))


def shifts(problem, exact):
    """How far the mean of a posterior is from that of the exact model, in its sd, (N,)."""
    found, expected = (laplace_approximation(each) for each in (problem, exact))
    at, there = (np.asarray(problem.prior.transform(each.mode)) for each in (found, expected))
    return np.abs(at - there) / fields_of(exact, expected).std(axis=0)


@pytest.mark.slow
def test_the_error_is_taken_out():
    """The most probable field is that of cells of an eighth of the width."""
    coarse, _ = problem_of(box_mesh(2, 8), 0.003)
    exact = replace(coarse, model=coarse.model.on_mesh.refined(3))
    before = shifts(coarse, exact).max()
    finer = shifts(replace(coarse, model=coarse.model.on_mesh.refined(1)), exact).max()
    corrected = corrected_at_mode(coarse)
    after = shifts(corrected, exact).max()
    assert before > 1.5
    assert finer < 0.35 * before
    assert after < 0.35 * before
    added = replace(corrected.model.added, slope=0.0 * corrected.model.added.slope)
    constant = replace(corrected.model, added=added)  # negative control
    assert shifts(replace(coarse, model=constant), exact).max() > 2.0 * after


def test_what_is_left_of_a_correction_is_told(monkeypatch):
    """By a mesh that is finer than the one that it was made with."""
    coarse, _ = problem_of(box_mesh(2, 8), 0.003)
    corrected = corrected_at_mode(coarse)
    monkeypatch.setattr(mesh_error, "FEW_NODES", 10)
    finer, as_made = (finer_model(each) for each in (corrected, coarse))
    assert (finer.times, as_made.times) == (2, 1)
    centre = corrected.model.added.centre
    blind, told, true = (
        np.abs(np.asarray(readings(each, centre) - readings(corrected.model, centre))).max()
        for each in (
            corrected.model.on_mesh.refined(1),
            finer.model,
            coarse.model.on_mesh.refined(3),
        )
    )
    assert blind < 1e-9  # negative control
    assert 0.3 * true < told < 3.0 * true
    mode = laplace_approximation(corrected).mode
    field = corrected.prior.transform(mode)
    changes = [
        np.abs(np.asarray(readings(each.on_mesh.refined(2), field) - readings(each, field))).max()
        for each in (coarse.model, corrected.model)
    ]
    assert changes[1] < 0.2 * changes[0]


def test_the_problem_file_has_it(tmp_path):
    """The prior's mean has the readings of the mesh as it was refined."""
    at = np.zeros(16)
    once = build(write_problem(tmp_path / "a", {"mesh.refine_solution": 1}))
    plain = build(write_problem(tmp_path / "b"))
    expected = readings(plain.model.on_mesh.refined(1), at)
    np.testing.assert_allclose(readings(once.model, at), expected, rtol=1e-12)
    assert once.prior.mesh.num_nodes == 16
    mode = build(write_problem(tmp_path / "d", {"mesh.refine_solution": "mode"}))
    added = corrected_at_mode(plain).model.added
    np.testing.assert_allclose(added.offset, mode.model.added.offset, rtol=1e-12)


@pytest.mark.parametrize("value", [-1, 4, 1.5, "often"])
def test_other_values_are_refused(value):
    with pytest.raises(InputError, match=r"\[mesh\] refine_solution"):
        parse_problem(changed({"mesh.refine_solution": value}), "problem.toml")


def test_a_model_without_a_mesh_is_refused():
    unknown = {"x": invlift.normal(0.0, 1.0)}
    problem = invlift.inverse_problem(lambda x: x[None], unknown, 0.1, np.zeros(1))
    with pytest.raises(InputError, match="corrected_at_mode"):
        corrected_at_mode(problem)


def test_many_readings_of_which_one_is_censored_are_corrected(monkeypatch):
    """The combinations that stand for them are of the readings that are not."""
    monkeypatch.setattr(lift_choice, "FEW", 5)
    monkeypatch.setattr(lift_choice, "MANY_READINGS", 20)
    problem, _ = problem_of(box_mesh(2, 6), 0.05)
    limits = np.where(np.arange(30) == 3, "<", "")
    noise = problem.noise.with_limits(limits)
    values = np.asarray(problem.observed)
    censored = invlift.inverse_problem(problem.model, problem.prior, noise, values)
    found, whole = (corrected_at_mode(each).model.added.offset for each in (censored, problem))
    np.testing.assert_allclose(found, whole, rtol=0.2, atol=0.05 * np.abs(whole).max())
