"""Parallel chains: on threads by default, or on any executor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait

from invlift.chains import Chain
from invlift.programs.compilation import num_cores
from invlift.programs.memory import give_back_memory
from invlift.samplers.chains.chain import Progress, progress_of
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.results import Run, cut_to_one_length
from invlift.samplers.chains.saving import CheckpointStore
from invlift.samplers.chains.state import Block, ChainState, Increment, gather
from invlift.samplers.chains.turns import Turns, at_once
from invlift.samplers.chains.workers import Processes, Segment, Starts, Threads, Work, Workers

#: Shortest time between two saves of a chain, s: the initial value, which doubles after each save,
#: and its upper limit.  A chain is also saved at the end of its warm-up.
FIRST_INTERVAL, SAVE_INTERVAL = 1.0, 10.0
#: Time to wait for the other chains after one has failed, s.
PATIENCE_AFTER_FAILURE = 60.0
#: Longest sleep of the calling thread, s.  If the system sends Ctrl-C to another thread, the
#: calling thread sees it only when it wakes.
MAX_SLEEP = 0.5


def run_chains(
    target,
    plan: Plan,
    starts: Starts,
    seed: int,
    *,
    executor: Executor | None = None,
    store: CheckpointStore | None = None,
    max_seconds: float | None = None,
    next_goal: Callable[[Sequence[Chain]], int | None] | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    turns: Callable | None = None,
) -> Run:
    """Run one chain from each start.

    Parameters
    ----------
    target
        Target of the kernel's ``target_kind``.
    plan : Plan
    starts : (num_chains, Q) array
        Positions on the manifold.  Or a pytree with this ``shape`` whose ``starts[chain]``
        computes one; each chain then computes its start where it runs.
    seed : int
        Chain c uses the key ``fold_in(key(seed), c)``, on which all its random numbers depend.
    executor : concurrent.futures.Executor, optional
        By default a pool of threads, one per core.  On an executor that is not a thread pool, the
        chains run in other processes, a few seconds at a time.
    store : CheckpointStore, optional
        Store of the running chains.  Chains that it already holds are continued.
    max_seconds : float, optional
        Time from now after which all chains end, to within a segment.
    next_goal : callable
        Called when all chains have reached their number of draws.  It returns the next number of
        draws, or None to end.  Without it, the chains end at the number of the plan.
    on_progress : callable
        Called after every block.
    turns : Turns, optional
        Turns shared with other runs of this problem in concurrent threads.

    Returns
    -------
    Run
        After Ctrl-C, with the draws so far (:func:`cut_to_one_length`).

    Raises
    ------
    InputError
        If a start of the array is not on the kernel's manifold.
    """
    work = Work(target, plan, starts, int(seed))
    owned = None
    num_chains = size = starts.shape[0]
    if executor is None:
        size = min(size, num_cores())
        executor = owned = ThreadPoolExecutor(size, thread_name_prefix="chain")
    if isinstance(executor, ThreadPoolExecutor):
        turns = turns or (Turns() if size > 1 else at_once)
        workers = Threads(work, executor, turns)
    else:
        workers = Processes(work, executor)
    saved = [chain for chain in store.chains() if chain < num_chains] if store else []
    states = {chain: store.load(chain, plan) for chain in saved}
    scheduler = _Scheduler(plan, workers, num_chains, states, store, next_goal, on_progress)
    if max_seconds is not None:
        scheduler.deadline = time.monotonic() + max_seconds
    # In a separate thread, so that Ctrl-C cannot interrupt the scheduler within a block.
    leading = ThreadPoolExecutor(1, thread_name_prefix="scheduler")
    is_interrupted = False
    try:
        done = leading.submit(scheduler.run)
        try:
            while not done.done():
                wait([done], timeout=MAX_SLEEP)
        except KeyboardInterrupt:
            is_interrupted = True
            scheduler.stop()
        done.result()
    finally:
        scheduler.stop()
        leading.shutdown()
        if owned is not None:
            owned.shutdown(wait=not scheduler.has_left)
    chains = cut_to_one_length(scheduler.hand_over())
    seconds = scheduler.workers.compile_seconds
    num_requested = plan.num_draws if next_goal is None else None
    parts = is_interrupted, plan.kernel.standards, num_requested, num_chains
    return Run(chains, seconds, *parts)


class _Scheduler:
    """Scheduler that submits the segments of the chains, and collects and saves their blocks.

    Attributes
    ----------
    workers : Workers
    deadline : float
        Time at which all chains end, on the clock ``time.monotonic``.
    has_left : bool
        Whether the scheduler has ended without waiting for segments that still run.
    """

    def __init__(
        self,
        plan: Plan,
        workers: Workers,
        num_chains: int,
        saved: dict[int, ChainState],
        store: CheckpointStore | None,
        next_goal: Callable[[Sequence[Chain]], int | None] | None,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.workers = workers
        self.deadline, self.has_left = float("inf"), False
        self._plan, self._store = plan, store
        self._next_goal, self._on_progress = next_goal, on_progress
        self._num_chains, self._states = num_chains, saved  # states of the chains that have begun
        self._recorded = {chain: state.recorded for chain, state in saved.items()}
        self._unsaved: list[list[Increment]] = [[] for _ in range(num_chains)]
        self._saved_at = [time.monotonic()] * num_chains
        self._intervals = [min(FIRST_INTERVAL, SAVE_INTERVAL)] * num_chains
        self._is_stopped = threading.Event()
        self._stopped_at = float("inf")

    def stop(self) -> None:
        """Ask the scheduler to end soon; the blocks of running segments are kept."""
        self._is_stopped.set()
        self._stopped_at = min(self._stopped_at, time.monotonic())
        self.workers.stop()

    def results(self) -> list[Chain]:
        """Return the results of all chains that have begun."""
        return [gather(self._plan, state) for _, state in sorted(self._states.items())]

    def hand_over(self) -> list[Chain]:
        """Return the final results of all chains that have begun, and free their states."""
        chains = []
        for chain in sorted(self._states):
            chains.append(gather(self._plan, self._states.pop(chain)))
            give_back_memory()
        return chains

    def run(self) -> None:
        """Run all chains to the plan's number of draws, and to each next goal."""
        goal = self._plan.num_draws
        try:
            while goal is not None:
                self._run_to(goal)
                is_last = self._is_over or self._next_goal is None
                goal = None if is_last else self._next_goal(self.results())
        finally:
            if self._store:
                for chain in sorted(self._states):
                    self._save(chain)
                self._store.restore_record()

    @property
    def _is_over(self) -> bool:
        return self._is_stopped.is_set() or time.monotonic() > self.deadline

    def _run_to(self, goal: int) -> None:
        """Run all chains until they have ``goal`` draws."""
        running: dict[Future, int] = {}
        for chain in range(self._num_chains):
            self._hand_out(chain, goal, running)
        try:
            while running:
                wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                # `wait` does not count futures that an executor has cancelled by itself.
                done = [future for future in running if future.done()]
                for future in sorted(done, key=running.get):
                    blocks = future.result()
                    chain = running.pop(future)
                    if blocks is None:
                        self._hand_out(chain, goal, running, is_again=True)
                    else:
                        self._take(chain, blocks, goal, running)
                end = min(self._stopped_at, self.deadline) + self.workers.patience
                if time.monotonic() > end and running:
                    self.has_left = True
                    self.workers.stop()
                    return
        except BaseException:
            self._give_up(running)
            raise

    def _give_up(self, running: dict[Future, int]) -> None:
        """Stop all chains after a failure, and keep the blocks that they still return.

        If several chains failed, raise the error of the first by number, not by time.
        """
        self.stop()
        for future in running:
            future.cancel()
        left = [future for future in running if not future.cancelled()]
        done, _ = wait(left, max(self.workers.patience, PATIENCE_AFTER_FAILURE))
        failed = [future for future in done if future.exception() is not None]
        for future in done.difference(failed):
            self._keep(running[future], future.result() or ())
        for future in sorted(failed, key=running.get):
            future.result()

    def _hand_out(
        self, chain: int, goal: int, running: dict[Future, int], is_again: bool = False
    ) -> None:
        """Submit the next segment of a chain, unless the chain is at its end and checked."""
        state, recorded = self._states.get(chain), self._recorded.get(chain, {})
        position = state and state.position
        end = self._plan.num_warmup + goal
        is_there = position and position.iteration >= end and not recorded
        if not (self._is_over or is_there):
            segment = Segment(chain, goal, position, recorded)
            running[self.workers.submit(segment, is_again=is_again)] = chain

    def _take(
        self, chain: int, blocks: Sequence[Block], goal: int, running: dict[Future, int]
    ) -> None:
        """Collect the blocks of a segment, and submit the next segment of its chain."""
        self._recorded.pop(chain, None)
        if not blocks:  # the chain was at its end, or its time is over
            return
        self._keep(chain, blocks)
        self._hand_out(chain, goal, running)
        for block in blocks:
            self._on_progress(progress_of(self._plan, chain, block))
        is_due = time.monotonic() - self._saved_at[chain] > self._intervals[chain]
        marks = self._plan.num_warmup, self._plan.num_warmup + goal
        first, last = blocks[0].end.iteration - blocks[0].num, blocks[-1].end.iteration
        if is_due or any(first < mark <= last for mark in marks):
            self._intervals[chain] = min(2.0 * self._intervals[chain], SAVE_INTERVAL)
            self._save(chain)
            give_back_memory()

    def _keep(self, chain: int, blocks: Sequence[Block]) -> None:
        """Add the blocks of a segment to its chain."""
        for block in blocks:
            state = self._states.setdefault(chain, ChainState(block.end))
            increment = state.add(self._plan, block)
            if self._store:
                self._unsaved[chain].append(increment)

    def _save(self, chain: int) -> None:
        """Save the increments of a chain since its last save, if there are any."""
        if self._store and self._unsaved[chain]:
            self._store.save(chain, self._states[chain], self._unsaved[chain])
            self._unsaved[chain] = []
        self._saved_at[chain] = time.monotonic()
