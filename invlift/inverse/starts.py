"""Where chains start: a draw from the prior, moved onto the data by damped Gauss-Newton steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.inverse.gram.factors import dense_gram, woodbury_gram
from invlift.inverse.targets.lifted import LiftedPosterior

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
        white, _, _, count = loop
        value, full = gauss_newton(white)
        before = objective(white, value)

        def halve(search):
            scale, *_ = search
            scale = 0.5 * scale
            candidate = white + scale * (full - white)
            new = problem.forward(problem.prior.coefficients(candidate))
            return scale, candidate, new, objective(candidate, new)

        def is_worse(search):
            scale, _, _, after = search
            return ~(after < before) & (scale > 1e-4)

        start = (jnp.asarray(2.0), white, value, jnp.asarray(jnp.inf))
        _, candidate, new, after = jax.lax.while_loop(is_worse, halve, start)
        is_better = after < before
        white, value = jax.tree.map(
            lambda moved, old: jnp.where(is_better, moved, old), (candidate, new), (white, value)
        )
        # Done where no step helps, or the gain is negligible: next to d, about which the objective
        # is in the end, as a reading that cannot be fitted may make up nearly all of it.
        negligible = 1e-3 * jnp.minimum(before, problem.num_observations)
        is_done = ~is_better | (before - after < negligible)
        return white, value, is_done, count + 1

    def is_running(loop):
        *_, is_done, count = loop
        return ~is_done & (count < MAX_ITERATIONS)

    start = (anchor, jnp.zeros_like(problem.observed), jnp.asarray(False), jnp.asarray(0))
    white, value, _, _ = jax.lax.while_loop(is_running, damped, start)
    return jnp.concatenate([zeta, white, (problem.observed - value) / sigma])
