"""Several chains side by side: on threads by default, on any executor by choice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Executor, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import jax
import numpy as np
import scipy.linalg  # noqa: F401  (loads the LAPACK that JAX calls, so that it can be limited)
from threadpoolctl import threadpool_limits

from invlift.compilation import num_cores
from invlift.precision import enable_x64
from invlift.samplers.chains.chain import (
    ChainState,
    Plan,
    Progress,
    chain_key,
    check_reproduced,
    compile_chain,
    run_chain,
    start_chain,
)
from invlift.samplers.chains.results import ChainResult, Run, cut_to_one_length
from invlift.samplers.chains.saving import CheckpointStore

#: Least time between two saves of a chain, s.
SAVE_INTERVAL = 10.0


def single_threaded_blas():
    """Context in which LAPACK keeps to the thread that calls it.

    Its own threads wait for each other at every one of a chain's many small factorisations: on a
    busy machine they then take a hundred times as long.
    """
    return threadpool_limits(limits=1, user_api="blas")


def run_chains(
    target,
    plan: Plan,
    starts: Any,
    seed: int,
    *,
    executor: Executor | None = None,
    store: CheckpointStore | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Run:
    """Run one chain from each start.

    Parameters
    ----------
    target
        Of the kind that the plan's kernel walks on.
    plan : Plan
    starts : (num_chains, Q) array
        Positions on the manifold.  Or a pytree with that ``shape`` whose ``starts[chain]`` finds
        one, which each chain then does for itself.
    seed : int
        Chain c uses ``fold_in(key(seed), c)``: its draws depend on nothing else.
    executor : concurrent.futures.Executor, optional
        Threads, one per core, if left out.  With any other kind the chains are sent out as
        picklable tasks that set up their own worker; ``on_progress`` is then silent.
    store : CheckpointStore, optional
        Where chains are saved as they run, and taken up again if they are there already.
    on_progress : callable
        Called from the chains' threads after every block.

    Returns
    -------
    Run
        After Ctrl-C, with the draws made so far (:func:`cut_to_one_length`).
    """
    owned = None
    if executor is None:
        workers = min(starts.shape[0], num_cores())
        executor = owned = ThreadPoolExecutor(workers, thread_name_prefix="chain")
    stop = threading.Event()

    def on_block(progress: Progress) -> bool:
        on_progress(progress)
        return not stop.is_set()

    compiling = None
    is_interrupted = False
    futures = []
    try:
        if isinstance(executor, ThreadPoolExecutor):
            # Beside the search for starts, which compiles and computes as well.
            compiling = _Compiling(target, plan, starts.shape[1])
            tasks = [
                (_chain_task, target, plan, starts, seed, chain, store, on_block)
                for chain in range(starts.shape[0])
            ]
        else:
            portable, starts = jax.tree.map(np.asarray, (target, starts))
            tasks = [
                (_remote_chain_task, portable, plan, starts, seed, chain, store)
                for chain in range(starts.shape[0])
            ]
        try:
            for task in tasks:
                futures.append(executor.submit(*task))
            wait(futures, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            is_interrupted = True
        stop.set()
        for future in futures:
            future.cancel()
        wait([future for future in futures if not future.cancelled()])
        chains = [future.result() for future in futures if not future.cancelled()]
        if store:
            store.restore_record()
    finally:
        stop.set()
        if owned is not None:
            owned.shutdown()
    seconds = compiling.seconds if compiling else 0.0
    return Run(cut_to_one_length(chains), seconds, is_interrupted, plan.kernel.standards)


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


def _chain_task(
    target,
    plan: Plan,
    starts: Any,
    seed: int,
    chain: int,
    store: CheckpointStore | None,
    on_block: Callable[[Progress], bool] = lambda progress: True,
) -> ChainResult:
    """Run one chain from its start or from where it was saved, saving it every few seconds."""
    state = store.load(chain, plan) if store else None
    if state is None:
        state = start_chain(plan, starts[chain])
    else:
        check_reproduced(target, plan, state, chain)
    compile_chain(target, plan, state.position.size)  # or wait for it
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

    rng_key = chain_key(seed, chain)
    return run_chain(target, plan, rng_key, state, chain=chain, on_block=after_block)


def _remote_chain_task(*arguments) -> ChainResult:
    """The same in a worker process, whose JAX this sets up."""
    enable_x64()
    with single_threaded_blas():
        return _chain_task(*arguments)
