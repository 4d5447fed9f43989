"""What the drawdowns tell without a mesh: Theis, steady shapes, and pairs of wells both ways.

Run it as ``python examples/lauswiesen/lauswiesen.py``.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import exp1

HERE = Path(__file__).parent
#: Rates, m3/s, and places, m.
RATES = {"B2": 0.00653, "B3": 0.00594, "B4": 0.00625, "B5": 0.00604}
PLACES = {"B2": (63.877, 22.201), "B3": (71.009, 28.88), "B4": (48.742, 20.038),
          "B5": (48.908, 35.283)}  # fmt: skip
#: Time at which the shape is steady between the wells, s.
LATE = 6000
#: Readings of all tests, of which those of B1 have no partner.
NUM_READINGS = 128


def read():
    """The drawdowns, m, with rates, m3/s, and squared distances from the pumped wells, m2."""
    table = pd.read_csv(HERE / "drawdowns.csv")
    table["rate"] = table.experiment.map(RATES)
    pumped = np.array([PLACES[each] for each in table.experiment])
    table["squared"] = ((table[["x", "y"]] - pumped) ** 2).sum(axis=1)
    return table


def theis(table, logs):
    """Drawdowns of a uniform aquifer without end with log-transmissivity and log-storage."""
    transmissivity, storage = np.exp(logs)
    u = table.squared * storage / (4.0 * transmissivity * table.time)
    return table.rate / (4.0 * np.pi * transmissivity) * exp1(u)


def fit(table):
    """The best transmissivity, m2/s, and storage, and the residuals, m."""
    found = least_squares(lambda logs: theis(table, logs) - table.value, np.log([0.02, 0.005]))
    return *np.exp(found.x), found.fun


def steady_shape(table):
    """Transmissivity, m2/s, of each test by the slope of late drawdowns over log distance."""
    late = table[table.time == LATE]
    return {
        name: -own.rate.iloc[0]
        / (2.0 * np.pi * np.polyfit(0.5 * np.log(own.squared), own.value, 1)[0])
        for name, own in late.groupby("experiment")
    }


def gaps(table):
    """Halves of what drawdowns of a pair of wells differ by when these are exchanged, m.

    Of a rate of 6.2 l/s. A linear model is symmetric: its residuals are as large at least.
    """
    by = table.set_index(["experiment", "name", "time"])
    times = sorted(set(table.time))
    return {
        (one, other): 0.5 * 0.0062 * np.array([
            by.value[one, other, t] / RATES[one] - by.value[other, one, t] / RATES[other]
            for t in times
        ])
        for one, other in combinations(RATES, 2)
    }  # fmt: skip


def smallest_residual(halves):
    """Root of the mean square, m, that a linear model leaves at least: that of B1 may be 0."""
    exchanged = np.concatenate(list(halves.values()))
    return np.sqrt(2.0 * np.sum(exchanged**2) / NUM_READINGS)


def root_mean_square(values):
    """Of arrays, joined."""
    return np.sqrt(np.mean(np.square(np.concatenate([np.atleast_1d(each) for each in values]))))


def main():
    """Print all."""
    table = read()
    transmissivity, storage, rest = fit(table)
    print(f"Theis, all: T {transmissivity:.4f} m2/s, S {storage:.4f}, "
          f"residual {1e3 * root_mean_square([rest]):.1f} mm")  # fmt: skip
    pairs = [fit(own) for _, own in table.groupby(["experiment", "name"])]
    of_pairs = np.array([pair[:2] for pair in pairs])
    print(f"Theis, each pair: T {of_pairs[:, 0].min():.3f} to {of_pairs[:, 0].max():.3f}, "
          f"S {of_pairs[:, 1].min():.1e} to {of_pairs[:, 1].max():.1e}, "
          f"residual {1e3 * root_mean_square([pair[2] for pair in pairs]):.1f} mm")  # fmt: skip
    shapes = ", ".join(f"{name} {value:.4f}" for name, value in steady_shape(table).items())
    print(f"Steady shape, T by test: {shapes} m2/s")
    halves = gaps(table)
    for (one, other), values in halves.items():
        print(f"{one} and {other} exchanged: {1e3 * root_mean_square([values]):.1f} mm")
    print(f"No linear model has less residual than {1e3 * smallest_residual(halves):.1f} mm")


if __name__ == "__main__":
    main()
