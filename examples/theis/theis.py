"""Two pumping tests by Theis's formula: an aquifer without end, and two unknown numbers of it.

    invlift run examples/theis/theis.py:korendijk
    python examples/theis/theis.py     # both by least squares

Theis, C. V. (1935), "The relation between the lowering of the piezometric surface and the rate and
duration of discharge of a well using ground-water storage", Trans. AGU 16: the drawdown at distance
r and time t is Q / (4 pi T) E1(r^2 S / (4 T t)).
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import invlift

HERE = Path(__file__).parent


#: Coefficients of E1 for u below and above 1, highest power first (Abramowitz & Stegun 1964, 5.1.53
#: and 5.1.56).
BELOW = np.array([0.00107857, -0.00976004, 0.05519968, -0.24991055, 0.99999193, -0.57721566])
ABOVE = np.array([1.0, 8.5733287401, 18.0590169730, 8.6347608925, 0.2677737343])
UNDER = np.array([1.0, 9.5733223454, 25.6329561486, 21.0996530827, 3.9584969228])


@jax.custom_jvp
def well_function(u):
    """W(u) = E1(u), with an error below 3e-7; JAX's own functions take seconds for some u."""
    small, large = jnp.minimum(u, 1.0), jnp.maximum(u, 1.0)
    of_large = jnp.exp(-large) / large * jnp.polyval(ABOVE, large) / jnp.polyval(UNDER, large)
    return jnp.where(u < 1.0, jnp.polyval(BELOW, small) - jnp.log(small), of_large)


@well_function.defjvp
def _derivative(values, tangents):
    (u,), (du,) = values, tangents
    return well_function(u), -jnp.exp(-u) / u * du


def theis(table, rate, storage):
    """The problem of one test: its table, pumping rate, m3/d, and the median of the storage."""
    readings = pd.read_csv(HERE / table)
    distance, times = np.hypot(*readings[["x", "y"]].to_numpy().T), readings.time.to_numpy()

    def heads(log_conductivity, storage):
        """In m, at distances in m and times in d."""
        transmissivity = jnp.exp(log_conductivity)
        drawdown = well_function(distance**2 * storage / (4.0 * transmissivity * times))
        return -rate / (4.0 * jnp.pi * transmissivity) * drawdown

    unknowns = {
        "log_conductivity": invlift.normal(6.0, 1.5),  # of m2/d
        "storage": invlift.lognormal(median=storage, factor=5.0),
    }
    noise = invlift.gaussian_noise(invlift.lognormal(median=0.02, factor=3.0))  # m
    return invlift.inverse_problem(heads, unknowns, noise, readings.value)


def korendijk():
    """Oude Korendijk."""
    return theis("../well_test/piezometers.csv", 788.0, 1e-4)


def gridley():
    """Gridley."""
    return theis("gridley.csv", 1199.22, 1e-5)


def fit(problem):
    """Logarithms of transmissivity and storage, their standard deviations, the residuals'."""
    heads = jax.jit(problem.model)

    def residuals(logs):
        return np.asarray(heads(jnp.array([logs[0], jnp.exp(logs[1])]))) - problem.observed

    found = least_squares(residuals, [6.0, np.log(5e-5)])
    sigma = np.sqrt(np.sum(found.fun**2) / (len(found.fun) - 2))
    return found.x, sigma * np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac))), sigma


if __name__ == "__main__":
    for test in (korendijk, gridley):
        logs, sd, sigma = fit(test())
        numbers = " and ".join(
            f"{np.exp(log):.4g} ({100.0 * own:.1f} %)" for log, own in zip(logs, sd, strict=True)
        )
        print(f"{test.__name__}: T in m2/d and S are {numbers}, sd of the residuals {sigma:.4f} m")
