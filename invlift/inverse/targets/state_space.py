"""State-space models: a state that moves at random, read with noise, at a cost linear in time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from invlift.inverse.jacobians import BlockBidiagonal, Factor
from invlift.inverse.jacobians.small import factorise_block, for_each
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.manifold import ManifoldPoint, ManifoldTarget

#: How often noise is halved to where states follow from readings: see ``rough_position``.
MAX_HALVINGS = 50


class StateSpacePosterior(ManifoldTarget):
    """The lifted posterior of a state-space model, in the coordinates of its states.

    The positions are those of the general lift, in another order: q = (zeta, w, nu_1, eta_1, ...,
    nu_T, eta_T).  With x_t = R(g_t), R the inverse of what is read and g_t the noise-free reading
    that the data would mean under (zeta, eta_t), the constraint is c_1 = G_1(nu_1) - x_1 and
    c_t = G_t(x_t-1, nu_t) - x_t: group t has variables (nu_t, eta_t) of its own and depends on
    eta_t-1.  The density is that of :class:`~invlift.inverse.targets.lifted.LiftedPosterior` with
    the factor prod |det R'(g_t)|, as c is solved for states and not for readings (Au, Graham &
    Thiery 2023, supplement 4).

    Attributes
    ----------
    problem : InverseProblem
        Of :func:`~invlift.inverse.state_space.state_space`.
    """

    problem: InverseProblem

    @property
    def dimension(self) -> int:
        """Dimension h + m + T (k + n) of the ambient space."""
        return self.problem.num_unknowns + self.problem.num_observations

    @property
    def structure(self) -> BlockBidiagonal:
        """Block bidiagonal in all but the unknowns of noise and prior."""
        num_times = self._model.num_times
        size = self.problem.num_observations // num_times
        return BlockBidiagonal(num_times, self._model.num_noise + size)

    def from_lifted(self, lifted: jax.Array) -> jax.Array:
        """Position of a point on the lifted manifold, (h + m + T k, then T n)."""
        shared, moves, eta = self._parts_of_lifted(lifted)
        rows = jnp.concatenate([moves, self._model.in_time(eta)], axis=1)
        return jnp.concatenate([shared, rows.ravel()])

    def to_lifted(self, position: jax.Array) -> jax.Array:
        """Point on the lifted manifold, (h + m + T k, then T n), of a position."""
        shared, moves, eta = self._split(position)
        return jnp.concatenate([shared, moves.ravel(), eta])

    def unknowns(self, point: ManifoldPoint) -> jax.Array:
        """Theta = (zeta, w, nu), (h + m + T k,), at a point."""
        return self.to_lifted(point.position)[: self.problem.num_unknowns]

    def rough_position(self, rng_key: jax.Array) -> jax.Array:
        """A standard normal draw, (Q,), near which the manifold is to be met.

        Where no state follows from a reading with noise of the draw, as with the logarithm of one
        that is negative, the noise is as much closer to what the drawn moves leave as it takes.
        """
        problem = self.problem
        key_theta, key_eta = jax.random.split(rng_key)
        theta = jax.random.normal(key_theta, (problem.num_unknowns,))
        drawn = jax.random.normal(key_eta, (problem.num_observations,))
        left = problem.noise.invert(problem.predict(theta), problem.split(theta)[0], problem.observed)

        def has_states(eta):
            given, _, noise_free = self._look(self.from_lifted(jnp.concatenate([theta, eta])))
            is_finite = jnp.isfinite(self._states(given, noise_free)).all(axis=1)
            rows = jnp.broadcast_to(is_finite[:, None], noise_free.shape)
            return self._model.by_name(rows)

        def closer(eta, _):
            return jnp.where(has_states(eta), eta, 0.5 * (eta + left)), None

        eta, _ = jax.lax.scan(closer, drawn, length=MAX_HALVINGS)
        return self.from_lifted(jnp.concatenate([theta, eta]))

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (T n,), in units of the states."""
        model = self._model
        given, moves, noise_free = self._look(position)
        states = self._states(given, noise_free)
        first = model.first(moves[0], given)
        times = jnp.arange(1, model.num_times)
        later = jax.vmap(lambda *each: model.step(*each, given))(times, moves[1:], states[:-1])
        return (jnp.concatenate([first[None], later]) - states).ravel()

    def logdensity(self, position: jax.Array, gram: Factor) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        problem = self.problem
        theta, eta = self._theta_and_eta(position)
        zeta, white = problem.split(theta)
        reference = problem.noise.log_reference(zeta, eta) + problem.prior.log_reference(white)
        slope = problem.noise.log_slope(problem.observed, zeta, eta)
        given, _, noise_free = self._look(position)
        recover = jax.jacfwd(lambda reading: self._model.recovered(reading, given))
        stretch = for_each(
            lambda block: factorise_block(block).log_determinant(),
            jax.vmap(recover)(noise_free),
            noise_free.shape[1],
        )
        return reference + slope + jnp.sum(stretch) - 0.5 * gram.log_determinant()

    def describe(self, point: ManifoldPoint) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is kept of a draw, by name; no moments.

        As of the problem, with the states and readings that the noise variables leave: a sum of
        many moves would differ from these by the rounding of all of them.
        """
        problem = self.problem
        theta, eta = self._theta_and_eta(point.position)
        zeta, white = problem.split(theta)
        given, _, noise_free = self._look(point.position)
        kept = given | self._model.paths(self._states(given, noise_free))
        kept |= {"predicted": self._model.by_name(noise_free), "noise_score": eta}
        return kept | problem.noise.parameters(zeta) | problem.prior.parameters(white), {}

    @property
    def _model(self):
        return self.problem.model

    def _parts_of_lifted(self, lifted):
        """zeta and w, (h + m,), nu, (T, k), and eta, (T n,)."""
        num_times, num_noise = self._model.num_times, self._model.num_noise
        theta, eta = jnp.split(lifted, [self.problem.num_unknowns])
        shared, moves = jnp.split(theta, [theta.size - num_times * num_noise])
        return shared, moves.reshape(num_times, num_noise), eta

    def _split(self, position):
        """The same of a position."""
        num_times, num_noise = self._model.num_times, self._model.num_noise
        num_rows = num_times * num_noise + self.problem.num_observations
        shared, rest = jnp.split(position, [position.size - num_rows])
        moves, eta = jnp.split(rest.reshape(num_times, -1), [num_noise], axis=1)
        return shared, moves, self._model.by_name(eta)

    def _theta_and_eta(self, position):
        return jnp.split(self.to_lifted(position), [self.problem.num_unknowns])

    def _look(self, position):
        """Unknowns by name, nu (T, k) and noise-free readings (T, n)."""
        problem = self.problem
        theta, eta = self._theta_and_eta(position)
        zeta, white = problem.split(theta)
        given, moves = self._model.split(problem.prior.transform(white))
        noise_free = problem.noise.predicted(problem.observed, zeta, eta)
        return given, moves, self._model.in_time(noise_free)

    def _states(self, given, noise_free):
        return jax.vmap(lambda reading: self._model.recovered(reading, given))(noise_free)
