"""From chains to a posterior: what kernel, problem file and noise bring with them."""

from dataclasses import replace

import numpy as np
import pytest
from problem_files import write_problem

import invlift
from invlift.chains import Chain
from invlift.noise import gaussian_noise, student_t_noise
from invlift.samplers.chains.results import Run
from invlift.samplers.kernels import HMC, ConstrainedHMC
from invlift.unknowns.distributions import lognormal


@pytest.fixture
def problem(tmp_path):
    return invlift.build_problem(invlift.read_problem(write_problem(tmp_path)))


def made_up_run(field, standards):
    """Two chains of independent draws, by whatever kernel."""
    rng = np.random.default_rng(5)
    sizes = {"log_conductivity": field.prior.num_white, "predicted": 3, "noise_score": 3}
    stats = {"acceptance_rate": np.full(60, 0.9), standards.failures: np.arange(60) % 2}
    draws = [{name: rng.normal(size=(60, size)) for name, size in sizes.items()} for _ in range(2)]
    seconds = {"warmup_seconds": 1.0, "sampling_seconds": 1.0}
    chains = [Chain(each, stats, {}, {}, step_size=0.5, **seconds) for each in draws]
    return Run(chains, 1.0, False, standards)


def test_a_run_is_judged_by_the_standards_of_its_kernel(problem):
    for standards, words in (
        (HMC.standards, "trajectories diverged"), (ConstrainedHMC.standards, "projections onto"),
    ):  # fmt: skip
        posterior = problem.posterior(made_up_run(problem, standards))
        assert posterior.standards is standards
        assert any(words in reason for reason in posterior.verdict().reasons)
        assert posterior.record()[standards.failures] == 60


def test_sigma_is_told_where_it_is_known(problem):
    run = made_up_run(problem, HMC.standards)
    for noise, sigma in (
        (student_t_noise(0.1, lognormal(1.0, 0.5)), 0.1),
        (gaussian_noise(lognormal(-2.0, 0.5)), None),
    ):
        parts = problem.model, problem.prior, noise, problem.sensors.values
        assert invlift.inverse_problem(*parts).posterior(run).sensors.sigma == sigma


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
