"""The verdict: good chains pass, each kind of bad ones is named."""

from dataclasses import replace
from html import escape

import numpy as np
import pytest
from posterior_cases import (
    Chain,
    Mesh,
    field_quantities,
    make_chains,
    make_posterior,
    normal_posterior,
)
from scipy.stats import norm
from scipy.stats import t as student_t

from invlift.posterior import Posterior, Readings
from invlift.posterior.verdict import Verdict, longest_run
from invlift.samplers.kernels import HMC, NUTS, ConstrainedHMC, EllipticalSlice
from invlift.standards import Standards


def change_field(chains, index, change):
    """Apply `change` to the field draws of one chain."""
    chain = chains[index]
    field = change(chain.draws["log_conductivity"].copy())
    chains[index] = replace(chain, draws=chain.draws | {"log_conductivity": field})
    return chains


def change_stat(chains, name, values):
    return [replace(chain, stats=chain.stats | {name: values}) for chain in chains]


def without_stats(chains, *names):
    return [
        replace(chain, stats={key: x for key, x in chain.stats.items() if key not in names})
        for chain in chains
    ]


CHMC = ConstrainedHMC.standards


def judged(chains, **changes):
    return make_posterior(chains=chains, **({"standards": CHMC} | changes)).verdict()


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
    predicted = [rng.normal(size=(400, 3)) for _ in range(4)]
    for far, count in ((2.0, 0), (50.0, 1)):
        posterior = normal_posterior(predicted, np.array([0.0, far, 0.0]), 1.0)
        verdict = posterior.verdict()
        found = [each for each in verdict.doubts + verdict.warnings if "1 of 3 readings" in each]
        assert len(found) == count
        # the nearest of 1600 predictions is 3.1 standard deviations out
        assert all("reading 1 by 46.9" in warning for warning in found), found
        assert verdict.is_converged
    sensors = replace(posterior.sensors, labels=["north", "east", "south"])
    assert "reading east by 46.9" in str(replace(posterior, sensors=sensors).verdict())


def test_a_heavy_tail_does_not_excuse_everything():
    observed = np.array([0.3, 1e6, -0.4])
    predicted = [0.1 * np.random.default_rng(i).normal(size=(400, 3)) for i in range(4)]
    scores = [norm.ppf(student_t.cdf(observed - each, 2)) for each in predicted]
    chains = [
        Chain({"predicted": each, "noise_score": score})
        for each, score in zip(predicted, scores, strict=True)
    ]
    verdict = Posterior(chains, sensors=Readings(observed)).verdict()
    assert any("reading 1 by" in each for each in verdict.doubts + verdict.warnings)


def test_chain_with_another_mean_is_flagged(chains):
    verdict = judged(change_field(chains, 1, lambda field: field + 0.3))
    assert not verdict.is_converged
    assert any("R-hat of log_conductivity_field_mean" in reason for reason in verdict.reasons)
    assert any("of 25 nodes" in reason for reason in verdict.reasons)
    assert verdict.advice


def test_few_nodes_far_apart_are_flagged_though_the_mean_looks_right():
    def split(field):
        # opposite shifts leave the field mean alone; 2 of 400 nodes are below the share
        field[:, 7] += 2.0
        field[:, 8] -= 2.0
        return field

    large = make_chains(400, 25)
    points = np.random.default_rng(0).normal(size=(400, 2))
    mesh = Mesh(points, np.zeros((1, 3), int))
    verdict = judged(change_field(large, 0, split), mesh=mesh, quantities=field_quantities()[:1])
    assert not verdict.is_converged
    assert any("2 of 400 nodes" in reason for reason in verdict.reasons), str(verdict)
    sound = judged(make_chains(400, 25), mesh=mesh, quantities=field_quantities()[:1])
    assert sound.is_converged


def test_draws_that_are_not_finite_are_flagged(chains):
    def spoil(field):
        field[5, 3] = np.inf
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


def test_many_bad_entries_of_a_vector_are_told_by_the_worst(chains):
    rng = np.random.default_rng(0)
    shifts = np.array([0.0, 0.5, 3.0, 0.5])
    for index, shift in ((0, shifts), (1, 0.0), (2, 0.0), (3, 0.0)):
        draws = {"weights": shift + rng.normal(size=(400, 4)), "nu": rng.normal(size=400)}
        chains[index] = replace(chains[index], draws=chains[index].draws | draws)
    reasons = [reason for reason in judged(chains).reasons if "R-hat" in reason]
    assert len(reasons) == 1
    assert reasons[0].startswith("R-hat of weights[2] is")
    assert reasons[0].endswith("(and 2 more of weights)")


