"""Carbon that two soils give off, by two pools that feed each other: see README.md."""

from pathlib import Path

import numpy as np
from jax.scipy.special import erf, erfinv

import invlift


def slope(t, pools, k1, k2, alpha12, alpha21, **others):
    """Carbon a day that each pool gains, in mg per g of soil."""
    one, two = pools["one"], pools["two"]
    return {"one": alpha12 * k2 * two - k1 * one, "two": alpha21 * k1 * one - k2 * two}


def below_bounds(k1, k2_share, alpha12, alpha21_share, **others):
    """The two unknowns whose bounds are unknown, each as the quantile of its share.

    k2 is a half normal number below k1, alpha21 a uniform one below 1 - alpha12.
    """
    k2 = np.sqrt(2.0) * erfinv(k2_share * erf(k1 / np.sqrt(2.0)))
    return {"k2": k2, "alpha21": alpha21_share * (1.0 - alpha12)}


def soil(file):
    """Problem of one experiment; time in days, carbon in mg per g of soil."""
    days, carbon, _ = np.loadtxt(Path(__file__).with_name(file), delimiter=",", skiprows=1).T
    part = invlift.uniform(0.0, 1.0)
    return invlift.ode_problem(
        slope,
        unknowns={
            "k1": invlift.Unknown(invlift.half_normal(1.0), "1/day"),
            "k2_share": part,
            "alpha12": part,
            "alpha21_share": part,
            "gamma": part,
            "c0": invlift.Unknown(invlift.lognormal(1.0, 2.0), "mg/g"),
        },
        derived=below_bounds,
        initial=lambda gamma, c0, **_: {"one": gamma * c0, "two": (1.0 - gamma) * c0},
        observe=lambda pools, c0, **_: {"carbon": c0 - pools["one"] - pools["two"]},
        times=days,
        readings={"carbon": carbon},
        noise=invlift.half_normal(1.0),
        start=0.0,
        max_step=np.inf,
        method="exponential",
    )


def hn():
    """The soil HN."""
    return soil("hn.csv")


def ak():
    """The soil AK."""
    return soil("ak.csv")
