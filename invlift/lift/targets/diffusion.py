"""The lifted posterior of a diffusion, at a cost linear in its number of steps."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.lift.jacobians import BorderedJacobian, GramFactor
from invlift.lift.jacobians.markov import Grid, MarkovJacobian, followed
from invlift.lift.targets.lifted_form import Lifted
from invlift.programs.pytrees import static
from invlift.targets import Slopes

#: Maximum number of moves of each interval to a rough position.
MAX_MOVES = 30


class DiffusionPosterior(Lifted):
    """The lifted posterior of a diffusion (Graham, Thiery & Beskos 2022, sections 3 and 4).

    Positions are q = (zeta, w, v, eta), where v are the standard normal variables of all steps;
    there is no eta if readings are exact.  The constraint is c = F(w, v) - g(zeta, eta) in the
    order of the readings, where g are the noise-free readings that the data imply.  J has few
    columns, by zeta and w, beside the Jacobian of a Markov chain.

    Attributes
    ----------
    problem : InverseProblem
        Built by :func:`~invlift.problems.time.diffusion_problem.diffusion_problem` or
        :func:`~invlift.problems.time.state_space.state_space`.
    holds_noise : bool
        True if the derivatives by zeta are left out, so that no move changes it.
    """

    holds_noise: bool = static(default=False)

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,), in units of the readings."""
        variables = self._variables_of(position)
        _, states = self._states(variables)
        read = jax.vmap(lambda state: self._read(state, variables.values))(states)
        return self._grid.gather(read) - self._noise_free(variables.zeta, variables.eta)

    def linearise(self, position: jax.Array) -> tuple[jax.Array, BorderedJacobian]:
        """c(q), (d,), and its Jacobian, by products of the derivatives of all steps."""
        variables, model = self._variables_of(position), self._model
        before, states = self._states(variables)
        by_move, by_state, by_values = jax.vmap(
            jax.jacrev(model.step, (2, 3, 4)), in_axes=(0, 0, 0, 0, None)
        )(model.at, model.lengths, variables.moves, before, variables.values)
        carry, push, drag = self._over_intervals(by_move, by_state, by_values)
        carry = self._cut(carry)
        follow = jax.jacrev(model.first)(variables.values)
        if model.is_read_at_start:
            carry = jnp.concatenate([jnp.eye(follow.shape[0])[None], carry])
            drag = jnp.concatenate([follow[None], drag])
            follow = jnp.zeros_like(follow)
        follow = followed(carry, drag, follow)

        def read_twice(state, values):
            reading = self._read(state, values)
            return reading, reading

        by_read, read = jax.vmap(jax.jacrev(read_twice, (0, 1), has_aux=True), in_axes=(0, None))(
            states, variables.values
        )
        grid = self._grid
        by_values = grid.gather(by_read[0] @ follow + by_read[1])
        of_state = grid.spread(grid.gather(by_read[0]))
        by_white = by_values @ jax.jacfwd(self._values)(variables.white)
        by_eta, by_zeta = self._by_noise(variables.zeta, variables.eta)
        core = MarkovJacobian(carry, push, of_state, by_eta, grid)
        value = grid.gather(read) - self._noise_free(variables.zeta, variables.eta)
        return value, BorderedJacobian((by_zeta.T, by_white.T), core)

    def logdensity(self, position: jax.Array, gram: GramFactor) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        problem, variables = self.problem, self._variables_of(position)
        white = problem.split(position[: problem.num_unknowns])[1]
        reference = problem.log_reference(self._held(variables.zeta), white, variables.eta)
        return reference - 0.5 * gram.log_determinant()

    def slopes(self, position: jax.Array, direction: jax.Array) -> Slopes:
        """As :meth:`Lifted.slopes` along a direction, (Q,), with the readings added to the value.

        The constraint is a difference of readings and about zero, so that its size says nothing
        about its rounding errors.
        """
        slopes = super().slopes(position, direction)
        return slopes._replace(value=self.problem.observed + slopes.value)

    def rough_position(self, drawn: jax.Array) -> jax.Array:
        """Move each interval of a standard normal draw, (Q,), to its readings in turn, (Q,).

        Given the state before it, the variables v and eta of an interval are changed by
        Gauss-Newton moves of least length until it ends at its readings.  From the draw itself the
        manifold is rarely reached, as all steps before a reading shift it.

        The moves start at the draw, and again at eta = 0 and the v that keep the state where it is,
        as far as possible.  Some draws lead to states from which the readings cannot be reached, as
        an epidemic that is over.  The result closer to the draw is taken (Graham, Thiery & Beskos
        2022, appendix L, who lead straight from reading to reading).
        """
        problem, model = self.problem, self._model
        at_draw = self._variables_of(drawn)
        noise_free = model.grid.spread(self._noise_free(at_draw.zeta, at_draw.eta))
        is_read = model.grid.spread(jnp.ones(problem.num_observations))
        by_eta, _ = self._by_noise(at_draw.zeta, at_draw.eta)
        slope = jnp.zeros(problem.num_observations) if by_eta is None else by_eta
        back = -at_draw.eta if self.num_eta else 0.0 * slope
        slope, back = model.grid.spread(slope), model.grid.spread(back)
        weight = 1.0 - is_read + slope**2
        start = 1 if model.is_read_at_start else 0
        first = model.first(at_draw.values)

        def hold(state, each):
            at, length, _ = each

            def step(move):
                return model.step(at, length, move, state, at_draw.values)

            none = jnp.zeros(model.move_shape[1])
            move = jnp.linalg.pinv(jax.jacfwd(step)(none)) @ (state - step(none))
            return step(move), move

        def walk(is_held, state, each):
            *steps, moves, noise_free, is_read, slope, back, weight = each
            _, still = jax.lax.scan(hold, state, (*steps, moves))
            moves, eta = jnp.where(is_held, still, moves), jnp.where(is_held, back, 0.0)

            def end(moves):
                def follow(state, each):
                    return model.step(*each, state, at_draw.values), None

                return jax.lax.scan(follow, state, (*steps, moves))[0]

            def miss(moves, eta):
                return is_read * (model.read(end(moves), at_draw.values) - noise_free) + slope * eta

            def attempt(search, _):
                moves, eta, value, by_moves, share = search
                gram = jnp.einsum("rsq,tsq->rt", by_moves, by_moves) + jnp.diag(weight)
                multiplier = share * jnp.linalg.solve(gram, value)
                there = (
                    moves - jnp.einsum("rsq,r->sq", by_moves, multiplier),
                    eta - slope * multiplier,
                )
                new = *there, miss(*there), jax.jacrev(miss)(*there), jnp.minimum(1.0, 2.0 * share)
                is_closer = jnp.max(jnp.abs(new[2])) < jnp.max(jnp.abs(value))
                left = moves, eta, value, by_moves, 0.5 * share
                return jax.tree.map(lambda a, b: jnp.where(is_closer, a, b), new, left), None

            search = moves, eta, miss(moves, eta), jax.jacrev(miss)(moves, eta), jnp.ones(())
            (moves, eta, *_), _ = jax.lax.scan(attempt, search, length=MAX_MOVES)
            return end(moves), (moves, eta)

        in_intervals = [
            each.reshape(-1, model.num_steps, *each.shape[1:])
            for each in (model.at, model.lengths, at_draw.moves)
        ]
        of_readings = [each[start:] for each in (noise_free, is_read, slope, back, weight)]

        def led(is_held):
            """Return moves, (L S q,), eta, and their squared distance from the draw."""
            each = *in_intervals, *of_readings
            _, (moves, shifts) = jax.lax.scan(lambda *state: walk(is_held, *state), first, each)
            far = jnp.sum((moves - in_intervals[-1]) ** 2) + jnp.sum(shifts**2)
            shifts = jnp.concatenate([jnp.zeros((start, shifts.shape[1])), shifts])
            eta = at_draw.eta + model.grid.gather(shifts) if self.num_eta else at_draw.eta
            return moves.ravel(), eta, jnp.where(jnp.isfinite(far), far, jnp.inf)

        *pairs, far = jax.lax.map(led, jnp.array([False, True]))
        moves, eta = (pair[jnp.argmin(far)] for pair in pairs)
        return jnp.concatenate([at_draw.zeta, at_draw.white, moves, eta])

    @property
    def _model(self):
        return self.problem.model

    @property
    def _grid(self) -> Grid:
        """Places of the constraints among the readings of all times."""
        return self._model.grid

    def _read(self, state, values):
        """Readings of a state, (r,)."""
        return self._model.read(state, values)

    def _states(self, variables):
        """States before each step, (L S, n), and at the times of readings, (T, n)."""
        states = self._model.states(variables.values, variables.moves)
        return states[:-1], self._model.when_read(states)

    def _cut(self, carry):
        """Derivatives of the end of each interval by the state before it, (L, n, n)."""
        return carry

    def _variables_of(self, position) -> _Variables:
        problem = self.problem
        theta, eta = jnp.split(position, [problem.num_unknowns])
        zeta, white = problem.split(theta)
        white, moves = jnp.split(white, [white.size - problem.prior.num_moves])
        moves = moves.reshape(self._model.move_shape)
        return _Variables(zeta, white, moves, eta, self._values(white))

    def _values(self, white):
        """Values of all unknowns, (N,), at w, (m,)."""
        return self.problem.prior.of_unknowns(white)

    def _noise_free(self, zeta, eta):
        """Noise-free readings g, (d,), that the data imply."""
        problem, zeta = self.problem, self._held(zeta)
        return (
            problem.noise.predicted(problem.observed, zeta, eta) if eta.size else problem.observed
        )

    def _held(self, zeta):
        """Zeta, without derivatives if it is held."""
        return jax.lax.stop_gradient(zeta) if self.holds_noise else zeta

    def _by_noise(self, zeta, eta):
        """Derivatives of -g by eta, a diagonal, (d,) or None, and by zeta, (d, h)."""
        if not eta.size:
            return None, jnp.zeros((self._grid.places.size, zeta.size))
        along = jnp.ones_like(eta)
        by_eta = jax.jvp(lambda eta: -self._noise_free(zeta, eta), (eta,), (along,))[1]
        return by_eta, jax.jacfwd(lambda zeta: -self._noise_free(zeta, eta))(zeta)

    def _over_intervals(self, by_move, by_state, by_values):
        """Derivatives of the end of each interval by the state before it, v and the unknowns.

        They are products of those of the steps, (L S, n, ...) each.

        Returns
        -------
        (L, n, n), (L, n, S q), (L, n, N)
        """

        def by_step(each):
            return each.reshape(-1, self._model.num_steps, *each.shape[1:]).swapaxes(0, 1)

        def backwards(later, each):
            carry, drag = later
            by_move, by_state, by_values = each
            return (carry @ by_state, drag + carry @ by_values), carry @ by_move

        by_state, by_values = by_step(by_state), by_step(by_values)
        size = by_state.shape[-1]
        none = jnp.broadcast_to(jnp.eye(size), by_state.shape[1:]), jnp.zeros(by_values.shape[1:])
        (carry, drag), push = jax.lax.scan(
            backwards, none, (by_step(by_move), by_state, by_values), reverse=True
        )
        # (S, L, n, q) -> (L, n, S, q)
        push = jnp.moveaxis(push, 0, 2)
        return carry, push.reshape(*push.shape[:2], math.prod(push.shape[2:])), drag


class _Variables(NamedTuple):
    """Variables of a position.

    Attributes
    ----------
    zeta, white, moves, eta : (h,), (m,), (L S, q), (d,) or (0,)
    values : (N,)
        Values of the unknowns.
    """

    zeta: jax.Array
    white: jax.Array
    moves: jax.Array
    eta: jax.Array
    values: jax.Array
