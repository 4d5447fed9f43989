"""Pelts of hare and lynx by a predator-prey model: see README.md."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import TruncatedNormal

import invlift

YEAR, HARE, LYNX = np.loadtxt(Path(__file__).with_name("pelts.csv"), delimiter=",", skiprows=1).T


def slope(t, logs, alpha, beta, gamma, delta, **first):
    """Derivatives of the logarithms of both numbers, which stay finite."""
    hare, lynx = jnp.exp(logs["hare"]), jnp.exp(logs["lynx"])
    return {"hare": alpha - beta * lynx, "lynx": delta * hare - gamma}


rate = invlift.Unknown(TruncatedNormal(1.0, 0.5, low=0.0), "1/year")
small = invlift.Unknown(TruncatedNormal(0.05, 0.05, low=0.0), "1/year/thousand")
first = invlift.Unknown(invlift.lognormal(np.log(10.0), 1.0), "thousand")
problem = invlift.ode_problem(
    slope,
    {"alpha": rate, "beta": small, "gamma": rate, "delta": small, "hare": first, "lynx": first},
    initial=lambda hare, lynx, **rates: {"hare": jnp.log(hare), "lynx": jnp.log(lynx)},
    times=YEAR,
    readings={"hare": np.log(HARE), "lynx": np.log(LYNX)},
    noise=invlift.lognormal(-1.0, 1.0),
    max_step=0.25,
)
