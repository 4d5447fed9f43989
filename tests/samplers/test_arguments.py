"""Arguments of `sample` that are no good, or ask for more than there is, end in one line."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from invlift.app.runs.sampling import sample
from invlift.app.studies.calibrate import calibrate
from invlift.errors import InputError
from invlift.problems.inverse_problem import inverse_problem
from invlift.samplers.chains import workers
from invlift.unknowns.distributions import normal


@pytest.fixture(scope="module")
def problem():
    return inverse_problem(
        lambda a: a * jnp.arange(3.0), {"a": normal(1.0, 0.1)}, 0.1, np.arange(3.0)
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"executor": 3}, "executor: expected an executor"),
        ({"on_progress": 3}, "on_progress: expected a function"),
        ({"checkpoint": 5}, "checkpoint: expected a path"),
        ({"draws": 10**10}, r"draws: expected draws that fit .* which take .* GB"),
    ],
)
def test_they_are_refused(problem, options, expected):
    with pytest.raises(InputError, match=expected):
        sample(problem, chains=2, **({"draws": 20} | options))


def test_a_time_that_is_over_before_the_first_draw_is_told(problem, caplog, monkeypatch):
    """As where a model takes long: nothing comes back before the chains are told to stop."""

    def wait(work, segment, seconds, is_stopped, turns):
        is_stopped.wait(60.0)
        return []

    monkeypatch.setattr(workers, "run_segment", wait)
    monkeypatch.setattr(workers.Threads, "patience", 0.0)
    run = sample(problem, chains=2, warmup=10, draws=20, budget=1e-3)
    assert run.chains == []
    assert "budget = 0.001 s was over before all chains had a draw" in caplog.text


def test_a_method_that_tunes_nothing_needs_no_warmup(problem):
    run = sample(problem, "laplace", chains=1, warmup=0, draws=20, seed=1)
    assert run.chains[0].draws["a"].shape == (20,)
    found = calibrate(problem, "laplace", simulations=1, draws=7, warmup=0, seed=1)
    assert len(found.simulations) == 1
    for each in (sample, partial(calibrate, simulations=1)):
        with pytest.raises(InputError, match="warmup: expected at least 1 iteration"):
            each(problem, "chmc", warmup=0, draws=20)
