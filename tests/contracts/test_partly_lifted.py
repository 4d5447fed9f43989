"""Some combinations of many readings lifted, the rest in the density: the posterior is the same."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract_checks import assert_close

import invlift
from invlift.app.runs import sampling
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise, student_t_noise, unknown_scale
from invlift.problems.choice import informative_directions, lift_choice, partly_lifted
from invlift.problems.choice.lift_choice import Choice, choose
from invlift.problems.choice.partly_lifted import Lift, partly_lifted_problem
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.laplace_approximation import LaplaceApproximation
from invlift.problems.scale_coordinate import _estimate, with_scale_coordinate
from invlift.programs.compilation import Program
from invlift.unknowns.priors.base import StandardNormalPrior

NUM_READINGS, NUM_UNKNOWNS = 48, 36
GROUPS = np.arange(NUM_READINGS) % 3 == 0
MEDIAN = invlift.lognormal(median=0.1, factor=2.0)
NOISES = {
    "known": gaussian_noise(0.1),
    "unknown": gaussian_noise(MEDIAN),
    "of each": gaussian_noise(0.05 + 0.1 * np.random.default_rng(3).random(NUM_READINGS)),
    "a group known": gaussian_noise(unknown_scale([MEDIAN, 0.1], GROUPS.astype(int))),
    # Noise that is not normal: combinations are lifted with a normal one.
    "student unknown": student_t_noise(MEDIAN, invlift.lognormal(median=4.0, factor=1.5)),
    "relative": gaussian_noise(0.1, relative=True),
}


@pytest.fixture(autouse=True)
def these_are_many_readings(monkeypatch):
    """Few more would make each program larger, and show nothing else."""
    monkeypatch.setattr(lift_choice, "FEW", NUM_READINGS - 10)


def matrix_of():
    """Of singular values from 10 down to 0.01."""
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.standard_normal((NUM_READINGS, NUM_UNKNOWNS)))
    right, _ = np.linalg.qr(rng.standard_normal((NUM_UNKNOWNS, NUM_UNKNOWNS)))
    return (left * np.geomspace(3.0, 3e-3, NUM_UNKNOWNS)) @ right


def bent(theta, matrix):
    linear = matrix @ theta
    return linear + 0.1 * jnp.sin(2.0 * linear)


def very_bent(theta, matrix):
    linear = matrix @ theta
    return linear + jnp.sin(4.0 * linear)


def linear(theta, matrix):
    return matrix @ theta


def positive(theta, matrix):
    return jnp.exp(0.3 * bent(theta, matrix))


@cache
def problem_of(name="known", fn=bent):
    rng, noise = np.random.default_rng(1), NOISES[name]
    matrix, fn = matrix_of(), positive if noise.relative else fn
    white = rng.standard_normal(NUM_UNKNOWNS)
    observed = np.asarray(fn(white, matrix)) + 0.1 * rng.standard_normal(NUM_READINGS)
    model, prior = JaxFunction(fn, (jnp.asarray(matrix),)), StandardNormalPrior(white * 0.0)
    return inverse_problem(model, prior, noise, observed)


@cache
def choice_of(name="known", fn=bent):
    return choose(problem_of(name, fn))


def some_choice(noise, made_of=LaplaceApproximation):
    """Of any combinations, which are not even orthonormal, and any references."""
    rng, num = np.random.default_rng(5), noise.num_parameters
    basis, directions = (np.linalg.qr(rng.standard_normal((n, 9)))[0] for n in (48, 36))
    basis[0, 0] += 0.5
    of_noise = LaplaceApproximation(np.full(num, 0.2), np.eye(num), np.full(num, 3.0))
    of_white = made_of(0.3 * rng.standard_normal(36), directions, np.geomspace(9.0, 2.0, 9))
    scale = 0.1 if noise.scale.num_white else None
    return Choice(scale, jax.device_put(Lift(of_noise, of_white, basis)))


def target_of(problem, choice, made_of=partly_lifted_problem):
    if choice.scale is not None:
        problem = with_scale_coordinate(problem, choice.scale)
    return LiftedPosterior(made_of(problem, choice.reference, choice.condensed(problem)))


@partial(Program, effort="none")
def look_at_density(target, problem, theta):
    """By how much log densities of theta differ, with the constants that each has."""
    lift = target.problem.reference
    own = lift.whiten(theta)
    position = target.lift(own)
    graph = jax.jacfwd(target.lift)(own)
    log_area = 0.5 * jnp.linalg.slogdet(graph.T @ graph)[1]
    point = target.point(position)
    lifted = point.logdensity - 0.5 * position @ position + log_area
    references = lift.of_noise, lift.of_white
    log_volume = -0.5 * sum(jnp.sum(jnp.log(each.precisions)) for each in references)
    constant = 0.5 * target.problem.num_observations * jnp.log(2 * jnp.pi)
    ordinary = OrdinaryPosterior(problem).logdensity(theta)
    kept, _ = target.describe(point)
    return lifted - ordinary - constant - log_volume, target.unknowns(point), kept


def check_density(name, choice, made_of=partly_lifted_problem):
    """The density on the manifold is that of all readings, constants and volumes included."""
    problem = problem_of(name)
    target = target_of(problem, choice, made_of)
    if choice.scale is not None:
        problem = with_scale_coordinate(problem, choice.scale)
    for seed in range(2):
        theta = 0.7 * np.random.default_rng(seed).standard_normal(problem.num_unknowns)
        off, unknowns, kept = look_at_density(target, problem, theta)
        assert_close("density", off, 0.0, 1e-7)
        assert_close("unknowns", unknowns, theta, 1e-10)
    assert kept["predicted"].shape == kept["noise_score"].shape == (NUM_READINGS,)


def with_other_basis(problem, lift, condensed):
    """Negative control: other combinations are left out of the rest than those that are lifted."""
    made = partly_lifted_problem(problem, lift, condensed)
    return replace(made, matrix=made.matrix.at[0].multiply(0.5))


@pytest.mark.parametrize("name", list(NOISES)[2:])
def test_the_density_is_that_of_all_readings(name):
    choice = some_choice(NOISES[name])
    check_density(name, choice)
    with pytest.raises(AssertionError, match=r"^density: "):
        check_density(name, choice, made_of=with_other_basis)


class WithoutVolume(LaplaceApproximation):
    """Negative control."""

    def log_ratio(self, white):
        theta = self.colour(white)
        return 0.5 * (white @ white - theta @ theta)


def test_a_forgotten_volume_is_found():
    with pytest.raises(AssertionError, match=r"^density: "):
        check_density("of each", some_choice(NOISES["of each"], WithoutVolume))


def test_starts_have_noise_that_the_rest_allows():
    """That of a draw from the prior may be many standard deviations off; the field stays."""
    target = target_of(problem_of("unknown"), some_choice(NOISES["unknown"]))
    theta = np.append(40.0, 0.4 * np.ones(NUM_UNKNOWNS))
    position = np.asarray(jax.jit(target.from_lifted)(theta))
    unknowns = np.asarray(target.problem.to_whole(position[: theta.size]))
    assert abs(position[0] - partly_lifted.FARTHEST) < 1e-9
    np.testing.assert_allclose(unknowns[1:], theta[1:], atol=1e-9)
    assert np.abs(jax.jit(target.constraint)(position)).max() < 1e-10


def test_nothing_is_left_to_kicks_where_readings_are_linear(monkeypatch):
    """In the reference of what is not lifted the density of a linear problem is constant."""
    monkeypatch.setattr(informative_directions, "LEAST_VALUE", 0.0)
    target = target_of(problem_of(fn=linear), choose(problem_of(fn=linear)))
    assert target.dimension == NUM_UNKNOWNS + informative_directions.NUMBERS[0]
    position = np.asarray(jax.jit(target.from_lifted)(0.5 * np.ones(NUM_UNKNOWNS)))
    force = jax.jit(target.point)(position).logdensity_grad
    assert np.abs(force).max() < 1e-9 * np.abs(position).max()


@pytest.mark.slow
def test_draws_of_a_linear_problem_are_exact(monkeypatch):
    """Mean and variance along each direction; with a rest of others they are not."""
    problem, matrix = problem_of(fn=linear), matrix_of()
    cov = np.linalg.inv(np.eye(NUM_UNKNOWNS) + matrix.T @ matrix / 0.1**2)
    mean = cov @ matrix.T @ np.asarray(problem.observed) / 0.1**2

    def errors():
        run = invlift.sample(problem, chains=2, warmup=60, draws=1500, seed=1)
        assert min(chain.step_size for chain in run.chains) > 1.2
        draws = np.concatenate([chain.draws["parameters"] for chain in run.chains])
        values, along = np.linalg.eigh(cov)
        white = along.T @ (draws - mean).T / np.sqrt(values)[:, None]
        num = white.shape[1]  # draws are nearly independent
        by_mean = white.mean(axis=1) * np.sqrt(num)
        by_square = ((white**2).mean(axis=1) - 1.0) * np.sqrt(num / 2.0)
        return np.abs(by_mean).max(), np.abs(by_square).max()

    assert max(errors()) < 5.0
    monkeypatch.setattr("invlift.app.runs.sampling.partly_lifted_problem", with_other_basis)
    assert max(errors()) > 8.0


def test_few_readings_or_unknowns_are_all_lifted():
    for num, size in ((lift_choice.FEW, NUM_UNKNOWNS), (100, 3)):
        model = JaxFunction(linear, (jnp.ones((num, size)),))
        prior = StandardNormalPrior(jnp.zeros(size))
        problem = inverse_problem(model, prior, NOISES["known"], np.ones(num))
        assert choose(problem).reference is None


def test_what_is_thin_and_curved_is_lifted():
    """Of readings that bend more are lifted than of straight ones."""
    straight, curved = (choice_of(fn=fn).reference.basis.shape[1] for fn in (linear, very_bent))
    assert straight == informative_directions.NUMBERS[0] < curved


def test_many_readings_are_found_from_products(monkeypatch):
    """The same combinations and reference as of all derivatives.  They are kept with a run."""
    dense = choice_of(fn=linear).reference
    number = dense.basis.shape[1]
    np.testing.assert_allclose(dense.basis.T @ dense.basis, np.eye(number), atol=1e-12)
    monkeypatch.setattr(lift_choice, "MANY_READINGS", 40)
    choice = choose(problem_of(fn=linear))
    assert choice.basis.shape[0] == NUM_READINGS
    assert choice.reference.basis.shape[1] == number
    overlap = np.linalg.svd(choice.reference.basis.T @ dense.basis, compute_uv=False)
    assert overlap.min() > 0.99
    np.testing.assert_allclose(choice.reference.of_white.mode, dense.of_white.mode, atol=0.05)
    again = Choice.of_arrays(choice.arrays())
    assert isinstance(again.reference, Lift)
    jax.tree.map(np.testing.assert_array_equal, again, choice)


density = jax.jit(lambda target, theta: target.logdensity(theta))


def test_what_does_not_lift_searches_with_few_combinations(monkeypatch):
    """The density is that of all readings, the reference nearly that of their derivatives."""
    problem, kernel = problem_of("unknown"), sampling.find_kernel("gpcn")
    dense = sampling.target_of(problem, kernel).problem.reference
    monkeypatch.setattr(lift_choice, "MANY_READINGS", 40)
    choice = sampling.choice_of(problem, kernel)
    kept = Choice.of_arrays(choice.arrays())
    assert not isinstance(kept.reference, Lift)
    target = sampling.target_of(problem, kernel, kept)
    assert target.problem.searched.num_observations < NUM_READINGS
    np.testing.assert_allclose(
        target.problem.reference.of_white.mode, dense.of_white.mode, atol=0.05
    )
    own = OrdinaryPosterior(with_scale_coordinate(problem, choice.scale))

    @jax.jit
    def apart(white):
        theta = target.unknowns(white)
        return target.logdensity(white) + 0.5 * jnp.sum(theta**2) - own.loglikelihood(theta)

    white = np.random.default_rng(5).standard_normal((3, problem.num_unknowns))
    assert_close("density", np.ptp([apart(each) for each in white]), 0.0, 1e-8)


def test_no_prior_normal_variables_are_changed_by_a_search(monkeypatch):
    """A sampler without a reference walks on the unknowns themselves."""
    problem, kernel = problem_of("known"), sampling.find_kernel("pcn")
    monkeypatch.setattr(lift_choice, "MANY_READINGS", 40)
    target = sampling.target_of(problem, kernel)
    assert target.problem.searched.num_observations < NUM_READINGS
    theta = np.random.default_rng(6).standard_normal(problem.num_unknowns)
    np.testing.assert_array_equal(target.unknowns(theta), theta)
    assert_close(
        "density", density(target, theta), density(OrdinaryPosterior(problem), theta), 1e-9
    )


def test_the_metric_of_many_readings_is_that_of_few_combinations(monkeypatch):
    """Derivatives of all readings are not computed: there would be d of them for each unknown."""
    problem, kernel = problem_of("known"), sampling.find_kernel("smmala")
    theta = np.random.default_rng(6).standard_normal(problem.num_unknowns)
    expected = jax.jit(lambda: OrdinaryPosterior(problem).metric(theta))()
    monkeypatch.setattr(lift_choice, "MANY_READINGS", 40)
    target = sampling.target_of(problem, kernel)

    def refused(*_):
        raise AssertionError("derivatives of all readings")

    monkeypatch.setattr(JaxFunction, "value_and_jacobian", refused, raising=False)
    found = jax.jit(lambda: target.metric(theta))()
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    with pytest.raises(AssertionError, match="derivatives"):
        OrdinaryPosterior(problem).metric(theta)


def test_the_scale_of_more_readings_than_unknowns():
    """Unknowns that no reading depends on change nothing."""
    problem, few = problem_of("unknown", linear), 5

    def scale(num):
        model = JaxFunction(lambda theta: matrix_of()[:, :few] @ theta[:few])
        prior = StandardNormalPrior(jnp.zeros(num))
        return float(_estimate(replace(problem, model=model, prior=prior)))

    np.testing.assert_allclose(scale(few), scale(NUM_READINGS + 1), rtol=1e-6)
