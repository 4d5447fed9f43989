"""A nerve cell that fires while a current is injected: see README.md.

Times in ms, voltages in mV, currents in uA/cm^2, conductances in mS/cm^2, capacity 1 uF/cm^2.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

import invlift

STEP = 0.1
STARTS = STEP * np.arange(1100)  # of the steps
TIMES = np.round(10.0 + STEP * np.arange(1, 1001), 1)  # of the readings
STIMULUS = np.where(STARTS > 10.0 - STEP / 2, 3.248, 0.0)
TRUTH = {"g_Na": 50.0, "g_K": 5.0, "g_M": 0.07, "g_L": 0.1, "V_T": -60.0, "k_tau_p": 1000.0}


def ratio(x):
    """x / (exp(x) - 1), with its limit at 0."""
    is_small = jnp.abs(x) < 1e-3
    away = jnp.where(is_small, 1.0, x)
    return jnp.where(is_small, 1 - x / 2 + x**2 / 12, away / jnp.expm1(away))


def gates(v, V_T, k_tau_p):
    """Where the gates m, n, h and p go at a fixed voltage, and how fast, (4,) each.

    Au, Graham & Thiery (2023, supplement 5), but for signs: as printed there the rates alpha_n,
    alpha_m and beta_m are negative.  Here they are those of Pospischil et al. (2008).
    """
    u, by_p = v - V_T, (v + 35.0) / 20.0
    alpha = jnp.stack(
        [1.28 * ratio((13.0 - u) / 4.0), 0.16 * ratio((15.0 - u) / 5.0),
         0.128 * jnp.exp((17.0 - u) / 18.0)]
    )  # fmt: skip
    beta = jnp.stack(
        [1.4 * ratio((u - 40.0) / 5.0), 0.5 * jnp.exp((10.0 - u) / 40.0),
         4.0 * jax.nn.sigmoid((u - 40.0) / 5.0)]
    )  # fmt: skip
    speed_p = (3.3 * jnp.exp(by_p) + jnp.exp(-by_p)) / k_tau_p
    steady = jnp.append(alpha / (alpha + beta), jax.nn.sigmoid(2.0 * by_p))
    return steady, jnp.append(alpha + beta, speed_p)


def voltage(g_Na, g_K, g_M, g_L, V_T, k_tau_p):
    """Membrane voltage at the times of the readings, (1000,).

    Steps of gates at fixed voltage and of voltage at fixed gates in turns, each exact, as both
    equations are then linear (Lie-Trotter splitting: Chen, Raman & Stern 2020).
    """

    def step(state, stimulus):
        v, x = state
        steady, speed = gates(v, V_T, k_tau_p)
        x = steady + (x - steady) * jnp.exp(-STEP * speed)
        m, n, h, p = x
        g = jnp.stack([g_Na * m**3 * h, g_K * n**4, g_M * p, g_L])
        total = jnp.sum(g)
        steady = (stimulus + g @ jnp.array([53.0, -107.0, -107.0, -75.0])) / total
        v = steady + (v - steady) * jnp.exp(-STEP * total)
        return (v, x), v

    rest = jnp.asarray(-75.0)
    start = rest, gates(rest, V_T, k_tau_p)[0]
    return {"V": jax.lax.scan(step, start, jnp.asarray(STIMULUS))[1][-TIMES.size :]}


def problem(sigma=0.1, seed=1):
    """Problem of 1,000 simulated readings with noise of this standard deviation, mV."""
    noise = np.random.default_rng(seed).standard_normal(TIMES.size)
    means = {"g_Na": 4, "g_K": 2, "g_M": -3, "g_L": -3, "k_tau_p": 8}
    unknowns = {
        name: invlift.Unknown(invlift.lognormal(mean, 1.0), "ms" if name == "k_tau_p" else "mS/cm²")
        for name, mean in means.items()
    }
    return invlift.inverse_problem(
        voltage,
        unknowns | {"V_T": invlift.Unknown(invlift.normal(-60.0, 10.0), "mV")},
        invlift.gaussian_noise(invlift.lognormal(0.0, 1.0)),
        {"V": np.asarray(voltage(**TRUTH)["V"]) + sigma * noise},
        axes={"V": {"time": TIMES}},
    )


def starts(problem, chains=4, seed=0):
    """Standard normal variables from which chains can start, (chains, 6), for `invlift.sample`.

    A draw from the prior is fitted to the first 4 ms of the readings, then to more and more: fitted
    to all at once it ends where spikes are missing or in wrong places.
    """
    predict = jax.jit(lambda w: problem.predict(jnp.append(0.0, w)))
    derivative = jax.jit(jax.jacfwd(predict))
    found = np.random.default_rng(seed).standard_normal((chains, len(TRUTH)))
    for last in (14, 18, 22, 30, 40, 50, 60, 70, 80, 90, 110):
        weight = np.where(last >= TIMES, 3.0, 1e-3)  # one by mV

        def misfit(w, weight=weight):
            return np.append(weight * (predict(w) - problem.observed), w)

        def slope(w, weight=weight):
            return np.concatenate([weight[:, None] * derivative(w), np.eye(w.size)])

        found = np.stack([least_squares(misfit, w, slope, method="lm").x for w in found])
    return found
