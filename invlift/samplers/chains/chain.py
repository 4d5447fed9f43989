"""Running one chain, warm-up and sampling, in blocks that can be watched, stopped and resumed.

The random numbers of a chain depend only on its key and the iteration number.  A block depends only
on the position, the carried fields of the kernel's state, the state of the adaptation and the
iteration number.  Draws are therefore bit-identical on any executor, with or without interruption.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from invlift.moments import Moments
from invlift.programs.pytrees import PyTree
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.programs import (
    BLOCK,
    block_program,
    evaluate_state,
    is_carried_whole,
    num_rows,
    padded_schedule,
    restored,
    state_shapes,
)
from invlift.samplers.chains.state import Block, Position
from invlift.samplers.chains.turns import at_once


class Progress(NamedTuple):
    """Progress of a chain after a block.

    Attributes
    ----------
    chain : int
    iteration : int
        Iterations so far, warm-up included.
    is_warmup : bool
    step_size : float or None
        Step size of the last iteration, if the kernel has one.
    acceptance_rate : float
        Average over the block.
    num_failures : int or None
        Failures in this block, if the kernel counts any.
    num_factorisations : int
        Factorisations in this block.
    seconds : float
        Time of the chain so far.
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
    target,
    plan: Plan,
    rng_key: jax.Array,
    position: Position,
    num_draws: int | None = None,
    call_seconds: float = 0.0,
    turns: Callable = at_once,
) -> Iterator[Block]:
    """Continue a chain from a position, block by block.

    Parameters
    ----------
    target
        Target of the kernel's ``target_kind``.
    plan : Plan
    rng_key : jax.Array
        Key of this chain.
    position : Position
    num_draws : int, optional
        Total number of draws, if it differs from that of the plan.
    call_seconds : float
        Approximate time limit of a call of the program.  If several blocks fit in it, they run in
        one call, and are yielded as one block.  A call runs a single block during warm-up, where
        the time of an iteration changes, and when moments are kept, because their bits depend on
        the number of draws merged at a time.
    turns : callable
        Calls the program when it may run: :class:`~invlift.samplers.chains.turns.Turns`.

    Yields
    ------
    Block
    """
    total = plan.num_warmup + (plan.num_draws if num_draws is None else num_draws)
    program = _Program(target, plan, rng_key, position.values.size)
    num_blocks = 1
    while True:
        position = _skipped(plan, position)
        if position.iteration >= total or _is_over(plan, position):
            return
        is_warmup = position.iteration < plan.num_warmup
        left = (plan.num_warmup if is_warmup else total) - position.iteration
        num = min(num_blocks * BLOCK, program.num_rows, left)
        began = time.perf_counter()
        values, carried, adapted, kept, accumulated, stats = turns(program.run, position, num)
        seconds = time.perf_counter() - began
        is_single = is_warmup or plan.fields or accumulated
        num_blocks = 1 if is_single else max(1, int(call_seconds * num / BLOCK / seconds))
        warmup, sampling = position.seconds
        spent = (warmup + seconds, sampling) if is_warmup else (warmup, sampling + seconds)
        position = Position(values, adapted, position.iteration + num, spent, carried)
        accumulated = {} if is_warmup else accumulated
        fields = {name: accumulated[name] for name in plan.fields if name in accumulated}
        moments = {name: Moments.of(x) for name, x in accumulated.items() if name not in fields}
        yield Block(position, num, is_warmup, kept, stats, moments, fields)


def _is_over(plan: Plan, position: Position) -> bool:
    """Return whether the time of the warm-up, or of the whole chain, is over."""
    return plan.is_over(position.seconds, position.iteration < plan.num_warmup)


def _skipped(plan: Plan, position: Position) -> Position:
    """Return the position moved to the end of the warm-up, if the time of the warm-up is over."""
    if position.iteration < plan.num_warmup and _is_over(plan, position):
        return position._replace(iteration=plan.num_warmup)
    return position


class _Program:
    """Compiled program of a chain's blocks, with the last state of the kernel."""

    def __init__(self, target, plan: Plan, rng_key: jax.Array, dimension: int) -> None:
        self._target, self._plan, self._rng_key = target, plan, rng_key
        self._run_block = block_program(dimension)
        state = state_shapes(plan.kernel, target, dimension)
        self._schedule, self.num_rows = padded_schedule(plan, state), num_rows(state)
        self._last: PyTree = None

    def run(self, position: Position, num: int) -> tuple:
        """Run ``num`` iterations from a position.

        Returns
        -------
        tuple
            Position, (Q,), the carried fields of the kernel's state, the adaptation's state, and
            three dicts of arrays (num, ...): draws, further values of the model, and statistics.
        """
        plan, first = self._plan, position.iteration
        self._last = self._state_at(position.values, position.carried)
        is_warmup = first < plan.num_warmup
        row = first if is_warmup else plan.num_warmup
        stages = self._schedule[row : row + self.num_rows]
        *end, kept, accumulated, stats = self._run_block(
            plan.kernel, self._target, self._last, position.adaptation, self._rng_key,
            first, num, is_warmup, stages,
        )  # fmt: skip
        # Copied to the host.
        recorded = (kept, accumulated, stats)
        recorded = jax.tree.map(lambda rows: np.asarray(rows)[:num].copy(), recorded)
        return *jax.tree.map(np.array, end), *recorded

    def _state_at(self, values: np.ndarray, carried: dict[str, np.ndarray]) -> PyTree:
        """Return the kernel's state at a position, with the carried fields restored.

        The state is not evaluated if all its fields are carried and the last state gives its
        structure.
        """
        kernel, state = self._plan.kernel, self._last
        if not carried or state is None or not is_carried_whole(kernel, state):
            state = evaluate_state(kernel, self._target, values)
        return restored(values, state, carried)


def progress_of(plan: Plan, chain: int, block: Block) -> Progress:
    """Return the progress of a chain after a block."""
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
