"""Leave-one-out predictions by runs without each reading, against exact ones."""

import json

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from command_line import assert_one_line, call
from problem_files import write_problem
from scipy.stats import norm

import invlift
from invlift.app.studies.refit import least_reliable, refit
from invlift.problems.inverse_problem import jax_problem

SIGMA = 0.02
MATRIX = np.random.default_rng(5).standard_normal((6, 5))
OBSERVED = MATRIX @ np.full(5, 0.5) + SIGMA * np.array([1.0, -1.0, 0.5, -0.5, 2.0, -2.0])


@pytest.fixture(scope="module")
def problem():
    noise = invlift.known_noise(SIGMA)
    return jax_problem(lambda theta: jnp.asarray(MATRIX) @ theta, 5, noise, OBSERVED)


def exact(row):
    """Mean and standard deviation of a new reading given all others."""
    kept = np.delete(np.arange(len(OBSERVED)), row)
    cov = MATRIX @ MATRIX.T + SIGMA**2 * np.eye(len(OBSERVED))
    gain = np.linalg.solve(cov[np.ix_(kept, kept)], cov[kept, row])
    return gain @ OBSERVED[kept], np.sqrt(cov[row, row] - gain @ cov[kept, row])


@pytest.mark.slow  # two programs
def test_a_linear_model(problem):
    """Exact within Monte Carlo error; weights, whose k is above 0.7, are far off (the control)."""
    options = {"chains": 2, "warmup": 100, "draws": 1000, "seed": 3}
    loo = problem.posterior(invlift.sample(problem, **options)).fit.leave_one_out()
    rows = least_reliable(loo, 2)
    assert loo.pareto_k[rows].min() > 0.7
    far = 0
    for each in refit(problem, loo, rows, **options):
        mean, sd = exact(each.row)
        wanted = norm.logpdf(OBSERVED[each.row], mean, sd)
        assert each.is_converged
        assert abs(each.elpd - wanted) < 4.0 * each.elpd_error
        assert each.elpd_error < 0.2
        assert each.mean == pytest.approx(mean, abs=0.2 * sd)
        assert each.sd == pytest.approx(np.sqrt(sd**2 - SIGMA**2), rel=0.2)
        assert each.pit == pytest.approx(norm.cdf(OBSERVED[each.row], mean, sd), abs=0.05)
        far += abs(each.weighted - wanted) > 8.0 * each.elpd_error
    assert far


def test_a_numpyro_model_is_refused():
    """The density of a reading is in its site, and would stay without the reading."""

    def model():
        scale = numpyro.sample("scale", dist.Gamma(2.0, 2.0))
        numpyro.sample("level", dist.Normal(0.0, scale), obs=jnp.array([0.1, 0.4]))

    with pytest.raises(invlift.InputError, match="noise of their own"):
        next(refit(invlift.from_numpyro(model), None, [0], chains=1, warmup=0, draws=1))


def test_a_reading_left_out_says_nothing():
    """Its density is 0, and so is the derivative; the other readings keep theirs."""
    predicted, observed = jnp.arange(4.0), jnp.arange(4.0) + 0.01
    for noise in (invlift.known_noise(SIGMA), invlift.student_t_noise(SIGMA, 4.0)):
        parts = predicted, jnp.zeros(noise.num_parameters), observed
        found, whole = (e.loglikelihoods(*parts) for e in (noise.without_reading(2, 4), noise))
        np.testing.assert_array_equal(found, np.where(np.arange(4) == 2, 0.0, whole))


@pytest.mark.slow
def test_the_command(tmp_path, capsys, monkeypatch):
    changes = {"sampler.draws": 50, "sampler.method": "pcn"}
    changes |= {"noise.kind": "student-t", "noise.degrees_of_freedom": 5.0}
    path = write_problem(tmp_path, changes)
    monkeypatch.chdir(tmp_path)
    call("run", path)
    capsys.readouterr()
    call("loo", "out", "--refit", "2")
    out = capsys.readouterr().out
    assert "loo_elpd by refit" in out
    table = pd.read_csv(tmp_path / "out" / "loo_refit.csv")
    assert len(table) == 2
    assert len(set(table["row"])) == 2
    assert np.isfinite(table["elpd"]).all()
    assert json.loads((tmp_path / "out" / "run.json").read_text())  # which stays
    assert call("loo", "out", "--refit", "0") == 2
    assert_one_line(capsys, ["--refit"])
    assert call("loo", "out") == 2
    assert_one_line(capsys, ["two or more folders"])
