"""The forward map and the log posterior of a problem, as other programs may call them."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from invlift.app.sampling import target_of
from invlift.inverse.problem import InverseProblem
from invlift.samplers.kernels.euclidean import HMC


class ServedModel:
    """A function of one vector, x (N,) to f(x) (k,), compiled, with its derivatives by JAX.

    Parameters
    ----------
    name : str
    num_inputs, num_outputs : int
        N and k.
    fn : callable
        Of ``of`` and x.
    of : pytree
        An argument of the compiled programs, that its arrays be no constants in them.
    """

    def __init__(self, name: str, num_inputs: int, num_outputs: int, fn: Callable, of=None) -> None:
        def gradient(of, x, sensitivity):
            return jax.vjp(lambda x: fn(of, x), x)[1](sensitivity)[0]

        def jacobian(of, x, vector):
            return jax.jvp(lambda x: fn(of, x), (x,), (vector,))[1]

        def hessian(of, x, sensitivity, vector):
            return jax.jvp(lambda x: gradient(of, x, sensitivity), (x,), (vector,))[1]

        self.name, self.num_inputs, self.num_outputs = name, num_inputs, num_outputs
        self._of = of
        self._value, self._gradient = jax.jit(fn), jax.jit(gradient)
        self._jacobian, self._hessian = jax.jit(jacobian), jax.jit(hessian)

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """f(x), (k,)."""
        return np.asarray(self._value(self._of, x))

    def gradient(self, x: np.ndarray, sensitivity: np.ndarray) -> np.ndarray:
        """J(x)^T s for s (k,), (N,)."""
        return np.asarray(self._gradient(self._of, x, sensitivity))

    def apply_jacobian(self, x: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """J(x) v for v (N,), (k,)."""
        return np.asarray(self._jacobian(self._of, x, vector))

    def apply_hessian(
        self, x: np.ndarray, sensitivity: np.ndarray, vector: np.ndarray
    ) -> np.ndarray:
        """Derivative of J(x)^T s along v, (N,)."""
        return np.asarray(self._hessian(self._of, x, sensitivity, vector))


def served_models(problem: InverseProblem) -> list[ServedModel]:
    """What is served of a problem with d readings and Q = h + m unknowns.

    Returns
    -------
    list of ServedModel
        ``forward``, white coefficients w (m,) to noise-free readings (d,), whose prior is standard
        normal; and ``posterior``, unknowns theta = (zeta, w) (Q,) to the logarithm of their
        posterior density (1,), up to a constant, with respect to Lebesgue measure.  For noise of
        known scale theta is w.
    """
    target, num_white = target_of(problem, HMC()), problem.prior.num_white
    return [
        ServedModel("forward", num_white, problem.num_observations, _forward, problem),
        ServedModel("posterior", target.dimension, 1, _logdensity, target),
    ]


def _forward(problem: InverseProblem, white):
    return problem.model(problem.prior.transform(white))


def _logdensity(target, theta):
    return target.logdensity(theta)[None]
