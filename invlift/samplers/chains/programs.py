"""Compiled programs of a chain, and checks of its start and of resumed positions."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.programs.compilation import Program, program
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.state import Position
from invlift.samplers.constrained.retractions import POSITION_TOLERANCE

#: Iterations of a block, if its state is not large.  A chain can be stopped and saved between
#: blocks.
BLOCK = 10
#: Largest number of blocks in one call, if the whole state is carried; largest product of the size
#: of a state and the iterations of a call.
MOST_BLOCKS, MOST_NUMBERS = 100, 100_000
#: Largest product of the size of a state and the iterations of a block.  With larger states an
#: iteration takes many seconds: a chain is to tell its progress, and to stop, before ten of them.
MOST_IN_BLOCK = 8_000_000
#: Largest dimension Q with small arrays: see :class:`Program`.
FEW = 300
#: Range of dimensions Q with full compiler optimisation.  For smaller Q a run of usual length is
#: faster with half the compilation and steps that are 5 % slower.  For larger Q the compilation
#: would take more memory than everything else (3 GB at 100,000), so steps 15 % slower are accepted.
SMALL, LARGE = 1_000, 20_000
#: Statistics that every transition must return.
STATISTICS = {"acceptance_rate", "num_factorisations"}
#: Largest difference, relative to the largest value, between the recorded values of a position and
#: those of another machine or version.
REPRODUCED = 1e-6


def evaluate(kernel, target, position):
    """Evaluate the kernel's state at a position, (Q,)."""
    return kernel.init(target, position)


#: :func:`evaluate` as a separate program.  If not all fields of a state are carried, every block
#: starts with it, so that a resumed chain has the same bits as an uninterrupted one.
evaluate_state = Program(evaluate, "some")


@program
def chain_key(seed, chain):
    """Return the key of a chain, on which all its random numbers depend."""
    return jax.random.fold_in(jax.random.key(seed), chain)


def _block(kernel, target, state, adapted, rng_key, first, num, is_warmup, stages):
    """Run ``num`` iterations.

    Return the new position, the carried fields, the adaptation's state, draws, further values and
    statistics.  The last three have as many rows as ``stages``.  Warm-up and sampling share one
    program, which halves the compilation; the draws and values of warm-up are discarded.
    """
    adaptation = kernel.adaptation

    def describe(state, last):
        """Describe a draw; on a density, reuse the last description if the chain has not moved.

        On a density a description evaluates the model.  A point of a manifold already contains it.
        """
        if kernel.target_kind == "manifold":
            return kernel.describe(target, state), ()
        position, before = kernel.position(state), last[1]
        has_moved = ~jnp.array_equal(position, last[0])
        described = jax.lax.cond(has_moved, lambda: kernel.describe(target, state), lambda: before)
        return described, (position, described)

    def step(carry, key, stage):
        state, adapted, last = carry
        tuning = adaptation.tuning(adapted, is_warmup)
        state, statistics = kernel.step(target, key, state, tuning)
        if missing := STATISTICS - statistics.keys():
            where, expected = f"kernel {type(kernel).__name__}", " and ".join(sorted(STATISTICS))
            found = f"statistics without {' and '.join(sorted(missing))}"
            raise InputError(where, expected, found, "return them from step")
        updated = adaptation.update(adapted, stage, kernel.position(state), statistics)
        adapted = jax.tree.map(lambda new, old: jnp.where(is_warmup, new, old), updated, adapted)
        (kept, accumulated), last = describe(state, last)
        found = kept, accumulated, statistics | adaptation.report(tuning)
        return (state, adapted, last), found

    last = ()
    if kernel.target_kind != "manifold":
        # No position is equal to NaN, so the first description is always evaluated.
        shapes = jax.eval_shape(lambda state: kernel.describe(target, state), state)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        last = jnp.full_like(kernel.position(state), jnp.nan), nothing
    carry = state, adapted, last
    (state, adapted, _), recorded = _scan(step, carry, rng_key, first, num, stages)
    return kernel.position(state), carried_of(kernel, state), adapted, *recorded


_BLOCKS = {effort: Program(_block, effort) for effort in ("small", "some", "full")}


def block_program(dimension: int) -> Program:
    """Return the program of a block for a dimension Q."""
    if dimension <= FEW:
        return _BLOCKS["small"]
    return _BLOCKS["full" if SMALL < dimension <= LARGE else "some"]


def _scan(step, carry, rng_key, first, num, stages):
    """Run ``num`` steps with keys by iteration number; return outputs in as many rows as stages."""
    step = jax.jit(step, inline=True)  # traced once, for the shapes and for the loop
    shapes = jax.eval_shape(step, carry, rng_key, stages[0])[1]
    stacked = jax.tree.map(lambda leaf: jnp.zeros((len(stages), *leaf.shape), leaf.dtype), shapes)

    def body(index, loop):
        carry, stacked = loop
        carry, out = step(carry, jax.random.fold_in(rng_key, first + index), stages[index])
        return carry, jax.tree.map(lambda rows, row: rows.at[index].set(row), stacked, out)

    return jax.lax.fori_loop(0, num, body, (carry, stacked))


