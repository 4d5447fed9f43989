"""Several chains: the same bits on any executor, through interruptions, from disk."""

import io
import json
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
from sampler_cases import SPHERE, RelativeDensity

from invlift.chains import Chain
from invlift.errors import InputError
from invlift.samplers.chains import parallel, workers
from invlift.samplers.chains.chain import run_blocks
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import chain_key, check_reproduced
from invlift.samplers.chains.results import cut_to_one_length
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.chains.state import Block, gather, start_chain
from invlift.samplers.kernels import ConstrainedHMC, ConstrainedNUTS

PLAN = Plan(ConstrainedHMC(), 40, 200)
STARTS = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [0, 0, -1.0]])
SEED = 12


def store_in(folder, seed=SEED):
    return CheckpointStore(folder, fingerprint(SPHERE, PLAN, seed))


def run(**options):
    return run_chains(SPHERE, PLAN, STARTS, SEED, **options)


@pytest.fixture(scope="module")
def whole():
    return run()


def assert_same_run(first, second):
    assert len(first.chains) == len(second.chains)
    for chain, expected in zip(first.chains, second.chains, strict=True):
        for group in ("draws", "stats", "warmup_stats"):
            for name, values in getattr(expected, group).items():
                np.testing.assert_array_equal(getattr(chain, group)[name], values, err_msg=name)
        for name, moments in expected.moments.items():
            assert chain.moments[name].count == moments.count
            np.testing.assert_array_equal(chain.moments[name].mean, moments.mean)
            np.testing.assert_array_equal(chain.moments[name].m2, moments.m2)


def test_chains_run_side_by_side(monkeypatch):
    meeting = threading.Barrier(2)  # where one alone would wait for good
    run_segment = workers.run_segment

    def meet(work, segment, *rest):
        if segment.chain < 2 and segment.position is None:
            meeting.wait()
        return run_segment(work, segment, *rest)

    monkeypatch.setattr(workers, "run_segment", meet)
    with ThreadPoolExecutor(2) as executor:
        assert not run(executor=executor).is_interrupted


def test_chains_are_saved_behind_their_warmup(tmp_path, monkeypatch):
    """However soon it is over: a run that is killed then goes on from there."""
    monkeypatch.setattr(workers, "LOCAL_SECONDS", 0.0)
    monkeypatch.setattr(parallel, "FIRST_INTERVAL", 1e9)
    monkeypatch.setattr(parallel, "SAVE_INTERVAL", 1e9)
    store = store_in(tmp_path).claim(is_resuming=False)
    run(store=store)
    for chain in range(4):
        ends = [int(piece.stem[-8:]) for piece in store._pieces(chain)]
        assert len(ends) == 2
        assert PLAN.num_warmup <= ends[0] < ends[1] == PLAN.num_warmup + PLAN.num_draws


@pytest.fixture
def interrupting(monkeypatch, is_stopped):
    """Makes progress reports, one of which presses Ctrl-C; no chain is told to go on after it."""
    monkeypatch.setattr(workers, "LOCAL_SECONDS", 0.0)

    def at(iteration):
        def on_progress(progress):
            if progress.iteration >= iteration and not is_stopped.is_set():
                # To this thread: the system may choose any, and the main one then sleeps on.
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
                is_stopped.wait()

        return on_progress

    return at


def test_interrupted_run_keeps_its_draws_and_goes_on_to_the_same_end(whole, tmp_path, interrupting):
    store = store_in(tmp_path)
    store.claim(is_resuming=False)
    part = run(store=store, on_progress=interrupting(100))
    assert part.is_interrupted
    lengths = {chain.num_draws for chain in part.chains}
    assert len(lengths) == 1
    assert 0 < lengths.pop() < 200
    for chain in part.chains:
        assert any(
            np.array_equal(chain.draws["position"], other.draws["position"][: chain.num_draws])
            for other in whole.chains
        )
    store.claim(is_resuming=True)
    assert_same_run(run(store=store), whole)
    # Everything is on disk now: resuming once more computes nothing.
    heard = []
    assert_same_run(run(store=store, on_progress=heard.append), whole)
    assert heard == []


@pytest.mark.parametrize(
    ("lengths", "kept", "length"),
    [
        ([100, 10, 100, 0], [0, 2], 100),
        ([100, 90, 80, 70], [0, 1, 2, 3], 70),
        ([100, 10, 0], [0, 1], 10),
        ([0, 0], [], 0),
    ],
)
def test_chains_of_unequal_length_are_cut_so_that_most_draws_are_left(lengths, kept, length):
    def chain(index, num):
        values = index + np.arange(num) / 1000
        return Chain({"x": values}, {"rate": values}, {}, {}, 1.0, 0.0, 0.0)

    found = cut_to_one_length([chain(index, num) for index, num in enumerate(lengths)])
    assert [round(each.draws["x"][0]) for each in found] == kept
    assert all(each.num_draws == len(each.draws["x"]) == length for each in found)


