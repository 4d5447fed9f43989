"""A nerve cell that fires again and again, with more parameters than can be told: see README.md."""

import numpy as np

import invlift

TIMES = np.linspace(0.0, 20.0, 200)
#: Rates, and the state at the start.
TRUTH = {"alpha": 3.0, "beta": 1.0, "gamma": 3.0, "delta": 1 / 3, "epsilon": 1 / 15, "zeta": 1 / 15}
TRUTH |= {"first_x0": 1.0, "first_x1": -1.0}


def slope(t, x, alpha, beta, gamma, delta, epsilon, zeta, **others):
    """Eq. 10 of Au, Graham & Thiery (2023), the first term of which is printed as alpha x_1.

    It is alpha x_0: only so do x_1, 1/gamma, delta and zeta have a common scale that is free, and
    are the true values FitzHugh's (1961) with c = 3, a = b = 0.2.
    """
    return {
        "x0": alpha * x["x0"] - beta * x["x0"] ** 3 + gamma * x["x1"],
        "x1": -delta * x["x0"] - epsilon * x["x1"] + zeta,
    }


def invariants(gamma, delta, zeta, first_x1, **others):
    """What stays the same when x_1, 1/gamma, delta and zeta are all multiplied by a number."""
    return {"gamma_x1": gamma * first_x1, "gamma_delta": gamma * delta, "gamma_zeta": gamma * zeta}


def initial(first_x0, first_x1, **others):
    """State at time 0."""
    return {"x0": first_x0, "x1": first_x1}


def problem(sigma=0.01, seed=1):
    """Problem of 200 simulated readings of x_0, (200,), with noise of this standard deviation."""
    path = invlift.solve_ode(lambda t, x: slope(t, x, **TRUTH), initial(**TRUTH), TIMES, 0.01)
    noise = np.random.default_rng(seed).standard_normal(TIMES.size)
    locations = {"alpha": 0, "beta": 0, "gamma": 0, "delta": -1, "epsilon": -2, "zeta": -2}
    unknowns = {name: invlift.lognormal(at, 1.0) for name, at in locations.items()}
    unknowns |= {name: invlift.normal(0.0, 1.0) for name in ("first_x0", "first_x1")}
    return invlift.ode_problem(
        slope,
        unknowns,
        initial,
        TIMES,
        {"x0": np.asarray(path["x0"]) + sigma * noise},
        noise=invlift.lognormal(0.0, 1.0),
        derived=invariants,
        max_step=0.051,  # two steps from reading to reading
    )
