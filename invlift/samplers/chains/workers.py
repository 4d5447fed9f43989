"""Who runs the segments of chains: threads of this process, or processes elsewhere.

A segment is a few seconds of a chain, or of some that are computed side by side: it needs nothing
but the positions where it begins, and returns the blocks that follow.  Whoever asks for it keeps
what the chain has gathered, so that a worker that is lost takes nothing with it, and needs neither
files nor memory of its own.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import jax
import numpy as np
import scipy.linalg  # noqa: F401  (loads the LAPACK that JAX calls, so that it can be limited)
from threadpoolctl import threadpool_limits

from invlift.programs.compilation import keep_compiled_programs, keeps_compiled_programs
from invlift.programs.precision import enable_x64
from invlift.samplers.chains.chain import run_lanes
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import (
    chain_key,
    chain_keys,
    check_reproduced,
    check_start,
    compile_chain,
)
from invlift.samplers.chains.state import Block, Position, start_position
from invlift.targets import Target

#: Time after which a segment ends, to within a block, in this process and elsewhere, s.
LOCAL_SECONDS, REMOTE_SECONDS = 1.0, 3.0
#: About how long one call of a chain's program may take, s: much longer than what a call costs.
CALL_SECONDS = 0.2


def single_threaded_blas():
    """Context in which LAPACK keeps to the thread that calls it.

    Its own threads wait for each other at every one of a chain's many small factorisations: on a
    busy machine they then take a hundred times as long.
    """
    return threadpool_limits(limits=1, user_api="blas")


class Work(NamedTuple):
    """What the segments of a run have in common.

    Attributes
    ----------
    target
        Of the kind that the plan's kernel walks on.
    plan : Plan
    starts
        ``starts[chain]`` is where a chain begins, (Q,); its ``shape`` is (num_chains, Q).  Whether
        that is on the manifold is checked unless it has a true ``is_exact``.
    seed : int
        Chain c uses ``fold_in(key(seed), c)``.
    num_lanes : int
        Chains that one program computes side by side: chain c in lane c % num_lanes.
    """

    target: Target
    plan: Plan
    starts: Any
    seed: int
    num_lanes: int = 1


class Member(NamedTuple):
    """Where a chain of a segment goes on.

    Attributes
    ----------
    chain : int
    position : Position or None
        None for a chain that has not begun.
    recorded : mapping of str to array
        What was recorded at the position, to be reproduced there, if it comes from disk.
    """

    chain: int
    position: Position | None = None
    recorded: Mapping[str, np.ndarray] = {}


@dataclass(frozen=True)
class Segment:
    """Where chains that are computed side by side go on, and for how long.

    Attributes
    ----------
    members : tuple of Member
        The chains of all lanes that are in use, in their order.
    num_draws : int
        Draws after which they end.
    """

    members: tuple[Member, ...]
    num_draws: int


class Piece(NamedTuple):
    """A block of a chain."""

    chain: int
    block: Block


class Workers(Protocol):
    """Runs segments side by side.

    Attributes
    ----------
    patience : float or None
        Time to wait for segments that are to end, s, if not any; those left are then done without.
    """

    patience: float | None

    @property
    def compile_seconds(self) -> float:
        """Time spent on compilation, as far as it is known here."""

    def submit(self, segment: Segment) -> Future[list[Piece]]:
        """Have a segment run, at once or when a worker is free."""

    def stop(self) -> None:
        """Have the segments that run end with the block they are at."""


class Threads:
    """Threads of this process.

    Parameters
    ----------
    work : Work
    executor : ThreadPoolExecutor
    """

    patience = None

    def __init__(self, work: Work, executor: ThreadPoolExecutor) -> None:
        self._work, self._executor = work, executor
        self._is_stopped = threading.Event()
        # Beside the search for starts, which compiles and computes as well.
        self._compiling = _Compiling(work.target, work.plan, work.starts.shape[1], work.num_lanes)

    @property
    def compile_seconds(self) -> float:
        """Time until everything was compiled, s."""
        return self._compiling.seconds

    def submit(self, segment: Segment) -> Future[list[Piece]]:
        """See `Workers`."""
        return self._executor.submit(
            run_segment, self._work, segment, LOCAL_SECONDS, self._is_stopped
        )

    def stop(self) -> None:
        """See `Workers`."""
        self._is_stopped.set()


class _Answer(Future):
    """What a segment brings, for which an executor is asked, perhaps twice.

    Attributes
    ----------
    asked : Future
        The executor's own, of the last time.
    """

    asked: Future

    def cancel(self) -> bool:
        """Cancel it, unless the executor has begun with it: what it then brings is kept."""
        return self.asked.cancel()

    def settle_cancelled(self) -> None:
        """Be cancelled, as what was asked for is."""
        super().cancel()
        self.set_running_or_notify_cancel()


class Processes:
    """Processes behind any other executor, on this machine or on many.

    What the segments have in common is sent to a process once, when it turns out not to have it.

    Parameters
    ----------
    work : Work
    executor : concurrent.futures.Executor
    """

    compile_seconds = 0.0
    patience = 10 * REMOTE_SECONDS

    def __init__(self, work: Work, executor: Executor) -> None:
        portable = jax.tree.map(np.asarray, (work.target, work.starts))
        work = work._replace(target=portable[0], starts=portable[1])
        self._content = _dumps((work, keeps_compiled_programs()))
        self._name, self._executor = uuid4().hex, executor

    def submit(self, segment: Segment) -> Future[list[Piece]]:
        """See `Workers`."""
        answer = _Answer()

        def ask(*content: bytes) -> None:
            answer.asked = self._executor.submit(run_remote_segment, self._name, segment, *content)
            answer.asked.add_done_callback(settle)

        def settle(asked: Future) -> None:
            if asked.cancelled():
                answer.settle_cancelled()
                return
            try:
                pieces = asked.result()
                if pieces is None:  # a process that does not know the work yet
                    ask(self._content)
                else:
                    answer.set_result(pieces)
            except BaseException as error:
                answer.set_exception(error)

        ask()
        return answer

    def stop(self) -> None:
        """Nothing: a segment is over in a few seconds."""


def _dumps(work: Any) -> bytes:
    """The same as pickle; by cloudpickle, where it is installed, also what a script defines."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(work)
    return cloudpickle.dumps(work)


