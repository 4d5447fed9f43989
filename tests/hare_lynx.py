"""Pelts of hare and lynx by a predator-prey model: a posterior with modes without mass.

Lotka and Volterra's equations, 6 unknowns and the noise of either animal, 42 readings (Au, Graham &
Thiery 2023, section 6.6a, whose prior is that of Carpenter's case study for Stan).  In a mode
without mass the populations do not cycle, and the noise is 0.6 and more of the pelts, not 0.25.
"""

import jax
import jax.numpy as jnp
import numpy as np

import invlift

#: Thousands, by year (Hewitt 1921; Howard 2009).
HARE = [
    *(30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1),
    *(40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7),
]
LYNX = [
    *(4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4),
    *(8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6),
]
#: Rates, per year, and the first numbers of both.
UNKNOWNS = {
    "alpha": invlift.lognormal(np.log(1.0), 0.5),
    "beta": invlift.lognormal(np.log(0.05), 1.0),
    "gamma": invlift.lognormal(np.log(1.0), 0.5),
    "delta": invlift.lognormal(np.log(0.05), 1.0),
    "hare": invlift.lognormal(np.log(10.0), 1.0),
    "lynx": invlift.lognormal(np.log(10.0), 1.0),
}
STEPS_PER_YEAR = 20


def log_pelts(alpha, beta, gamma, delta, hare, lynx):
    """Logs of both numbers in each year, (42,), by Runge and Kutta's method of fourth order."""

    def slope(logs):  # of the logarithms, which stay finite
        hare, lynx = jnp.exp(logs)
        return jnp.stack([alpha - beta * lynx, delta * hare - gamma])

    step = 1.0 / STEPS_PER_YEAR

    def advance(logs, _):
        first = slope(logs)
        second = slope(logs + 0.5 * step * first)
        third = slope(logs + 0.5 * step * second)
        fourth = slope(logs + step * third)
        return logs + step / 6.0 * (first + 2.0 * second + 2.0 * third + fourth), None

    def year(logs, _):
        logs, _ = jax.lax.scan(advance, logs, length=STEPS_PER_YEAR)
        return logs, logs

    start = jnp.log(jnp.stack([hare, lynx]))
    _, later = jax.lax.scan(year, start, length=len(HARE) - 1)
    return jnp.concatenate([start[None], later]).T.ravel()


def hare_lynx_problem():
    """The problem: lognormal noise of each animal's pelts, its scale unknown."""
    groups = np.repeat([0, 1], len(HARE))
    noise = invlift.gaussian_noise(invlift.unknown_scale(invlift.lognormal(-1.0, 1.0), groups))
    return invlift.inverse_problem(log_pelts, UNKNOWNS, noise, np.log(np.array(HARE + LYNX)))
