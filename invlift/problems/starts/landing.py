"""Gauss-Newton moves from a rough position onto the manifold."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import qr

from invlift.errors import InputError
from invlift.programs.compilation import program
from invlift.projections import distance_to_manifold, normal_move
from invlift.targets import ConstrainedTarget

#: Maximum numbers of moves, and of halvings of one move.
MAX_MOVES, MAX_HALVINGS = 50, 20
#: Distance at which a position is on the manifold, relative to positions larger than 1.
CLOSE_ENOUGH = 1e-13
#: Smallest part of a gradient, relative to its length, that counts as independent of the others.
INDEPENDENT = 1e-10
#: Largest number of entries of all gradients that are checked; the check of more is too slow.
MAX_ENTRIES = 2_000_000


def onto_manifold(
    target: ConstrainedTarget, position: np.ndarray, close_enough: float = CLOSE_ENOUGH
) -> np.ndarray:
    """Move a position onto the manifold by Gauss-Newton moves of least length.

    A move is halved until it achieves half of the reduction that a linear constraint would give.
    The reduction is measured by the move for the remaining constraint (Deuflhard 2011, section 3.3,
    the restricted natural monotonicity test).

    Parameters
    ----------
    target : ConstrainedTarget
    position : (Q,) array
    close_enough : float
        Distance at which it is on the manifold, relative to positions larger than 1.

    Returns
    -------
    (Q,) array
        On the manifold, to rounding by default.  If no move led closer, the last position: the
        caller must check this.
    """
    position = np.asarray(position, dtype=float)
    point, distance, move = _look(target, position)
    for _ in range(MAX_MOVES):
        if not distance > close_enough:  # also ends where it is NaN
            break
        before = np.abs(move).max()  # size of the move for the constraint here
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
    """Distance of a position, (Q,), from the manifold, relative to positions larger than 1.

    NaN where the constraint or its Jacobian is not finite.
    """
    return float(_look(target, np.asarray(position, dtype=float))[1])


def check_independent(target: ConstrainedTarget, position: np.ndarray, names: list[str]) -> None:
    """Check that the gradients of all constraints at a position, (Q,), are independent.

    Gradients with more than 2,000,000 entries are not checked.

    Parameters
    ----------
    names : list of str
        Names of the constraints; if empty, constraints are numbered.

    Raises
    ------
    InputError
        If one is not: samplers could then not return to the manifold.
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
    """Return the gradients of the constraints, (d, Q)."""
    point = target.point(position)
    units = jnp.eye(point.constraint.size)
    return jax.vmap(lambda unit: target.apply_jacobian_transpose(point, unit))(units)


@program
def _look(target, position):
    """Return the point, its distance to the manifold, and the shortest move that removes it."""
    point = target.point(position)
    multiplier = target.solve_gram(point, point.constraint)
    return (
        point,
        distance_to_manifold(target, point),
        target.apply_jacobian_transpose(point, multiplier),
    )


_size = program(normal_move)