def run_segment(
    work: Work, segment: Segment, seconds: float, is_stopped: threading.Event | None = None
) -> list[Piece]:
    """Run a segment, of one block at least unless the chains are at their end."""
    began = time.monotonic()
    target, plan = work.target, work.plan
    positions = [_position_of(work, member) for member in segment.members]
    if all(each.iteration >= plan.num_warmup + segment.num_draws for each in positions):
        return []
    compile_chain(target, plan, positions[0].values.size, work.num_lanes)  # or wait for it
    chains = [member.chain for member in segment.members]
    if work.num_lanes == 1:
        rng_keys = chain_key(work.seed, chains[0])
    else:
        # Lanes without a chain are at its end from the start.
        spare = positions[0]._replace(iteration=plan.num_warmup + segment.num_draws)
        num_spare = work.num_lanes - len(chains)
        positions += num_spare * [spare]
        rng_keys = chain_keys(work.seed, np.array([*chains, *num_spare * [chains[0]]]))
    pieces = []
    for blocks in run_lanes(target, plan, rng_keys, positions, segment.num_draws, CALL_SECONDS):
        found = zip(chains, blocks, strict=False)
        pieces += [Piece(chain, block) for chain, block in found if block is not None]
        if time.monotonic() - began > seconds or (is_stopped and is_stopped.is_set()):
            break
    return pieces


def _position_of(work: Work, member: Member) -> Position:
    """Where a chain goes on, which is checked if it has not begun or comes from disk."""
    target, plan = work.target, work.plan
    if member.position is None:
        position = start_position(plan, work.starts[member.chain])
        if not getattr(work.starts, "is_exact", False):
            check_start(target, plan, position, member.chain)
        return position
    if member.recorded:
        check_reproduced(target, plan, member.position, member.recorded, member.chain)
    return member.position


#: The work that this process has been sent, by its name: that of one run.
_sent: dict[str, Work] = {}
_lock = threading.Lock()


def run_remote_segment(
    name: str, segment: Segment, content: bytes | None = None
) -> list[Piece] | None:
    """The same in a worker process, whose JAX this sets up; None if it lacks the work."""
    enable_x64()
    with _lock:
        if name not in _sent:
            if content is None:
                return None
            work, keeps_programs = pickle.loads(content)
            if keeps_programs:
                keep_compiled_programs()
            _sent.clear()
            _sent[name] = work
        work = _sent[name]
    with single_threaded_blas():
        return run_segment(work, segment, REMOTE_SECONDS)


class _Compiling(threading.Thread):
    """Compiles what the chains run; they wait for it where they need it.

    An error is left to the chains, which meet it themselves.
    """

    def __init__(self, *arguments) -> None:
        super().__init__(name="compiling")
        self._arguments = arguments
        self.seconds = 0.0
        self.start()

    def run(self) -> None:
        began = time.perf_counter()
        with suppress(Exception):
            compile_chain(*self._arguments)
        self.seconds = time.perf_counter() - began
