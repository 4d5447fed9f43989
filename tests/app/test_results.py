"""From chains to a posterior: what kernel, problem file and noise bring with them."""

from dataclasses import replace

import numpy as np
import pytest
from problem_files import write_problem
from scipy.stats import kstest, t

import invlift
from invlift.chains import Chain
from invlift.noise import gaussian_noise, student_t_noise
from invlift.samplers.chains.results import Run
from invlift.samplers.kernels import HMC, ConstrainedHMC
from invlift.unknowns.distributions import lognormal


@pytest.fixture
def problem(tmp_path):
    return invlift.build_problem(invlift.read_problem(write_problem(tmp_path)))


def made_up_run(field, standards, **draws):
    """Two chains of independent draws, by whatever kernel."""
    rng = np.random.default_rng(5)
    size = field.prior.num_white
    chains = [
        Chain(
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


def test_a_run_is_judged_by_the_standards_of_its_kernel(problem):
    for standards, words in (
        (HMC.standards, "trajectories diverged"), (ConstrainedHMC.standards, "projections onto"),
    ):  # fmt: skip
        posterior = problem.posterior(made_up_run(problem, standards))
        assert posterior.standards is standards
        assert any(words in reason for reason in posterior.verdict().reasons)
        assert posterior.record()[standards.failures] == 60


def test_thresholds_of_the_problem_file_become_fields(tmp_path):
    spec = invlift.read_problem(write_problem(tmp_path, {"output.exceedance": [0.5, 2]}))
    field = invlift.build_problem(spec)
    posterior = field.posterior(
        made_up_run(field, HMC.standards), exceedance=spec.output.exceedance
    )
    fields = posterior.fields()
    names = {name for name in fields if "above" in name}
    assert names == {"conductivity_above_0.5", "conductivity_above_2"}
    share = (np.concatenate(posterior.draws("log_conductivity")) > np.log(2.0)).mean(axis=0)
    np.testing.assert_allclose(fields["conductivity_above_2"], share)


def test_materials_of_the_prior_become_fields_and_are_read_back(tmp_path):
    materials = {"resistive": 0.5, "conductive": 2.0}
    prior = {"kind": "inclusions", "background": 1.0, "inclusion": materials, "range": 1.0,
             "smoothness": 2.0, "share": 0.5}  # fmt: skip
    field = invlift.build_problem(invlift.read_problem(write_problem(tmp_path, {"prior": prior})))
    posterior = field.posterior(made_up_run(field, HMC.standards))
    fields = posterior.fields()
    names = [f"probability_{name}" for name in ("background", "conductive", "resistive")]
    assert [name for name in sorted(fields) if name.startswith("probability")] == names
    np.testing.assert_allclose(sum(fields[name] for name in names), 1.0, rtol=1e-12)
    posterior.write(tmp_path / "out")
    again = invlift.load(tmp_path / "out").fields()
    for name in names:
        np.testing.assert_allclose(again[name], fields[name], rtol=1e-12)


def test_sigma_is_told_where_it_is_known_and_new_readings_have_the_noise(problem):
    run = made_up_run(problem, HMC.standards, degrees_of_freedom=lambda rng: np.full(60, 0.6))

    def posterior_with(noise):
        parts = problem.model, problem.prior, noise, problem.sensors.values
        other = invlift.inverse_problem(*parts)
        return other.posterior(run)

    posterior = posterior_with(student_t_noise(0.1, lognormal(1.0, 0.5)))
    assert posterior.sensors.sigma == 0.1
    groups, predicted = posterior.to_arviz(), np.stack(posterior.draws("predicted"))
    errors = (np.asarray(groups["posterior_predictive"]["observed"]) - predicted) / 0.1
    assert kstest(errors.ravel(), "t", args=(0.6,)).pvalue > 1e-3
    assert kstest(errors.ravel(), "norm").pvalue < 1e-3  # negative control
    logs = np.asarray(groups["log_likelihood"]["observed"])
    misfit = (problem.sensors.values - predicted) / 0.1
    np.testing.assert_allclose(logs, t(0.6).logpdf(misfit) - np.log(0.1), rtol=1e-9)
    assert posterior_with(gaussian_noise(lognormal(-2.0, 0.5))).sensors.sigma is None


def test_a_run_belongs_to_the_problem_that_was_sampled():
    """A changed cell of a notebook: other readings, noise or prior, and the run of before."""

    def problem_of(readings=(1.0, 2.0), noise=0.1, log_sd=1.0):
        unknowns = {"rate": lognormal(0.0, log_sd)}
        parts = lambda rate: rate * np.ones(2), unknowns, noise, np.array(readings)
        return invlift.inverse_problem(*parts)

    run = invlift.sample(problem_of(), method="pcn", chains=1, warmup=10, draws=20)
    assert problem_of().posterior(run).num_draws == 20
    assert repr(run) == "<Run: 1 chain of 20 draws>"
    for others in ({"readings": (1.0, 3.0)}, {"noise": 0.2}, {"log_sd": 2.0}):
        with pytest.raises(invlift.InputError, match="a run of this problem"):
            problem_of(**others).posterior(run)
    stopped = replace(run, num_draws_requested=1000)
    verdict = problem_of().posterior(stopped).verdict()
    assert "the run stopped after 20 of 1000 draws per chain" in str(verdict)
    assert "stopped" not in str(problem_of().posterior(run).verdict())
