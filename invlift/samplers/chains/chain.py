"""Running one chain: warm-up, sampling, in blocks that can be watched, stopped and resumed.

A chain's random numbers depend on its key and the iteration alone, and every block starts from
nothing but a position, what the kernel carries with it, the state of the step-size search and an
iteration number.  Draws are therefore the same bits whatever runs the chain, and whether or not it
was interrupted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.moments import Moments
from invlift.samplers.chains.fields import FieldIncrement, FieldRecord
from invlift.samplers.chains.results import ChainResult
from invlift.samplers.constrained.retractions import POSITION_TOLERANCE
from invlift.samplers.kernels.base import Kernel

#: Iterations compiled into one call.
BLOCK = 10
#: Dimensions Q between which a block is compiled at its fastest.  Below, a run of usual length is
#: over sooner with steps 5 % slower and half the compilation; above, compilation would take more
#: memory than all else (3 GB at 100,000), and steps 15 % slower are the smaller evil.
SMALL, LARGE = 1_000, 20_000
#: Largest difference, relative to the largest value, between what another machine or version makes
#: of a position.
REPRODUCED = 1e-6


@dataclass(frozen=True)
class Plan:
    """What a chain is to do.

    Attributes
    ----------
    kernel : Kernel
    num_warmup, num_draws : int
    max_seconds : float or None
        Time after which it ends before that, to within a block: its warm-up after half of it.
    fields : tuple of str
        Recorded quantities that are fields, of which not all draws need to be stored.
    max_field_bytes : float
        Memory for the stored draws of each of these.
    """

    kernel: Kernel
    num_warmup: int
    num_draws: int
    max_seconds: float | None = None
    fields: tuple[str, ...] = ()
    max_field_bytes: float = math.inf

    def is_over(self, seconds: Sequence[float], is_warmup: bool) -> bool:
        """Whether warm-up, or all, has had its time: ``seconds`` of warm-up and sampling."""
        if self.max_seconds is None:
            return False
        return seconds[0] > 0.5 * self.max_seconds if is_warmup else sum(seconds) > self.max_seconds


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


class Position(NamedTuple):
    """All of a chain that its future depends on.

    Attributes
    ----------
    values : (Q,)
    adaptation
        State of the adaptation.
    iteration : int
        Iterations done, warm-up included.
    seconds : tuple of two floats
        Warm-up and sampling time so far.
    carried : dict of arrays
        What the kernel carries, by name; nothing before the first iteration.
    """

    values: np.ndarray
    adaptation: Any
    iteration: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    carried: dict[str, np.ndarray] = {}


class Block(NamedTuple):
    """What up to 10 iterations, all of warm-up or all of sampling, bring.

    Attributes
    ----------
    end : Position
        Where the chain is now.
    num : int
    is_warmup : bool
    draws : dict of arrays (num, ...)
        What is recorded of each draw; of warm-up as well.
    stats : dict of arrays (num,)
    moments : dict of Moments
        Of what the model computes on the way, of which only these are kept.
    byproducts : dict of arrays (num, ...)
        Of what the model computes on the way, the plan's fields; of sampling alone.
    """

    end: Position
    num: int
    is_warmup: bool
    draws: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    moments: dict[str, Moments]
    byproducts: dict[str, np.ndarray] = {}


@dataclass
class ChainState:
    """Where a chain is and what it has gathered; saved between blocks.

    Attributes
    ----------
    position : Position
    blocks : list of dict
        ``draws``, ``stats`` (each a dict of arrays) of sampling, piece by piece, fields left out.
    fields : dict of FieldRecord
    moments : dict of Moments
    warmup_blocks : list of dict of arrays
    recorded : dict of arrays
        What is recorded of a draw, taken at the position.
    """

    position: Position
    blocks: list = field(default_factory=list)
    fields: dict[str, FieldRecord] = field(default_factory=dict)
    moments: dict[str, Moments] = field(default_factory=dict)
    warmup_blocks: list = field(default_factory=list)
    recorded: dict = field(default_factory=dict)

    @property
    def num_draws(self) -> int:
        """Draws so far."""
        return sum(map(_length, self.blocks))

    def add(self, plan: Plan, block: Block) -> Increment:
        """Add what a block has brought; returns it as it is saved."""
        self.position = block.end
        self.recorded = {name: values[-1] for name, values in block.draws.items()}
        if block.is_warmup:
            self.warmup_blocks.append(block.stats)
            return Increment(block.num, block.stats, {}, {})
        short, fields = {}, {}
        for name, values in (block.draws | block.byproducts).items():
            if name not in plan.fields:
                short[name] = values
                continue
            record = self.fields.setdefault(name, FieldRecord(plan.max_field_bytes))
            fields[name] = record.add(values)
            if name in block.byproducts:
                continue
            with np.errstate(invalid="ignore", over="ignore"):  # the verdict tells of such draws
                short[f"{name}_field_mean"] = np.mean(values, axis=1)
                short[f"{name}_field_std"] = np.std(values, axis=1)
        added = {"draws": short, "stats": block.stats}
        self.append_block(added)
        for name, moments in block.moments.items():
            before = self.moments.get(name)
            self.moments[name] = moments if before is None else before.merge(moments)
        return Increment(block.num, {}, added, fields)

    def append_block(self, block: dict) -> None:
        """Append a block; neighbours as long as each other are joined, so that few are left.

        Small arrays take many times the memory of the numbers in them.
        """
        self.blocks.append(block)
        while len(self.blocks) > 1 and _length(self.blocks[-1]) >= _length(self.blocks[-2]):
            last, one = self.blocks.pop(), self.blocks.pop()
            self.blocks.append({kind: _joined([one[kind], last[kind]]) for kind in one})


class Increment(NamedTuple):
    """What a block adds to what is saved of a chain.

    Attributes
    ----------
    num : int
        Iterations.
    warmup : dict of arrays (num,)
    block : dict
        As in ``ChainState.blocks``.
    fields : dict of FieldIncrement
    """

    num: int
    warmup: dict[str, np.ndarray]
    block: dict[str, dict[str, np.ndarray]]
    fields: dict[str, FieldIncrement]


def start_position(plan: Plan, values) -> Position:
    """The position of a chain that has not moved yet, at values (Q,)."""
    values = np.asarray(values)
    return Position(values, plan.kernel.adaptation.init(values.size))


def start_chain(plan: Plan, values) -> ChainState:
    """A chain that has not moved yet, at values (Q,)."""
    return ChainState(start_position(plan, values))


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
    run_block = _block_program(position.values.size)
    schedule = _padded_schedule(plan)
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


def _state_at(kernel: Kernel, target, position: Position, before: Any) -> Any:
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


def _padded_schedule(plan: Plan) -> np.ndarray:
    """What the adaptation does in each iteration, with rows of nothing for a whole block behind."""
    schedule = plan.kernel.adaptation.schedule(plan.num_warmup)
    return np.concatenate([schedule, np.zeros((BLOCK, schedule.shape[1]), schedule.dtype)])


def check_start(target, plan: Plan, position: Position, chain: int) -> None:
    """Check that a chain can start at a position.

    Parameters
    ----------
    target
    plan : Plan
    position : Position
    chain : int
        Its number, for the message.

    Raises
    ------
    InputError
        If the position is not on the target's manifold, or the target is not finite there.
    """
    kernel = plan.kernel
    found = float(_distance(kernel, target, evaluate_state(kernel, target, position.values)))
    if not found <= POSITION_TOLERANCE:
        raise InputError(
            f"chain {chain}, start",
            f"a position on the manifold, to {POSITION_TOLERANCE:g}",
            "values that are not finite"
            if np.isnan(found)
            else f"one about {found:.2g} away from it",
            "solve the constraint for the start, to rounding",
        )


def _distance_of(kernel, target, state):
    return kernel.distance(target, state)


_distance = Program(_distance_of, "none")


def check_reproduced(
    target, plan: Plan, position: Position, recorded: Mapping[str, np.ndarray], chain: int
) -> None:
    """Check that a chain taken up from disk is one of this target.

    Parameters
    ----------
    target
    plan : Plan
    position : Position
    recorded : mapping of str to array
        What was recorded there.
    chain : int
        Its number, for the message.

    Raises
    ------
    InputError
        If what was recorded at its position is not what the target makes of the position: no digest
        of a user's function sees all that the function may depend on.
    """
    reproduced = _recorded(plan.kernel, target, position.values)
    for name, saved in recorded.items():
        found = np.asarray(reproduced[name])
        size = max(np.max(np.abs(saved), initial=0.0), 1e-300)
        if not np.max(np.abs(found - saved), initial=0.0) <= REPRODUCED * size:
            raise InputError(
                f"chain {chain}, saved {name}",
                "values that the model reproduces at the saved position",
                f"a difference of {np.max(np.abs(found - saved)):.3g}, where they are {size:.3g}",
                "resume with the very model, data and files that the run was started with",
            )


def _record(kernel, target, position):
    return kernel.describe(target, kernel.init(target, position))[0]


_recorded = Program(_record, "none")


def compile_chain(target, plan: Plan, dimension: int) -> None:
    """Compile what :func:`run_chain` calls, for positions of a dimension Q."""
    kernel, adaptation = plan.kernel, plan.kernel.adaptation
    position = jax.ShapeDtypeStruct((dimension,), float)
    # Only the shapes at first: the search for a start compiles the evaluation, at the same time.
    state = evaluate_state.shapes(kernel, target, position)
    key = chain_key.shapes(0, 0)
    stages = _padded_schedule(plan)[:BLOCK]
    arguments = (kernel, target, state, adaptation.init(dimension), key, 0, 0, True, stages)
    _block_program(dimension).prepare(*arguments)
    evaluate_state.prepare(kernel, target, position)


def _chain_key(seed, chain):
    """Key of a chain's random numbers, which depend on nothing else."""
    return jax.random.fold_in(jax.random.key(seed), chain)