@pytest.mark.parametrize("num_draws", [1, 3, 49])
def test_few_draws_do_not_crash_and_are_not_enough(num_draws):
    verdict = judged(make_chains(25, 25, num_draws=num_draws))
    assert not verdict.is_converged
    assert any("too few" in reason for reason in verdict.reasons)


def test_interrupted_run_is_noted_but_judged_by_its_draws(chains):
    verdict = judged(chains, num_draws_requested=1000)
    assert verdict.is_converged
    assert verdict.warnings == ("the run stopped after 400 of 1000 draws per chain",)
    assert any("--resume" in advice for advice in verdict.advice)


def test_chains_that_are_left_out_are_noted(chains):
    num = len(chains)
    (warning,) = judged(chains, num_chains_requested=num + 2).warnings
    assert warning.startswith(f"{num} of {num + 2} chains are judged")
    assert not judged(chains, num_chains_requested=num).warnings


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
        assert any("the step size is 0.01" in warning for warning in verdict.warnings) == is_noted


@pytest.mark.parametrize(
    ("standards", "num_warnings"),
    [
        (Standards(), 0),
        (Standards(min_acceptance=0.15), 0),
        (Standards(min_acceptance=0.5), 4),
    ],
)
def test_random_walk_is_not_scolded_for_its_acceptance(chains, standards, num_warnings):
    chains = without_stats(chains, "num_projection_failures")
    chains = change_stat(chains, "acceptance_rate", np.full(400, 0.23))
    chains = change_stat(chains, "step_size", np.full(400, 0.01))
    verdict = judged(chains, standards=standards)
    assert verdict.is_converged
    assert len(verdict.warnings) == num_warnings, str(verdict)
    assert "projection" not in str(verdict)


def test_kernel_without_a_step_size_is_judged_by_its_draws(chains):
    chains = without_stats(chains, "num_projection_failures", "num_steps")
    chains = change_stat(chains, "acceptance_rate", np.full(400, 0.1))
    verdict = judged(chains, standards=EllipticalSlice.standards)
    assert verdict.is_converged
    assert verdict.warnings == verdict.advice == ()
    stuck = change_field(chains, 0, lambda field: np.tile(field[:1], (len(field), 1)))
    verdict = judged(stuck, standards=EllipticalSlice.standards)
    assert not verdict.is_converged
    assert "step" not in str(verdict)
    assert "projection" not in str(verdict)


@pytest.mark.parametrize(
    ("share", "is_converged", "num_warnings"), [(0.02, True, 0), (0.1, True, 1), (0.5, False, 0)]
)
def test_divergences_are_told_in_their_own_words(chains, share, is_converged, num_warnings):
    assert HMC.standards == NUTS.standards
    chains = without_stats(chains, "num_projection_failures")
    counts = (np.arange(400) < 400 * share).astype(int)
    chains = change_stat(chains, "num_divergences", counts)
    verdict = judged(change_stat(chains, "step_size", np.full(400, 0.01)), standards=HMC.standards)
    assert verdict.is_converged is is_converged
    assert len(verdict.warnings) == num_warnings
    assert "projection" not in str(verdict)
    if share > 0.05:
        text = f"trajectories diverged in {100 * share:.0f} % of the draws"
        assert any(text in each for each in verdict.reasons + verdict.warnings)
        assert verdict.advice == (HMC.standards.advice,)
    # negative control: by the standards of constrained HMC they would not be seen
    other = judged(chains, standards=ConstrainedHMC.standards)
    assert other.is_converged
    assert not other.warnings


def test_advice_is_for_those_without_a_problem_file_as_well(chains):
    bad = change_field(chains[:1], 0, np.zeros_like)
    bad = change_stat(bad, "acceptance_rate", np.full(400, 0.1))
    bad = change_stat(bad, "step_size", np.full(400, 0.01))
    far = Readings(np.full(6, 100.0))
    verdict = judged(bad, num_draws_requested=1000, sensors=far)
    assert len(verdict.advice) >= 5
    assert not any("[sampler]" in each for each in verdict.advice)
    assert any("--resume" in each and "resume=True" in each for each in verdict.advice)


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


def test_notebooks_show_what_print_does():
    verdict = Verdict(False, "Not converged.", ("R-hat > 1.01",), ("k & more",), ("draw <more>",))
    assert verdict._repr_html_() == f"<pre>{escape(str(verdict))}</pre>"
