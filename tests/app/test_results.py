"""From chains to a posterior: what the noise of the problem brings with it."""

import numpy as np
import pytest
from problem_files import write_problem
from scipy.stats import kstest, laplace, norm, t

import invlift
from invlift.app.results import draw_readings, field_posterior, log_likelihood
from invlift.inverse.distributions import half_normal, lognormal
from invlift.inverse.noise import (
    gaussian_noise,
    known_noise,
    laplace_noise,
    potential_noise,
    student_t_noise,
    unknown_scale,
)
from invlift.samplers.chains.results import ChainResult, Run
from invlift.samplers.kernels import HMC, ConstrainedHMC

PREDICTED = 5.0 + np.random.default_rng(0).normal(size=(300, 4))
SIGMA = np.exp(np.random.default_rng(1).normal(size=(300, 2)))


def test_known_noise_is_added_to_each_draw():
    sigma = np.array([0.1, 1.0, 10.0, 100.0])
    found = draw_readings(known_noise(sigma), np.random.default_rng(2), {"predicted": PREDICTED})
    assert kstest(((found - PREDICTED) / sigma).ravel(), "norm").pvalue > 1e-3
    assert kstest((found - PREDICTED).ravel(), "norm").pvalue < 1e-3  # negative control


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("num_scales", [1, 2])
def test_drawn_parameters_go_with_their_draws(num_scales, relative):
    groups = np.array([0, 1, 1, 0]) if num_scales == 2 else None
    noise = student_t_noise(
        unknown_scale(half_normal(1.0), groups), lognormal(1.0, 0.5), relative=relative
    )
    freedom = np.where(np.arange(300) < 150, 1.0, 50.0)
    sigma = SIGMA if num_scales == 2 else SIGMA[:, 0]
    draws = {"predicted": PREDICTED, "sigma": sigma, "degrees_of_freedom": freedom}
    found = draw_readings(noise, np.random.default_rng(3), draws)
    error = np.log(found / PREDICTED) if relative else found - PREDICTED
    error /= SIGMA[:, groups] if num_scales == 2 else SIGMA[:, :1]
    for part, nu in ((error[:150], 1.0), (error[150:], 50.0)):
        assert kstest(part.ravel(), "t", args=(nu,)).pvalue > 1e-3
        assert kstest(part.ravel(), "t", args=(51.0 - nu,)).pvalue < 1e-2  # negative control


def test_scales_by_group_may_come_as_one_for_each_reading():
    noise = laplace_noise(unknown_scale(half_normal(1.0), np.array([0, 1, 1, 0])))
    draws = {"predicted": PREDICTED, "sigma": SIGMA[:, [0, 1, 1, 0]]}
    by_reading = draw_readings(noise, np.random.default_rng(4), draws)
    by_group = draw_readings(noise, np.random.default_rng(4), draws | {"sigma": SIGMA})
    np.testing.assert_array_equal(by_reading, by_group)
    assert kstest(((by_group - PREDICTED) / draws["sigma"]).ravel(), "laplace").pvalue > 1e-3


OBSERVED = np.array([4.0, 5.5, 7.0, 5.0])
GROUPS = np.array([0, 1, 1, 0])


def t_of(freedom):
    return t(freedom[:, None])


@pytest.mark.parametrize("relative", [False, True])
def test_log_likelihood_is_that_of_scipy_reading_by_reading(relative):
    freedom = np.exp(np.random.default_rng(6).normal(1.0, 0.5, size=300))
    each_sigma = np.array([0.1, 1.0, 10.0, 100.0])
    cases = [
        (known_noise(each_sigma).scale, {}, each_sigma, norm, None),
        (unknown_scale(half_normal(1.0), GROUPS), {"sigma": SIGMA}, SIGMA[:, GROUPS], norm, None),
        (half_normal(1.0), {"sigma": SIGMA[:, 0]}, SIGMA[:, :1], laplace, None),
        (unknown_scale(half_normal(1.0), GROUPS), {"sigma": SIGMA}, SIGMA[:, GROUPS], t(3.0), 3.0),
        (
            unknown_scale(half_normal(1.0), GROUPS),
            {"sigma": SIGMA, "degrees_of_freedom": freedom},
            SIGMA[:, GROUPS],
            t_of(freedom),
            lognormal(1.0, 0.5),
        ),
    ]
    for scale, drawn, sigma, shape, degrees in cases:
        if degrees is not None:
            noise = student_t_noise(scale, degrees, relative=relative)
        else:
            make = laplace_noise if shape is laplace else invlift.gaussian_noise
            noise = make(scale, relative=relative)
        found = log_likelihood(noise, OBSERVED, {"predicted": PREDICTED} | drawn)
        error = np.log(OBSERVED / PREDICTED) if relative else OBSERVED - PREDICTED
        expected = shape.logpdf(error / sigma) - np.log(sigma)
        expected -= np.log(OBSERVED) if relative else 0.0
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_log_likelihood_of_a_potential_is_normalised():
    noise = potential_noise(0.5, lambda x: 0.5 * x**2 + 3.0)  # normal, up to the constant
    found = log_likelihood(noise, OBSERVED, {"predicted": PREDICTED})
    expected = norm(PREDICTED, 0.5).logpdf(OBSERVED)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_relative_noise_changes_no_sign():
    draws = {"predicted": np.where(np.arange(4) == 2, -PREDICTED, PREDICTED)}
    found = log_likelihood(invlift.gaussian_noise(0.1, relative=True), OBSERVED, draws)
    assert (found[:, 2] == -np.inf).all()
    assert np.isfinite(found[:, [0, 1, 3]]).all()


