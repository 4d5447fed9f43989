"""The compiled programs that a chain consists of, and what is checked with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.programs.compilation import Program
from invlift.programs.lanes import any_lane, calls_lapack
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.state import Position
from invlift.samplers.constrained.retractions import POSITION_TOLERANCE

#: Iterations of a block, between which a chain can be stopped and saved.
BLOCK = 10
#: Blocks that one call may run where all of a state is carried, and the most numbers of a position
#: times iterations of a call.
MOST_BLOCKS, MOST_NUMBERS = 100, 100_000
#: Dimensions Q between which a block is compiled at its fastest.  Below, a run of usual length is
#: over sooner with steps 5 % slower and half the compilation; above, compilation would take more
#: memory than all else (3 GB at 100,000), and steps 15 % slower are the smaller evil.
SMALL, LARGE = 1_000, 20_000
#: Largest difference, relative to the largest value, between what another machine or version makes
#: of a position.
REPRODUCED = 1e-6


def evaluate(kernel, target, position):
    """The kernel's state at a position, (Q,)."""
    return kernel.init(target, position)


#: :func:`evaluate` as a program of its own.  Every block starts with it where not all of a state is
#: carried, so that a resumed chain sees the same bits as one that ran through.
evaluate_state = Program(evaluate, "some")


def _evaluate_lanes(kernel, target, positions):
    return jax.vmap(lambda position: evaluate(kernel, target, position))(positions)


#: The same at positions of several chains, (lanes, Q).
evaluate_states = Program(_evaluate_lanes, "some")


def _chain_key(seed, chain):
    """Key of a chain's random numbers, which depend on nothing else."""
    return jax.random.fold_in(jax.random.key(seed), chain)


chain_key = Program(_chain_key, "none")


def _chain_keys(seed, chains):
    return jax.vmap(lambda chain: _chain_key(seed, chain))(chains)


#: Those of several chains, (lanes,).
chain_keys = Program(_chain_keys, "none")