def test_longer_plan_goes_on_where_a_finished_one_ended(whole, tmp_path):
    store = store_in(tmp_path)
    run_chains(SPHERE, Plan(ConstrainedHMC(), 40, 70), STARTS, SEED, store=store)
    assert_same_run(run(store=store), whole)


def test_error_in_a_chain_is_raised(tmp_path):
    def failing(progress):
        raise RuntimeError("from the report")

    with pytest.raises(RuntimeError, match="from the report"):
        run(on_progress=failing)


# Checkpoints ------------------------------------------------------------------------------------


def warmup_block(state, iteration):
    """A block of ten iterations that ends with the given one."""
    values = np.full(3, float(iteration))
    end = state.position._replace(values=values, iteration=iteration)
    stats = {"step_size": np.arange(10.0) + iteration}
    return Block(end, 10, True, {"position": np.tile(values, (10, 1))}, stats, {})


def save_pieces(store, chain=0, after=None):
    """Chain states after 10, 20 and 30 iterations, each saved as a piece of its own.

    ``after`` is called once the second is saved.
    """
    state = start_chain(PLAN, STARTS[0])
    for iteration in (10, 20, 30):
        store.save(chain, state, [state.add(PLAN, warmup_block(state, iteration))])
        if iteration == 20 and after:
            after()


@pytest.fixture
def claimed(tmp_path):
    store = store_in(tmp_path)
    store.claim(is_resuming=False)
    return store


def refused(call, *arguments, **keywords):
    with pytest.raises(InputError) as caught:
        call(*arguments, **keywords)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_saved_chain_is_loaded_piece_by_piece(claimed, tmp_path):
    assert claimed.load(0, PLAN) is None
    save_pieces(claimed)
    assert len(list(tmp_path.glob("*.piece"))) == 3
    for name in ("chain-x-1", "chain-0-copy"):  # others are let be
        (tmp_path / f"{name}.piece").write_text("not one of ours")
    loaded = claimed.load(0, PLAN)
    assert loaded.position.iteration == 30
    np.testing.assert_array_equal(loaded.position.values, np.full(3, 30.0))
    saved = np.concatenate([block["step_size"] for block in loaded.warmup_blocks])
    np.testing.assert_array_equal(saved, np.arange(10.0, 40.0))


def test_chain_one_does_not_load_the_pieces_of_chain_ten(claimed, tmp_path):
    save_pieces(claimed, chain=10)
    assert claimed.load(1, PLAN) is None
    # Nor under the name of one of its own.
    piece = tmp_path / "chain-10-00000010.piece"
    piece.rename(tmp_path / "chain-1-00000010.piece")
    assert "another run or chain" in refused(claimed.load, 1, PLAN)


@pytest.mark.parametrize(("missing", "found"), [(10, "begins with iteration 0"), (20, "with 20")])
def test_missing_piece_is_named_and_the_remedy_works(claimed, tmp_path, missing, found):
    store = claimed
    save_pieces(store)
    path = tmp_path / f"chain-0-000000{missing}.piece"
    content = path.read_bytes()
    path.unlink()
    message = refused(store.load, 0, PLAN)
    assert f"a saved piece that begins with iteration {missing - 10}" in message
    assert f"chain-0-000000{missing + 10}.piece, which begins with {missing}" in message
    path.write_bytes(content)
    assert store.load(0, PLAN).position.iteration == 30
    for number in range(missing, 40, 10):
        (tmp_path / f"chain-0-000000{number}.piece").unlink()
    state = store.load(0, PLAN) or start_chain(PLAN, STARTS[0])
    assert state.position.iteration == missing - 10


def test_pieces_of_another_run_are_refused(claimed, tmp_path):
    """Whatever run.json says: another seed's chains must not be taken up."""
    save_pieces(claimed)
    other = store_in(tmp_path, seed=SEED + 1)
    (tmp_path / "run.json").write_text(json.dumps(asdict(other.run)))
    other.claim(is_resuming=True)
    assert "one of another run" in refused(other.load, 0, PLAN)


