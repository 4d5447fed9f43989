"""Some combinations of many readings lifted, the rest in the density: the posterior is the same."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract_checks import assert_close, check_normal_space, check_target, in_turn

import invlift
from invlift.app.runs import sampling
from invlift.app.studies import calibrate as calibration
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.base import JaxFunction
from invlift.noise import (
    gaussian_noise,
    laplace_noise,
    potential_noise,
    student_t_noise,
    unknown_scale,
)
from invlift.problems.choice import informative_directions, lift_choice, partly_lifted
from invlift.problems.choice.lift_choice import Choice, choose
from invlift.problems.choice.partly_lifted import Lift, PartlyLiftedProblem, partly_lifted_problem
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
    "of each": gaussian_noise(0.05 + 0.1 * np.random.default_rng(3).random(NUM_READINGS)),
    "unknown": gaussian_noise(MEDIAN),
    "two groups": gaussian_noise(unknown_scale([MEDIAN, MEDIAN], GROUPS.astype(int))),
    "a group known": gaussian_noise(unknown_scale([MEDIAN, 0.1], GROUPS.astype(int))),
}
#: Noise that is not normal: combinations are lifted with a normal one.
OTHERS = {
    "student": student_t_noise(0.1, 4.0),
    "student unknown": student_t_noise(MEDIAN, invlift.lognormal(median=4.0, factor=1.5)),
    "laplace": laplace_noise(0.1),
    "quartic": potential_noise(0.1, lambda x: 0.25 * x**4),
    "relative": gaussian_noise(0.1, relative=True),
}


@pytest.fixture(autouse=True)
def these_are_many_readings(monkeypatch):
    """Few more would make each program larger, and show nothing else."""
    monkeypatch.setattr(lift_choice, "FEW", NUM_READINGS - 10)


def matrix_of(seed=0):
    """Of singular values from 10 down to 0.01."""
    rng = np.random.default_rng(seed)
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
    rng, noise = np.random.default_rng(1), (NOISES | OTHERS)[name]
    matrix, fn = matrix_of(), positive if noise.relative else fn
    white = rng.standard_normal(NUM_UNKNOWNS)
    observed = np.asarray(fn(white, matrix)) + 0.1 * rng.standard_normal(NUM_READINGS)
    model, prior = JaxFunction(fn, (jnp.asarray(matrix),)), StandardNormalPrior(white * 0.0)
    return inverse_problem(model, prior, noise, observed)


@cache
def choice_of(name="known", fn=bent):
    return choose(problem_of(name, fn))


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


def check_density(name, choice=None, made_of=partly_lifted_problem):
    """The density on the manifold is that of all readings, constants and volumes included."""
    choice = choice or choice_of(name)
    problem = problem_of(name)
    if choice.scale is not None:
        problem = with_scale_coordinate(problem, choice.scale)
    target = target_of(problem_of(name), choice, made_of)
    for seed in range(2):
        theta = 0.7 * np.random.default_rng(seed).standard_normal(problem.num_unknowns)
        off, unknowns, kept = look_at_density(target, problem, theta)
        assert_close("density", off, 0.0, 1e-7)
        assert_close("unknowns", unknowns, theta, 1e-10)
    assert kept["predicted"].shape == kept["noise_score"].shape == (NUM_READINGS,)


#: "known" and "unknown" are part of these, and of the tests below.
EACH = [name for name in (NOISES | OTHERS) if name not in ("known", "unknown")]
SLOW = {"student unknown", "laplace", "quartic"}


@pytest.mark.parametrize("name", in_turn(EACH, {*EACH} - SLOW))
def test_the_density_is_that_of_all_readings(name):
    lift = choice_of(name).reference
    assert 10 <= lift.basis.shape[1] <= (20 if name in NOISES else NUM_UNKNOWNS)
    np.testing.assert_allclose(lift.basis.T @ lift.basis, np.eye(lift.basis.shape[1]), atol=1e-12)
    check_density(name)


def test_any_combinations_give_the_same_density():
    """Not orthonormal ones either: what is lifted of the likelihood is left out of the rest."""
    choice = choice_of("unknown")
    other = replace(choice.reference, basis=choice.reference.basis.at[0, 0].add(0.5))
    check_density("unknown", choice._replace(reference=other))


def with_other_basis(problem, lift, condensed):
    """Negative control: other combinations are left out of the rest than those that are lifted."""
    made = partly_lifted_problem(problem, lift, condensed)
    return replace(made, matrix=made.matrix.at[0].multiply(0.5))


@pytest.mark.parametrize("name", ["known", "student", "relative"])
def test_a_rest_of_other_combinations_is_found(name):
    with pytest.raises(AssertionError, match=r"^density: "):
        check_density(name, made_of=with_other_basis)


class WithoutVolume(LaplaceApproximation):
    """Negative control."""

    def log_ratio(self, white):
        theta = self.colour(white)
        return 0.5 * (white @ white - theta @ theta)


@pytest.mark.parametrize("reference", ["of_noise", "of_white"])
def test_a_forgotten_volume_is_found(reference):
    choice = choice_of("unknown")
    wrong = WithoutVolume(**vars(getattr(choice.reference, reference)))
    choice = choice._replace(reference=replace(choice.reference, **{reference: wrong}))
    with pytest.raises(AssertionError, match=r"^density: "):
        check_density("unknown", choice)


def test_it_is_a_target():
    target = target_of(problem_of("two groups"), choice_of("two groups"))
    theta = 0.4 * np.random.default_rng(1).standard_normal(target.problem.num_unknowns)
    position = np.asarray(jax.jit(target.from_lifted)(theta))
    assert np.abs(check_target(target, position)).max() < 1e-10
    check_normal_space(target, position)


def test_starts_have_noise_that_the_rest_allows():
    """That of a draw from the prior may be many standard deviations off; the field stays."""
    target = target_of(problem_of("unknown"), choice_of("unknown"))
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


def posterior_of_linear(problem, sigma=0.1):
    """Exact mean, (m,), and covariance of a linear problem with known noise."""
    matrix = np.asarray(problem.model.arguments[0])
    cov = np.linalg.inv(np.eye(NUM_UNKNOWNS) + matrix.T @ matrix / sigma**2)
    return cov @ matrix.T @ np.asarray(problem.observed) / sigma**2, cov


@pytest.mark.slow
def test_draws_of_a_linear_problem_are_exact(monkeypatch):
    """Mean and variance along each direction; with a rest of others they are not."""
    problem = problem_of(fn=linear)
    mean, cov = posterior_of_linear(problem)

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
    rng = np.random.default_rng(1)
    prior = StandardNormalPrior(jnp.zeros(NUM_UNKNOWNS))

    def lift_of(num, noise, size=NUM_UNKNOWNS):
        model = JaxFunction(linear, (jnp.asarray(rng.standard_normal((num, size))),))
        own = prior if size == NUM_UNKNOWNS else StandardNormalPrior(jnp.zeros(size))
        return choose(inverse_problem(model, own, noise, rng.standard_normal(num))).reference

    assert lift_of(lift_choice.FEW, gaussian_noise(0.1)) is None
    assert lift_of(100, gaussian_noise(0.1), 3) is None
    assert lift_of(40, gaussian_noise(0.1)) is not None


def test_what_is_thin_and_curved_is_lifted():
    """Of readings that bend more are lifted than of straight ones."""
    straight, curved = (choice_of(fn=fn).reference.basis.shape[1] for fn in (linear, very_bent))
    assert straight == informative_directions.NUMBERS[0] < curved


def test_many_readings_are_found_from_products(monkeypatch):
    """The same combinations and reference as of all derivatives, and the same density."""
    dense = choice_of("two groups").reference
    monkeypatch.setattr(lift_choice, "MANY_READINGS", 40)
    choice = choose(problem_of("two groups"))
    assert choice.basis.shape[0] == NUM_READINGS
    number = dense.basis.shape[1]
    assert choice.reference.basis.shape[1] == number
    overlap = np.linalg.svd(choice.reference.basis.T @ dense.basis, compute_uv=False)
    assert overlap.min() > 0.99
    for found, expected in (
        (choice.reference.of_noise.mode, dense.of_noise.mode),
        (choice.reference.of_white.mode, dense.of_white.mode),
    ):
        np.testing.assert_allclose(found, expected, atol=0.05)
    check_density("two groups", choice)


@pytest.mark.parametrize("method", ["laplace-mala", "gpcn"])
def test_what_does_not_lift_searches_with_few_combinations(method, monkeypatch):
    """The density is that of all readings, the reference nearly that of their derivatives."""
    problem, kernel = problem_of("unknown"), sampling.find_kernel(method)
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
    rng = np.random.default_rng(5)
    apart = [
        density(target, white) + 0.5 * np.sum(np.asarray(target.unknowns(white)) ** 2)
        - own.loglikelihood(target.unknowns(white)) for white in
        rng.standard_normal((3, problem.num_unknowns))
    ]  # fmt: skip
    assert_close("density", np.ptp(apart), 0.0, 1e-8)


density = jax.jit(lambda target, theta: target.logdensity(theta))


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


@pytest.mark.slow
def test_draws_are_those_of_all_lifted(monkeypatch):
    """Means and standard deviations of what readings tell most of, and of the noise."""
    problem = problem_of("student unknown")

    def draws():
        run = invlift.sample(problem, chains=2, warmup=200, draws=1500, seed=2)
        assert run.problem
        found = {key: [chain.draws[key] for chain in run.chains] for key in run.chains[0].draws}
        along = np.linalg.svd(matrix_of())[2][:12]
        found["along"] = [chain @ along.T for chain in found.pop("parameters")]
        return {key: found[key] for key in ("along", "sigma") if key in found}

    partly = draws()
    monkeypatch.setattr(lift_choice, "FEW", NUM_READINGS)
    for key, expected in draws().items():
        of_one, of_other = (
            [np.stack([each.reshape(len(each), -1) for each in found]) for found in pair]
            for pair in ([partly[key]], [expected])
        )
        check_same(of_one[0], of_other[0])


def check_same(one, other):
    """Means and variances of draws (chains, draws, n), by the standard errors of batches."""
    for power in (1, 2):
        centre = other.mean(axis=(0, 1))
        batches = [
            ((each - centre) ** power).reshape(-1, 50, each.shape[-1]).mean(axis=1)
            for each in (one, other)
        ]
        errors = [each.std(axis=0) / np.sqrt(len(each)) for each in batches]
        off = batches[0].mean(axis=0) - batches[1].mean(axis=0)
        assert np.abs(off / np.hypot(*errors)).max() < 5.0


class Forgotten(LaplaceApproximation):
    """Negative control: what the reference has changed is not put right in the density."""

    def log_ratio(self, white):
        return 0.0 * white.sum()


def with_forgotten_reference(problem, lift, condensed):
    """Negative control."""
    wrong = replace(lift, of_white=Forgotten(**vars(lift.of_white)))
    return partly_lifted_problem(problem, wrong, condensed)


class CountedTwice(PartlyLiftedProblem):
    """Negative control: what is lifted is part of the rest as well."""

    def log_density_of_rest(self, readings, zeta):
        own = self.reference.of_noise.colour(zeta)
        return self.asked.noise.loglikelihood(readings, own, self.asked.observed)


def counted_twice(*parts):
    """Negative control."""
    return CountedTwice(**vars(partly_lifted_problem(*parts)))


@pytest.mark.slow
def test_ranks_of_simulated_truths_are_uniform(monkeypatch):
    """What is lifted is chosen for each simulation.  With wrong densities they are not uniform."""
    monkeypatch.setattr(calibration, "FEWEST_DRAWS", 50)
    problem, options = problem_of("unknown"), {"draws": 7, "warmup": 60, "seed": 3}
    verdict = calibration.calibrate(problem, simulations=36, **options).verdict()
    assert verdict.is_calibrated, str(verdict)
    for made_of in (with_forgotten_reference, counted_twice):
        monkeypatch.setattr(sampling, "partly_lifted_problem", made_of)
        wrong = calibration.calibrate(problem, simulations=20, **options)
        assert min(wrong.p_values().values()) < 1e-4


def of_two_modes(theta, matrix):
    """The sign of the first unknown makes no difference."""
    return matrix @ jnp.concatenate([theta[:1] ** 2, theta[1:]])


@pytest.mark.slow
def test_two_modes_with_one_reference():
    """Chains start in both, and the far one is as likely and as wide as the near one."""
    rng = np.random.default_rng(5)
    matrix = matrix_of(4)
    truth = np.append(1.2, rng.standard_normal(NUM_UNKNOWNS - 1))
    observed = np.asarray(of_two_modes(truth, matrix)) + 0.1 * rng.standard_normal(NUM_READINGS)
    prior = StandardNormalPrior(jnp.zeros(NUM_UNKNOWNS))
    model = JaxFunction(of_two_modes, (jnp.asarray(matrix),))
    problem = inverse_problem(model, prior, gaussian_noise(0.1), observed)
    run = invlift.sample(problem, chains=6, warmup=100, draws=400, seed=3)
    first = np.stack([chain.draws["parameters"][:, 0] for chain in run.chains])
    signs = np.sign(first.mean(axis=1))
    assert {*signs} == {-1.0, 1.0}
    sides = [np.abs(first[signs == sign]) for sign in (-1.0, 1.0)]
    check_same(*(side.reshape(1, -1, 1) for side in sides))


def test_a_run_goes_on_with_the_same_combinations(tmp_path, monkeypatch):
    problem = problem_of("unknown")
    settings = {"chains": 2, "warmup": 30, "seed": 4}
    whole = invlift.sample(problem, draws=40, **settings)
    invlift.sample(problem, draws=15, checkpoint=tmp_path, **settings)
    other = choice_of("unknown")
    worse = replace(other.reference, basis=other.reference.basis[:, ::-1])
    monkeypatch.setattr(
        "invlift.app.runs.sampling.choose", lambda problem, **_: other._replace(reference=worse)
    )
    changed = invlift.sample(problem, draws=40, **settings)
    resumed = invlift.sample(problem, draws=40, checkpoint=tmp_path, resume=True, **settings)
    for chain, expected, apart in zip(resumed.chains, whole.chains, changed.chains, strict=True):
        np.testing.assert_array_equal(chain.draws["sigma"], expected.draws["sigma"])
        assert not np.array_equal(chain.draws["sigma"], apart.draws["sigma"])
    (tmp_path / "choices.npz").write_bytes(b"nothing")
    with pytest.raises(invlift.InputError, match=r"choices.npz"):
        invlift.sample(problem, draws=50, checkpoint=tmp_path, resume=True, **settings)
