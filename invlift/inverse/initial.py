"""Where chains start: a draw from the prior, moved onto the data by damped Gauss-Newton steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.inverse.gram import dense_gram, woodbury_gram
from invlift.inverse.lifted import LiftedPosterior

#: Gauss-Newton steps; a nearly linear problem needs two or three.
MAX_ITERATIONS = 50


def initial_position(lifted: LiftedPosterior, rng_key: jax.Array) -> jax.Array:
    """A start on the manifold, dispersed like the prior where the data say nothing.

    Draws theta* = (zeta*, w*) and eta* from the prior, then minimises
    |w - w*|^2 + |(y - F(w)) / sigma - eta*|^2 by Gauss-Newton steps, halved until they help, at
    the drawn noise scale.  In a linear problem this is an exact posterior draw given sigma
    (randomised maximum likelihood: Kitanidis 1995; Oliver, He & Reynolds 1996).

    Parameters
    ----------
    lifted : LiftedPosterior
    rng_key : jax.Array

    Returns
    -------
    (h + m + d,)
        Exactly on the manifold: whatever misfit is left goes into eta.  NaN only if the forward
        map is not finite at the draw.
    """
    problem = lifted.problem
    key_theta, key_eta = jax.random.split(rng_key)
    theta = jax.random.normal(key_theta, (problem.num_unknowns,))
    eta = jax.random.normal(key_eta, (problem.num_observations,))
    zeta, anchor = problem.split(theta)
    sigma = problem.sigma(zeta)
    target = problem.observed - sigma * eta
    is_underdetermined = problem.num_observations <= problem.num_unknowns

    def objective(white, value):
        return jnp.sum((white - anchor) ** 2) + jnp.sum(((target - value) / sigma) ** 2)

    def gauss_newton(white):
        value, by_coefficients = problem.forward.value_and_jacobian(
            problem.prior.coefficients(white)
        )
        by_white = problem.prior.sqrt_transpose(by_coefficients.T).T
        gram = (
            dense_gram(by_white @ by_white.T, sigma)
            if is_underdetermined
            else woodbury_gram(by_white, sigma)
        )
        full = anchor + by_white.T @ gram.solve(target - value + by_white @ (white - anchor))
        return value, full

    def damped(loop):
        white, _, count = loop
        value, full = gauss_newton(white)
        before = objective(white, value)

        def try_half(search):
            scale, _, _ = search
            scale = 0.5 * scale
            candidate = white + scale * (full - white)
            new = problem.forward(problem.prior.coefficients(candidate))
            return scale, candidate, objective(candidate, new)

        def is_worse(search):
            scale, _, after = search
            return ~(after < before) & (scale > 1e-4)

        _, candidate, after = jax.lax.while_loop(
            is_worse, try_half, try_half((jnp.asarray(2.0), white, before))
        )
        improved = after < before
        moved = jnp.where(improved, candidate, white)
        # Stalled: no step helps, or the gain is negligible.
        is_stuck = ~improved | (before - after < 1e-3 * before)
        return moved, is_stuck, count + 1

    def is_running(loop):
        _, is_stuck, count = loop
        return ~is_stuck & (count < MAX_ITERATIONS)

    white, _, _ = jax.lax.while_loop(
        is_running, damped, (anchor, jnp.asarray(False), jnp.asarray(0))
    )
    return lifted.lift(jnp.concatenate([zeta, white]))
