"""An inverse problem: forward map, prior, noise and data, and its posterior on the unknowns.

The unknowns are theta = (zeta, w): the standard normal variables of unknown noise scales and the
white noise of the field.  The data obey y = F(mean + S w) + sigma(zeta) eta (Au, Graham & Thiery
2023, eq. 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.inverse.models.base import ForwardMap, JaxForward, StandardNormalPrior
from invlift.inverse.noise import Noise
from invlift.precision import require_float64
from invlift.pytrees import pytree


@pytree
@dataclass(frozen=True)
class InverseProblem:
    """Everything that defines the posterior; a pytree.  Build it with :func:`inverse_problem`.

    Attributes
    ----------
    forward : ForwardMap
        Coefficients (N,) to observations (d,).
    prior
        Gaussian prior with ``coefficients``, ``sqrt``, ``sqrt_transpose`` and ``num_white``: white
        noise (m,) to coefficients (N,).
    noise : Noise
        zeta (h,) to noise scales, () or (d,).
    observed : (d,)
        The data y.
    """

    forward: Any
    prior: Any
    noise: Noise
    observed: jax.Array

    @property
    def num_observations(self) -> int:
        """Number d of observations."""
        return self.observed.shape[0]

    @property
    def num_unknowns(self) -> int:
        """Number h + m of unknowns theta = (zeta, w)."""
        return self.noise.num_parameters + self.prior.num_white

    def split(self, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """zeta (h,) and w (m,) from theta (h + m,)."""
        return theta[: self.noise.num_parameters], theta[self.noise.num_parameters :]

    def sigma(self, zeta: jax.Array) -> jax.Array:
        """Noise scale of each observation, (d,)."""
        return jnp.broadcast_to(self.noise.sigma(zeta), self.observed.shape)

    def logdensity(self, theta: jax.Array) -> jax.Array:
        """Log density of the ordinary posterior at theta (h + m,), up to a constant.

        The target of samplers that do not lift (Au, Graham & Thiery 2023, section 1).
        """
        zeta, white = self.split(theta)
        sigma = self.sigma(zeta)
        residual = (self.observed - self.forward(self.prior.coefficients(white))) / sigma
        return -0.5 * (theta @ theta + residual @ residual) - jnp.sum(jnp.log(sigma))


def inverse_problem(forward: ForwardMap, prior, noise: Noise, observed) -> InverseProblem:
    """Put an inverse problem together and check that its parts fit.

    Parameters
    ----------
    forward : ForwardMap
        Coefficients (N,) to observations (d,).
    prior
        Prior on the N coefficients.
    noise : Noise
        From :func:`known_noise`, :func:`lognormal_noise` or :func:`half_normal_noise`.
    observed : (d,) float64 array
        Measured values.

    Returns
    -------
    InverseProblem

    Raises
    ------
    InputError
        If shapes do not match, a value is not finite, an array is not float64, or the forward map
        is not finite at the prior mean or cannot be differentiated.
    """
    require_float64(observed=observed)
    observed = np.asarray(observed)
    if observed.ndim != 1 or observed.size == 0 or not np.all(np.isfinite(observed)):
        raise InputError(
            "argument observed",
            "one finite value per observation",
            f"shape {observed.shape}"
            if observed.ndim != 1 or observed.size == 0
            else f"{observed[~np.isfinite(observed)][0]} at index "
            f"{np.flatnonzero(~np.isfinite(observed))[0]}",
            "remove or correct the observation",
        )
    if not (hasattr(noise, "sigma") and hasattr(noise, "num_parameters")):
        raise InputError(
            "argument noise",
            "a noise such as known_noise(0.01)",
            f"{noise!r}",
            "use known_noise, lognormal_noise or half_normal_noise",
        )
    problem = InverseProblem(forward, prior, noise, jax.device_put(observed))
    scale_shape = jax.eval_shape(noise.sigma, np.zeros(noise.num_parameters)).shape
    if scale_shape not in ((), observed.shape):
        raise InputError(
            "noise sigma",
            f"one number or {observed.size} numbers",
            f"{scale_shape[0]}",
            "give one value per observation",
        )
    try:
        value = _at_prior_mean(problem)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(
            "forward map",
            f"a JAX function of {prior.mean.shape[0]} coefficients",
            f"{type(error).__name__}: {str(error).splitlines()[0]}",
            "check the function's shapes",
        ) from error
    if not np.all(np.isfinite(value)):
        raise InputError(
            "forward map at the prior mean",
            "finite observations",
            f"{np.asarray(value)[~np.isfinite(value)][0]}",
            "check the function or the prior mean",
        )
    return problem


def _readings_at_prior_mean(problem: InverseProblem):
    """Readings at w = 0, through all that evaluates them; what they must be is checked here.

    In a compiled function, and so once for problems of the same structure and shapes.
    """
    value = problem.forward(problem.prior.coefficients(jnp.zeros(problem.prior.num_white)))
    shape = problem.observed.shape
    is_array = isinstance(value, jax.Array)
    if not is_array or value.shape != shape or value.dtype != jnp.float64:
        raise InputError(
            "forward map",
            f"{shape[0]} float64 observations",
            f"{value.dtype} of shape {value.shape}" if is_array else type(value).__name__,
            "return one float64 value per observation",
        )
    try:
        jax.eval_shape(_differentiate, problem)
    except (TypeError, ValueError) as error:
        raise InputError(
            "forward map",
            "a JAX function with derivatives in forward and in reverse mode",
            f"{type(error).__name__}: {str(error).splitlines()[0]}",
            "see JAX's documentation of what the function is made of",
        ) from error
    return value


_at_prior_mean = Program(_readings_at_prior_mean, "none")


def _differentiate(problem: InverseProblem):
    """All the derivatives that samplers take, to see whether they exist."""
    mean = problem.prior.mean
    (_, jacobian), expansion = problem.forward.linearise(mean)
    _, pushed = problem.forward.push_forward(expansion, jacobian.T)
    gradient = problem.forward.pull_back(expansion, pushed, lambda columns: columns)
    _, expansion = problem.forward.expand(mean)
    first = problem.forward.derivative(expansion, gradient)
    return first, problem.forward.second_derivative(expansion, gradient)


def jax_problem(fn, num_parameters: int, noise: Noise, observed, *, arguments=()) -> InverseProblem:
    """Inverse problem of a user's own JAX function with standard normal parameters.

    Parameters
    ----------
    fn : callable
        ``fn(theta, *arguments)``, (num_parameters,) to (d,); maps standard normal theta to the
        model's own parameters itself.
    num_parameters : int
        Number of parameters, at least 1.
    noise : Noise
    observed : (d,) float64 array
    arguments : tuple
        Further arguments of ``fn``.

    Returns
    -------
    InverseProblem

    Raises
    ------
    InputError
        As :func:`inverse_problem`.
    """
    if (
        isinstance(num_parameters, bool)
        or not isinstance(num_parameters, int | np.integer)
        or (num_parameters < 1)
    ):
        raise InputError(
            "argument num_parameters",
            "an integer of at least 1",
            f"{num_parameters!r}",
            "give the length of theta",
        )
    prior = StandardNormalPrior(jax.device_put(np.zeros(num_parameters)))
    return inverse_problem(JaxForward(fn, tuple(arguments)), prior, noise, observed)
