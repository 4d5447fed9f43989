"""One step of a discretised stochastic differential equation, dx = a(t, x) dt + B(t, x) dW.

A step is a function of time, time step, state and standard normal variables (Graham, Thiery &
Beskos 2022, section 2).  Formulas: Kloeden & Platen (1992), sections 10.2 to 10.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

#: Function of time, (), and state, (n,): the drift, (n,), or the matrix B, (n, k).
OfState = Callable[[jax.Array, jax.Array], jax.Array]


class Scheme:
    """Base class of schemes, defined by their step.

    Attributes
    ----------
    num_noise : int
        Number of standard normal variables of a step for each Wiener process.
    demand : str
        Condition on the matrix B, in words; "" if there is none.
    """

    num_noise: ClassVar[int] = 1
    demand: ClassVar[str] = ""

    @staticmethod
    def step(
        drift: OfState,
        diffusion: OfState,
        time: jax.Array,
        length: jax.Array,
        state: jax.Array,
        noise: jax.Array,
    ) -> jax.Array:
        """Return the state, (n,), after a step with ``num_noise`` k standard normal variables."""
        raise NotImplementedError

    @staticmethod
    def defect(diffusion: OfState, time: jax.Array, state: jax.Array) -> jax.Array:
        """Return an array of any shape that vanishes if the matrix B meets the condition."""
        return jnp.zeros(())


class EulerMaruyama(Scheme):
    """Strong order 1/2, and 1 if B does not depend on the state."""

    @staticmethod
    def step(drift, diffusion, time, length, state, noise):
        """x + a h + B dW."""
        increments = jnp.sqrt(length) * noise
        return state + length * drift(time, state) + diffusion(time, state) @ increments


class Milstein(Scheme):
    """Strong order 1."""

    demand: ClassVar[str] = "one Wiener process, or one for each part of the state, of which the "
    demand += "strength depends on that part alone (commutative noise)"

    @staticmethod
    def step(drift, diffusion, time, length, state, noise):
        """x + a h + B dW + 1/2 sum_jl L^j b_l (dW_j dW_l - delta_jl h), if L^j b_l = L^l b_j."""
        increments = jnp.sqrt(length) * noise
        matrix = diffusion(time, state)
        push = matrix @ increments
        _, bend = jax.jvp(lambda state: diffusion(time, state) @ increments, (state,), (push,))
        along = _along_columns(diffusion, time, state)
        mean = jnp.einsum("nll->n", along)
        return state + length * drift(time, state) + push + 0.5 * (bend - length * mean)

    @staticmethod
    def defect(diffusion, time, state):
        """L^j b_l - L^l b_j, (n, k, k)."""
        along = _along_columns(diffusion, time, state)
        return along - along.swapaxes(1, 2)


class Taylor15(Scheme):
    """Strong order 3/2.  Noise also reaches parts of the state without a row in B within a step."""

    num_noise: ClassVar[int] = 2
    demand: ClassVar[str] = "constant: it may depend on the unknowns alone (additive noise)"

    @staticmethod
    def step(drift, diffusion, time, length, state, noise):
        """x + a h + B dW + a' B dZ + 1/2 L^0 a h^2, with dZ the integral of the Wiener process.

        L^0 a = da/dt + a' a + 1/2 sum_j a''[b_j, b_j]; dW = h^(1/2) v_1 and dZ = h^(3/2) (v_1 + v_2
        / 3^(1/2)) / 2.
        """
        first, second = jnp.split(noise, 2)
        matrix, here = diffusion(time, state), drift(time, state)

        def along(direction):
            return jax.jvp(lambda state: drift(time, state), (state,), (direction,))[1]

        def curvature(column):
            def slope(state):
                return jax.jvp(lambda state: drift(time, state), (state,), (column,))[1]

            return jax.jvp(slope, (state,), (column,))[1]

        one = jnp.ones_like(time)
        _, in_time = jax.jvp(drift, (time, state), (one, here))
        bend = in_time + 0.5 * jnp.sum(jax.vmap(curvature, in_axes=1)(matrix), axis=0)
        integral = matrix @ (first + second / np.sqrt(3.0))
        push = jnp.sqrt(length) * (matrix @ first) + 0.5 * length**1.5 * along(integral)
        return state + length * here + push + 0.5 * length**2 * bend

    @staticmethod
    def defect(diffusion, time, state):
        """Derivatives of B by time and state."""
        by_time, by_state = jax.jacfwd(diffusion, (0, 1))(time, state)
        return jnp.concatenate([by_time[..., None], by_state], axis=-1)


def _along_columns(diffusion, time, state):
    """L^j b_l: derivatives of column l along column j, (n, l, j)."""

    def along(column):
        return jax.jvp(lambda state: diffusion(time, state), (state,), (column,))[1]

    return jax.vmap(along, in_axes=1, out_axes=-1)(diffusion(time, state))


#: Schemes by name.
SCHEMES: dict[str, type[Scheme]] = {
    "euler-maruyama": EulerMaruyama,
    "milstein": Milstein,
    "taylor-1.5": Taylor15,
}
