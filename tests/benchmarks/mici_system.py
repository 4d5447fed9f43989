"""A constrained target of this package for Mici's samplers, by the same compiled functions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mici
import numpy as np


def system_of(target, correction=lambda target, position: 0.0) -> mici.systems.System:
    """Mici's system of a target; it takes the Jacobian as a dense matrix.

    ``correction(target, position)`` is the log density relative to the standard normal one, without
    the Gram term.
    """

    @jax.jit
    def jacobian_and_constraint(target, position):
        point = target.point(position)
        unit = jnp.eye(point.constraint.size)
        rows = jax.vmap(lambda row: target.apply_jacobian_transpose(point, row))(unit)
        return rows, point.constraint

    constraint = jax.jit(type(target).constraint)
    gradient = jax.jit(lambda target, position: target.point(position).logdensity_grad)
    correction = jax.jit(correction)

    class System(mici.systems.GaussianDenseConstrainedEuclideanMetricSystem):
        """The gradient of the whole density comes from the compiled point."""

        @mici.states.cache_in_state("pos")
        def grad_log_det_sqrt_gram(self, state):
            return -np.asarray(gradient(target, state.pos))

    return System(
        neg_log_dens=lambda q: -float(correction(target, q)),
        grad_neg_log_dens=lambda q: np.zeros_like(q),
        constr=lambda q: np.asarray(constraint(target, q)),
        jacob_constr=lambda q: tuple(map(np.asarray, jacobian_and_constraint(target, q))),
        mhp_constr=lambda q: None,  # not used
    )
