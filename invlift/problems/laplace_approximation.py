"""The Laplace approximation of a posterior: a normal distribution with a low-rank covariance.

In whitened coordinates the prior is standard normal, and d readings change its covariance in at
most d directions (Bui-Thanh, Ghattas, Martin & Stadler 2013, section 5).  The noise's parameters
are at the mode of their marginal density, with the field integrated out.  With many more unknowns
than readings, the joint mode would have almost no noise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.lift.jacobians import BorderedJacobian
from invlift.lift.jacobians.diagonal import DiagonalJacobian
from invlift.problems.problem import InverseProblem
from invlift.problems.starts.fit import ENOUGH, MAX_ITERATIONS, fit
from invlift.programs.compilation import program
from invlift.programs.pytrees import Module

#: Numbers of rounds for starts and for an approximation, and relative gain at which the fits of an
#: approximation end.  A round fits the field at the noise's parameters, then these parameters to
#: the linearised model.
NUM_ROUNDS, MANY_ROUNDS, LAST_GAIN = 4, 12, 1e-12
#: Norm of the gradient of the field's log density above which its mode is not reached.
MAX_GRADIENT = 0.01
logger = logging.getLogger(__name__)

#: Newton's method for the noise's parameters: maximum number of steps, largest step in standard
#: normal coordinates, smallest share of a step that is tried, and negligible gain.
NUM_STEPS, LONGEST, LEAST_SHARE, LEAST_GAIN = 12, 3.0, 2e-3, 1e-4
#: Number of unknowns above which a mode may take seconds, so that one likely mode is enough.
FEW_UNKNOWNS = 100
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

    def split(self, num: int) -> tuple[LaplaceApproximation, LaplaceApproximation]:
        """Split it into the distributions of the first ``num`` = h variables and of the others.

        The two are independent.  The others have the directions after the first h.
        """
        first = self.mode[:num], self.directions[:num, :num], self.precisions[:num]
        rest = self.mode[num:], self.directions[num:, num:], self.precisions[num:]
        return LaplaceApproximation(*first), LaplaceApproximation(*rest)

    def colour(self, white: jax.Array) -> jax.Array:
        """Map a standard normal vector, (h + m,), to theta, (h + m,)."""
        return self.mode + self.scaled(white)

    def whiten(self, theta: jax.Array) -> jax.Array:
        """Map theta, (h + m,), to a standard normal vector, (h + m,); inverse of :meth:`colour`."""
        return self._times(theta - self.mode, self.precisions**0.5)

    def scaled(self, vectors: jax.Array) -> jax.Array:
        """L v, (h + m,) or (h + m, k), for vectors v or columns; L is symmetric."""
        return self._times(vectors, self.precisions**-0.5)

    def log_ratio(self, white: jax.Array) -> jax.Array:
        """Log ratio, (), of the standard normal density to this one, for ``white``, (h + m,).

        At theta = m + L v it is log |det L| + |v|^2/2 - |m + L v|^2/2.
        """
        theta = self.colour(white)
        return 0.5 * (white @ white - theta @ theta - jnp.sum(jnp.log(self.precisions)))

    def _times(self, vectors, factors):
        along = self.directions.T @ vectors
        return vectors + self.directions @ ((factors - 1.0) * along.T).T


def standard_normal(size: int) -> LaplaceApproximation:
    """Return the standard normal distribution of ``size`` variables."""
    return LaplaceApproximation(jnp.zeros(size), jnp.zeros((size, 0)), jnp.zeros(0))


def laplace_approximation(problem: InverseProblem) -> LaplaceApproximation:
    """Approximate the posterior by a normal distribution where it is most probable.

    Damped Gauss-Newton steps for the field alternate with steps for the noise's parameters, which
    use the model linearised at that field.  Field and noise are taken as independent.

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
    approximation, gradient = _approximate(problem)
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(approximation)):
        raise InputError(
            "Laplace approximation",
            "a forward map that is finite around its most probable field",
            "values that are not finite",
            'check the model and the prior (a smaller std), or take another method, "chmc" say',
        )
    if gradient > MAX_GRADIENT:
        logger.warning(
            f"the Laplace approximation is not at the mode: {MAX_ITERATIONS} steps end where the "
            f"log density has a gradient of {float(gradient):.2g}; take another method, or starts "
            "from the prior"
        )
    return approximation


