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
    target,
    plan: Plan,
    rng_key: jax.Array,
    position: Position,
    num_draws: int | None = None,
    call_seconds: float = 0.0,
    turns: Callable = at_once,
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
    call_seconds : float
        About how long a call of the program may take.  As many blocks of a small model as it lasts
        for are yielded as one; a single one during warm-up, where the time of an iteration changes,
        and where moments are kept, whose bits depend on how many draws are merged at a time.
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
    """Whether warm-up, or all, has had its time."""
    return plan.is_over(position.seconds, position.iteration < plan.num_warmup)


def _skipped(plan: Plan, position: Position) -> Position:
    """The position behind the warm-up, if that has had its time."""
    if position.iteration < plan.num_warmup and _is_over(plan, position):
        return position._replace(iteration=plan.num_warmup)
    return position


class _Program:
    """What runs the blocks of a chain."""

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
            Position, (Q,), what the kernel carries, the adaptation's state, and draws, what the
            model computes on the way, and statistics, dicts of arrays (num, ...).
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
        # On the host, as arrays of their own.
        recorded = (kept, accumulated, stats)
        recorded = jax.tree.map(lambda rows: np.asarray(rows)[:num].copy(), recorded)
        return *jax.tree.map(np.array, end), *recorded

    def _state_at(self, values: np.ndarray, carried: dict[str, np.ndarray]) -> PyTree:
        """The kernel's state at a position, with what is carried put in.

        Not evaluated where that is all of it and the last state shows its form.
        """
        kernel, state = self._plan.kernel, self._last
        if not carried or state is None or not is_carried_whole(kernel, state):
            state = evaluate_state(kernel, self._target, values)
        return restored(values, state, carried)


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
