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
from jax.scipy.special import exp1
from scipy.optimize import least_squares

import invlift

HERE = Path(__file__).parent


def theis(table, rate, storage):
    """The problem of one test: its table, pumping rate, m3/d, and the median of the storage."""
    readings = pd.read_csv(HERE / table)
    distance, times = np.hypot(*readings[["x", "y"]].to_numpy().T), readings.time.to_numpy()

    def heads(log_conductivity, storage):
        """In m, at distances in m and times in d."""
        transmissivity = jnp.exp(log_conductivity)
        drawdown = exp1(distance**2 * storage / (4.0 * transmissivity * times))
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
