"""The compiled programs that a chain consists of, and what is checked with them."""

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

#: Iterations of a block, between which a chain can be stopped and saved.
BLOCK = 10
#: Blocks that one call may run where all of a state is carried, and the most numbers of a state
#: times iterations of a call.
MOST_BLOCKS, MOST_NUMBERS = 100, 100_000
#: Dimensions Q up to which arrays are small: see :class:`Program`.
FEW = 300
#: Dimensions Q between which a block is compiled at its fastest.  Below, a run of usual length is
#: over sooner with steps 5 % slower and half the compilation; above, compilation would take more
#: memory than all else (3 GB at 100,000), and steps 15 % slower are the smaller evil.
SMALL, LARGE = 1_000, 20_000
#: Statistics that every transition must return.
STATISTICS = {"acceptance_rate", "num_factorisations"}
#: Largest difference, relative to the largest value, between what another machine or version makes
#: of a position.
REPRODUCED = 1e-6


def evaluate(kernel, target, position):
    """The kernel's state at a position, (Q,)."""
    return kernel.init(target, position)


#: :func:`evaluate` as a program of its own.  Every block starts with it where not all of a state is
#: carried, so that a resumed chain sees the same bits as one that ran through.
evaluate_state = Program(evaluate, "some")


@program
def chain_key(seed, chain):
    """Key of a chain's random numbers, which depend on nothing else."""
    return jax.random.fold_in(jax.random.key(seed), chain)


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
        # No position is equal to one that is not a number.
        shapes = jax.eval_shape(lambda state: kernel.describe(target, state), state)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        last = jnp.full_like(kernel.position(state), jnp.nan), nothing
    carry = state, adapted, last
    (state, adapted, _), recorded = _scan(step, carry, rng_key, first, num, stages)
    return kernel.position(state), carried_of(kernel, state), adapted, *recorded


_BLOCKS = {effort: Program(_block, effort) for effort in ("small", "some", "full")}


def block_program(dimension: int) -> Program:
    """A block, compiled for a dimension Q."""
    if dimension <= FEW:
        return _BLOCKS["small"]
    return _BLOCKS["full" if SMALL < dimension <= LARGE else "some"]


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


def num_rows(state) -> int:
    """Iterations that one call runs at most, from a state of these shapes.

    More than a block where a state is of few numbers: such iterations may take less time than a
    call.
    """
    size = sum(leaf.size for leaf in jax.tree.leaves(state))
    return BLOCK * max(1, min(MOST_BLOCKS, MOST_NUMBERS // (BLOCK * size)))


def carried_of(kernel, state) -> dict[str, jax.Array]:
    """What of a state is handed on with its position: all where a call may run several blocks."""
    if num_rows(state) == BLOCK:
        return kernel.carried(state)
    return {f"{number:03}": leaf for number, leaf in enumerate(jax.tree.leaves(state))}


def is_carried_whole(kernel, state) -> bool:
    """Whether a state like this one is handed on as a whole."""
    is_all = {"position", *kernel.carries} == set(getattr(state, "_fields", ()))
    return is_all or num_rows(state) > BLOCK


def restored(values, state, carried):
    """A state at a position, (Q,), made of another, with what was carried put in."""
    if not carried:
        return state
    if num_rows(state) > BLOCK:
        leaves = [leaf for _, leaf in sorted(carried.items())]
        return jax.tree.unflatten(jax.tree.structure(state), leaves)
    where = {"position": values} if "position" in state._fields else {}
    return state._replace(**where, **carried)


def padded_schedule(plan: Plan, state) -> np.ndarray:
    """What the adaptation does in each iteration, with rows of nothing for a whole call behind."""
    schedule = plan.kernel.adaptation.schedule(plan.num_warmup)
    nothing = np.zeros((num_rows(state), schedule.shape[1]), schedule.dtype)
    return np.concatenate([schedule, nothing])


def state_shapes(kernel, target, dimension: int):
    """``jax.ShapeDtypeStruct`` of a kernel's state at positions of a dimension Q."""
    return evaluate_state.shapes(kernel, target, jax.ShapeDtypeStruct((dimension,), float))


def compile_chain(target, plan: Plan, dimension: int) -> None:
    """Compile what :func:`run_blocks` calls, for positions of a dimension Q."""
    kernel = plan.kernel
    # Only the shapes at first: the search for a start compiles the evaluation, at the same time.
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
        Its number, for the message.

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
