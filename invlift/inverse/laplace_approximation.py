"""The Laplace approximation of a posterior: a normal distribution with a low-rank covariance.

In whitened coordinates the prior is standard normal, and d readings change its covariance in at
most d directions (Bui-Thanh, Ghattas, Martin & Stadler 2013, section 5).  The noise's parameters
are set where the data are most probable after the field has been integrated out: with many more
unknowns than readings the mode of both together is at noise of almost no size.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.inverse.problem import InverseProblem
from invlift.inverse.starts import fit
from invlift.pytrees import Module

#: Rounds of fitting the field at the noise's parameters, and these to the linearised model.
NUM_ROUNDS = 4
#: Newton's steps to a minimum over the noise's parameters, their largest length in standard normal
#: coordinates, and the shares of a step that are tried.
NUM_STEPS, LONGEST, SHARES = 12, 3.0, 0.5 ** np.arange(10)
#: Least precision of a parameter of the noise: its evidence may be flat, or have no maximum.
LEAST_PRECISION = 0.1


class LaplaceApproximation(Module):
    """A normal distribution of theta = (zeta, w), (h + m,), with precision I + V (p - I) V^T.

    Attributes
    ----------
    mode : (h + m,)
    directions : (h + m, r)
        V, orthonormal columns: eigenvectors of the precision, h of the noise's parameters and at
        most d of the field's.
    precisions : (r,)
        Their eigenvalues p, positive; all others are 1, as in the prior.
    """

    mode: jax.Array
    directions: jax.Array
    precisions: jax.Array

    def colour(self, white: jax.Array) -> jax.Array:
        """Theta, (h + m,), of a standard normal vector, (h + m,)."""
        return self.mode + self._scaled(white, self.precisions**-0.5)

    def whiten(self, theta: jax.Array) -> jax.Array:
        """The standard normal vector, (h + m,), that :meth:`colour` makes theta of."""
        return self._scaled(theta - self.mode, self.precisions**0.5)

    def _scaled(self, vector, factors):
        return vector + self.directions @ ((factors - 1.0) * (vector @ self.directions))


def laplace_approximation(problem: InverseProblem) -> LaplaceApproximation:
    """Approximate the posterior by a normal distribution where it is most probable.

    The field is found by damped Gauss-Newton steps, the noise's parameters from the model
    linearised there, in turns.  Field and noise are taken as independent.

    Parameters
    ----------
    problem : InverseProblem

    Returns
    -------
    LaplaceApproximation

    Raises
    ------
    InputError
        If the forward map is not finite on the way.
    """
    found = _approximate(problem)
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found)):
        raise InputError(
            "Laplace approximation",
            "a forward map that is finite around its most probable field",
            "values that are not finite",
            'check the model and the prior (a smaller std), or take another method, "chmc" say',
        )
    return found


def _laplace(problem: InverseProblem) -> LaplaceApproximation:
    num_parameters, num_white = problem.noise.num_parameters, problem.prior.num_white
    zero_white, zero_eta = jnp.zeros(num_white), jnp.zeros(problem.num_observations)

    def linearise(zeta):
        """The most probable field at given parameters, readings there and their derivatives."""
        white, _ = fit(problem, zeta, zero_white, zero_eta)
        return white, *problem.value_and_jacobian(white)

    def loss(zeta, white, predicted, by_white):
        """Minus the log posterior density of zeta, the field integrated out."""
        eta, slope = problem.explain(predicted, zeta)
        by_white = slope[:, None] * by_white
        gram = jnp.eye(eta.size) + by_white @ by_white.T
        lower = jnp.linalg.cholesky(gram)
        misfit = solve_triangular(lower, eta - by_white @ white, lower=True)
        log_root = jnp.sum(jnp.log(jnp.diagonal(lower)))
        reference = problem.noise.log_reference_of_parameters(zeta) - 0.5 * zeta @ zeta
        return 0.5 * misfit @ misfit + log_root - jnp.sum(jnp.log(jnp.abs(slope))) - reference

    def improve(zeta, _):
        linear = linearise(zeta)
        return _minimise(lambda zeta: loss(zeta, *linear), zeta), None

    zeta = jnp.zeros(num_parameters)
    if num_parameters:
        zeta, _ = jax.lax.scan(improve, zeta, length=NUM_ROUNDS)
    linear = white, predicted, by_white = linearise(zeta)
    _, slope = problem.explain(predicted, zeta)
    _, values, along = jnp.linalg.svd(slope[:, None] * by_white, full_matrices=False)
    by_noise, of_noise = jnp.zeros(0), jnp.zeros((0, 0))
    if num_parameters:
        by_noise, of_noise = jnp.linalg.eigh(jax.hessian(loss)(zeta, *linear))
    rank = values.shape[0]
    directions = jnp.block(
        [
            [of_noise, jnp.zeros((num_parameters, rank))],
            [jnp.zeros((num_white, num_parameters)), along.T],
        ]
    )
    precisions = jnp.concatenate([jnp.maximum(by_noise, LEAST_PRECISION), 1.0 + values**2])
    return LaplaceApproximation(jnp.concatenate([zeta, white]), directions, precisions)


def _minimise(loss, start: jax.Array) -> jax.Array:
    """A minimum of a function of few variables, (h,), by Newton's method.

    Where the function is not convex its curvatures count by their size; of several shares of a step
    the best is taken, if it helps.
    """

    def improve(value, _):
        curvatures, vectors = jnp.linalg.eigh(jax.hessian(loss)(value))
        along = jax.grad(loss)(value) @ vectors
        step = -vectors @ (along / jnp.maximum(jnp.abs(curvatures), LEAST_PRECISION))
        step = step * jnp.minimum(1.0, LONGEST / jnp.maximum(jnp.linalg.norm(step), 1e-300))
        candidates = jnp.concatenate([value[None], value + SHARES[:, None] * step])
        losses = jax.lax.map(loss, candidates)
        return candidates[jnp.nanargmin(losses)], None

    return jax.lax.scan(improve, start, length=NUM_STEPS)[0]


_approximate = Program(_laplace, "none")
