"""A nerve that is driven at random, of which the voltage alone is read: see README.md."""

import numpy as np

import invlift

#: Truth of the simulated readings, and of the initial state.
TRUTH = {"sigma_w": 0.3, "epsilon": 0.1, "gamma": 1.5, "beta": 0.8}
START = {"voltage": -0.5, "recovery": 0.2}
#: Readings, the time between two, and steps in it: of the model, and of the simulation.
NUM_READINGS, SPACING = 50, 0.2
STEPS, FINE_STEPS = 20, 400


def drift(t, state, epsilon, gamma, beta, **others):
    """Change of both per unit of time."""
    voltage, recovery = state["voltage"], state["recovery"]
    return {
        "voltage": (voltage - voltage**3 - recovery) / epsilon,
        "recovery": gamma * voltage - recovery + beta,
    }


def diffusion(t, state, sigma_w, **others):
    """Only the recovery is driven: the voltage has noise through it."""
    return {"recovery": sigma_w}


def simulated(sigma=0.0, seed=1):
    """Times, and the voltage read there with normal noise of that standard deviation."""
    rng = np.random.default_rng(seed)
    step = SPACING / FINE_STEPS
    state, readings = dict(START), []
    for _ in range(NUM_READINGS):
        for push in rng.standard_normal(FINE_STEPS):
            slope = drift(0.0, state, **TRUTH)
            state = {name: state[name] + step * slope[name] for name in state}
            state["recovery"] += TRUTH["sigma_w"] * np.sqrt(step) * push
        readings.append(state["voltage"])
    readings = np.array(readings) + sigma * rng.standard_normal(NUM_READINGS)
    return SPACING * np.arange(1, NUM_READINGS + 1), readings


def problem_of(times, readings, noise):
    """Its inverse problem, with the priors of Graham, Thiery & Beskos (2022, appendix J)."""
    positive = invlift.lognormal(median=1.0, factor=np.e)
    return invlift.diffusion_problem(
        drift,
        diffusion,
        unknowns={
            "sigma_w": positive,
            "epsilon": positive,
            "gamma": positive,
            "beta": invlift.normal(0.0, 1.0),
            "voltage_0": invlift.normal(0.0, 1.0),
            "recovery_0": invlift.normal(0.0, 1.0),
        },
        initial=lambda voltage_0, recovery_0, beta, **others: {
            "voltage": voltage_0,
            "recovery": beta + recovery_0,
        },
        times=times,
        readings={"voltage": readings},
        noise=noise,
        steps_per_interval=STEPS,
        start=0.0,
        scheme="taylor-1.5",
    )


def problem():
    """Of exact readings."""
    return problem_of(*simulated(), None)


def noisy():
    """Of readings with noise of unknown scale."""
    return problem_of(*simulated(0.1), invlift.lognormal(median=0.1, factor=2.0))
