"""Workers that run the segments of chains: threads of this process, or other processes.

A segment is a few seconds of a chain.  It needs only the position at its start, and returns the
blocks that follow.  The caller keeps the results of the chain.  A worker therefore needs no files
and no memory of the chain, and nothing is lost if it dies.
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

#: Time limits of a segment, to within a block, in this process and in others, s.
LOCAL_SECONDS, REMOTE_SECONDS = 1.0, 3.0
#: Approximate time limit of one call of a chain's program, s: much longer than a call's overhead.
CALL_SECONDS = 0.2


def single_threaded_blas():
    """Return a context in which LAPACK uses only the calling thread.

    The threads of LAPACK wait for each other in each of a chain's many small factorisations.  On a
    busy machine this takes a hundred times as long.
    """
    return threadpool_limits(limits=1, user_api="blas")


class Starts(Protocol):
    """Starts of chains: an array, or an object that computes a start where the chain runs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension Q."""
        ...

    def __getitem__(self, chain: int) -> np.ndarray:
        """Return the start of a chain, (Q,)."""
        ...


class Work(NamedTuple):
    """Common input of all segments of a run.

    Attributes
    ----------
    target
        Target of the kernel's ``target_kind``.
    plan : Plan
    starts
        ``starts[chain]`` is the start of a chain, (Q,); its ``shape`` is (num_chains, Q).  Each
        start is checked to be on the manifold, unless ``starts.is_exact`` is true.
    seed : int
        Chain c uses ``fold_in(key(seed), c)``.
    """

    target: Target
    plan: Plan
    starts: Starts
    seed: int


class Segment(NamedTuple):
    """A part of a chain to run: its start and the goal of the chain.

    Attributes
    ----------
    chain : int
    num_draws : int
        Number of draws at which the chain ends.
    position : Position or None
        Start of the segment; None for a chain that has not begun.
    recorded : mapping of str to array
        For a position from disk: the values recorded there, which the target must reproduce.
    """

    chain: int
    num_draws: int
    position: Position | None = None
    recorded: Mapping[str, np.ndarray] = {}


class Workers(Protocol):
    """Runs segments in parallel.

    Attributes
    ----------
    patience : float
        Time to wait for segments to end after a stop, s.  Segments that still run are then
        abandoned; they may be compiling, or in a block that takes minutes.
    compile_seconds : float
        Time of compilation, s, as far as it is known in this process.
    """

    patience: float
    compile_seconds: float

    def submit(self, segment: Segment, *, is_again: bool = False) -> Future[list[Block] | None]:
        """Submit a segment, to run at once or when a worker is free.

        The result is None if the worker needs the common input first: submit the segment again.
        """

    def stop(self) -> None:
        """Ask the running segments to end after their current block."""


class Threads:
    """Threads of this process.

    Parameters
    ----------
    work : Work
    executor : ThreadPoolExecutor
    turns : Turns
    """

    patience, compile_seconds = 3.0, 0.0

    def __init__(self, work: Work, executor: ThreadPoolExecutor, turns: Turns) -> None:
        self._work, self._executor, self._turns = work, executor, turns
        self._is_stopped = threading.Event()
        # Runs at the same time as the search for starts, which also compiles and computes.
        threading.Thread(target=self._compile, name="compiling").start()

    def _compile(self) -> None:
        """Compile the programs of a chain; a failure is that of the chains, which meet it too."""
        began = time.perf_counter()
        with suppress(Exception):
            compile_chain(self._work.target, self._work.plan, self._work.starts.shape[1])
        self.compile_seconds = time.perf_counter() - began

    def submit(self, segment: Segment, *, is_again: bool = False) -> Future[list[Block]]:
        """See `Workers`."""
        return self._executor.submit(
            run_segment, self._work, segment, LOCAL_SECONDS, self._is_stopped, self._turns
        )

    def stop(self) -> None:
        """See `Workers`."""
        self._is_stopped.set()


class Processes:
    """Worker processes behind any other executor, on this machine or on others.

    The common input of the segments is sent to a process once, when the process reports that it
    lacks it.

    Parameters
    ----------
    work : Work
    executor : concurrent.futures.Executor
    """

    patience, compile_seconds = 10 * REMOTE_SECONDS, 0.0

    def __init__(self, work: Work, executor: Executor) -> None:
        portable = jax.tree.map(np.asarray, (work.target, work.starts))
        work = work._replace(target=portable[0], starts=portable[1])
        self._content = cloudpickle.dumps((work, keeps_compiled_programs()))
        self._name, self._executor = uuid4().hex, executor

    def submit(self, segment: Segment, *, is_again: bool = False) -> Future[list[Block] | None]:
        """See `Workers`."""
        content = (self._content,) if is_again else ()
        return self._executor.submit(run_remote_segment, self._name, segment, *content)

    def stop(self) -> None:
        """Do nothing, because a segment ends within a few seconds."""


def run_segment(
    work: Work,
    segment: Segment,
    seconds: float,
    is_stopped: threading.Event | None = None,
    turns: Callable = at_once,
) -> list[Block]:
    """Run a segment, which has at least one block unless the chain is at its end."""
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
    """Return the start of a segment; check it if the chain is new or comes from disk."""
    target, plan, chain = work.target, work.plan, segment.chain
    if segment.position is None:
        position = start_position(plan, work.starts[chain])
        if not getattr(work.starts, "is_exact", False):
            check_start(target, plan, position, chain)
        return position
    if segment.recorded:
        check_reproduced(target, plan, segment.position, segment.recorded, chain)
    return segment.position


#: The last work that this process has received, by name: that of one run.
_sent: dict[str, Work] = {}
_lock = threading.Lock()


def run_remote_segment(
    name: str, segment: Segment, content: bytes | None = None
) -> list[Block] | None:
    """Run a segment in a worker process, and set up JAX there; None if it lacks the work."""
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
