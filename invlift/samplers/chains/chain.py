"""Running one chain: warm-up, sampling, in blocks that can be watched, stopped and resumed.

A chain's random numbers depend on its key and the iteration alone, and every block starts from
nothing but a position, the state of the step-size search and an iteration number.  Draws are
therefore the same bits whatever runs the chain, and whether or not it was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.samplers.chains.adaptation import (
    adapt,
    current_step_size,
    final_step_size,
    start_adaptation,
)

#: Iterations compiled into one call.
BLOCK = 10
#: Dimensions Q between which a block is compiled at its fastest.  Below, a run of usual length is
#: over sooner with steps 5 % slower and half the compilation; above, compilation would take more
#: memory than all else (3 GB at 100,000), and steps 15 % slower are the smaller evil.
SMALL, LARGE = 1_000, 50_000
#: Largest difference, relative to the largest value, between what another machine or version makes
#: of a position.
REPRODUCED = 1e-6


@dataclass(frozen=True)
class Moments:
    """Running mean and sum of squared deviations (Welford 1962).

    Attributes
    ----------
    count : int
    mean, m2 : arrays of one shape
        Mean, and sum of squared deviations from it.
    """

    count: int
    mean: np.ndarray
    m2: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Moments of values (num, ...) over the first axis."""
        mean = values.mean(axis=0)
        return cls(values.shape[0], mean, np.sum((values - mean) ** 2, axis=0))

    def merge(self, other: Moments) -> Moments:
        """Moments of both samples together (Chan, Golub & LeVeque 1983, eq. 2.1)."""
        count = self.count + other.count
        if count == 0:
            return self
        shift = other.mean - self.mean
        mean = self.mean + shift * (other.count / count)
        m2 = self.m2 + other.m2 + shift**2 * (self.count * other.count / count)
        return Moments(count, mean, m2)

    @property
    def variance(self) -> np.ndarray:
        """Sample variance, with count - 1 in the denominator; zero for fewer than two values."""
        return self.m2 / max(self.count - 1, 1)


@dataclass(frozen=True)
class ChainResult:
    """What one chain brought home.

    Attributes
    ----------
    draws : dict of arrays (num_draws, ...)
    stats : dict of arrays (num_draws,)
        The transition's information, ``constraint_error`` (largest entry of the constraint) and
        ``step_size``.
    moments : dict of Moments
        Of quantities too large to keep.
    warmup_stats : dict of arrays (num_warmup,)
        As ``stats``.
    step_size : float
        Used for sampling; NaN if warm-up was not finished.
    warmup_seconds, sampling_seconds : float
        Wall-clock time, without what :func:`compile_chain` has compiled beforehand.
    """

    draws: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    moments: dict[str, Moments]
    warmup_stats: dict[str, np.ndarray]
    step_size: float
    warmup_seconds: float
    sampling_seconds: float

    @property
    def num_draws(self) -> int:
        """Draws after warm-up."""
        return next(iter(self.stats.values())).shape[0] if self.stats else 0


@dataclass(frozen=True)
class Plan:
    """What a chain is to do; static, hashable and, if its functions are, picklable.

    Attributes
    ----------
    transition : callable
        ``transition(system, rng_key, point, step_size) -> (point, info)``, info a NamedTuple of
        scalars like :class:`invlift.samplers.kernels.chmc.TransitionInfo`.
    record_fn : callable
        ``record_fn(system, point) -> (kept, accumulated)``, two dicts of arrays: draws to keep and
        quantities of which only moments are kept.
    num_warmup, num_draws : int
    """

    transition: Callable
    record_fn: Callable
    num_warmup: int
    num_draws: int


class Progress(NamedTuple):
    """A chain's news after a block.

    Attributes
    ----------
    chain : int
    iteration : int
        Iterations done, warm-up included.
    is_warmup : bool
    step_size, acceptance_rate : float
        Of the last iteration, and averaged over the block.
    num_projection_failures, num_factorisations : int
        In this block.
    """

    chain: int
    iteration: int
    is_warmup: bool
    step_size: float
    acceptance_rate: float
    num_projection_failures: int
    num_factorisations: int