@pytest.fixture
def problem(tmp_path):
    return invlift.build_problem(invlift.read_problem(write_problem(tmp_path)))


def made_up_run(field, standards, **draws):
    """Two chains of independent draws, by whatever kernel."""
    rng = np.random.default_rng(5)
    size = field.problem.prior.num_white
    chains = [
        ChainResult(
            draws={
                "log_conductivity": rng.normal(size=(60, size)),
                "predicted": rng.normal(size=(60, 3)),
                "noise_score": rng.normal(size=(60, 3)),
            }
            | {name: make(rng) for name, make in draws.items()},
            stats={"acceptance_rate": np.full(60, 0.9), standards.failures: np.arange(60) % 2},
            moments={},
            warmup_stats={},
            step_size=0.5,
            warmup_seconds=1.0,
            sampling_seconds=1.0,
        )
        for _ in range(2)
    ]
    return Run(chains, 1.0, False, standards)


@pytest.mark.parametrize(
    ("standards", "words"),
    [(HMC.standards, "trajectories diverged"), (ConstrainedHMC.standards, "projections onto")],
)
def test_a_run_is_judged_by_the_standards_of_its_kernel(problem, standards, words):
    posterior = field_posterior(
        problem.mesh, problem.sensors, problem.problem, made_up_run(problem, standards)
    )
    assert posterior.standards is standards
    assert any(words in reason for reason in posterior.verdict().reasons)
    assert posterior.record()[standards.failures] == 60


def test_thresholds_of_the_problem_file_become_fields(tmp_path):
    path = write_problem(tmp_path, {"output.exceedance": [0.5, 2]})
    field = invlift.build_problem(invlift.read_problem(path))
    posterior = invlift.build_posterior(field, made_up_run(field, HMC.standards))
    fields = posterior.fields()
    assert {name for name in fields if "above" in name} == {
        "conductivity_above_0.5",
        "conductivity_above_2",
    }
    share = (np.concatenate(posterior.draws("log_conductivity")) > np.log(2.0)).mean(axis=0)
    np.testing.assert_allclose(fields["conductivity_above_2"], share)


def test_sigma_is_told_where_it_is_known_and_new_readings_have_the_noise(problem):
    run = made_up_run(problem, HMC.standards)
    parts = problem.mesh, problem.sensors
    posterior = field_posterior(*parts, problem.problem, run)
    assert posterior.sensors.sigma == 0.1
    groups = posterior.to_arviz()
    new = np.asarray(groups["posterior_predictive"]["observed"])
    errors = (new - np.stack(posterior.draws("predicted"))) / 0.1
    assert kstest(errors.ravel(), "norm").pvalue > 1e-3

    noise = student_t_noise(0.1, lognormal(1.0, 0.5))
    other = invlift.inverse_problem(
        problem.problem.model, problem.problem.prior, noise, problem.sensors.values
    )
    run = made_up_run(problem, HMC.standards, degrees_of_freedom=lambda rng: np.full(60, 0.6))
    posterior = field_posterior(*parts, other, run)
    assert posterior.sensors.sigma == 0.1
    new = np.asarray(posterior.to_arviz()["posterior_predictive"]["observed"])
    heavy = (new - np.stack(posterior.draws("predicted"))) / 0.1
    assert kstest(heavy.ravel(), "t", args=(0.6,)).pvalue > 1e-3
    assert kstest(heavy.ravel(), "norm").pvalue < 1e-3  # negative control
    logs = np.asarray(posterior.to_arviz()["log_likelihood"]["observed"])
    misfit = (problem.sensors.values - np.stack(posterior.draws("predicted"))) / 0.1
    np.testing.assert_allclose(logs, t(0.6).logpdf(misfit) - np.log(0.1), rtol=1e-9)

    other = invlift.inverse_problem(
        problem.problem.model,
        problem.problem.prior,
        gaussian_noise(lognormal(-2.0, 0.5)),
        problem.sensors.values,
    )
    run = made_up_run(problem, HMC.standards, sigma=lambda rng: np.full(60, 2.0))
    assert field_posterior(*parts, other, run).sensors.sigma is None
