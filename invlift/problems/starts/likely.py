"""Moves along a manifold, from a point near a draw to a likely start of a chain."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from invlift.problems.starts.landing import onto_manifold
from invlift.programs.compilation import program
from invlift.projections import distance_to_manifold, project_momentum
from invlift.targets import ConstrainedTarget

#: Maximum numbers of moves, and of halvings of one; number of moves remembered; distance from the
#: manifold between moves, relative to positions larger than 1; and gain below which moves end.
MAX_MOVES, MAX_HALVINGS, NUM_REMEMBERED, NEAR, NEGLIGIBLE = 60, 20, 8, 1e-9, 0.1
#: Share of the gain predicted by the slope that a move must reach, and largest length of a move
#: relative to the last one: from far away the return to the manifold fails, which takes long.
ENOUGH, GROWTH = 1e-4, 3.0


def likely_position(
    target: ConstrainedTarget, position: np.ndarray, drawn: np.ndarray
) -> np.ndarray:
    """Minimise |q - drawn|^2 / 2 - l(q) along the manifold from a position on it.

    Here l is the log density relative to the standard normal one.  For a linear constraint and
    constant l, the minimum is the point nearest to the draw, which is an exact draw of the density
    on the manifold (randomised maximum likelihood: Kitanidis 1995; Oliver, He & Reynolds 1996).
    Without l the Gram term would be missing.  An unknown strength of the noise of a path would then
    grow with the number of readings, as strong noise leads to all of them by short moves.

    The moves are those of the method of Broyden, Fletcher, Goldfarb & Shanno with limited memory
    (Nocedal & Wright 2006, algorithm 7.4), projected onto the tangent space, halved until they
    help, and led back onto the manifold.

    Parameters
    ----------
    target : ConstrainedTarget
    position : (Q,) array
        On the manifold.
    drawn : (Q,) array
        From the standard normal distribution.

    Returns
    -------
    (Q,) array
        On the manifold.
    """
    point, before, slope, _ = _look(target, position, drawn)
    pairs, longest = [], 1.0  # moves, and changes of the slope along them
    for _ in range(MAX_MOVES):
        move = np.asarray(_tangent(target, point, -_newton_like(np.asarray(slope), pairs)))
        move = move / max(1.0, np.linalg.norm(move) / longest)
        promised = move @ slope
        for halving in range(MAX_HALVINGS):
            share = 0.5**halving
            there = onto_manifold(target, position + share * move, NEAR)
            *look, distance = _look(target, there, drawn)
            if look[1] <= before + ENOUGH * share * promised and distance <= NEAR:
                break
        else:
            break
        change = np.asarray(look[2]) - slope
        if change @ (there - position) > 0.0:
            pairs = [*pairs[1 - NUM_REMEMBERED :], (there - position, change)]
        longest = GROWTH * np.linalg.norm(there - position)
        gain, (point, before, slope), position = before - look[1], look, there
        if gain < NEGLIGIBLE:
            break
    return onto_manifold(target, position)


def _newton_like(slope, pairs):
    """Multiply the slope, (Q,), by the inverse Hessian that the pairs approximate."""
    direction, shares = slope.copy(), []
    for move, change in reversed(pairs):
        shares.append((move @ direction) / (move @ change))
        direction -= shares[-1] * change
    if pairs:
        move, change = pairs[-1]
        direction *= (move @ change) / (change @ change)
    for (move, change), share in zip(pairs, reversed(shares), strict=True):
        direction += (share - (change @ direction) / (move @ change)) * move
    return direction


@program
def _look(target, position, drawn):
    """Return the point, the objective, its slope along the manifold, and the distance from it."""
    point = target.point(position)
    away = position - drawn
    slope = project_momentum(target, point, away - point.logdensity_grad)
    objective = 0.5 * jnp.sum(away**2) - point.logdensity
    return point, objective, slope, distance_to_manifold(target, point)


_tangent = program(project_momentum)
