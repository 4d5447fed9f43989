"""Several chains side by side: on threads by default, on any executor by choice."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass

import jax
import numpy as np
import scipy.linalg  # noqa: F401  (loads the LAPACK that JAX calls, so that it can be limited)
from threadpoolctl import threadpool_limits

from invlift.precision import can_run_in_threads, enable_x64
from invlift.samplers.chains import (
    ChainResult,
    ChainState,
    Plan,
    Progress,
    compile_chain,
    run_chain,
    start_chain,
)
from invlift.samplers.checkpoint import CheckpointStore

logger = logging.getLogger(__name__)

#: Least time between two saves of a chain, s.
SAVE_INTERVAL = 10.0


def single_threaded_blas():
    """Context in which LAPACK keeps to the thread that calls it.

    Its own threads wait for each other at every one of a chain's many small factorisations: on a
    busy machine they then take a hundred times as long.
    """
    return threadpool_limits(limits=1, user_api="blas")


@dataclass(frozen=True)
class Run:
    """Chains of one run.

    Attributes
    ----------
    chains : list of ChainResult
        All with the same number of draws.
    compile_seconds : float
    is_interrupted : bool
        Stopped before the plan was done; the draws made until then are here.
    """

    chains: list[ChainResult]
    compile_seconds: float
    is_interrupted: bool


def run_chains(
    system,
    plan: Plan,
    positions: np.ndarray,
    seed: int,
    *,
    executor: Executor | None = None,
    store: CheckpointStore | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Run:
    """Run one chain from each position.

    Parameters
    ----------
    system : ConstrainedSystem
    plan : Plan
    positions : (num_chains, Q)
        Starting points on the manifold.
    seed : int
        Chain c uses ``fold_in(key(seed), c)``: its draws depend on nothing else.
    executor : concurrent.futures.Executor, optional
        Threads, one per core, if left out.  On threads, chains take turns where this JAX might
        block them (:func:`invlift.precision.can_run_in_threads`).  With any other kind the chains
        are sent out as picklable tasks that set up their own worker; ``on_progress`` is then
        silent.
    store : CheckpointStore, optional
        Where chains are saved as they run, and taken up again if they are there already.
    on_progress : callable
        Called from the chains' threads after every block.

    Returns
    -------
    Run
        After Ctrl-C, with the draws made so far (:func:`cut_to_one_length`).
    """
    began = time.perf_counter()
    owned = None
    if executor is None:
        workers = min(len(positions), num_cores())
        executor = owned = ThreadPoolExecutor(workers, thread_name_prefix="chain")
    stop = threading.Event()

    def on_block(progress: Progress) -> bool:
        on_progress(progress)
        return not stop.is_set()

    compile_seconds = 0.0
    is_interrupted = False
    try:
        if isinstance(executor, ThreadPoolExecutor):
            compile_chain(system, plan, jax.random.key(seed), positions[0])
            compile_seconds = time.perf_counter() - began
            chain_task = _chain_task if can_run_in_threads() else _in_turn(_chain_task)
            tasks = [
                (chain_task, system, plan, seed, chain, position, store, on_block)
                for chain, position in enumerate(positions)
            ]
        else:
            portable = jax.tree.map(np.asarray, system)
            tasks = [
                (_remote_chain_task, portable, plan, seed, chain, np.asarray(position), store)
                for chain, position in enumerate(positions)
            ]
        futures = []
        try:
            for task in tasks:
                futures.append(executor.submit(*task))
            wait(futures)
        except KeyboardInterrupt:
            is_interrupted = True
            stop.set()
            for future in futures:
                future.cancel()
            wait([future for future in futures if not future.cancelled()])
        chains = [future.result() for future in futures if not future.cancelled()]
    finally:
        stop.set()
        if owned is not None:
            owned.shutdown()
    return Run(cut_to_one_length(chains), compile_seconds, is_interrupted)


def cut_to_one_length(chains: list[ChainResult]) -> list[ChainResult]:
    """Chains with the same number of draws, at least one, and of these as many as there can be.

    After an interruption some may have hardly begun: two chains of 1,000 draws are worth more than
    four of 10.  Two at least are kept if two have draws.
    """
    lengths = sorted((chain.num_draws for chain in chains if chain.num_draws), reverse=True)
    if not lengths:
        return []
    counts = range(min(2, len(lengths)), len(lengths) + 1)
    length = lengths[max(counts, key=lambda count: count * lengths[count - 1]) - 1]
    return [_truncated(chain, length) for chain in chains if chain.num_draws >= length]


def num_cores() -> int:
    """Cores this process may use: a batch system often grants fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_turn(task: Callable) -> Callable:
    """The task, one after another however many threads there are."""
    logger.warning(
        "chains run one after another: JAX was started before invlift.enable_x64(); "
        "call that first to run them side by side"
    )
    turn = threading.Lock()

    def wait_and_run(*arguments):
        with turn:
            return task(*arguments)

    return wait_and_run


def _chain_task(
    system,
    plan: Plan,
    seed: int,
    chain: int,
    position,
    store: CheckpointStore | None,
    on_block: Callable[[Progress], bool] = lambda progress: True,
) -> ChainResult:
    """Run one chain, saving it every few seconds and when it ends."""
    rng_key = jax.random.fold_in(jax.random.key(seed), chain)
    state = (store.load(chain) if store else None) or start_chain(position)
    total = plan.num_warmup + plan.num_draws
    saved = [len(state.warmup_blocks), len(state.blocks)]
    last = time.monotonic()

    def after_block(state: ChainState, progress: Progress) -> bool:
        nonlocal last
        goes_on = on_block(progress)
        is_due = time.monotonic() - last > SAVE_INTERVAL
        if store and (is_due or not goes_on or state.iteration >= total):
            store.save(chain, state, tuple(saved))
            saved[:] = len(state.warmup_blocks), len(state.blocks)
            last = time.monotonic()
        return goes_on

    return run_chain(system, plan, rng_key, state, chain=chain, on_block=after_block)


def _remote_chain_task(*arguments) -> ChainResult:
    """The same in a worker process, whose JAX this sets up."""
    enable_x64()
    with single_threaded_blas():
        return _chain_task(*arguments)


def _truncated(chain: ChainResult, num_draws: int) -> ChainResult:
    """The first ``num_draws`` draws; moments stay those of all draws."""
    return ChainResult(
        {name: values[:num_draws] for name, values in chain.draws.items()},
        {name: values[:num_draws] for name, values in chain.stats.items()},
        chain.moments,
        chain.warmup_stats,
        chain.step_size,
        chain.warmup_seconds,
        chain.sampling_seconds,
    )