chain_key = Program(_chain_key, "none")


def evaluate(kernel, target, position):
    """The kernel's state at a position, (Q,)."""
    return kernel.init(target, position)


#: :func:`evaluate` as a program of its own.  Every block starts with it where the kernel does not
#: carry its whole state, so that a resumed chain sees the same bits as one that ran through.
evaluate_state = Program(evaluate, "some")


def _block(kernel, target, state, adapted, rng_key, first, num, is_warmup, stages):
    """Up to BLOCK iterations: new position, what the kernel carries, adaptation's state, draws,
    values and statistics.

    Warm-up and sampling share one program, which halves compilation; what is recorded during
    warm-up is thrown away.
    """
    adaptation = kernel.adaptation

    def describe(state, last):
        """What is kept of a draw: that of the last one where the chain has stayed there.

        On a density it takes an evaluation of the model; a point of a manifold has it at hand.
        """
        if kernel.target_kind == "manifold":
            return kernel.describe(target, state), ()
        position, described = kernel.position(state), last[1]
        has_moved = ~jnp.array_equal(position, last[0])
        described = jax.lax.cond(
            has_moved, lambda: kernel.describe(target, state), lambda: described
        )
        return described, (position, described)

    def step(carry, key, stage):
        state, adapted, last = carry
        tuning = adaptation.tuning(adapted, is_warmup)
        state, statistics = kernel.step(target, key, state, tuning)
        updated = adaptation.update(adapted, stage, kernel.position(state), statistics)
        adapted = jax.tree.map(lambda new, old: jnp.where(is_warmup, new, old), updated, adapted)
        (kept, accumulated), last = describe(state, last)
        found = kept, accumulated, statistics | adaptation.report(tuning)
        return (state, adapted, last), found

    last = ()
    if kernel.target_kind != "manifold":
        # No position is equal to one that is not a number.
        shapes = jax.eval_shape(lambda state: kernel.describe(target, state), state)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        last = jnp.full_like(kernel.position(state), jnp.nan), nothing
    carry = state, adapted, last
    (state, adapted, _), recorded = _scan(step, carry, rng_key, first, num, stages)
    return kernel.position(state), kernel.carried(state), adapted, *recorded


