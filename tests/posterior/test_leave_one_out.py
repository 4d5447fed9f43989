"""Leave-one-out predictions, against those of a linear model with normal noise in closed form."""

import warnings

import numpy as np
import pytest
from posterior_cases import LinearModel, make_posterior, normal_posterior
from scipy.special import logsumexp
from scipy.stats import norm

from invlift.errors import InputError
from invlift.posterior import Posterior, Readings
from invlift.posterior.statistics.leave_one_out import MIN_DRAWS, leave_one_out
from invlift.posterior.statistics.sensor_fit import misfit_p_value

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz


#: ArviZ 1.x calls some things otherwise than 0.x.
IS_NEW = hasattr(arviz, "convert_to_datatree")
NAMES = {"elpd": "elpd", "p": "p"} if IS_NEW else {"elpd": "elpd_loo", "p": "p_loo"}

#: ArviZ 0.x takes the variance over d readings with divisor d.
DIVISOR = 1.0 if IS_NEW else np.sqrt(8 / 7)


@pytest.fixture(scope="module")
def runs():
    """A model with much noise, and the leave-one-out predictions of independent runs of it."""
    model, rng = LinearModel(sigma=1.5), np.random.default_rng(1)
    return model, [model.posterior(rng) for _ in range(24)]


def distance(found, expected):
    """Of the mean of (runs, d) estimates from what is expected, in its standard errors."""
    return (np.mean(found, axis=0) - expected) / (np.std(found, axis=0, ddof=1) / len(found) ** 0.5)


def test_each_reading_is_predicted_as_in_closed_form(runs):
    model, posteriors = runs
    found = [posterior.fit.leave_one_out() for posterior in posteriors]
    exact = model.left_out()
    assert all(loo.is_reliable.all() for loo in found)
    elpd = np.array([loo.elpd for loo in found])
    pit = np.array([loo.pit for loo in found])
    assert np.abs(distance(elpd, exact.logpdf(model.observed))).max() < 4.5
    assert np.abs(distance(pit, exact.cdf(model.observed))).max() < 4.5
    # negative control: with the reading itself among the data both are others
    logs = [np.concatenate(posterior.fit.log_likelihood) for posterior in posteriors]
    in_sample = np.array([logsumexp(each, axis=0) - np.log(len(each)) for each in logs])
    assert (distance(in_sample, exact.logpdf(model.observed)) > 10.0).all()
    p_values = np.array([each.fit.sensors().predictive_p_value for each in posteriors])
    assert np.abs(distance(p_values, exact.cdf(model.observed))).max() > 10.0


def test_totals_are_those_of_arviz(runs):
    _, posteriors = runs
    expected = arviz.loo(posteriors[0].to_arviz(), pointwise=True, reff=1.0)
    found = posteriors[0].fit.leave_one_out()
    (elpd, error), (num_effective, _) = found.totals().values()
    # the tails may be of other lengths, as efficiencies are estimated
    assert elpd == pytest.approx(getattr(expected, NAMES["elpd"]), abs=0.01)
    assert error == pytest.approx(expected.se * DIVISOR, rel=0.01)
    assert num_effective == pytest.approx(getattr(expected, NAMES["p"]), abs=0.01)
    np.testing.assert_allclose(found.pareto_k, expected.pareto_k, atol=0.1)


def test_estimates_at_accurate_readings_are_not_reliable_which_is_no_alarm_for_the_run(runs):
    _, posteriors = runs
    assert posteriors[0].fit.leave_one_out().is_reliable.all()
    model = LinearModel(sigma=1e-3, num_unknowns=20)
    posterior = model.posterior(np.random.default_rng(2))
    verdict, found = posterior.verdict(), posterior.fit.leave_one_out()
    assert verdict.is_converged
    assert verdict.warnings == verdict.advice == ()
    assert not found.is_reliable.any()
    # and rightly so
    assert (found.elpd > model.left_out().logpdf(model.observed) + 4.0).all()


def test_noise_that_is_not_known_has_no_likelihood(runs):
    model, posteriors = runs
    sensors = Readings(model.observed, sigma=model.sigma)
    posterior = Posterior(posteriors[0].chains, sensors=sensors)
    with pytest.raises(InputError, match="known density"):
        posterior.fit.leave_one_out()
    assert posterior.fit.log_likelihood is None


def test_where_nothing_can_be_said():
    rng = np.random.default_rng(3)
    logs = rng.normal(size=(4, 100, 4))
    logs[0, 7, 1] = -np.inf
    logs[2, 9, 2] = np.nan
    logs[..., 3] = -1.5
    found = leave_one_out(list(logs), list(rng.normal(size=(4, 100, 4))))
    for values in (found.elpd, found.num_effective, found.pareto_k, found.pit):
        assert np.isnan(values[1:3]).all()
    assert found.is_reliable.tolist() == [True, False, False, True]
    assert found.elpd[3] == pytest.approx(-1.5)
    # a chain that stays where the weights are largest
    logs[1, :, 0] = -20.0
    assert leave_one_out(list(logs[..., [0, 3]])).pareto_k[0] == np.inf
    assert leave_one_out(list(logs[..., :1])) is None
    assert leave_one_out([np.zeros((MIN_DRAWS - 1, 2))]) is None


def test_sensors_and_files_have_them(tmp_path):
    posterior = make_posterior()
    posterior.write(tmp_path)
    data = arviz.from_netcdf(tmp_path / "posterior.nc")
    logs = data["log_likelihood"]["observed"]
    assert logs.dims == ("chain", "draw", "sensor")
    np.testing.assert_array_equal(logs, np.stack(posterior.fit.log_likelihood))
    sigma = np.stack(posterior.draws("sigma"))[..., None]
    expected = norm(np.stack(posterior.draws("predicted")), sigma).logpdf(posterior.sensors.values)
    np.testing.assert_allclose(logs, expected, rtol=1e-12)


def test_misfit_of_all_readings_together():
    rng = np.random.default_rng(4)
    scores = [rng.normal(size=(2000, 50)) for _ in range(2)]
    assert misfit_p_value(scores) == pytest.approx(0.5, abs=0.02)
    assert misfit_p_value([1.6 * each for each in scores]) < 1e-3
    assert misfit_p_value([0.5 * each for each in scores]) > 0.999
    # by simulation: how often new readings are further away than those that were read
    new = rng.normal(size=(200_000, 50))
    once = 1.15 * scores[0][:1]
    expected = np.mean(np.sum(new**2, axis=1) >= np.sum(once**2))
    assert misfit_p_value([once]) == pytest.approx(expected, abs=0.005)


def test_a_misfit_of_no_reading_alone_is_noted():
    rng = np.random.default_rng(5)
    predicted = [0.1 * rng.normal(size=(400, 40)) for _ in range(4)]
    for size, is_noted in ((1.0, False), (2.0, True)):
        observed = size * np.where(np.arange(40) % 2, 1.0, -1.0)
        posterior = normal_posterior(predicted, observed, 1.0)
        verdict = posterior.verdict()
        noted = [each for each in verdict.doubts + verdict.warnings if "no reading" in each]
        assert len(noted) == is_noted
        assert (posterior.record()["misfit_p_value"] < 0.01) == is_noted
