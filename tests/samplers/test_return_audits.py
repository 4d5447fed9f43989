"""The verdict and the record tell whether early ends of ways back decided the same.

What the samplers report of it is seen by test_trajectories.
"""

import numpy as np
import pytest

from invlift.chains import Chain
from invlift.posterior import Posterior


def chain(num_audits, num_disagreements):
    stats = {
        "acceptance_rate": np.full(400, 0.8),
        "num_return_audits": np.full(400, num_audits),
        "num_return_disagreements": np.eye(400, dtype=int)[0] * num_disagreements,
    }
    return Chain({"x": np.random.default_rng(0).normal(size=400)}, stats)


@pytest.mark.parametrize(
    ("num_disagreements", "is_converged", "is_told"),
    [(0, True, False), (1, True, True), (30, False, True)],
)
def test_verdict_and_record_tell_of_disagreements(num_disagreements, is_converged, is_told):
    chains = [chain(2, 0), chain(2, num_disagreements)]
    verdict = Posterior(chains).verdict()
    assert verdict.is_converged == is_converged
    assert (f"{num_disagreements} of 1600 audited steps" in str(verdict)) == is_told
    assert ('return_check = "exact"' in str(verdict)) == is_told
    record = Posterior(chains).record()
    assert record["num_return_audits"] == 1600
    assert record["num_return_disagreements"] == num_disagreements
