"""Jacobians of readings of a Markov chain, in which each step has its own variables.

A reading depends on all variables before it, but only through the state.  J J^T is full, and it is
factorised into innovations, like the covariance of readings in a Kalman filter, at a cost linear in
the number of readings (Kailath, Sayed & Hassibi 2000, Linear Estimation, chapter 9).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from invlift.lift.jacobians.base import ConstraintJacobian, GramFactor
from invlift.lift.jacobians.dense import factorise
from invlift.programs.pytrees import Module, static


class Grid(Module):
    """Places of the constraints among r places for each of T times.

    Attributes
    ----------
    places : (d,) int
        Indices into T r, each once; other places are empty.
    shape : (int, int)
        T and r.
    """

    places: jax.Array
    shape: tuple[int, int] = static()

    def spread(self, values: jax.Array, empty: float = 0.0) -> jax.Array:
        """Spread (d,) or (d, k) over the grid, (T, r) or (T, r, k)."""
        further = values.shape[1:]
        full = jnp.full((math.prod(self.shape), *further), empty)
        return full.at[self.places].set(values).reshape(*self.shape, *further)

    def gather(self, values: jax.Array) -> jax.Array:
        """Gather (d,) or (d, k) from the grid, (T, r) or (T, r, k)."""
        return values.reshape(-1, *values.shape[2:])[self.places]


def followed(carry: jax.Array, pushes: jax.Array, first: jax.Array) -> jax.Array:
    """Return x_t = A_t x_t-1 + b_t, (T, n, ...), from x_0, for A (T, n, n) and b (T, n, ...)."""

    def follow(state, each):
        carry, push = each
        state = carry @ state + push
        return state, state

    return jax.lax.scan(follow, first, (carry, pushes))[1]


class InnovationsFactor(GramFactor):
    """J K^T = L S L'^T with S block diagonal, and L and L' block triangular with unit diagonal.

    Below its diagonal L has the blocks H_t A_t ... A_s+1 G_s, L' those of K.

    Attributes
    ----------
    carry, carry_right : (T, n, n)
        A_t of J and of K.
    read, read_right : (T, r, n)
        H_t of both.
    gain, gain_right : (T, n, r)
        G_t = P_t H'_t^T S_t^-1, and that of K.
    inverse : (T, r, r)
        S_t^-1.
    log_determinants : (T,)
        log |det S_t|.
    grid : Grid
    """

    carry: jax.Array
    carry_right: jax.Array
    read: jax.Array
    read_right: jax.Array
    gain: jax.Array
    gain_right: jax.Array
    inverse: jax.Array
    log_determinants: jax.Array
    grid: Grid

    def solve(self, rhs: jax.Array) -> jax.Array:
        """A^-1 rhs for rhs of shape (d,) or (d, k)."""
        columns = self.grid.spread(rhs.reshape(rhs.shape[0], -1))
        none = jnp.zeros((self.carry.shape[1], columns.shape[-1]))

        def down(state, each):
            carry, read, gain, part = each
            state = carry @ state
            innovation = part - read @ state
            return state + gain @ innovation, innovation

        def up(costate, each):
            carry, read, gain, part = each
            block = part - gain.T @ costate
            return carry.T @ (read.T @ block + costate), block

        left = self.carry, self.read, self.gain, columns
        _, innovations = jax.lax.scan(down, none, left)
        right = self.carry_right, self.read_right, self.gain_right, self.inverse @ innovations
        _, solution = jax.lax.scan(up, none, right, reverse=True)
        return self.grid.gather(solution).reshape(rhs.shape)

    def log_determinant(self) -> jax.Array:
        """log |det A|, ()."""
        return jnp.sum(self.log_determinants)


class MarkovJacobian(ConstraintJacobian):
    """J of x_t = A_t x_t-1 + B_t v_t and c_t = H_t x_t + D_t eta_t, from x = 0.

    Its variables are v of the last L of T times, and eta if there is noise.

    Attributes
    ----------
    carry : (T, n, n)
        A_t.
    push : (L, n, w)
        B_t.
    read : (T, r, n)
        H_t, zero at empty places.
    noise : (e,) or None
        D, diagonal, of the first e <= d constraints; the others have no eta.
    grid : Grid
    """

    carry: jax.Array
    push: jax.Array
    read: jax.Array
    noise: jax.Array | None
    grid: Grid

    def apply(self, vector: jax.Array) -> jax.Array:
        """J v, (d,)."""
        num_steps, _, width = self.push.shape
        moves = vector[: num_steps * width].reshape(num_steps, width)
        pushes = self._after_idle(jnp.einsum("tnw,tw->tn", self.push, moves))
        states = followed(self.carry, pushes, jnp.zeros(self.carry.shape[1]))
        readings = self.grid.gather(jnp.einsum("trn,tn->tr", self.read, states))
        if self.noise is None:
            return readings
        return readings.at[: self.noise.size].add(self.noise * vector[num_steps * width :])

    def apply_transpose(self, multiplier: jax.Array) -> jax.Array:
        """J^T lambda, (L w,) or (L w + e,)."""
        pulls = jnp.einsum("trn,tr->tn", self.read, self.grid.spread(multiplier))

        def follow(costate, each):
            carry, pull = each
            costate = costate + pull
            return carry.T @ costate, costate

        none = jnp.zeros(self.carry.shape[1])
        _, costates = jax.lax.scan(follow, none, (self.carry, pulls), reverse=True)
        costates = costates[self._num_idle :]
        moves = jnp.einsum("tnw,tn->tw", self.push, costates).ravel()
        if self.noise is None:
            return moves
        return jnp.concatenate([moves, self.noise * multiplier[: self.noise.size]])

    def _times(self, right: MarkovJacobian, is_symmetric: bool) -> InnovationsFactor:
        """J K^T: O(L n^2 w + T (n + r)^3)."""
        spreads = self._after_idle(jnp.einsum("tnw,tmw->tnm", self.push, right.push))
        noise = jnp.zeros(self.grid.places.shape)
        if self.noise is not None:
            noise = noise.at[: self.noise.size].set(self.noise * right.noise)
        noise = self.grid.spread(noise, empty=1.0)
        one, identity = (jnp.eye(size) for size in self.read.shape[1:])

        def update(covariance, each):
            carry, carry_right, read, read_right, spread, noise = each
            covariance = carry @ covariance @ carry_right.T + spread
            of_readings = read @ covariance @ read_right.T + jnp.diag(noise)
            factor = factorise(of_readings, is_symmetric=is_symmetric)
            inverse = factor.solve(one)
            gain = covariance @ read_right.T @ inverse
            gain_right = (inverse @ read @ covariance).T
            # Joseph's form, in which rounding errors do not accumulate.
            left, right = identity - gain @ read, identity - gain_right @ read_right
            covariance = left @ covariance @ right.T + (gain * noise) @ gain_right.T
            return covariance, (gain, gain_right, inverse, factor.log_determinant())

        pairs = self.carry, right.carry, self.read, right.read
        _, factors = jax.lax.scan(update, 0.0 * identity, (*pairs, spreads, noise))
        return InnovationsFactor(*pairs, *factors, self.grid)

    @property
    def _num_idle(self) -> int:
        """Number of first times without variables v."""
        return self.carry.shape[0] - self.push.shape[0]

    def _after_idle(self, values):
        idle = jnp.zeros((self._num_idle, *values.shape[1:]))
        return jnp.concatenate([idle, values])
