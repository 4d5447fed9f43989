"""Conductances of the squid giant axon while the voltage is clamped: see README.md.

Times in ms, voltages in mV, rates in 1/ms, conductances in mS/cm^2.
"""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift

#: When conductances are wanted, beside the readings: more often while they change fast.
GRID = np.r_[0:40, 40:241:10] / 20


def linear_rate(slope, shift, width, voltage):
    """slope (V + shift) / (exp((V + shift) / width) - 1), with its limit at V = -shift."""
    x = (voltage + shift) / width
    is_small = jnp.abs(x) < 1e-3
    away = jnp.where(is_small, 1.0, x)
    return slope * width * jnp.where(is_small, 1 - x / 2 + x**2 / 12, away / jnp.expm1(away))


def gate(time, voltage, opening, closing):
    """Solution of x' = opening(V) (1 - x) - closing(V) x, exact, from the steady state at V = 0."""
    at_rest = opening(0.0) / (opening(0.0) + closing(0.0))
    speed = opening(voltage) + closing(voltage)
    steady = opening(voltage) / speed
    return steady + (at_rest - steady) * jnp.exp(-speed * time)


def potassium_conductance(t, v, alpha_n1, alpha_n2, alpha_n3, beta_n1, beta_n2, g_K):
    """g_K n^4 (Hodgkin & Huxley 1952, eqs. 6, 7, 12 and 13)."""
    n = gate(
        t,
        v,
        opening=partial(linear_rate, alpha_n1, alpha_n2, alpha_n3),
        closing=lambda v: beta_n1 * jnp.exp(v / beta_n2),
    )
    return g_K * n**4


def sodium_conductance(
    t, v, alpha_m1, alpha_m2, alpha_m3, beta_m1, beta_m2, alpha_h1, alpha_h2, beta_h1, beta_h2, g_Na
):
    """g_Na m^3 h (Hodgkin & Huxley 1952, eqs. 14 to 16, 20, 21, 23 and 24)."""
    m = gate(
        t,
        v,
        opening=partial(linear_rate, alpha_m1, alpha_m2, alpha_m3),
        closing=lambda v: beta_m1 * jnp.exp(v / beta_m2),
    )
    # Au, Graham & Thiery print exp(.) - 1 in the rate beta_h, Hodgkin & Huxley's eq. 24 has + 1.
    # With the minus the rate is negative wherever V < -beta_h1, and no rate.
    h = gate(
        t,
        v,
        opening=lambda v: alpha_h1 * jnp.exp(v / alpha_h2),
        closing=lambda v: jax.nn.sigmoid(-(v + beta_h1) / beta_h2),
    )
    return g_Na * m**3 * h


def clamped(conductance, table, locations):
    """Problem of conductance(time, voltage, **unknowns), a trace of readings for each voltage."""
    file = Path(__file__).with_name(table)
    times, depolarisations, values = np.loadtxt(file, delimiter=",", skiprows=1, unpack=True)
    steps = list(dict.fromkeys(depolarisations))
    rows = {f"{step:g} mV": np.flatnonzero(depolarisations == step) for step in steps}

    def model(**unknowns):
        # Hodgkin & Huxley count voltages from rest, and a depolarisation as negative.
        read = conductance(times, -depolarisations, **unknowns)
        paths = conductance(GRID[:, None], -np.array(steps), **unknowns).T
        kept = {f"{name}_path": path for name, path in zip(rows, paths, strict=True)}
        return {name: read[which] for name, which in rows.items()}, kept

    return invlift.inverse_problem(
        model,
        {name: invlift.lognormal(location, 1.0) for name, location in locations.items()},
        invlift.gaussian_noise(invlift.lognormal(0.0, 1.0)),
        {name: values[which] for name, which in rows.items()},
        axes={name: {"read_at": times[which]} for name, which in rows.items()}
        | {f"{name}_path": {"time": GRID} for name in rows},
    )


#: Of the lognormal priors, all with scale 1 (Au, Graham & Thiery 2023, supplement 6.3).
POTASSIUM = {"alpha_n1": -3, "alpha_n2": 2, "alpha_n3": 2, "beta_n1": -3, "beta_n2": 2, "g_K": 2}
SODIUM = {"alpha_m1": -3, "alpha_m2": 2, "alpha_m3": 2, "beta_m1": 0, "beta_m2": 2}
SODIUM |= {"alpha_h1": -3, "alpha_h2": 2, "beta_h1": 2, "beta_h2": 1, "g_Na": 2}

potassium = partial(clamped, potassium_conductance, "potassium.csv", POTASSIUM)
sodium = partial(clamped, sodium_conductance, "sodium.csv", SODIUM)
