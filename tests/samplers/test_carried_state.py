"""What a kernel carries from one iteration to the next, however a chain is cut into blocks."""

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from sampler_cases import SPHERE, RelativeDensity, on_sphere, run_chain, skewed
from test_density_kernels import TARGET, LinearAndSkewed

from invlift.samplers.chains import chain as chain_module
from invlift.samplers.chains import programs, workers
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import chain_key
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.chains.state import start_chain
from invlift.samplers.kernels import KERNELS

START = np.array([0.0, 0.6, 0.8])


def chain_of(name, *, num_draws=60, seed=8):
    kernel = KERNELS[name]()
    target = SPHERE if kernel.target_kind == "manifold" else TARGET
    plan = Plan(kernel, 40, num_draws)
    return run_chain(target, plan, chain_key(seed, 0), start_chain(plan, START))


@pytest.mark.parametrize(
    ("name", "is_small", "num_evaluations"),
    [("chmc", True, 1), ("chmc", False, 10), ("rwm", False, 1)],
)
def test_a_state_that_is_carried_whole_is_evaluated_once(
    name, is_small, num_evaluations, monkeypatch
):
    evaluated = []
    evaluate = chain_module.evaluate_state

    def counting(kernel, target, position):
        evaluated.append(position)
        return evaluate(kernel, target, position)

    monkeypatch.setattr(chain_module, "evaluate_state", counting)
    if not is_small:
        monkeypatch.setattr(programs, "MOST_NUMBERS", 0)
    draws = chain_of(name).draws["position"]
    assert len(evaluated) == num_evaluations
    monkeypatch.undo()
    np.testing.assert_allclose(chain_of(name).draws["position"], draws, atol=1e-9)


def pieces_of(name, target, call_seconds):
    """Iterations of each piece of a chain, and its positions."""
    plan = Plan(KERNELS[name](), 40, 60)
    position = start_chain(plan, START).position
    pieces = chain_module.run_blocks(target, plan, chain_key(8, 0), position, None, call_seconds)
    nums, draws = zip(*((piece.num, piece.draws["position"]) for piece in pieces), strict=True)
    return list(nums), np.concatenate(draws)


class WithoutMoments(RelativeDensity):
    def describe(self, point):
        return {"position": point.position}, {}


@pytest.mark.parametrize(
    ("name", "target"), [("chmc", WithoutMoments(on_sphere, skewed)), ("rwm", TARGET)]
)
def test_calls_of_several_blocks_give_the_same_bits(name, target):
    nums, tens = pieces_of(name, target, 0.0)
    assert nums == 10 * [10]
    nums, long = pieces_of(name, target, 1e9)
    assert nums == [10, 10, 10, 10, 10, 50]
    np.testing.assert_array_equal(long, tens)


def test_a_large_state_has_blocks_of_fewer_iterations(monkeypatch):
    """The draws are the same to rounding, and to the bit if the chain is stopped in between."""
    name, target = "chmc", SPHERE
    _, tens = pieces_of(name, target, 0.0)
    state = programs.state_shapes(KERNELS[name](), target, START.size)
    size = sum(leaf.size for leaf in jax.tree.leaves(state))
    monkeypatch.setattr(programs, "MOST_IN_BLOCK", 3 * size)
    nums, threes = pieces_of(name, target, 1e9)
    assert nums == [3] * 13 + [1] + [3] * 20
    np.testing.assert_allclose(threes, tens, atol=1e-9)

    plan, key = Plan(KERNELS[name](), 40, 60), chain_key(8, 0)
    start = start_chain(plan, START).position
    for piece in chain_module.run_blocks(target, plan, key, start):
        if piece.end.iteration >= 43:
            break
    rest = chain_module.run_blocks(target, plan, key, piece.end)
    again = np.concatenate([each.draws["position"] for each in rest])
    np.testing.assert_array_equal(again, threes[-len(again) :])


def test_moments_are_merged_block_by_block():
    assert pieces_of("chmc", SPHERE, 1e9)[0] == 10 * [10]


def test_the_momentum_is_saved_with_the_chain(tmp_path):
    """A resumed chain without it would go on elsewhere: the negative control."""
    plan = Plan(KERNELS["chmc"](), 40, 60)
    whole = chain_of("chmc")
    store = CheckpointStore(tmp_path, fingerprint(SPHERE, plan, 8))
    store.claim(is_resuming=False)
    state = start_chain(plan, START)
    increments = []
    for block in chain_module.run_blocks(SPHERE, plan, chain_key(8, 0), state.position, 20):
        increments.append(state.add(plan, block))
    store.save(0, state, increments)
    for forgets in (False, True):
        taken_up = store.load(0, plan)
        if forgets:
            taken_up.position = taken_up.position._replace(carried={})
        chain = run_chain(SPHERE, plan, chain_key(8, 0), taken_up)
        is_same = np.array_equal(chain.draws["position"], whole.draws["position"])
        assert is_same != forgets


def test_segments_of_one_block_give_the_same_bits(monkeypatch):
    """Each segment then takes up what was carried from where the last one ended."""
    plan = Plan(KERNELS["chmc"](), 20, 40)
    starts = np.stack([START, START[::-1]])
    expected = run_chains(SPHERE, plan, starts, 3)
    monkeypatch.setattr(workers, "LOCAL_SECONDS", 0.0)
    with ThreadPoolExecutor(1) as executor:
        cut = run_chains(SPHERE, plan, starts, 3, executor=executor)
    for one, other in zip(expected.chains, cut.chains, strict=True):
        np.testing.assert_array_equal(one.draws["position"], other.draws["position"])


class Counting(LinearAndSkewed):
    """Told of each description that is made of a draw."""

    described = []

    def describe(self, position):
        jax.debug.callback(lambda first: self.described.append(float(first)), position[0])
        return super().describe(position)


def test_a_draw_is_described_anew_only_where_the_chain_has_moved():
    target = Counting(TARGET.matrix, TARGET.observed)
    plan = Plan(KERNELS["pcn"](), 20, 60)
    Counting.described.clear()
    chain = run_chain(target, plan, chain_key(8, 0), start_chain(plan, START))
    jax.effects_barrier()
    num_accepted = sum(
        int(stats["is_accepted"].sum()) for stats in (chain.stats, chain.warmup_stats)
    )
    num_blocks = 8
    assert num_accepted < len(Counting.described) <= num_accepted + num_blocks < 80
    # And what is kept of a draw at which it stayed is that of the last one.
    positions = chain.draws["position"]
    has_moved = np.any(positions[1:] != positions[:-1], axis=1)
    np.testing.assert_array_equal(has_moved, chain.stats["is_accepted"][1:])
