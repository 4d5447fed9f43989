"""Running one chain: warm-up, sampling, in blocks that can be watched, stopped and resumed.

A chain's random numbers depend on its key and the iteration alone, and every block starts from
nothing but a position, what the kernel carries with it, the state of the step-size search and an
iteration number.  Draws are therefore the same bits whatever runs the chain, and whether or not it
was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from invlift.moments import Moments
from invlift.pytrees import PyTree
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import BLOCK, block_program, evaluate_state, padded_schedule
from invlift.samplers.chains.results import ChainResult
from invlift.samplers.chains.state import Block, ChainState, Position, gather
from invlift.samplers.kernels.base import Kernel


class Progress(NamedTuple):
    """A chain's news after a block.

    Attributes
    ----------
    chain : int
    iteration : int
        Iterations done, warm-up included.
    is_warmup : bool
    step_size : float or None
        Of the last iteration, if the kernel has one.
    acceptance_rate : float
        Averaged over the block.
    num_failures : int or None
        In this block: what the kernel counts as such, if anything.
    num_factorisations : int
        In this block.
    seconds : float
        Time that the chain has taken so far.
    """

    chain: int
    iteration: int
    is_warmup: bool
    step_size: float | None
    acceptance_rate: float
    num_failures: int | None
    num_factorisations: int
    seconds: float


def run_blocks(
    target, plan: Plan, rng_key: jax.Array, position: Position, num_draws: int | None = None
) -> Iterator[Block]:
    """Run a chain on from a position, block by block.

    Parameters
    ----------
    target
        Of the kind that the kernel walks on.
    plan : Plan
    rng_key : jax.Array
        The chain's own key.
    position : Position
    num_draws : int, optional
        Draws after which to end, if not those of the plan.

    Yields
    ------
    Block
    """
    total = plan.num_warmup + (plan.num_draws if num_draws is None else num_draws)
    run_block = block_program(position.values.size)
    schedule = padded_schedule(plan)
    state = None
    while position.iteration < total:
        iteration, seconds = position.iteration, position.seconds
        is_warmup = iteration < plan.num_warmup
        if plan.is_over(seconds, is_warmup):
            if not is_warmup:
                return
            position = position._replace(iteration=plan.num_warmup)
            continue
        num = min(BLOCK, (plan.num_warmup if is_warmup else total) - iteration)
        began = time.perf_counter()
        first = iteration if is_warmup else plan.num_warmup
        state = _state_at(plan.kernel, target, position, state)
        values, carried, adaptation, kept, accumulated, stats = run_block(
            plan.kernel,
            target,
            state,
            position.adaptation,
            rng_key,
            iteration,
            num,
            is_warmup,
            schedule[first : first + BLOCK],
        )
        stats, kept, accumulated = (
            {name: np.array(value)[:num] for name, value in part.items()}
            for part in (stats, kept, accumulated)
        )
        values, carried, adaptation = jax.tree.map(np.asarray, (values, carried, adaptation))
        accumulated = {} if is_warmup else accumulated
        fields = {name: accumulated[name] for name in plan.fields if name in accumulated}
        moments = {name: Moments.of(x) for name, x in accumulated.items() if name not in fields}
        spent = time.perf_counter() - began
        warmup, sampling = seconds
        seconds = (warmup + spent, sampling) if is_warmup else (warmup, sampling + spent)
        position = Position(values, adaptation, iteration + num, seconds, carried)
        yield Block(position, num, is_warmup, kept, stats, moments, fields)


def _state_at(kernel: Kernel, target, position: Position, before: PyTree) -> PyTree:
    """The kernel's state at a position, with what it carries put in.

    Not evaluated where all of it is carried and ``before``, a state of this chain or None, shows
    its form.
    """
    fields = set(getattr(before, "_fields", ()))
    if kernel.carries and fields == {"position", *kernel.carries}:
        state = before._replace(position=position.values)
    else:
        state = evaluate_state(kernel, target, position.values)
    return state._replace(**position.carried) if position.carried else state


def run_chain(
    target,
    plan: Plan,
    rng_key: jax.Array,
    state: ChainState,
    *,
    chain: int = 0,
    on_block: Callable[[ChainState, Progress], bool] = lambda state, progress: True,
) -> ChainResult:
    """Run a chain from where its state is to the end of the plan.

    Parameters
    ----------
    target
        Of the kind that the kernel walks on.
    plan : Plan
    rng_key : jax.Array
        The chain's own key.
    state : ChainState
        Changed in place.
    chain : int
        Number of the chain, for the reports.
    on_block : callable
        Called after every block of 10 iterations; the chain stops early when it returns False.

    Returns
    -------
    ChainResult
    """
    for block in run_blocks(target, plan, rng_key, state.position):
        state.add(plan, block)
        if not on_block(state, progress_of(plan, chain, block)):
            break
    return gather(plan, state)


def progress_of(plan: Plan, chain: int, block: Block) -> Progress:
    """The news of a chain after a block."""
    stats, failures = block.stats, plan.kernel.standards.failures
    return Progress(
        chain,
        block.end.iteration,
        block.is_warmup,
        float(stats["step_size"][-1]) if "step_size" in stats else None,
        float(stats["acceptance_rate"].mean()),
        int(stats[failures].sum()) if failures else None,
        int(stats["num_factorisations"].sum()),
        sum(block.end.seconds),
    )
