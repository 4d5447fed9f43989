"""From a point of a manifold near a draw along it to where the density says a chain may start."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from invlift.problems.starts.landing import onto_manifold
from invlift.programs.compilation import program
from invlift.projections import distance_to_manifold, project_momentum
from invlift.targets import ConstrainedTarget

#: Moves and halvings of one at most, moves that are remembered, distance from the manifold between
#: moves, relative to positions larger than 1, and the gain of a move that is the last.
MAX_MOVES, MAX_HALVINGS, NUM_REMEMBERED, NEAR, NEGLIGIBLE = 60, 20, 8, 1e-9, 0.1
#: Share of what the slope promises that a move must gain, and how many times as long as the last a
#: move may be: the search does not converge from far away, and takes long to fail.
ENOUGH, GROWTH = 1e-4, 3.0


def likely_position(
    target: ConstrainedTarget, position: np.ndarray, drawn: np.ndarray
) -> np.ndarray:
    """Move a position along the manifold to where |q - drawn|^2 / 2 - l(q) is least.

    With l the log density relative to the standard normal one.  Of a linear constraint, where l is
    constant, this is what is nearest to the draw, an exact draw of the density on the manifold
    (randomised maximum likelihood: Kitanidis 1995; Oliver, He & Reynolds 1996).  Without l the
    Gram term would be missing, and noise of a path whose strength is unknown would be the stronger
    the more readings there are, as strong noise leads to all of them by short moves.

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
    pairs, longest = [], 1.0  # moves, and how the slope changed along them
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
    """The slope, (Q,), multiplied by an inverse of the second derivatives that the pairs tell."""
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
    """The point, what is to be least, its slope along the manifold, and the distance from it."""
    point = target.point(position)
    away = position - drawn
    slope = project_momentum(target, point, away - point.logdensity_grad)
    objective = 0.5 * jnp.sum(away**2) - point.logdensity
    return point, objective, slope, distance_to_manifold(target, point)


_tangent = program(project_momentum)
