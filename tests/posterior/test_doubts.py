"""Doubts about the model: chains that agree say nothing of data that are not explained."""

from dataclasses import replace

import numpy as np
import pytest
from normal_noise import NormalNoise
from posterior_cases import Chain, normal_posterior, with_scores
from scipy.stats import lognorm

from invlift.posterior import Posterior, Quantity, Readings

RNG = np.random.default_rng(5)
TRUE = np.array([8.2, 12.4, 11.8, 8.9, 10.1, 10.2])


def with_unknown_scale(observed, predicted, sigma):
    """Four chains of a run whose noise scale has a lognormal prior around 0.1."""
    values = np.exp(np.linspace(np.log(0.1 / 30.0), np.log(0.1 * 30.0), 400))
    density = np.stack([values, lognorm.pdf(values, 0.55, scale=0.1)])
    chains = [
        Chain(
            {
                "predicted": predicted + 0.01 * RNG.normal(size=(400, len(predicted))),
                "sigma": sigma * np.exp(0.1 * RNG.normal(size=400)),
            }
        )
        for _ in range(4)
    ]
    return Posterior(
        [with_scores(each, observed) for each in chains],
        [Quantity("sigma", prior_density=density)],
        sensors=Readings(observed),
        noise=NormalNoise(observed),
    )


def test_an_unknown_scale_that_takes_up_everything_is_a_doubt_in_the_headline():
    observed = np.where(np.arange(6) == 2, -9999.0, TRUE)
    verdict = with_unknown_scale(observed, TRUE, 4000.0).verdict()
    assert verdict.is_converged
    assert not verdict.is_good
    assert verdict.headline.startswith("Converged")
    assert verdict.headline.endswith("but the model is in doubt.")
    (doubt,) = verdict.doubts
    assert "fits the data no better than a constant" in doubt
    assert ", readings of sd 3.7" in doubt
    assert "the posterior median of sigma" in verdict.warnings[0]
    assert doubt in str(verdict)


def test_a_scale_that_its_prior_has_is_none():
    """Negative control, of readings that are explained and of ones that hardly differ."""
    for observed in (TRUE + 0.1 * RNG.normal(size=6), 10.0 + 0.1 * RNG.normal(size=6)):
        predicted = TRUE if np.ptp(observed) > 1.0 else np.full(6, 10.0)
        verdict = with_unknown_scale(observed, predicted, 0.1).verdict()
        assert verdict.is_good, str(verdict)
        assert verdict.headline.startswith("Converged")


@pytest.mark.parametrize(("miss", "is_doubt"), [(4.0, False), (60.0, True)])
def test_a_misfit_that_no_noise_explains_is_a_doubt(miss, is_doubt):
    predicted = [TRUE + RNG.normal(size=(400, 6)) for _ in range(4)]
    observed = TRUE + miss * (np.arange(6) == 2)
    verdict = normal_posterior(predicted, observed, 1.0).verdict()
    assert bool(verdict.doubts) == is_doubt
    assert verdict.is_converged
    assert verdict.is_good == (not is_doubt)
    assert ("model is in doubt" in verdict.headline) == is_doubt


def test_what_was_found_of_the_problem_is_a_doubt():
    predicted = [TRUE + RNG.normal(size=(400, 6)) for _ in range(4)]
    posterior = normal_posterior(predicted, TRUE, 1.0)
    found = replace(posterior, objections=["prior: 41 % wrong"]).verdict()
    assert "prior: 41 % wrong" in found.doubts[0]
    pair = ("the mesh is too coarse", "refine it")
    found = replace(posterior, doubts=[pair]).verdict()
    assert (found.doubts, found.advice) == (pair[:1], pair[1:])
    assert posterior.verdict().is_good


def test_words_are_in_proportion_to_what_is_missing():
    """Chains that agree, and are a little short, want more draws and no doubt."""
    chains = [Chain({"a": RNG.normal(size=90)}) for _ in range(4)]
    verdict = Posterior(chains).verdict()
    assert not verdict.is_converged
    assert verdict.headline.startswith("Nearly converged: 4 chains of 90 draws agree")
    apart = [Chain({"a": RNG.normal(size=90) + 3.0 * k}) for k in range(4)]
    assert Posterior(apart).verdict().headline.startswith("Not converged")


def test_few_draws_are_one_reason():
    """What follows from it is not listed; of two chains that never moved it's said still."""
    verdict = Posterior([Chain({"a": RNG.normal(size=20), "b": RNG.normal(size=20)})]).verdict()
    few, alone = verdict.reasons
    assert few.startswith("20 draws per chain are too few")
    assert alone.startswith("one chain alone")
    assert not any("R-hat" in each for each in verdict.advice)
    stuck = Posterior([Chain({"a": np.zeros(20)}) for _ in range(2)]).verdict()
    assert any("never moved" in each for each in stuck.reasons)


@pytest.mark.parametrize(("scale", "is_told"), [(0.1, False), (0.25, False), (0.4, True)])
def test_a_median_far_from_its_prior_is_a_note(scale, is_told):
    """From two standard deviations of it on: here of ln sigma, 0.55, around 0.1."""
    verdict = with_unknown_scale(TRUE, TRUE, scale).verdict()
    assert verdict.is_good
    assert any("of sigma, 0.4, is above 99.4 % of" in each for each in verdict.warnings) == is_told


def test_leave_one_out_is_left_out_where_nearly_all_draws_are_equal():
    stuck = [np.tile(TRUE, (100, 1)) for _ in range(2)]
    stuck[0][0] += 50.0
    assert normal_posterior(stuck, TRUE, 0.1).fit.has_leave_one_out is False
    moving = [TRUE + 0.1 * RNG.normal(size=(100, 6)) for _ in range(2)]
    assert normal_posterior(moving, TRUE, 1.0).fit.has_leave_one_out
