"""Who runs the segments of chains: threads of this process, or processes elsewhere.

A segment is a few seconds of a chain: it needs nothing but the position where it begins, and
returns the blocks that follow.  Whoever asks for it keeps what the chain has gathered, so that a
worker that is lost takes nothing with it, and needs neither files nor memory of its own.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, Protocol
from uuid import uuid4

import cloudpickle
import jax
import numpy as np
import scipy.linalg  # noqa: F401  (loads the LAPACK that JAX calls, so that it can be limited)
from threadpoolctl import threadpool_limits

from invlift.programs.compilation import keep_compiled_programs, keeps_compiled_programs
from invlift.programs.precision import enable_x64
from invlift.samplers.chains.chain import run_blocks
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import chain_key, check_reproduced, check_start, compile_chain
from invlift.samplers.chains.state import Block, Position, start_position
from invlift.samplers.chains.turns import Turns, at_once
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


class Starts(Protocol):
    """Where chains start: an array, or what finds a start where the chain runs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension Q."""
        ...

    def __getitem__(self, chain: int) -> np.ndarray:
        """Where a chain starts, (Q,)."""
        ...


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
    """

    target: Target
    plan: Plan
    starts: Starts
    seed: int


class Segment(NamedTuple):
    """Where a chain goes on, and for how long.

    Attributes
    ----------
    chain : int
    num_draws : int
        Draws after which it ends.
    position : Position or None
        None for a chain that has not begun.
    recorded : mapping of str to array
        What was recorded at the position, to be reproduced there, if it comes from disk.
    """

    chain: int
    num_draws: int
    position: Position | None = None
    recorded: Mapping[str, np.ndarray] = {}


class Workers(Protocol):
    """Runs segments side by side.

    Attributes
    ----------
    patience : float
        Time to wait for segments that are to end, s; those left are then done without: one may
        compile, or be within a block that takes minutes.
    """

    patience: float

    @property
    def compile_seconds(self) -> float:
        """Time spent on compilation, as far as it is known here."""

    def submit(self, segment: Segment) -> Future[list[Block]]:
        """Have a segment run, at once or when a worker is free."""

    def stop(self) -> None:
        """Have the segments that run end with the block they are at."""


class Threads:
    """Threads of this process.

    Parameters
    ----------
    work : Work
    executor : ThreadPoolExecutor
    turns : Turns
    """

    patience = 3.0

    def __init__(self, work: Work, executor: ThreadPoolExecutor, turns: Turns) -> None:
        self._work, self._executor, self._turns = work, executor, turns
        self._is_stopped = threading.Event()
        # Beside the search for starts, which compiles and computes as well.
        self._compiling = _Compiling(work.target, work.plan, work.starts.shape[1])

    @property
    def compile_seconds(self) -> float:
        """Time until everything was compiled, s."""
        return self._compiling.seconds

    def submit(self, segment: Segment) -> Future[list[Block]]:
        """See `Workers`."""
        return self._executor.submit(
            run_segment, self._work, segment, LOCAL_SECONDS, self._is_stopped, self._turns
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
        self._content = cloudpickle.dumps((work, keeps_compiled_programs()))
        self._name, self._executor = uuid4().hex, executor

    def submit(self, segment: Segment) -> Future[list[Block]]:
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
                blocks = asked.result()
                if blocks is None:  # a process that does not know the work yet
                    ask(self._content)
                else:
                    answer.set_result(blocks)
            except BaseException as error:
                answer.set_exception(error)

        ask()
        return answer

    def stop(self) -> None:
        """Nothing: a segment is over in a few seconds."""


def run_segment(
    work: Work,
    segment: Segment,
    seconds: float,
    is_stopped: threading.Event | None = None,
    turns: Callable = at_once,
) -> list[Block]:
    """Run a segment, of one block at least unless the chain is at its end."""
    began = time.monotonic()
    target, plan, num_draws = work.target, work.plan, segment.num_draws
    position = _position_of(work, segment)
    if position.iteration >= plan.num_warmup + num_draws:
        return []
    compile_chain(target, plan, position.values.size)  # or wait for it
    rng_key = chain_key(work.seed, segment.chain)
    blocks = []
    for block in run_blocks(target, plan, rng_key, position, num_draws, CALL_SECONDS, turns):
        blocks.append(block)
        if time.monotonic() - began > seconds or (is_stopped and is_stopped.is_set()):
            break
    return blocks


def _position_of(work: Work, segment: Segment) -> Position:
    """Where a chain goes on, which is checked if it has not begun or comes from disk."""
    target, plan, chain = work.target, work.plan, segment.chain
    if segment.position is None:
        position = start_position(plan, work.starts[chain])
        if not getattr(work.starts, "is_exact", False):
            check_start(target, plan, position, chain)
        return position
    if segment.recorded:
        check_reproduced(target, plan, segment.position, segment.recorded, chain)
    return segment.position


#: The work that this process has been sent, by its name: that of one run.
_sent: dict[str, Work] = {}
_lock = threading.Lock()


def run_remote_segment(
    name: str, segment: Segment, content: bytes | None = None
) -> list[Block] | None:
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
