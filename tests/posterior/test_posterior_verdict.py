"""The verdict: good chains pass, each kind of bad ones is named."""

from dataclasses import replace

import numpy as np
import pytest
from posterior_cases import Chain, make_chains, make_posterior

from invlift.posterior import Posterior, Readings
from invlift.posterior.verdict import longest_run


def change_field(chains, index, change):
    """Apply `change` to the field draws of one chain."""
    chain = chains[index]
    field = change(chain.draws["log_conductivity"].copy())
    chains[index] = replace(chain, draws=chain.draws | {"log_conductivity": field})
    return chains


def change_stat(chains, name, values):
    return [replace(chain, stats=chain.stats | {name: values}) for chain in chains]


def judged(chains, **changes):
    return make_posterior(chains=chains, **changes).verdict()


@pytest.fixture
def chains():
    return make_chains(25, 25)


def test_good_chains_converge(chains):
    verdict = judged(chains)
    assert verdict.is_converged, str(verdict)
    assert verdict.reasons == verdict.warnings == verdict.advice == ()
    assert verdict.headline == "Converged, as far as can be told from 4 chains of 400 draws."


def test_readings_that_the_model_cannot_reproduce_are_named():
    rng = np.random.default_rng(8)
    draws = [{"predicted": rng.normal(size=(400, 3))} for _ in range(4)]
    for far, count in ((2.0, 0), (50.0, 1)):
        readings = Readings(np.array([0.0, far, 0.0]), sigma=np.ones(3))
        verdict = Posterior([Chain(each) for each in draws], sensors=readings).verdict()
        found = [warning for warning in verdict.warnings if "1 of 3 readings" in warning]
        assert len(found) == count
        assert all("sensor 1 by 35" in warning for warning in found), found
        assert verdict.is_converged


def test_chain_with_another_mean_is_flagged(chains):
    verdict = judged(change_field(chains, 1, lambda field: field + 0.3))
    assert not verdict.is_converged
    assert any("R-hat of log_conductivity_field_mean" in reason for reason in verdict.reasons)
    assert any("of the nodes" in reason for reason in verdict.reasons)
    assert verdict.advice


def test_few_nodes_far_apart_are_flagged_though_the_mean_looks_right():
    def split(field):
        # opposite shifts leave the field mean alone; 2 of 400 nodes are below the share
        field[:, 7] += 2.0
        field[:, 8] -= 2.0
        return field

    large = make_chains(400, 25)
    points = np.random.default_rng(0).normal(size=(400, 2))
    verdict = judged(change_field(large, 0, split), points=points, prior_sd=None)
    assert not verdict.is_converged
    assert any("2 of 400 of the nodes" in reason for reason in verdict.reasons), str(verdict)
    assert judged(make_chains(400, 25), points=points, prior_sd=None).is_converged


def test_stuck_chain_is_flagged(chains):
    verdict = judged(change_field(chains, 2, lambda field: np.tile(field[:1], (len(field), 1))))
    assert "chain 2 never moved" in verdict.reasons
    assert not verdict.is_converged


def test_chain_stuck_for_a_while_is_flagged(chains):
    def pause(field):
        field[100:220] = field[100]
        return field

    verdict = judged(change_field(chains, 3, pause))
    assert any("chain 3 stayed in one place for 120 of 400" in r for r in verdict.reasons)


def test_all_chains_constant_are_not_converged(chains):
    for index in range(4):
        change_field(chains, index, np.zeros_like)
    verdict = judged(chains)
    assert not verdict.is_converged
    assert any("25 of 25 nodes have no R-hat" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_draws_that_are_not_finite_are_flagged(chains, value):
    def spoil(field):
        field[5, 3] = value
        return field

    verdict = judged(change_field(chains, 0, spoil))
    assert "chain 0 holds draws that are not finite" in verdict.reasons
    assert any("1 of 25 nodes have no R-hat" in r and "first: 3" in r for r in verdict.reasons)


def test_slow_chains_need_more_draws(chains):
    def slow(field):
        for t in range(1, len(field)):
            field[t] = 0.9 * field[t - 1] + np.sqrt(1 - 0.81) * field[t]
        return field

    for index in range(4):
        change_field(chains, index, slow)
    verdict = judged(chains)
    assert any("bulk effective sample size is below 400" in reason for reason in verdict.reasons)
    assert any("draws" in advice for advice in verdict.advice)


def test_only_sigma_bad_is_enough(chains):
    chains[0] = replace(chains[0], draws=chains[0].draws | {"sigma": np.linspace(0, 1, 400)})
    verdict = judged(chains)
    assert any("R-hat of sigma" in reason for reason in verdict.reasons)
    assert not verdict.is_converged


def test_one_chain_is_not_enough(chains):
    verdict = judged(chains[:1])
    assert not verdict.is_converged
    assert any("one chain" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("num_draws", [1, 2, 3, 5, 49])
def test_few_draws_do_not_crash_and_are_not_enough(num_draws):
    verdict = judged(make_chains(25, 25, num_draws=num_draws))
    assert not verdict.is_converged
    assert any("too few" in reason for reason in verdict.reasons)


def test_interrupted_run_is_noted_but_judged_by_its_draws(chains):
    verdict = judged(chains, num_draws_requested=1000)
    assert verdict.is_converged
    assert verdict.warnings == ("the run stopped after 400 of 1000 draws per chain",)
    assert any("--resume" in advice for advice in verdict.advice)


@pytest.mark.parametrize(
    ("share", "is_converged", "num_warnings"), [(0.02, True, 0), (0.1, True, 1), (0.5, False, 0)]
)
def test_failed_projections(chains, share, is_converged, num_warnings):
    failures = (np.arange(400) < 400 * share).astype(int)
    verdict = judged(change_stat(chains, "num_projection_failures", failures))
    assert verdict.is_converged is is_converged
    assert len(verdict.warnings) == num_warnings


def test_short_steps_are_noted(chains):
    for size, is_noted in ((0.01, True), (0.4, False)):
        verdict = judged(change_stat(chains, "step_size", np.full(400, size)))
        assert verdict.is_converged
        assert any("in steps of 0.01" in warning for warning in verdict.warnings) == is_noted


def test_low_acceptance_is_noted(chains):
    verdict = judged(change_stat(chains, "acceptance_rate", np.full(400, 0.2)))
    assert verdict.is_converged
    assert any("accepted 20 %" in warning for warning in verdict.warnings)


def test_users_own_model_is_judged_by_its_parameters():
    rng = np.random.default_rng(5)
    good = [Chain({"parameters": rng.normal(size=(400, 2))}) for _ in range(4)]
    assert Posterior(good).verdict().is_converged
    bad = [*good[:3], Chain({"parameters": good[3].draws["parameters"] + [0.0, 1.0]})]
    verdict = Posterior(bad, names=("rate", "offset")).verdict()
    assert not verdict.is_converged
    assert all("rate" not in reason for reason in verdict.reasons)
    assert any("R-hat of offset" in reason for reason in verdict.reasons)


def test_verdict_reads_as_text(chains):
    text = str(judged(chains[:1]))
    assert text.startswith("Not converged: ")
    assert "\n  - one chain" in text
    assert "\n  -> " in text


def test_longest_run():
    assert longest_run([]) == 0
    assert longest_run([1]) == 1
    assert longest_run([1, 2, 2, 2, 1, 1]) == 3
    assert longest_run([5, 5, 5]) == 3