def num_rows(state) -> int:
    """Return the largest number of iterations in one call, for a state of these shapes.

    A small state allows several blocks, because its iterations may take less time than a call.  A
    large one has blocks of fewer iterations.
    """
    size = sum(leaf.size for leaf in jax.tree.leaves(state))
    if BLOCK * size > MOST_IN_BLOCK:
        return max(1, MOST_IN_BLOCK // size)
    return BLOCK * max(1, min(MOST_BLOCKS, MOST_NUMBERS // (BLOCK * size)))


def carried_of(kernel, state) -> dict[str, jax.Array]:
    """Return the carried fields of a state; all leaves if a call may run several blocks."""
    if num_rows(state) <= BLOCK:
        return kernel.carried(state)
    return {f"{number:03}": leaf for number, leaf in enumerate(jax.tree.leaves(state))}


def is_carried_whole(kernel, state) -> bool:
    """Return whether all fields of a state are carried."""
    is_all = {"position", *kernel.carries} == set(getattr(state, "_fields", ()))
    return is_all or num_rows(state) > BLOCK


def restored(values, state, carried):
    """Return a state at a position, (Q,), with the carried fields put into another state."""
    if not carried:
        return state
    if num_rows(state) > BLOCK:
        leaves = [leaf for _, leaf in sorted(carried.items())]
        return jax.tree.unflatten(jax.tree.structure(state), leaves)
    where = {"position": values} if "position" in state._fields else {}
    return state._replace(**where, **carried)


def padded_schedule(plan: Plan, state) -> np.ndarray:
    """Return the schedule of the adaptation, followed by zero rows for one whole call."""
    schedule = plan.kernel.adaptation.schedule(plan.num_warmup)
    nothing = np.zeros((num_rows(state), schedule.shape[1]), schedule.dtype)
    return np.concatenate([schedule, nothing])


def state_shapes(kernel, target, dimension: int):
    """Return the ``jax.ShapeDtypeStruct`` of a kernel's state at positions of dimension Q."""
    return evaluate_state.shapes(kernel, target, jax.ShapeDtypeStruct((dimension,), float))


def compile_chain(target, plan: Plan, dimension: int) -> None:
    """Compile the programs that :func:`run_blocks` calls, for positions of dimension Q."""
    kernel = plan.kernel
    # Only the shapes here: the search for a start compiles the evaluation at the same time.
    state = state_shapes(kernel, target, dimension)
    adapted, rng_key = kernel.adaptation.init(dimension), chain_key.shapes(0, 0)
    stages = padded_schedule(plan, state)[: num_rows(state)]
    block_program(dimension).prepare(kernel, target, state, adapted, rng_key, 0, 0, True, stages)
    evaluate_state.prepare(kernel, target, jax.ShapeDtypeStruct((dimension,), float))


@program
def _distance(kernel, target, state):
    return kernel.distance(target, state)


def check_start(target, plan: Plan, position: Position, chain: int) -> None:
    """Check that a chain can start at a position.

    Parameters
    ----------
    target
    plan : Plan
    position : Position
    chain : int
        Number of the chain, for the message.

    Raises
    ------
    InputError
        If the position is not on the target's manifold, or the target is not finite there.
    """
    kernel = plan.kernel
    state = evaluate_state(kernel, target, position.values)
    found = float(_distance(kernel, target, state))
    floats = (x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.floating))
    if any(np.isnan(each).any() for each in floats):
        where, expected = f"chain {chain}, start", "a position at which the target is finite"
        remedy = "check the density there, or give other starts"
        raise InputError(where, expected, "values that are not finite", remedy)
    if not found <= POSITION_TOLERANCE:
        raise InputError(
            f"chain {chain}, start",
            f"a position on the manifold, to {POSITION_TOLERANCE:g}",
            f"one about {found:.2g} away from it",
            "solve the constraint for the start, to rounding",
        )


@program
def _recorded(kernel, target, position):
    return kernel.describe(target, kernel.init(target, position))[0]


def check_reproduced(
    target, plan: Plan, position: Position, recorded: Mapping[str, np.ndarray], chain: int
) -> None:
    """Check that the target reproduces the recorded values of a chain resumed from disk.

    Parameters
    ----------
    target
    plan : Plan
    position : Position
    recorded : mapping of str to array
        Values recorded at the position.
    chain : int
        Number of the chain, for the message.

    Raises
    ------
    InputError
        If the target gives other values at the position than those recorded.  A digest of a user's
        function cannot include everything on which the function depends; this check does.
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
