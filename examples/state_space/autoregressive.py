"""A positive signal whose logarithm moves at random, read 1,000 times: see README.md."""

import jax.numpy as jnp
import numpy as np

import invlift

#: Truth of the simulated readings: mean, memory and strength of the state, and the noise's scale.
MEAN, MEMORY, STRENGTH, SIGMA = -0.5, 0.9, 0.4, 0.1
NUM_TIMES = 1000


def simulated(sigma=SIGMA, num_times=NUM_TIMES, seed=1):
    """Readings exp(x_t) + noise, (T,), and the states x_t, (T,)."""
    rng = np.random.default_rng(seed)
    states = [MEAN + STRENGTH / np.sqrt(1 - MEMORY**2) * rng.standard_normal()]
    for push in rng.standard_normal(num_times - 1):
        states.append(MEAN + MEMORY * (states[-1] - MEAN) + STRENGTH * push)
    return np.exp(states) + sigma * rng.standard_normal(num_times), np.array(states)


def initial(push, mean, memory, strength):
    """State 0, from the distribution that the state has in the long run."""
    return {"log_signal": mean + strength / jnp.sqrt(1 - memory**2) * push[0]}


def transition(t, state, push, mean, memory, strength):
    """State t of state t - 1."""
    return {"log_signal": mean + memory * (state["log_signal"] - mean) + strength * push[0]}


def observe(state, **unknowns):
    """What is read of a state."""
    return {"signal": jnp.exp(state["log_signal"])}


def recover(reading, **unknowns):
    """The state that this is read of."""
    return {"log_signal": jnp.log(reading["signal"])}


def problem_of(readings):
    """The state-space problem of readings, (T,)."""
    return invlift.state_space(
        transition,
        unknowns={
            "mean": invlift.normal(0.0, 1.0),
            "memory": invlift.uniform(-1.0, 1.0),
            "strength": invlift.half_normal(1.0),
        },
        initial=initial,
        readings={"signal": readings},
        noise=invlift.half_normal(3.0),
        observe=observe,
        recover=recover,
    )


def problem():
    """That of the simulated readings."""
    return problem_of(simulated()[0])


def precise():
    """The same with a hundredth of the noise."""
    return problem_of(simulated(sigma=0.001)[0])