_FAST, _USUAL = Program(_block, "full"), Program(_block, "some")


def _block_program(dimension: int) -> Program:
    """A block, compiled for a dimension."""
    return _FAST if SMALL < dimension <= LARGE else _USUAL


def _scan(step, carry, rng_key, first, num, stages):
    """Run ``num`` <= BLOCK steps, keyed by iteration number, stacking outputs to length BLOCK."""
    shapes = jax.eval_shape(step, carry, rng_key, stages[0])[1]
    stacked = jax.tree.map(lambda leaf: jnp.zeros((BLOCK, *leaf.shape), leaf.dtype), shapes)

    def body(index, loop):
        carry, stacked = loop
        carry, out = step(carry, jax.random.fold_in(rng_key, first + index), stages[index])
        return carry, jax.tree.map(lambda rows, row: rows.at[index].set(row), stacked, out)

    return jax.lax.fori_loop(0, num, body, (carry, stacked))


def _length(block: dict) -> int:
    return len(next(iter(block["stats"].values())))


def _joined(parts: Sequence[dict]) -> dict[str, np.ndarray]:
    """Arrays of the same names, one behind the other."""
    names = parts[0] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def gather(plan: Plan, state: ChainState) -> ChainResult:
    """What a chain has gathered, as a result."""
    stats = _joined([block["stats"] for block in state.blocks])
    fields = {name: np.stack(record.rows) for name, record in state.fields.items()}
    moments = {name: record.moments for name, record in state.fields.items()}
    batches = {name: record.batch_means for name, record in state.fields.items()}
    return ChainResult(
        draws=fields | _joined([block["draws"] for block in state.blocks]),
        stats=stats,
        moments=state.moments | moments,
        warmup_stats=_joined(state.warmup_blocks),
        step_size=_step_size(plan, state, stats),
        warmup_seconds=state.position.seconds[0],
        sampling_seconds=state.position.seconds[1],
        every={name: record.every for name, record in state.fields.items()},
        batches={name: means for name, means in batches.items() if means is not None},
    )


def _step_size(plan: Plan, state: ChainState, stats: dict) -> float:
    if "step_size" in stats:
        return float(stats["step_size"][-1])
    adaptation = plan.kernel.adaptation
    if state.position.iteration < plan.num_warmup:
        return float("nan")
    tuning = adaptation.tuning(state.position.adaptation, np.asarray(False))
    return float(adaptation.report(tuning).get("step_size", np.nan))