class Mode(NamedTuple):
    """A mode of the posterior; for the noise's parameters, with the field integrated out.

    Attributes
    ----------
    zeta : (h,)
    white : (m,)
        The most probable field at these.
    eta : (d,)
        The noise variables that explain the data there.
    by_white : (d, m)
        Their derivatives by w.
    curvatures : (h,)
        Eigenvalues of the Hessian of minus the log density of zeta, at least LEAST_PRECISION.
    directions : (h, h)
        Its eigenvectors.
    log_mass : ()
        Log of the posterior probability around it, by Laplace's method, up to a constant that all
        modes of a problem share.
    """

    zeta: jax.Array
    white: jax.Array
    eta: jax.Array
    by_white: jax.Array
    curvatures: jax.Array
    directions: jax.Array
    log_mass: jax.Array


def find_mode(
    problem: InverseProblem,
    zeta: jax.Array,
    white: jax.Array,
    *,
    num_rounds: int = NUM_ROUNDS,
    gain: float = ENOUGH,
) -> Mode:
    """Find the mode near theta = (zeta, w), where the search starts.

    Parameters
    ----------
    problem : InverseProblem
    zeta : (h,)
    white : (m,)
    num_rounds : int
        Number of fits of the noise's parameters, if it has any.
    gain : float
        See :func:`~invlift.problems.starts.fit.fit`.
    """
    has_parameters = problem.noise.num_parameters > 0
    zero_white, zero_eta = jnp.zeros_like(white), jnp.zeros(problem.num_observations)

    def improve(mode, _):
        zeta, white, *_ = mode
        linear = fit(problem, zeta, zero_white, zero_eta, white, gain)
        if has_parameters:
            zeta = _fitted(_marginal_loss(problem, *linear), zeta)
        return (zeta, *linear), None

    unknown = zeta, white, zero_eta, jnp.zeros((zero_eta.size, white.size))
    mode, _ = jax.lax.scan(improve, unknown, length=num_rounds if has_parameters else 1)
    zeta, white, predicted, by_white = mode
    parts = _marginal_loss(problem, white, predicted, by_white)
    curvatures, directions = jnp.zeros(0), jnp.zeros((0, 0))
    if has_parameters:
        curvatures, directions = jnp.linalg.eigh(jax.hessian(lambda z: sum(parts(z)))(zeta))
    curvatures = jnp.maximum(curvatures, LEAST_PRECISION)
    eta, slope = problem.noise_variables(predicted, zeta)
    # The exact misfit at w.  Where readings move by 1e8 standard deviations, the misfit of the
    # linearised model has no correct digits.  A negative one would outweigh all other modes.
    misfit = 0.5 * (white @ white + eta @ eta)
    log_mass = -misfit - parts(zeta)[1] - 0.5 * jnp.sum(jnp.log(curvatures))
    return Mode(zeta, white, eta, slope[:, None] * by_white, curvatures, directions, log_mass)


def is_enough(problem: InverseProblem, norm: float) -> bool:
    """Return whether a mode with |w|^2 + |eta|^2 = ``norm`` ends the search for modes.

    It does with many unknowns and known noise, if ``norm`` is at most d + sqrt(2 d).  In a linear
    problem with data drawn from the prior, ``norm`` is chi-squared with d degrees of freedom, so
    that another mode can hardly outweigh this one.  Five of six such modes are below this limit.
    """
    is_slow = problem.num_unknowns > FEW_UNKNOWNS and not problem.noise.num_parameters
    num = problem.num_observations
    return bool(is_slow and norm <= num + np.sqrt(2.0 * num))


