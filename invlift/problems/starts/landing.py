"""From a rough position onto the manifold."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import qr

from invlift.errors import InputError
from invlift.programs.compilation import program
from invlift.projections import distance_to_manifold, normal_move
from invlift.targets import ConstrainedTarget

#: Moves, and how often one is halved.
MAX_MOVES, MAX_HALVINGS = 50, 20
#: Distance at which a position is on the manifold, relative to positions larger than 1.
CLOSE_ENOUGH = 1e-13
#: Part of a gradient, relative to its length, that is not a combination of others': less is none.
INDEPENDENT = 1e-10
#: Entries of all gradients beyond which they are not looked at, as that takes longer than it helps.
MAX_ENTRIES = 2_000_000


def onto_manifold(
    target: ConstrainedTarget, position: np.ndarray, close_enough: float = CLOSE_ENOUGH
) -> np.ndarray:
    """Move a position towards the manifold, by the shortest moves of Gauss and Newton.

    A move is halved until it takes away half of what it would if the constraint were linear, which
    is measured by the move that mends the rest (Deuflhard 2011, section 3.3, the restricted natural
    monotonicity test).

    Parameters
    ----------
    target : ConstrainedTarget
    position : (Q,) array
    close_enough : float
        Distance at which it is on the manifold, relative to positions larger than 1.

    Returns
    -------
    (Q,) array
        On the manifold, to rounding by default; or where no move led closer, which is for the
        caller to see.
    """
    position = np.asarray(position, dtype=float)
    point, distance, move = _look(target, position)
    for _ in range(MAX_MOVES):
        if not distance > close_enough:  # nor where it is not a number
            break
        before = np.abs(move).max()  # which is what the constraint here takes
        for halving in range(MAX_HALVINGS):
            share = 0.5**halving
            there = position - share * np.asarray(move)
            look = _look(target, there)
            if _size(target, point, look[0].constraint) <= (1.0 - 0.5 * share) * before:
                break
        else:
            break
        position, (point, distance, move) = there, look
    return position


def distance_from_manifold(target: ConstrainedTarget, position: np.ndarray) -> float:
    """How far a position, (Q,), is from the manifold, relative to positions larger than 1.

    Not a number where the constraint or its Jacobian is not finite.
    """
    return float(_look(target, np.asarray(position, dtype=float))[1])


def check_independent(target: ConstrainedTarget, position: np.ndarray, names: list[str]) -> None:
    """Check that the gradients of all constraints at a position, (Q,), are independent.

    Where they would have more than 2,000,000 entries they are not looked at.

    Parameters
    ----------
    names : list of str
        Of the constraints, or none: they are then numbered.

    Raises
    ------
    InputError
        If one is not: samplers then find no way back onto the manifold.
    """
    point, *_ = _look.shapes(target, position)
    if point.constraint.size * position.size > MAX_ENTRIES:
        return
    gradients = np.array(_gradients(target, position))
    if not np.all(np.isfinite(gradients)):
        return
    sizes = np.linalg.norm(gradients, axis=1, keepdims=True)
    upper, order = qr((gradients / np.where(sizes > 0.0, sizes, 1.0)).T, mode="r", pivoting=True)
    is_independent = np.abs(np.diagonal(upper)) > INDEPENDENT
    dependent = np.sort(order[np.count_nonzero(is_independent) :])
    if dependent.size:
        raise InputError(
            ", ".join(names[each] if names else f"constraint {each}" for each in dependent[:8]),
            "constraints with linearly independent gradients where a chain starts",
            f"{dependent.size} of {order.size} that depend on the others",
            "leave them out, or give readings some noise",
        )


@program
def _gradients(target, position):
    """Those of the constraints, (d, Q)."""
    point = target.point(position)
    units = jnp.eye(point.constraint.size)
    return jax.vmap(lambda unit: target.apply_jacobian_transpose(point, unit))(units)


@program
def _look(target, position):
    """The point, its distance to the manifold, and the shortest move that mends it."""
    point = target.point(position)
    multiplier = target.solve_gram(point, point.constraint)
    return (
        point,
        distance_to_manifold(target, point),
        target.apply_jacobian_transpose(point, multiplier),
    )


_size = program(normal_move)
