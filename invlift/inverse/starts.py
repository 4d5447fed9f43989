"""Where chains start: a draw from the prior, moved onto the data by damped Gauss-Newton steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.inverse.gram.factors import dense_gram, woodbury_gram
from invlift.inverse.problem import InverseProblem

#: Gauss-Newton steps; a nearly linear problem needs two or three.
MAX_ITERATIONS = 50


def initial_position(problem: InverseProblem, rng_key: jax.Array) -> jax.Array:
    """A start on the lifted manifold, dispersed like the prior where the data say nothing.

    Draws theta* = (zeta*, w*) and eta* from the standard normal distribution, then minimises
    |w - w*|^2 + |eta(w) - eta*|^2 by Gauss-Newton steps, halved until they help, where eta(w) are
    the noise variables that w leaves to explain the data, at the noise parameters drawn.  In a
    linear problem with Gaussian noise this is an exact posterior draw given these (randomised
    maximum likelihood: Kitanidis 1995; Oliver, He & Reynolds 1996).

    Parameters
    ----------
    problem : InverseProblem
    rng_key : jax.Array

    Returns
    -------
    (h + m + d,)
        Exactly on the manifold: whatever misfit is left goes into eta.  NaN only if the model is
        not finite at the draw.
    """
    key_theta, key_eta = jax.random.split(rng_key)
    theta = jax.random.normal(key_theta, (problem.num_unknowns,))
    eta = jax.random.normal(key_eta, (problem.num_observations,))
    zeta, anchor = problem.split(theta)
    white, predicted = fit(problem, zeta, anchor, eta)
    return jnp.concatenate([zeta, white, problem.noise.invert(predicted, zeta, problem.observed)])


def fit(
    problem: InverseProblem, zeta: jax.Array, anchor: jax.Array, eta: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Minimise |w - anchor|^2 + |eta(w) - eta|^2 by damped Gauss-Newton steps.

    With anchor and eta zero the most probable w, for Gaussian noise of parameters zeta.

    Parameters
    ----------
    problem : InverseProblem
    zeta : (h,)
    anchor : (m,)
        Where the search starts, too.
    eta : (d,)

    Returns
    -------
    white : (m,)
    predicted : (d,)
        Noise-free observations there.
    """
    is_underdetermined = problem.num_observations <= problem.num_unknowns

    def explain(predicted):
        """The noise variables that predictions leave over, (d,)."""
        return problem.noise.invert(predicted, zeta, problem.observed)

    def objective(white, predicted):
        misfit = explain(predicted) - eta
        return jnp.sum((white - anchor) ** 2) + jnp.sum(misfit**2)

    def gauss_newton(white):
        coefficients, tangent = problem.prior.linearise(white)
        value, by_coefficients = problem.model.value_and_jacobian(coefficients)
        by_white = tangent.pull(by_coefficients.T).T
        # eta depends on each prediction by itself; in units of the observations:
        found, slope = jax.jvp(explain, (value,), (jnp.ones_like(value),))
        misfit = (eta - found) / slope
        gram = (
            dense_gram(by_white @ by_white.T, 1.0 / slope)
            if is_underdetermined
            else woodbury_gram(by_white, 1.0 / slope)
        )
        full = anchor + by_white.T @ gram.solve(misfit + by_white @ (white - anchor))
        return value, full

    def damped(loop):
        white, _, _, count = loop
        value, full = gauss_newton(white)
        before = objective(white, value)

        def halve(search):
            scale, *_ = search
            scale = 0.5 * scale
            candidate = white + scale * (full - white)
            new = problem.model(problem.prior.transform(candidate))
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
    white, predicted, _, _ = jax.lax.while_loop(is_running, damped, start)
    return white, predicted
