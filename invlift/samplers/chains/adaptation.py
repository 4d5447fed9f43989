"""Adaptation during warm-up: none, of a step size, or of a step size and a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.programs.pytrees import PyTree


@dataclass(frozen=True)
class Adaptation:
    """Base class of adaptations, which tunes nothing.

    The state of an adaptation is a pytree of arrays, and is saved with the chain.
    """

    #: Whether the kernel is tuned, so that a chain needs a warm-up.
    is_tuned: ClassVar[bool] = False

    def schedule(self, num_warmup: int) -> np.ndarray:
        """Return the stage of each warm-up iteration, (num_warmup, k) int; k may be 0."""
        return np.zeros((num_warmup, 0), int)

    def init(self, dimension: int) -> PyTree:
        """Return the state before the first iteration, for positions of shape (dimension,)."""
        return ()

    def tuning(self, state: PyTree, is_warmup: jax.Array) -> PyTree:
        """Return the tuning parameters of the next iteration.

        Parameters
        ----------
        state
        is_warmup : () bool
            After the warm-up the result must be constant.

        Returns
        -------
        tuning
        """
        return state

    def update(
        self, state: PyTree, stage: jax.Array, position: jax.Array, statistics: dict
    ) -> PyTree:
        """Return the state after an iteration of the warm-up.

        Parameters
        ----------
        state
        stage : (k,) int
            The iteration's row of the schedule.
        position : (Q,)
        statistics : dict
            Statistics of the transition.

        Returns
        -------
        state
        """
        return state

    def report(self, tuning: PyTree) -> dict[str, jax.Array]:
        """Return the tuning parameters to store with each draw, by name: scalars, ()."""
        return {}


class StepSizeSearch(NamedTuple):
    """State of dual averaging (Hoffman & Gelman 2014, Algorithm 5), five numbers as floats.

    Attributes
    ----------
    log_step_size, log_step_size_avg : ()
        Logarithm of the next step size, and its average with the largest weights on late
        iterations.
    step : ()
        Number of the next iteration, from 1.
    avg_error : ()
        Average of the target minus the acceptance rate.
    mu : ()
        Value to which the logarithm is attracted.
    """

    log_step_size: jax.Array
    log_step_size_avg: jax.Array
    step: jax.Array
    avg_error: jax.Array
    mu: jax.Array

    @classmethod
    def from_step_size(cls, step_size: float) -> StepSizeSearch:
        """Return the first state; the search is attracted to ten times the given step size."""
        # The first update replaces the average: it counts if the warm-up ends before.
        numbers = (np.log(step_size), np.log(step_size), 1.0, 0.0, np.log(10.0 * step_size))
        return cls(*map(np.asarray, numbers))

    def updated(self, acceptance_rate: jax.Array, target: float) -> StepSizeSearch:
        """Return the state after an iteration with a given acceptance rate, ()."""
        # Imported here: the import takes half a second, and only this method needs it.
        from blackjax.adaptation import step_size

        _, update, _ = step_size.dual_averaging_adaptation(target)
        new = update(step_size.DualAveragingAdaptationState(*self), acceptance_rate)
        return StepSizeSearch(*(jnp.asarray(number, dtype=float) for number in new))


@dataclass(frozen=True)
class DualAveraging(Adaptation):
    """Adaptation of the step size by dual averaging (Hoffman & Gelman 2014, section 3.2).

    Attributes
    ----------
    target : float
        Target acceptance rate.
    initial, least, most : float
        First, smallest and largest step size.
    """

    is_tuned: ClassVar[bool] = True

    target: float
    initial: float
    least: float
    most: float

    def init(self, dimension: int) -> StepSizeSearch:
        """Return the state before the first iteration."""
        return StepSizeSearch.from_step_size(self.initial)

    def tuning(self, state: StepSizeSearch, is_warmup: jax.Array) -> jax.Array:
        """Return the step size, (); after the warm-up its average over the warm-up."""
        log_step_size = jnp.where(is_warmup, state.log_step_size, state.log_step_size_avg)
        return jnp.clip(jnp.exp(log_step_size), self.least, self.most)

    def update(self, state: StepSizeSearch, stage, position, statistics: dict) -> StepSizeSearch:
        """Return the state after an iteration.

        The search averages the step sizes after clipping to the bounds.  An average of values
        beyond a bound would be too close to that bound.
        """
        new = state.updated(statistics["acceptance_rate"], self.target)
        bounded = jnp.clip(new.log_step_size, np.log(self.least), np.log(self.most))
        return new._replace(log_step_size=bounded)

    def report(self, tuning: jax.Array) -> dict[str, jax.Array]:
        """Return the step size, by name."""
        return {"step_size": tuning}


class MetricSearch(NamedTuple):
    """State of :class:`MetricAdaptation`.

    Attributes
    ----------
    step_size : StepSizeSearch
    inverse_mass : (Q,) or (Q, Q)
        Inverse mass matrix in use, or its diagonal.
    mean, m2 : (Q,), and (Q,) or (Q, Q)
        Mean of the positions in the current window, and sum of products of their deviations.
    count : () int
        Number of these positions.
    """

    step_size: StepSizeSearch
    inverse_mass: jax.Array
    mean: jax.Array
    m2: jax.Array
    count: jax.Array


@dataclass(frozen=True)
class MetricAdaptation(Adaptation):
    """Stan's adaptation: step size in all iterations, metric in windows of doubling length.

    See Carpenter et al. (2017), section 3.2.  The implementation is BlackJAX's.  With the identity
    metric only the step size is adapted.

    Attributes
    ----------
    metric : {"identity", "diagonal", "dense"}
    target : float
        Target acceptance rate.
    """

    is_tuned: ClassVar[bool] = True

    metric: Literal["identity", "diagonal", "dense"]
    target: float

    def schedule(self, num_warmup: int) -> np.ndarray:
        """Return 0 or 1 for "position counts for the metric" and "window ends", (num_warmup, 2)."""
        if self.metric == "identity":
            return np.zeros((num_warmup, 2), int)
        from blackjax.adaptation.staged_adaptation import build_schedule

        return np.asarray(build_schedule(num_warmup), int).reshape(num_warmup, 2)

    def init(self, dimension: int) -> MetricSearch:
        """Return the state before the first iteration."""
        zeros = np.zeros(dimension)
        is_dense = self.metric == "dense"
        return MetricSearch(
            StepSizeSearch.from_step_size(0.1),
            np.eye(dimension) if is_dense else np.ones(dimension),
            zeros,
            np.zeros((dimension, dimension)) if is_dense else zeros,
            np.asarray(0),
        )

    def tuning(self, state: MetricSearch, is_warmup: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the step size, (), and the inverse mass matrix, (Q,) or (Q, Q)."""
        search = state.step_size
        log_step_size = jnp.where(is_warmup, search.log_step_size, search.log_step_size_avg)
        return jnp.exp(log_step_size), state.inverse_mass

    def update(self, state: MetricSearch, stage, position, statistics: dict) -> MetricSearch:
        """Return the state after an iteration."""
        search = state.step_size.updated(statistics["acceptance_rate"], self.target)
        state = state._replace(step_size=search)
        if self.metric == "identity":
            return state
        from blackjax.adaptation import mass_matrix

        _, update, final = mass_matrix.mass_matrix_adaptation(self.metric == "diagonal")
        counts, ends = stage

        def wrap(state):
            welford = mass_matrix.WelfordAlgorithmState(state.mean, state.m2, state.count)
            return mass_matrix.MassMatrixAdaptationState(state.inverse_mass, welford)

        def unwrap(search, estimate):
            inverse_mass, (mean, m2, count) = estimate
            return MetricSearch(search, inverse_mass, mean, m2, jnp.asarray(count, int))

        counted = unwrap(search, update(wrap(state), position))
        state = _choose(counts == 1, counted, state)
        # With the new metric, the step size search restarts from the last average step size.
        average = search.log_step_size_avg
        # The first update replaces the average: it counts if the warm-up ends before.
        begun = StepSizeSearch(
            average,
            average,
            jnp.ones_like(average),
            jnp.zeros_like(average),
            jnp.log(10.0) + average,
        )
        return _choose(ends == 1, unwrap(begun, final(wrap(state))), state)

    def report(self, tuning: tuple[jax.Array, jax.Array]) -> dict[str, jax.Array]:
        """Return the step size, by name."""
        return {"step_size": tuning[0]}


def _choose(condition, new, old):
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)
