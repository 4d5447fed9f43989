"""A body that cools in air of 20 °C: its excess temperature at the start, and the rate."""

import jax.numpy as jnp
import numpy as np

import invlift

TIMES = np.arange(0.0, 3601.0, 300.0)  # s
READINGS = np.array([84.9, 70.3, 58.8, 50, 43.4, 38.1, 34, 30.9, 28.5, 26.6, 25.1, 23.9, 23.2])


def cooling(excess, rate):
    """Temperatures in °C."""
    return 20.0 + excess * jnp.exp(-rate * TIMES), {"half_life": jnp.log(2.0) / rate}


unknowns = {
    "excess": invlift.lognormal(median=60.0, factor=1.2),  # K
    "rate": invlift.lognormal(median=1e-3, factor=1.6),  # 1/s
}
noise = invlift.gaussian_noise(invlift.lognormal(median=0.4, factor=2.7))  # K
problem = invlift.inverse_problem(cooling, unknowns, noise, READINGS)
