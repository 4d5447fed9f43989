"""State-space models: a state that moves at random, read with noise, at a cost linear in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.inverse.distributions import Distribution
from invlift.inverse.jacobians import BlockBidiagonal, Factor
from invlift.inverse.jacobians.small import factorise_block, for_each
from invlift.inverse.targets.manifold import ManifoldPoint, ManifoldTarget
from invlift.inverse.unknowns import NamedPrior, Unknown, named_prior, unpack
from invlift.precision import require_float64
from invlift.pytrees import static


class StateSpacePosterior(ManifoldTarget):
    """Posterior of unknowns and states.  Build it with :func:`state_space`.

    With x_t = R(y_t - sigma eta_t), R the inverse of what is read, the constraint is
    c_1 = G_1(nu_1) - x_1 and c_t = G_t(x_t-1, nu_t) - x_t: group t has variables (nu_t, eta_t) of
    its own and depends on eta_t-1.  The density with respect to the manifold's own measure is
    exp(-|q|^2/2) prod |det R'| det(J J^T)^(-1/2), R' at the y_t - sigma eta_t, as c is solved for
    states and not for readings (Au, Graham & Thiery 2023, supplement 4).

    Attributes
    ----------
    prior : NamedPrior
        Of the unknowns, m standard normal variables.
    observed : (T, d)
        y.
    transition, initial, scale, recover : callable
        See :func:`state_space`.
    num_noise : int
        Number k of the variables nu_t.
    """

    prior: NamedPrior
    observed: jax.Array
    transition: Callable = static()
    initial: Callable = static()
    scale: Callable = static()
    recover: Callable = static()
    num_noise: int = static()

    @property
    def dimension(self) -> int:
        """Dimension m + T (k + d) of the ambient space."""
        num_times, size = self.observed.shape
        return self.prior.num_white + num_times * (self.num_noise + size)

    @property
    def structure(self) -> BlockBidiagonal:
        """Block bidiagonal in all but the unknowns."""
        num_times, size = self.observed.shape
        return BlockBidiagonal(num_times, self.num_noise + size)

    def split(self, position: jax.Array) -> tuple[dict[str, jax.Array], jax.Array, jax.Array]:
        """Unknowns by name, nu (T, k) and y - sigma eta, (T, d)."""
        white, rest = jnp.split(position, [self.prior.num_white])
        given = unpack(self.prior.transform(white), self.prior.shapes)
        moves, eta = jnp.split(rest.reshape(len(self.observed), -1), [self.num_noise], axis=1)
        return given, moves, self.observed - self.scale(**given) * eta

    def states(self, given: Mapping[str, jax.Array], noise_free: jax.Array) -> jax.Array:
        """States, (T, d), of which the noise-free readings (T, d) were made."""
        return jax.vmap(lambda reading: self.recover(reading, **given))(noise_free)

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (T d,)."""
        given, moves, noise_free = self.split(position)
        states = self.states(given, noise_free)

        def follow(time, state, move):
            return self.transition(time, state, move, **given)

        first = self.initial(moves[0], **given)
        later = jax.vmap(follow)(jnp.arange(1, len(states)), states[:-1], moves[1:])
        return (jnp.concatenate([first[None], later]) - states).ravel()

    def logdensity(self, position: jax.Array, gram: Factor) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        given, _, noise_free = self.split(position)
        slopes = jax.vmap(jax.jacfwd(lambda reading: self.recover(reading, **given)))(noise_free)
        reference = self.prior.log_reference(position[: self.prior.num_white])
        size = self.observed.shape[1]
        stretch = for_each(lambda each: factorise_block(each).log_determinant(), slopes, size)
        return reference + jnp.sum(stretch) - 0.5 * gram.log_determinant()

    def describe(self, point: ManifoldPoint) -> tuple[dict[str, Any], dict[str, Any]]:
        """The unknowns by name, and ``path``, the states, (T, d)."""
        given, _, noise_free = self.split(point.position)
        return {**given, "path": self.states(given, noise_free)}, {}


def state_space(
    transition: Callable[..., jax.Array],
    initial: Callable[..., jax.Array],
    unknowns: Mapping[str, Unknown | Distribution],
    observed,
    scale: Callable[..., jax.Array],
    *,
    num_noise: int | None = None,
    recover: Callable[..., jax.Array] | None = None,
) -> StateSpacePosterior:
    """Posterior of a state-space model, whose steps take a time linear in the number of readings.

    Parameters
    ----------
    transition : callable
        ``transition(t, state, noise, **unknowns)``: state t, (d,), of state t - 1 and k standard
        normal variables (k,), t = 1, ..., T - 1.
    initial : callable
        ``initial(noise, **unknowns)``: state 0, (d,).
    unknowns : mapping of str to Unknown or Distribution
        As of :func:`~invlift.inverse.problem.inverse_problem`.
    observed : (T, d) or (T,) array
        Readings, one row after the other; numbers are states of length 1.
    scale : callable
        ``scale(**unknowns)``: standard deviation of the readings' normal noise, () or (d,).
    num_noise : int, optional
        k; as many as there are states, d, if left out.
    recover : callable, optional
        ``recover(reading, **unknowns)``: the state, (d,), that a reading without noise, (d,), is
        of; the reading itself if left out.  What is read must be a function with an inverse.

    Returns
    -------
    StateSpacePosterior
        A target for :func:`~invlift.app.sampling.sample`; its draws hold the unknowns, and the
        states as ``path``, (T, d).

    Raises
    ------
    InputError
        If a reading is not finite, a name is not one for an unknown, or a function returns another
        shape.
    """
    require_float64()
    observed = np.asarray(observed, dtype=float)
    observed = observed[:, None] if observed.ndim == 1 else observed
    if observed.ndim != 2 or not observed.size or not np.all(np.isfinite(observed)):
        bad = np.argwhere(~np.isfinite(observed))
        found = f"{observed[tuple(bad[0])]} in row {bad[0][0]}" if len(bad) else f"{observed.shape}"
        raise InputError("observed", "an array (T, d) of finite numbers", found, "correct it")
    prior = named_prior(unknowns)
    if "path" in prior.parts:
        raise InputError("unknown path", "another name", "that of the states", "rename it")
    size = observed.shape[1]
    num_noise = size if num_noise is None else num_noise
    functions = transition, initial, scale, recover or _itself
    made = StateSpacePosterior(prior, jax.device_put(observed), *functions, num_noise)
    _check_shapes(made, size)
    return made


def _check_shapes(made: StateSpacePosterior, size: int) -> None:
    """Check what each function returns at the prior's medians."""
    given = unpack(made.prior.transform(jnp.zeros(made.prior.num_white)), made.prior.shapes)
    state, noise = jnp.zeros(size), jnp.zeros(made.num_noise)
    calls = {
        "transition": lambda: made.transition(1, state, noise, **given),
        "initial": lambda: made.initial(noise, **given),
        "recover": lambda: made.recover(made.observed[0], **given),
    }
    for name, call in calls.items():
        shape = jnp.shape(jax.eval_shape(call))
        if shape != (size,):
            raise InputError(
                name, f"a state of shape {(size,)}, as readings have", f"{shape}", "return one"
            )
    shape = jnp.shape(jax.eval_shape(lambda: made.scale(**given)))
    if shape not in ((), (size,)):
        raise InputError("scale", f"a number, or {size} of them", f"{shape}", "return one")


def _itself(reading, **given):
    return reading