def find_noise(problem: InverseProblem, white: jax.Array) -> jax.Array:
    """The most probable noise parameters, (h,), of the model linearised at w (m,)."""
    parts = _marginal_loss(problem, white, *problem.value_and_jacobian(white))
    return _fitted(parts, jnp.zeros(problem.noise.num_parameters))


def _fitted(parts: Callable, zeta: jax.Array) -> jax.Array:
    """Minimise the sum of the parts of a loss from a start, (h,)."""
    return minimise(lambda zeta: sum(parts(zeta)), zeta)


def _marginal_loss(problem: InverseProblem, white, predicted, by_white) -> Callable:
    """Minus the log posterior density of zeta, (h,), with the field integrated out.

    The function returns two parts, the misfit and the rest; their sum is the loss.  The model is
    linearised at w (m,), with readings (d,) and derivatives (d, m) there.
    """
    product, along = by_white @ by_white.T, by_white @ white

    def parts(zeta):
        eta, slope = problem.noise_variables(predicted, zeta)
        sigma = 1.0 / slope  # in units of the observations
        gram = BorderedJacobian((by_white.T,), DiagonalJacobian(sigma)).inner(product=product)
        residual = sigma * eta - along
        reference = problem.log_reference_of_unknowns(zeta, white) - 0.5 * zeta @ zeta
        return 0.5 * residual @ gram.solve(residual), 0.5 * gram.log_determinant() - reference

    return parts


@program
def _approximate(problem: InverseProblem) -> tuple[LaplaceApproximation, jax.Array]:
    """Return the approximation, and the norm of the gradient by w at its mode."""
    num_parameters, num_white = problem.noise.num_parameters, problem.prior.num_white
    zeta, white = jnp.zeros(num_parameters), jnp.zeros(num_white)
    mode = find_mode(problem, zeta, white, num_rounds=MANY_ROUNDS, gain=LAST_GAIN)
    gradient = jnp.linalg.norm(mode.white + mode.eta @ mode.by_white)
    _, values, along = jnp.linalg.svd(mode.by_white, full_matrices=False)
    rank = values.shape[0]
    directions = jnp.block(
        [
            [mode.directions, jnp.zeros((num_parameters, rank))],
            [jnp.zeros((num_white, num_parameters)), along.T],
        ]
    )
    precisions = jnp.concatenate([mode.curvatures, 1.0 + values**2])
    theta = jnp.concatenate([mode.zeta, mode.white])
    return LaplaceApproximation(theta, directions, precisions), gradient


def minimise(loss: Callable, start: jax.Array) -> jax.Array:
    """Minimise a function of few variables, (h,), by Newton's method with step halving.

    Where the function is not convex, absolute values of its curvatures are used.
    """

    def slopes(value):
        gradient = jax.grad(loss)(value)
        return gradient, gradient

    def newton_step(value):
        hessian, gradient = jax.jacfwd(slopes, has_aux=True)(value)
        curvatures, vectors = jnp.linalg.eigh(hessian)
        step = -vectors @ ((gradient @ vectors) / jnp.maximum(jnp.abs(curvatures), LEAST_PRECISION))
        return step * jnp.minimum(1.0, LONGEST / jnp.maximum(jnp.linalg.norm(step), 1e-300))

    def improve(search):
        value, before, _, count = search
        step = newton_step(value)

        def halve(tried):
            share = 0.5 * tried[0]
            return share, loss(value + share * step)

        def is_no_help(tried):
            share, after = tried
            return ~(after < before) & (share > LEAST_SHARE)

        share, after = jax.lax.while_loop(is_no_help, halve, (2.0, jnp.inf))
        is_better = after < before
        value = jnp.where(is_better, value + share * step, value)
        after = jnp.where(is_better, after, before)
        return value, after, before - after < LEAST_GAIN, count + 1

    def is_running(search):
        *_, is_done, count = search
        return ~is_done & (count < NUM_STEPS)

    return jax.lax.while_loop(is_running, improve, (start, loss(start), False, 0))[0]
