"""Step size by dual averaging of the acceptance rate during warm-up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import (
    DualAveragingAdaptationState,
    dual_averaging_adaptation,
)

#: Acceptance rate aimed at (Graham, Thiery & Beskos 2022, appendix N).
TARGET_ACCEPTANCE = 0.8
#: Where the search starts; the step size is drawn towards ten times this.
INITIAL_STEP_SIZE = 0.1
#: Longest step: a rotation must stay below a half turn, and the shortest trajectory is one step.
MAX_STEP_SIZE = 1.5
#: Shortest step: a chain that would need a shorter one is stuck, and should show it by rejecting
#: rather than by taking thousands of steps per draw.
MIN_STEP_SIZE = 2e-3

_init, _update, _ = dual_averaging_adaptation(TARGET_ACCEPTANCE)


def start_adaptation() -> DualAveragingAdaptationState:
    """State of dual averaging before the first iteration (Hoffman & Gelman 2014, Algorithm 5)."""
    state = _init(INITIAL_STEP_SIZE)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), state)


def adapt(state: DualAveragingAdaptationState, acceptance_rate: jax.Array):
    """State of dual averaging after an iteration with the given acceptance rate, ()."""
    new = _update(state, acceptance_rate)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), new)


def current_step_size(state: DualAveragingAdaptationState) -> jax.Array:
    """Step size to try next, ()."""
    return _clipped(state.log_step_size)


def final_step_size(state: DualAveragingAdaptationState) -> jax.Array:
    """Step size to sample with, (): the average over the warm-up, late iterations weighing most."""
    return _clipped(state.log_step_size_avg)


def _clipped(log_step_size: jax.Array) -> jax.Array:
    return jnp.clip(jnp.exp(log_step_size), MIN_STEP_SIZE, MAX_STEP_SIZE)
