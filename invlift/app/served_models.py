"""The forward map and the log posterior of a problem, as other programs may call them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from invlift.app.sampling import target_of
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.samplers.kernels.euclidean import HMC


@dataclass(frozen=True)
class ServedModel:
    """A function of one vector, compiled, with its derivatives by JAX.

    Attributes
    ----------
    name : str
    num_inputs, num_outputs : int
        N and k.
    evaluate : callable
        x (N,) to f(x), (k,).
    gradient : callable
        x and s (k,) to J(x)^T s, (N,).
    apply_jacobian : callable
        x and v (N,) to J(x) v, (k,).
    apply_hessian : callable
        x, s and v to the derivative of J(x)^T s along v, (N,).
    """

    name: str
    num_inputs: int
    num_outputs: int
    evaluate: Callable
    gradient: Callable
    apply_jacobian: Callable
    apply_hessian: Callable


def served_models(problem: InverseProblem) -> list[ServedModel]:
    """What is served of a problem.

    Parameters
    ----------
    problem : InverseProblem
        With d readings and Q = h + m unknowns: h of the noise, m white coefficients of the prior.

    Returns
    -------
    list of ServedModel
        ``forward``, white coefficients w (m,) to noise-free readings (d,), whose prior is standard
        normal; and ``posterior``, unknowns theta = (zeta, w) (Q,) to the logarithm of their
        posterior density (1,), up to a constant, with respect to Lebesgue measure.  For noise of
        known scale theta is w.
    """
    target = target_of(problem, HMC())
    num_white = problem.prior.num_white
    return [
        _compiled("forward", _forward, problem, num_white, problem.num_observations),
        _compiled("posterior", _logdensity, target, target.dimension, 1),
    ]


def _forward(problem: InverseProblem, white):
    return problem.model(problem.prior.transform(white))


def _logdensity(target: OrdinaryPosterior, theta):
    return target.logdensity(theta)[None]


def _compiled(name: str, fn: Callable, of, num_inputs: int, num_outputs: int) -> ServedModel:
    def gradient(of, x, sensitivity):
        return jax.vjp(lambda x: fn(of, x), x)[1](sensitivity)[0]

    def apply_jacobian(of, x, vector):
        return jax.jvp(lambda x: fn(of, x), (x,), (vector,))[1]

    def apply_hessian(of, x, sensitivity, vector):
        return jax.jvp(lambda x: gradient(of, x, sensitivity), (x,), (vector,))[1]

    def called(fn):
        compiled = jax.jit(fn)
        return lambda *vectors: np.asarray(compiled(of, *vectors))

    parts = map(called, (fn, gradient, apply_jacobian, apply_hessian))
    return ServedModel(name, num_inputs, num_outputs, *parts)