@dataclass
class ChainState:
    """All of a chain that its future depends on, and what it has gathered; saved between blocks.

    Attributes
    ----------
    position : (Q,)
    adaptation
        State of the step-size search.
    iteration : int
        Iterations done, warm-up included.
    blocks : list of dict
        ``draws``, ``stats`` (each a dict of arrays) per sampling block.
    moments : dict of Moments
    warmup_blocks : list of dict of arrays
    seconds : list of two floats
        Warm-up and sampling time.
    recorded : dict of arrays
        What is recorded of a draw, taken at the position.
    """

    position: np.ndarray
    adaptation: Any
    iteration: int = 0
    blocks: list = field(default_factory=list)
    moments: dict = field(default_factory=dict)
    warmup_blocks: list = field(default_factory=list)
    seconds: list = field(default_factory=lambda: [0.0, 0.0])
    recorded: dict = field(default_factory=dict)


def start_chain(position) -> ChainState:
    """A chain that has not moved yet, at a position (Q,) on the manifold."""
    return ChainState(np.asarray(position), start_adaptation())


def run_chain(
    system,
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
    system : ConstrainedSystem
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
    total = plan.num_warmup + plan.num_draws
    run_block = _block_program(plan, state.position.size)
    while state.iteration < total:
        is_warmup = state.iteration < plan.num_warmup
        end = plan.num_warmup if is_warmup else total
        num = min(BLOCK, end - state.iteration)
        began = time.perf_counter()
        position, adaptation, kept, accumulated, stats = run_block(
            system,
            evaluate_point(system, state.position),
            state.adaptation,
            rng_key,
            state.iteration,
            num,
            is_warmup,
        )
        stats = {name: np.asarray(value)[:num] for name, value in stats.items()}
        draws = {name: np.asarray(value)[:num] for name, value in kept.items()}
        state.position = np.asarray(position)
        state.recorded = {name: values[-1] for name, values in draws.items()}
        state.adaptation = jax.tree.map(np.asarray, adaptation)
        if is_warmup:
            state.warmup_blocks.append(stats)
        else:
            state.blocks.append({"draws": draws, "stats": stats})
            for name, value in accumulated.items():
                moments = Moments.of(np.asarray(value)[:num])
                before = state.moments.get(name)
                state.moments[name] = moments if before is None else before.merge(moments)
        state.seconds[0 if is_warmup else 1] += time.perf_counter() - began
        state.iteration += num
        progress = Progress(
            chain,
            state.iteration,
            is_warmup,
            float(stats["step_size"][-1]),
            float(stats["acceptance_rate"].mean()),
            int(stats["num_projection_failures"].sum()),
            int(stats["num_factorisations"].sum()),
        )
        if not on_block(state, progress):
            break
    return _gather(plan, state)


def check_reproduced(system, plan: Plan, state: ChainState, chain: int) -> None:
    """Check that a chain taken up from disk is one of this system.

    Parameters
    ----------
    system : ConstrainedSystem
    plan : Plan
    state : ChainState
    chain : int
        Its number, for the message.

    Raises
    ------
    InputError
        If what was recorded at its position is not what the system makes of the position: no digest
        of a user's function sees all that the function may depend on.
    """
    recorded = _recorder(plan.record_fn)(system, state.position)
    for name, saved in state.recorded.items():
        found = np.asarray(recorded[name])
        size = max(np.max(np.abs(saved), initial=0.0), 1e-300)
        if not np.max(np.abs(found - saved), initial=0.0) <= REPRODUCED * size:
            raise InputError(
                f"chain {chain}, saved {name}",
                "values that the model reproduces at the saved position",
                f"a difference of {np.max(np.abs(found - saved)):.3g}, where they are {size:.3g}",
                "resume with the very model, data and files that the run was started with",
            )


def _recorded(system, position, *, record_fn):
    return record_fn(system, system.point(position))[0]


@cache
def _recorder(record_fn) -> Program:
    return Program(partial(_recorded, record_fn=record_fn), "none")


def compile_chain(system, plan: Plan, dimension: int) -> None:
    """Compile what :func:`run_chain` calls, for a system of a dimension Q."""
    position = jax.ShapeDtypeStruct((dimension,), float)
    # Only the shapes at first: the search for a start compiles the evaluation, at the same time.
    point = evaluate_point.shapes(system, position)
    key = chain_key.shapes(0, 0)
    arguments = (system, point, start_adaptation(), key, 0, 0, True)
    _block_program(plan, dimension).prepare(*arguments)
    evaluate_point.prepare(system, position)


def _chain_key(seed, chain):
    """Key of a chain's random numbers, which depend on nothing else."""
    return jax.random.fold_in(jax.random.key(seed), chain)


chain_key = Program(_chain_key, "none")


def evaluate(system, position):
    """The system's evaluation at a position, (Q,)."""
    return system.point(position)


#: :func:`evaluate` as a program of its own.  Every block starts with it, so that a resumed chain
#: sees the same bits as one that ran through.
evaluate_point = Program(evaluate, "some")


def _block_program(plan: Plan, dimension: int) -> Program:
    """The block of a plan, compiled for a dimension."""
    effort = "full" if SMALL < dimension <= LARGE else "some"
    return _programs(plan.transition, plan.record_fn, effort)


@cache
def _programs(transition, record_fn, effort) -> Program:
    return Program(partial(_block, transition=transition, record_fn=record_fn), effort)


def _block(system, point, adaptation, rng_key, first, num, is_warmup, *, transition, record_fn):
    """Up to BLOCK iterations; new position, step-size search, draws, values and statistics.

    Warm-up and sampling share one program, which halves compilation; what is recorded during
    warm-up is thrown away.
    """

    def step(carry, key):
        point, adaptation = carry
        searching, found = current_step_size(adaptation), final_step_size(adaptation)
        step_size = jnp.where(is_warmup, searching, found)
        point, info = transition(system, key, point, step_size)
        adapted = adapt(adaptation, info.acceptance_rate)
        adaptation = jax.tree.map(
            lambda new, old: jnp.where(is_warmup, new, old), adapted, adaptation
        )
        kept, accumulated = record_fn(system, point)
        stats = info._asdict() | {
            "constraint_error": jnp.max(jnp.abs(point.constraint)),
            "step_size": step_size,
        }
        return (point, adaptation), (kept, accumulated, stats)

    (point, adaptation), recorded = _scan(step, (point, adaptation), rng_key, first, num)
    return point.position, adaptation, *recorded


def _scan(step, carry, rng_key, first, num):
    """Run ``num`` <= BLOCK steps, keyed by iteration number, stacking outputs to length BLOCK."""
    shapes = jax.eval_shape(step, carry, rng_key)[1]
    stacked = jax.tree.map(lambda leaf: jnp.zeros((BLOCK, *leaf.shape), leaf.dtype), shapes)

    def body(index, loop):
        carry, stacked = loop
        carry, out = step(carry, jax.random.fold_in(rng_key, first + index))
        return carry, jax.tree.map(lambda rows, row: rows.at[index].set(row), stacked, out)

    return jax.lax.fori_loop(0, num, body, (carry, stacked))


def _gather(plan: Plan, state: ChainState) -> ChainResult:
    def join(parts):
        if not parts:
            return {}
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    stats = join([block["stats"] for block in state.blocks])
    return ChainResult(
        draws=join([block["draws"] for block in state.blocks]),
        stats=stats,
        moments=dict(state.moments),
        warmup_stats=join(state.warmup_blocks),
        step_size=_step_size(plan, state, stats),
        warmup_seconds=state.seconds[0],
        sampling_seconds=state.seconds[1],
    )


def _step_size(plan: Plan, state: ChainState, stats: dict) -> float:
    if stats:
        return float(stats["step_size"][-1])
    if state.iteration < plan.num_warmup:
        return float("nan")
    return float(final_step_size(state.adaptation))
