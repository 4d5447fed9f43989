"""The lifted posterior of a state-space model, at a cost linear in its number of times."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.lift.jacobians import BlockBidiagonal, GramFactor
from invlift.lift.jacobians.dense import factorise, for_each
from invlift.lift.targets.lifted_form import Lifted
from invlift.lift.targets.manifold import ManifoldPoint
from invlift.programs.pytrees import static
from invlift.targets import Described
from invlift.unknowns.named import unpack

#: Maximum number of halvings until states follow from readings: see ``rough_position``.
MAX_HALVINGS = 50


class StateSpacePosterior(Lifted):
    """The lifted posterior of a state-space model, in the coordinates of its states.

    The positions are those of the general lift, in another order: q = (zeta, w, nu_1, eta_1, ...,
    nu_T, eta_T).  Let x_t = R(g_t), where R is the inverse of the observation and g_t the
    noise-free reading that the data imply for (zeta, eta_t).  The constraint is c_1 = G_1(nu_1) -
    x_1 and c_t = G_t(x_t-1, nu_t) - x_t.  Group t has its own variables (nu_t, eta_t) and depends
    on eta_t-1.  The density is that of :class:`~invlift.lift.targets.lifted.LiftedPosterior` with
    the factor prod |det R'(g_t)|, as c is solved for states and not for readings (Au, Graham &
    Thiery 2023, supplement 4).

    Attributes
    ----------
    problem : InverseProblem
        Built by :func:`~invlift.problems.time.state_space.state_space`.
    holds_noise : bool
        True if the derivatives by zeta are left out, so that no move changes it.
    """

    holds_noise: bool = static(default=False)

    @property
    def structure(self) -> BlockBidiagonal:
        """Block bidiagonal structure in all variables but the unknowns of noise and prior."""
        return BlockBidiagonal(*self._shape)

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position, (Q,), of a point (zeta, w, nu, eta) on the lifted manifold."""
        shape = self._model.num_times, self._model.num_noise
        theta, eta = jnp.split(lifted, [self.problem.num_unknowns])
        shared, moves = jnp.split(theta, [theta.size - math.prod(shape)])
        rows = jnp.concatenate([moves.reshape(shape), self._model.grid.spread(eta)], axis=1)
        return jnp.concatenate([shared, rows.ravel()])

    def to_lifted(self, position: jax.Array) -> jax.Array:
        """Point (zeta, w, nu, eta) on the lifted manifold, (Q,), at a position."""
        shared, rows = jnp.split(position, [position.size - math.prod(self._shape)])
        moves, eta = jnp.split(rows.reshape(self._shape), [self._model.num_noise], axis=1)
        return jnp.concatenate([shared, moves.ravel(), self._model.grid.gather(eta)])

    def rough_position(self, drawn: jax.Array) -> jax.Array:
        """Return a position, (Q,), near a standard normal draw, for moves onto the manifold.

        Where no state follows from a reading with the noise of the draw, as for the logarithm of a
        negative number, the noise moves halfway to the noise that the drawn moves leave, until a
        state follows.
        """
        problem = self.problem
        theta, drawn = jnp.split(self.to_lifted(drawn), [problem.num_unknowns])
        zeta, _ = problem.split(theta)
        left = problem.noise.invert(problem.predict(theta), zeta, problem.observed)

        def closer(eta, _):
            states = self._variables_of(self.from_lifted(jnp.concatenate([theta, eta]))).states
            has_state = jnp.isfinite(states).all(axis=1, keepdims=True)
            has_state = self._model.grid.gather(jnp.broadcast_to(has_state, states.shape))
            return jnp.where(has_state, eta, 0.5 * (eta + left)), None

        eta, _ = jax.lax.scan(closer, drawn, length=MAX_HALVINGS)
        return self.from_lifted(jnp.concatenate([theta, eta]))

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (T n,), in units of the states."""
        model, variables = self._model, self._variables_of(position)
        before = jnp.concatenate([model.first(variables.values)[None], variables.states[:-1]])
        step = jax.vmap(model.step, in_axes=(0, 0, 0, 0, None))
        moved = step(model.at, model.lengths, variables.moves, before, variables.values)
        return (moved - variables.states).ravel()

    def logdensity(self, position: jax.Array, gram: GramFactor) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        problem, variables = self.problem, self._variables_of(position)
        reference = problem.log_reference(variables.zeta, variables.white, variables.eta)
        recover = jax.jacfwd(lambda reading: self._model.recovered(reading, variables.values))
        slopes = jax.vmap(recover)(variables.noise_free)
        # |det R'| from R' R'^T, which is factorised without pivoting.
        squares = jnp.einsum("tij,tkj->tik", slopes, slopes)
        stretch = for_each(
            lambda block: factorise(block, is_symmetric=True).log_determinant(),
            squares,
            slopes.shape[1],
        )
        return reference + 0.5 * (jnp.sum(stretch) - gram.log_determinant())

    def describe(self, point: ManifoldPoint) -> Described:
        """Return the values stored with a draw, by name, and no moments.

        The states are those that follow from the readings and their noise: states that follow from
        the moves have the rounding errors of all steps before.
        """
        problem, variables = self.problem, self._variables_of(point.position)
        kept = unpack(variables.values, self._model.shapes)
        kept |= self._model.paths(variables.states, variables.values)
        kept |= {
            "predicted": self._model.grid.gather(variables.noise_free),
            "noise_score": problem.noise.normal_scores_of(variables.zeta, variables.eta),
        }
        return problem.with_parameters(kept, variables.zeta, variables.white), {}

    @property
    def _model(self):
        return self.problem.model

    @property
    def _shape(self) -> tuple[int, int]:
        """T and k + n: one row of variables for each time."""
        size = self.problem.num_observations // self._model.num_times
        return self._model.num_times, self._model.num_noise + size

    def _variables_of(self, position) -> _Variables:
        problem, model = self.problem, self._model
        theta, eta = jnp.split(self.to_lifted(position), [problem.num_unknowns])
        zeta, white = problem.split(theta)
        zeta = jax.lax.stop_gradient(zeta) if self.holds_noise else zeta
        values, moves = model.split(problem.prior.transform(white))
        noise_free = model.grid.spread(problem.noise.predicted(problem.observed, zeta, eta))
        states = jax.vmap(lambda reading: model.recovered(reading, values))(noise_free)
        return _Variables(zeta, white, eta, values, moves, noise_free, states)


class _Variables(NamedTuple):
    """Variables of a position.

    Attributes
    ----------
    zeta, white, eta : (h,), (m + T k,), (T n,)
    values : (N,)
        Values of the unknowns.
    moves, noise_free, states : (T, k), (T, n), (T, n)
    """

    zeta: jax.Array
    white: jax.Array
    eta: jax.Array
    values: jax.Array
    moves: jax.Array
    noise_free: jax.Array
    states: jax.Array