def test_new_run_does_not_touch_the_chains_of_an_old_one(tmp_path):
    folder = tmp_path / "deep" / "folder"
    store_in(folder).claim(is_resuming=False)
    store = store_in(folder, seed=3)
    store.claim(is_resuming=False)  # nothing was saved yet
    save_pieces(store)
    message = refused(store_in(folder, seed=4).claim, is_resuming=False)
    assert str(folder) in message
    assert "expected a directory without a run, found chain-0-" in message
    assert store.load(0, PLAN) is not None
    store.claim(is_resuming=True)


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_folder_that_was_removed_or_what_is_left_of_it_is_made_whole_again(tmp_path, is_removed):
    folder = tmp_path / "chains"
    store = store_in(folder)
    store.claim(is_resuming=False)
    remove = partial(shutil.rmtree, folder) if is_removed else (folder / "run.json").unlink
    save_pieces(store, after=remove)
    store.claim(is_resuming=True)
    loaded = store.load(0, PLAN)
    assert loaded.position.iteration == 30
    assert sum(len(block["step_size"]) for block in loaded.warmup_blocks) == 30


def test_a_folder_is_for_one_run_at_a_time(tmp_path):
    first, second = store_in(tmp_path), store_in(tmp_path)

    def enter_and_leave():
        with second.lock():
            pass

    with first.lock(), ThreadPoolExecutor(1) as executor:
        with first.lock():  # once more
            pass
        message = refused(executor.submit(enter_and_leave).result)
        assert "another run at work" in message
        assert str(tmp_path) in message
    enter_and_leave()


@pytest.mark.parametrize(
    "content",
    [b"", b"[1, 2]", b"\xff\xfe", b"[" * 5000],
)
def test_corrupted_record_of_a_run_is_refused(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content)
    assert "run.json" in refused(store_in(tmp_path).claim, is_resuming=True)


def altered_arrays(content):
    """The piece with another position, in an archive that is itself sound."""
    line, _, payload = content.partition(b"\n")
    with np.load(io.BytesIO(payload)) as archive:
        arrays = dict(archive)
    arrays["position"] = arrays["position"] + 1.0
    altered = io.BytesIO()
    np.savez(altered, **arrays)
    return line + b"\n" + altered.getvalue()


