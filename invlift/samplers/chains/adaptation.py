"""Step size by dual averaging of the acceptance rate during warm-up."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: Acceptance rate aimed at (Graham, Thiery & Beskos 2022, appendix N).
TARGET_ACCEPTANCE = 0.8
#: Where the search starts; the step size is drawn towards ten times this.
INITIAL_STEP_SIZE = 0.1
#: Longest step: a rotation must stay below a half turn, and the shortest trajectory is one step.
MAX_STEP_SIZE = 1.5
#: Shortest step: a chain that would need a shorter one is stuck, and should show it by rejecting
#: rather than by taking thousands of steps per draw.
MIN_STEP_SIZE = 2e-3


class StepSizeSearch(NamedTuple):
    """State of dual averaging (Hoffman & Gelman 2014, Algorithm 5), its five numbers as floats.

    Attributes
    ----------
    log_step_size, log_step_size_avg : ()
        Of the step to try next, and averaged with late iterations weighing most.
    step : ()
        Number of the next iteration, from 1.
    avg_error : ()
        Average of the target minus the acceptance rate.
    mu : ()
        What the logarithm is drawn towards.
    """

    log_step_size: jax.Array
    log_step_size_avg: jax.Array
    step: jax.Array
    avg_error: jax.Array
    mu: jax.Array


def start_adaptation() -> StepSizeSearch:
    """State before the first iteration."""
    start = np.log(INITIAL_STEP_SIZE)
    numbers = (start, 0.0, 1.0, 0.0, np.log(10.0 * INITIAL_STEP_SIZE))
    return StepSizeSearch(*map(np.asarray, numbers))


def adapt(state: StepSizeSearch, acceptance_rate: jax.Array) -> StepSizeSearch:
    """State after an iteration with the given acceptance rate, ()."""
    # Here, as half a second of imports is only worth it where a program is made.
    from blackjax.adaptation import step_size

    _, update, _ = step_size.dual_averaging_adaptation(TARGET_ACCEPTANCE)
    new = update(step_size.DualAveragingAdaptationState(*state), acceptance_rate)
    return StepSizeSearch(*(jnp.asarray(number, dtype=float) for number in new))


def current_step_size(state: StepSizeSearch) -> jax.Array:
    """Step size to try next, ()."""
    return _clipped(state.log_step_size)


def final_step_size(state: StepSizeSearch) -> jax.Array:
    """Step size to sample with, (): the average over the warm-up."""
    return _clipped(state.log_step_size_avg)


def _clipped(log_step_size: jax.Array) -> jax.Array:
    return jnp.clip(jnp.exp(log_step_size), MIN_STEP_SIZE, MAX_STEP_SIZE)
