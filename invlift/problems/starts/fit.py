"""Starts of chains: a prior draw, fitted to the data by damped Gauss-Newton steps."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.lift.jacobians import BorderedJacobian
from invlift.lift.jacobians.diagonal import DiagonalJacobian
from invlift.problems.problem import InverseProblem

#: Maximum number of Gauss-Newton steps; a nearly linear problem needs two or three.
MAX_ITERATIONS = 50
#: Share of a Gauss-Newton step below which no smaller share is tried.
LEAST_SCALE = 1e-4
#: Gain of a step, relative to the objective, below which the search ends.
ENOUGH = 1e-3


class _Search(NamedTuple):
    """State of the minimisation.

    Attributes
    ----------
    white, value, by_white : (m,), (d,), (d, m)
        Best w so far, the readings there and their derivatives; the last two are NaN before the
        first evaluation.
    full : (m,)
        End of a full step from there.
    objective, scale : ()
        Value of the objective, and the share of the step to try next.
    count : () int
        Steps taken.
    is_done : () bool
    """

    white: jax.Array
    value: jax.Array
    by_white: jax.Array
    full: jax.Array
    objective: jax.Array
    scale: jax.Array
    count: jax.Array
    is_done: jax.Array


def initial_position(problem: InverseProblem, rng_key: jax.Array) -> jax.Array:
    """Return a start on the lifted manifold, dispersed like the prior where data say nothing.

    Draws theta* = (zeta*, w*) and eta* from the standard normal distribution, then minimises
    |w - w*|^2 + |eta(w) - eta*|^2 by Gauss-Newton steps, halved until they help.  Here eta(w) are
    the noise variables that explain the data at w and zeta*.  In a linear problem with Gaussian
    noise this is an exact posterior draw given these (randomised maximum likelihood: Kitanidis
    1995; Oliver, He & Reynolds 1996).

    Parameters
    ----------
    problem : InverseProblem
    rng_key : jax.Array

    Returns
    -------
    (h + m + d,)
        Exactly on the manifold: eta takes the remaining misfit.  NaN only if the model is not
        finite at the draw.
    """
    return initial_point(problem, rng_key)[0]


def initial_point(problem: InverseProblem, rng_key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return :func:`initial_position`, and derivatives of its noise-free readings by w, (d, m)."""
    key_theta, key_eta = jax.random.split(rng_key)
    theta = jax.random.normal(key_theta, (problem.num_unknowns,))
    eta = jax.random.normal(key_eta, (problem.num_observations,))
    zeta, anchor = problem.split(theta)
    white, predicted, by_white = fit(problem, zeta, anchor, eta)
    left = problem.noise.invert(predicted, zeta, problem.observed)
    return jnp.concatenate([zeta, white, left]), by_white


def fit(
    problem: InverseProblem,
    zeta: jax.Array,
    anchor: jax.Array,
    eta: jax.Array,
    start: jax.Array | None = None,
    gain: float = ENOUGH,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Minimise |w - anchor|^2 + |eta(w) - eta|^2 by damped Gauss-Newton steps.

    With anchor and eta zero, this is the most probable w for Gaussian noise of parameters zeta.

    Parameters
    ----------
    problem : InverseProblem
    zeta : (h,)
    anchor : (m,)
    eta : (d,)
    start : (m,) or None
        Where the search starts, if not at the anchor.
    gain : float
        Negligible gain of a step, relative to the smaller of the objective and d.

    Returns
    -------
    white : (m,)
    predicted : (d,)
        Noise-free observations there.
    by_white : (d, m)
        Their derivatives by w there.
    """

    def objective(white, predicted):
        misfit = problem.noise.invert(predicted, zeta, problem.observed) - eta
        return jnp.sum((white - anchor) ** 2) + jnp.sum(misfit**2)

    def evaluate(white):
        """Return the readings, their derivatives, and the end of a full step."""
        value, by_white = problem.value_and_jacobian(white)
        noise, slope = problem.noise_variables(value, zeta)
        misfit = (eta - noise) / slope  # in units of the observations
        gram = BorderedJacobian((by_white.T,), DiagonalJacobian(1.0 / slope)).inner()
        full = anchor + by_white.T @ gram.solve(misfit + by_white @ (white - anchor))
        return value, by_white, full

    def attempt(search):
        """Try a share of the step, and take it if it helps."""
        candidate = search.white + search.scale * (search.full - search.white)
        value, by_white, full = evaluate(candidate)
        after = objective(candidate, value)
        is_better = after < search.objective
        # Done if no step helps, or the gain is negligible.  The gain is compared with d, too: the
        # objective is about d in the end, unless one reading that cannot be fitted makes up nearly
        # all of it.
        negligible = gain * jnp.minimum(search.objective, problem.num_observations)
        is_done = jnp.where(
            is_better, search.objective - after < negligible, search.scale <= LEAST_SCALE
        )
        taken = _Search(candidate, value, by_white, full, after, 1.0, search.count + 1, is_done)
        left = search._replace(scale=0.5 * search.scale, is_done=is_done)
        return jax.tree.map(lambda new, old: jnp.where(is_better, new, old), taken, left)

    def is_running(search):
        return ~search.is_done & (search.count <= MAX_ITERATIONS)

    # The first attempt evaluates the draw itself: a program that holds the forward map once is
    # compiled in half the time.
    start = anchor if start is None else start
    value = jnp.full_like(problem.observed, jnp.nan)
    by_white = jnp.full((value.size, start.size), jnp.nan)
    begin = _Search(start, value, by_white, start, jnp.inf, LEAST_SCALE, 0, False)
    end = jax.lax.while_loop(is_running, attempt, jax.tree.map(jnp.asarray, begin))
    return end.white, end.value, end.by_white