DAMAGES = {
    "empty": lambda content: b"",
    "archive": lambda content: content.partition(b"\n")[2],
    "altered": altered_arrays,
    "iterations": lambda content: content.replace(b" 10 20 ", b" 10 25 ", 1),
    "one bit": lambda content: content[:500] + bytes([content[500] ^ 1]) + content[501:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_piece_is_named(claimed, tmp_path, damage):
    save_pieces(claimed, chain=2)
    piece = tmp_path / "chain-2-00000020.piece"
    content = piece.read_bytes()
    piece.write_bytes(DAMAGES[damage](content))
    assert piece.read_bytes() != content
    assert piece.name in refused(claimed.load, 2, PLAN)


def test_a_chain_that_the_system_does_not_reproduce_is_refused(claimed):
    """What no digest of the functions has seen: here the record is another function's."""
    run(store=claimed)
    state = claimed.load(0, PLAN)
    position, found = state.position, state.recorded["position"]
    check_reproduced(SPHERE, PLAN, position, {"position": found}, 0)
    altered = {"position": found * (1.0 + 1e-5)}
    words = refused(check_reproduced, SPHERE, PLAN, position, altered, 0)
    assert "chain 0, saved position" in words
    refused(check_reproduced, SPHERE, PLAN, position, {"position": np.full(3, np.nan)}, 0)


def test_place_that_cannot_be_a_directory_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")

    def enter():
        with store_in(tmp_path / "file").lock():
            pass

    assert "a directory that can be written" in refused(enter)


def test_fingerprint_changes_with_all_that_decides_the_draws():
    original = fingerprint(SPHERE, PLAN, SEED)
    assert fingerprint(SPHERE, PLAN, SEED) == original
    longer = Plan(ConstrainedHMC(), 40, 999)
    assert fingerprint(SPHERE, longer, SEED) == original
    others = [
        fingerprint(SPHERE, PLAN, SEED + 1),
        fingerprint(SPHERE, Plan(ConstrainedNUTS(), 40, 200), SEED),
        fingerprint(SPHERE, Plan(ConstrainedHMC(), 41, 200), SEED),
        fingerprint(RelativeDensity(SPHERE.constraint_fn, np.sum), PLAN, SEED),
    ]
    assert len({original, *others}) == 5
    assert len({str(each) for each in (original, *others)}) == 5


# Fields -----------------------------------------------------------------------------------------

#: Room for 20 draws of three numbers.
THIN = Plan(ConstrainedHMC(), 40, 200, fields=("position",), max_field_bytes=20 * 24)


@pytest.fixture(scope="module")
def thinned():
    return run_chains(SPHERE, THIN, STARTS, SEED)


def test_of_a_field_every_so_many_th_draw_is_stored_and_all_count(whole, thinned):
    for chain, expected in zip(thinned.chains, whole.chains, strict=True):
        draws = expected.draws["position"]
        assert chain.num_draws == 200
        assert chain.every == {"position": 16}
        np.testing.assert_array_equal(chain.draws["position"], draws[::16])
        np.testing.assert_array_equal(chain.draws["position_field_mean"], draws.mean(axis=1))
        np.testing.assert_array_equal(chain.draws["position_field_std"], draws.std(axis=1))
        moments = chain.moments["position"]
        assert moments.count == 200
        np.testing.assert_allclose(moments.mean, draws.mean(axis=0), atol=1e-14)
        np.testing.assert_allclose(moments.sd, draws.std(axis=0, ddof=1), rtol=1e-12)
        batches = chain.batches["position"]
        assert batches.size == 25
        means = draws.reshape(8, 25, 3).mean(axis=1)
        np.testing.assert_allclose(batches.means, means, atol=1e-14)


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_thinned_run_goes_on_to_the_same_end(thinned, tmp_path, is_removed):
    """In increments of any size, also after the folder was removed in between."""
    store = store_in(tmp_path / "chains")
    store.claim(is_resuming=False)
    key, ends = chain_key(SEED, 0), [40, 70, 130, 140, 230, 240]
    state, increments = start_chain(THIN, STARTS[0]), []
    for block in run_blocks(SPHERE, THIN, key, state.position):
        increments.append(state.add(THIN, block))
        if block.end.iteration in ends:
            store.save(0, state, increments)
            increments = []
            if is_removed and block.end.iteration == 130:
                shutil.rmtree(tmp_path / "chains")
            elif block.end.iteration in (70, 230):
                state = store.load(0, THIN)
    loaded = gather(THIN, store.load(0, THIN))
    expected = thinned.chains[0]
    assert loaded.every == expected.every
    for name, values in expected.draws.items():
        np.testing.assert_array_equal(loaded.draws[name], values, err_msg=name)
    for name, moments in expected.moments.items():
        np.testing.assert_array_equal(loaded.moments[name].mean, moments.mean)
        np.testing.assert_array_equal(loaded.moments[name].m2, moments.m2)
    assert loaded.batches["position"].size == expected.batches["position"].size
    np.testing.assert_array_equal(
        loaded.batches["position"].means, expected.batches["position"].means
    )


def test_chains_of_unequal_length_are_thinned_alike():
    def chain(num, every):
        values = np.arange(num, dtype=float)
        draws = {"x": values, "field": values[::every, None]}
        return Chain(draws, {"rate": values}, {}, {}, 1.0, 0.0, 0.0, every={"field": every})

    found = cut_to_one_length([chain(100, 4), chain(90, 2), chain(5, 1)])
    assert [each.num_draws for each in found] == [90, 90]
    for each in found:
        assert each.every == {"field": 4}
        np.testing.assert_array_equal(each.draws["field"][:, 0], np.arange(0, 90, 4))


# Goals ------------------------------------------------------------------------------------------


def test_chains_go_on_for_as_long_as_they_are_told_to(whole, tmp_path):
    asked = []

    def next_goal(chains):
        asked.append([chain.num_draws for chain in chains])
        return {50: 120, 120: 200}.get(chains[0].num_draws)

    plan = Plan(ConstrainedHMC(), 40, 50)
    longer = run_chains(SPHERE, plan, STARTS, SEED, next_goal=next_goal)
    assert asked == [[50] * 4, [120] * 4, [200] * 4]
    assert_same_run(longer, whole)


# Workers that are lost --------------------------------------------------------------------------


class Unreliable(ThreadPoolExecutor):
    """Loses what other processes know, as one does that takes the place of another."""

    def submit(self, *arguments):
        workers._sent.clear()
        return super().submit(*arguments)


def test_work_is_sent_to_each_process_that_does_not_have_it(whole, monkeypatch):
    monkeypatch.setattr(workers, "REMOTE_SECONDS", 0.0)
    with Unreliable(2) as executor:
        elsewhere = type("Elsewhere", (ThreadPoolExecutor,), {})
        monkeypatch.setattr(parallel, "ThreadPoolExecutor", elsewhere)
        heard = []
        assert_same_run(run(executor=executor, on_progress=heard.append), whole)
    assert len(heard) == 4 * 24
