"""Pelts of hare and lynx by a predator-prey model: see README.md."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift

_, HARE, LYNX = np.loadtxt(Path(__file__).with_name("pelts.csv"), delimiter=",", skiprows=1).T


def log_pelts(alpha, beta, gamma, delta, hare, lynx):
    """Logs of both numbers in each year, (42,), by 20 midpoint steps a year."""

    def slope(logs):  # of the logarithms, which stay finite
        return jnp.stack([alpha - beta * jnp.exp(logs[1]), delta * jnp.exp(logs[0]) - gamma])

    def step(logs, _):
        later = logs + 0.05 * slope(logs + 0.025 * slope(logs))
        return later, later

    start = jnp.log(jnp.stack([hare, lynx]))
    later = jax.lax.scan(step, start, length=20 * (HARE.size - 1))[1][19::20]
    return jnp.concatenate([start[None], later]).T.ravel()


#: Medians, and standard deviations of the logarithms: rates per year, and the first numbers.
PRIOR = {"alpha": (1, 0.5), "beta": (0.05, 1), "gamma": (1, 0.5), "delta": (0.05, 1)}
PRIOR |= {"hare": (10, 1), "lynx": (10, 1)}
unknowns = {name: invlift.lognormal(np.log(median), sd) for name, (median, sd) in PRIOR.items()}
animals = np.repeat([0, 1], HARE.size)
noise = invlift.gaussian_noise(invlift.unknown_scale(invlift.lognormal(-1.0, 1.0), animals))
problem = invlift.inverse_problem(log_pelts, unknowns, noise, np.log(np.append(HARE, LYNX)))
