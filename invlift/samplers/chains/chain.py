"""Running one chain: warm-up, sampling, in blocks that can be watched, stopped and resumed.

A chain's random numbers depend on its key and the iteration alone, and every block starts from
nothing but a position, what the kernel carries with it, the state of the step-size search and an
iteration number.  Draws are therefore the same bits whatever runs the chain, and whether or not it
was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
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
    evaluate_states,
    is_carried_whole,
    num_rows,
    padded_schedule,
    restored,
)
from invlift.samplers.chains.results import ChainResult
from invlift.samplers.chains.state import Block, ChainState, Position, gather


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
    for (block,) in run_lanes(target, plan, rng_key, [position], num_draws):
        yield block


def run_lanes(
    target,
    plan: Plan,
    rng_keys: jax.Array,
    positions: Sequence[Position],
    num_draws: int | None = None,
    call_seconds: float = 0.0,
) -> Iterator[list[Block | None]]:
    """Run chains side by side in one program, as many as there are positions.

    Those that are behind the others go on first, alone.

    Parameters
    ----------
    target
    plan : Plan
    rng_keys : (lanes,) jax.Array
        The chains' own keys; of a single chain its key, ().
    positions : sequence of Position
    num_draws : int, optional
        As of :func:`run_blocks`.
    call_seconds : float
        About how long a call of the program may take.  As many blocks of a small model as it lasts
        for are yielded as one; a single one during warm-up, where the time of an iteration changes,
        and where moments are kept, whose bits depend on how many draws are merged at a time.

    Yields
    ------
    list of Block or None
        For each chain what it brings, or None if it waits or has come to its end.
    """
    total = plan.num_warmup + (plan.num_draws if num_draws is None else num_draws)
    positions = list(positions)
    lanes = _Lanes(target, plan, rng_keys, positions)
    num_blocks = 1
    while True:
        positions = [_skipped(plan, position) for position in positions]
        going = [
            lane
            for lane, position in enumerate(positions)
            if position.iteration < total and not _is_over(plan, position)
        ]
        if not going:
            return
        iteration = min(positions[lane].iteration for lane in going)
        moving = [lane for lane in going if positions[lane].iteration == iteration]
        is_warmup = iteration < plan.num_warmup
        left = (plan.num_warmup if is_warmup else total) - iteration
        num = min(num_blocks * BLOCK, lanes.num_rows, left)
        began = time.perf_counter()
        found = lanes.run(positions, moving, num)
        seconds = time.perf_counter() - began
        is_single = is_warmup or plan.fields or found[moving[0]][-2]
        num_blocks = 1 if is_single else max(1, int(call_seconds * num / BLOCK / seconds))
        spent = seconds / len(moving)
        blocks: list[Block | None] = [None] * len(positions)
        for lane in moving:
            warmup, sampling = positions[lane].seconds
            seconds = (warmup + spent, sampling) if is_warmup else (warmup, sampling + spent)
            values, carried, adapted, kept, accumulated, stats = found[lane]
            positions[lane] = Position(values, adapted, iteration + num, seconds, carried)
            accumulated = {} if is_warmup else accumulated
            fields = {name: accumulated[name] for name in plan.fields if name in accumulated}
            moments = {name: Moments.of(x) for name, x in accumulated.items() if name not in fields}
            blocks[lane] = Block(positions[lane], num, is_warmup, kept, stats, moments, fields)
        yield blocks


def _is_over(plan: Plan, position: Position) -> bool:
    """Whether warm-up, or all, has had its time."""
    return plan.is_over(position.seconds, position.iteration < plan.num_warmup)


def _skipped(plan: Plan, position: Position) -> Position:
    """The position behind the warm-up, if that has had its time."""
    if position.iteration < plan.num_warmup and _is_over(plan, position):
        return position._replace(iteration=plan.num_warmup)
    return position


class _Lanes:
    """What runs blocks of some chains side by side, or of a single one."""

    def __init__(
        self, target, plan: Plan, rng_keys: jax.Array, positions: Sequence[Position]
    ) -> None:
        dimension = positions[0].values.size
        self._target, self._plan, self._rng_keys = target, plan, rng_keys
        self._num_lanes = len(positions)
        self._run_block = block_program(dimension, self._num_lanes)
        self._schedule = padded_schedule(target, plan, dimension)
        self._last: PyTree = None
        self.num_rows = num_rows(target, dimension)

    def run(self, positions: Sequence[Position], moving: Sequence[int], num: int) -> list[tuple]:
        """Run ``num`` iterations of those that move, which are all at the same one.

        Returns
        -------
        list of tuple
            For each lane its position, (Q,), what the kernel carries, the adaptation's state, and
            draws, what the model computes on the way, and statistics, dicts of arrays (num, ...).
        """
        plan, first = self._plan, positions[moving[0]].iteration
        # A lane that waits computes what another begins with; nothing of it is kept.
        used = [positions[lane if lane in moving else moving[0]] for lane in range(self._num_lanes)]
        parts = [(each.values, each.adaptation, each.carried) for each in used]
        values, adapted, carried = self._together(parts)
        self._last = self._state_at(values, carried)
        is_warmup = first < plan.num_warmup
        row = first if is_warmup else plan.num_warmup
        stages = self._schedule[row : row + self.num_rows]
        found = self._run_block(
            plan.kernel, self._target, self._last, adapted, self._rng_keys,
            first, num, is_warmup, stages,
        )  # fmt: skip
        return [_on_host(each, num) for each in self._apart(found)]

    def _together(self, parts: Sequence[PyTree]) -> PyTree:
        """With an axis of lanes in front, if there are several."""
        if self._num_lanes == 1:
            return parts[0]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)

    def _apart(self, found: PyTree) -> Sequence[PyTree]:
        """The reverse."""
        if self._num_lanes == 1:
            return [found]
        leaves, structure = jax.tree.flatten(found)
        lanes = zip(*map(np.asarray, leaves), strict=True)
        return [jax.tree.unflatten(structure, lane) for lane in lanes]

    def _state_at(self, values: np.ndarray, carried: dict[str, np.ndarray]) -> PyTree:
        """The kernel's states at positions, with what is carried put in.

        Not evaluated where that is all of it and the last states show its form.
        """
        kernel, target, state = self._plan.kernel, self._target, self._last
        if not carried or state is None or not is_carried_whole(kernel, target, values, state):
            evaluate = evaluate_state if self._num_lanes == 1 else evaluate_states
            state = evaluate(kernel, target, values)
        return restored(target, values, state, carried)


def _on_host(found: tuple, num: int) -> tuple:
    """What a block returns of a chain, as arrays of their own, of the iterations that it made."""
    *end, kept, accumulated, stats = found
    recorded = (kept, accumulated, stats)
    recorded = jax.tree.map(lambda rows: np.asarray(rows)[:num].copy(), recorded)
    return *jax.tree.map(np.array, end), *recorded


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
