"""One chain: moments, blocks, early stops."""

import copy

import jax
import numpy as np
import pytest
from sampler_cases import SPHERE, run_chain

from invlift.errors import InputError
from invlift.moments import Moments
from invlift.samplers.chains import chain as chains
from invlift.samplers.chains import programs
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.state import start_chain
from invlift.samplers.kernels import ConstrainedHMC

START = np.array([1.0, 0.0, 0.0])
PLAN = Plan(ConstrainedHMC(), 25, 43)


def test_merged_moments_equal_moments_of_all_values():
    values = 1e3 + np.random.default_rng(0).normal(size=(37, 2, 3))
    merged = Moments.of(values[:1])
    for first, last in ((1, 11), (11, 12), (12, 37)):
        merged = merged.merge(Moments.of(values[first:last]))
    assert merged.count == 37
    np.testing.assert_allclose(merged.mean, values.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(merged.sd, values.std(axis=0, ddof=1), rtol=1e-10)


def test_merging_with_nothing_changes_nothing():
    some = Moments.of(np.arange(6.0).reshape(3, 2))
    nothing = Moments(0, np.zeros(2), np.zeros(2))
    for merged in (some.merge(nothing), nothing.merge(some)):
        np.testing.assert_allclose(merged.mean, some.mean)
        np.testing.assert_allclose(merged.m2, some.m2)
    assert nothing.merge(nothing).count == 0


def chain_of(state=None, **options):
    return run_chain(SPHERE, PLAN, jax.random.key(4), state or start_chain(PLAN, START), **options)


@pytest.fixture(scope="module")
def whole():
    return chain_of()


def assert_same_chain(chain, expected):
    for group in ("draws", "stats", "warmup_stats"):
        first, second = getattr(chain, group), getattr(expected, group)
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    assert chain.step_size == expected.step_size
    for name, moments in expected.moments.items():
        assert chain.moments[name].count == moments.count
        np.testing.assert_array_equal(chain.moments[name].mean, moments.mean)
        np.testing.assert_array_equal(chain.moments[name].m2, moments.m2)


def test_moments_are_those_of_the_draws(whole):
    squares = whole.draws["position"] ** 2
    moments = whole.moments["squared"]
    assert moments.count == 43
    np.testing.assert_allclose(moments.mean, squares.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.sd, squares.std(axis=0, ddof=1), rtol=1e-10)


def test_step_size_changes_in_warm_up_and_not_after(whole):
    assert np.unique(whole.warmup_stats["step_size"]).size > 10
    assert np.unique(whole.stats["step_size"]).tolist() == [whole.step_size]


def test_progress_is_told_after_every_block(whole):
    heard = []
    chain_of(chain=3, on_block=lambda state, progress: heard.append(progress) or True)
    assert [news.iteration for news in heard] == [10, 20, 25, 35, 45, 55, 65, 68]
    assert [news.is_warmup for news in heard] == [True] * 3 + [False] * 5
    assert {news.chain for news in heard} == {3}
    sampling = [news for news in heard if not news.is_warmup]
    total = whole.stats["num_factorisations"].sum()
    assert sum(news.num_factorisations for news in sampling) == total


@pytest.mark.parametrize("stop_at", [10, 55])
def test_chain_that_was_stopped_goes_on_to_the_same_end(whole, stop_at):
    state = start_chain(PLAN, START)
    part = chain_of(state, on_block=lambda state, progress: progress.iteration < stop_at)
    assert state.position.iteration == stop_at
    assert part.num_draws == max(stop_at - 25, 0)
    assert np.isnan(part.step_size) == (stop_at < 25)
    if part.num_draws:
        np.testing.assert_array_equal(
            part.draws["position"], whole.draws["position"][: part.num_draws]
        )
    assert_same_chain(chain_of(copy.deepcopy(state)), whole)


def test_a_kernel_that_does_not_count_its_evaluations_is_named():
    class Silent(ConstrainedHMC, settings=True):
        def step(self, target, rng_key, state, tuning):
            state, found = super().step(target, rng_key, state, tuning)
            return state, {"acceptance_rate": found["acceptance_rate"]}

    message = "kernel Silent: expected acceptance_rate and num_factorisations, found statistics wi"
    with pytest.raises(InputError, match=message):
        run_chain(SPHERE, Plan(Silent(), 5, 5), jax.random.key(4), start_chain(PLAN, START))


def test_dual_averaging_shrinks_grows_and_is_capped():
    adaptation = ConstrainedHMC().adaptation

    def after(rate):
        state = adaptation.init(3)
        assert adaptation.tuning(state, True) == pytest.approx(0.1)
        for _ in range(60):
            state = adaptation.update(state, None, START, {"acceptance_rate": rate})
        return adaptation.tuning(state, True), adaptation.tuning(state, False)

    assert after(0.0) == pytest.approx((2e-3, 2e-3), rel=0.01)
    assert after(1.0) == pytest.approx((1.5, 1.5), rel=0.01)


def test_step_sizes_beyond_the_bound_do_not_count_in_their_average():
    adaptation = ConstrainedHMC().adaptation

    def average(update):
        state = adaptation.init(3)
        for rate in 20 * [1.0] + 20 * [0.6]:
            state = update(state, rate)
        return float(np.exp(state.log_step_size_avg))

    def bounded(state, rate):
        return adaptation.update(state, None, START, {"acceptance_rate": rate})

    assert 0.7 < average(bounded) < 1.5
    # Negative control: the search alone goes far beyond the bound, and averages that.
    assert average(lambda state, rate: state.updated(rate, adaptation.target)) > 1.5


def test_systems_of_each_size_draw_the_same_from_programs_compiled_for_it(whole, monkeypatch):
    efforts = []
    choose = chains.block_program

    def spy(*shape):
        program = choose(*shape)
        efforts.append(program._effort)
        return program

    monkeypatch.setattr(chains, "block_program", spy)
    for few, small, large in ((300, 1_000, 20_000), (1, 1_000, 20_000), (1, 2, 50_000), (1, 1, 2)):
        monkeypatch.setattr(programs, "FEW", few)
        monkeypatch.setattr(programs, "SMALL", small)
        monkeypatch.setattr(programs, "LARGE", large)
        chain = chain_of()
        np.testing.assert_allclose(chain.draws["position"], whole.draws["position"], atol=1e-6)
    assert efforts == ["small", "some", "full", "some"]