def _block(kernel, target, state, adapted, rng_key, first, num, is_warmup, stages):
    """``num`` iterations: new position, what is carried, adaptation's state, draws, values and
    statistics, as many rows of these as of stages.

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
        position, before = kernel.position(state), last[1]
        has_moved = ~jnp.array_equal(position, last[0])
        described = jax.lax.cond(
            any_lane(has_moved), lambda: kernel.describe(target, state), lambda: before
        )
        described = jax.tree.map(partial(jnp.where, has_moved), described, before)
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
    carried = carried_of(kernel, target, state)
    return kernel.position(state), carried, adapted, *recorded


def _lanes(kernel, target, states, adapted, rng_keys, first, num, is_warmup, stages):
    """The same of several chains side by side, with an axis of chains in front."""

    def lane(state, adapted, rng_key):
        return _block(kernel, target, state, adapted, rng_key, first, num, is_warmup, stages)

    return jax.vmap(lane)(states, adapted, rng_keys)


_FAST, _USUAL = Program(_block, "full"), Program(_block, "some")
_FAST_LANES, _USUAL_LANES = Program(_lanes, "full"), Program(_lanes, "some")


def block_program(dimension: int, num_lanes: int = 1) -> Program:
    """A block, compiled for a dimension; of several chains with an axis of these in front."""
    is_fast = SMALL < dimension <= LARGE
    if num_lanes == 1:
        return _FAST if is_fast else _USUAL
    return _FAST_LANES if is_fast else _USUAL_LANES


def _scan(step, carry, rng_key, first, num, stages):
    """Run ``num`` steps, keyed by iteration number, stacking outputs to the length of stages."""
    step = jax.jit(step, inline=True)  # traced once, for the shapes and for the loop
    shapes = jax.eval_shape(step, carry, rng_key, stages[0])[1]
    stacked = jax.tree.map(lambda leaf: jnp.zeros((len(stages), *leaf.shape), leaf.dtype), shapes)

    def body(index, loop):
        carry, stacked = loop
        carry, out = step(carry, jax.random.fold_in(rng_key, first + index), stages[index])
        return carry, jax.tree.map(lambda rows, row: rows.at[index].set(row), stacked, out)

    return jax.lax.fori_loop(0, num, body, (carry, stacked))


def num_rows(target, dimension: int) -> int:
    """Iterations that one call runs at most, at positions of a dimension Q.

    More than a block for small models, whose iterations may take less time than a call.  Not for
    those on a mesh, nor for large ones.
    """
    if not getattr(target, "has_lanes", True):
        return BLOCK
    return BLOCK * max(1, min(MOST_BLOCKS, MOST_NUMBERS // (BLOCK * dimension)))


def carried_of(kernel, target, state) -> dict[str, jax.Array]:
    """What of a state is handed on with its position: all where a call may run several blocks."""
    if num_rows(target, kernel.position(state).size) == BLOCK:
        return kernel.carried(state)
    return {f"{number:03}": leaf for number, leaf in enumerate(jax.tree.leaves(state))}


def is_carried_whole(kernel, target, values, state) -> bool:
    """Whether a state like this one, at positions (..., Q), is handed on as a whole."""
    is_small = num_rows(target, values.shape[-1]) > BLOCK
    return is_small or {"position", *kernel.carries} == set(getattr(state, "_fields", ()))


def restored(target, values, state, carried):
    """A state at positions, (..., Q), made of another, with what was carried put in."""
    if not carried:
        return state
    if num_rows(target, values.shape[-1]) > BLOCK:
        leaves = [leaf for _, leaf in sorted(carried.items())]
        return jax.tree.unflatten(jax.tree.structure(state), leaves)
    where = {"position": values} if "position" in state._fields else {}
    return state._replace(**where, **carried)


def padded_schedule(target, plan: Plan, dimension: int) -> np.ndarray:
    """What the adaptation does in each iteration, with rows of nothing for a whole call behind."""
    schedule = plan.kernel.adaptation.schedule(plan.num_warmup)
    nothing = np.zeros((num_rows(target, dimension), schedule.shape[1]), schedule.dtype)
    return np.concatenate([schedule, nothing])


def compile_chain(target, plan: Plan, dimension: int, num_lanes: int = 1) -> None:
    """Compile what :func:`run_lanes` calls, for positions of a dimension Q."""
    # Only the shapes at first: the search for a start compiles the evaluation, at the same time.
    block_program(dimension, num_lanes).prepare(*_arguments(target, plan, dimension, num_lanes))
    evaluate = evaluate_state if num_lanes == 1 else evaluate_states
    evaluate.prepare(plan.kernel, target, _positions(dimension, num_lanes))


def has_lapack(target, plan: Plan, dimension: int, num_lanes: int) -> bool:
    """Whether a block of several chains calls LAPACK."""
    arguments = _arguments(target, plan, dimension, num_lanes)
    return calls_lapack(block_program(dimension, num_lanes).operations(*arguments))


def _arguments(target, plan: Plan, dimension: int, num_lanes: int) -> tuple:
    """Arguments of a block, or what stands for them."""
    kernel = plan.kernel
    evaluate = evaluate_state if num_lanes == 1 else evaluate_states
    states = evaluate.shapes(kernel, target, _positions(dimension, num_lanes))
    chains = kernel.adaptation.init(dimension), chain_key.shapes(0, 0)
    adapted, keys = (_of_lanes(each, num_lanes) for each in chains)
    stages = padded_schedule(target, plan, dimension)[: num_rows(target, dimension)]
    return kernel, target, states, adapted, keys, 0, 0, True, stages


def _positions(dimension: int, num_lanes: int) -> jax.ShapeDtypeStruct:
    return _of_lanes(jax.ShapeDtypeStruct((dimension,), float), num_lanes)


def _of_lanes(shapes, num_lanes: int):
    """With an axis of lanes in front, if there are several."""
    if num_lanes == 1:
        return shapes
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((num_lanes, *leaf.shape), leaf.dtype), shapes
    )


def _distance_of(kernel, target, state):
    return kernel.distance(target, state)


_distance = Program(_distance_of, "none")


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


def _record(kernel, target, position):
    return kernel.describe(target, kernel.init(target, position))[0]


_recorded = Program(_record, "none")


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
