"""Calibration of a model in time: ranks of the truth among posterior draws."""

import numpy as np
import pytest
from without_gram_term import ChmcWithoutGramTerm

import invlift
from invlift.inverse.distributions import lognormal

pytestmark = pytest.mark.slow


def growth():
    """A logistic curve, of which rate, limit, start and noise are unknown."""
    return invlift.ode_problem(
        lambda t, state, rate, limit, start: {
            "size": rate * state["size"] * (1.0 - state["size"] / limit)
        },
        {
            "rate": lognormal(median=0.8, factor=1.6),
            "limit": lognormal(median=10.0, factor=1.4),
            "start": lognormal(median=1.0, factor=1.5),
        },
        lambda rate, limit, start: {"size": start},
        np.arange(1.0, 8.0),
        {"size": [2.0, 3.6, 5.6, 7.4, 8.6, 9.3, 9.7]},
        lognormal(median=0.3, factor=2.0),
        max_step=0.25,
    )


def test_a_growth_curve_is_calibrated_and_not_without_the_gram_term():
    options = {"simulations": 100, "warmup": 100, "seed": 1}
    right = invlift.calibrate(growth(), **options)
    assert min(right.p_values().values()) > 1e-3
    wrong = invlift.calibrate(growth(), ChmcWithoutGramTerm(), **options)
    assert min(wrong.p_values().values()) < 1e-4
