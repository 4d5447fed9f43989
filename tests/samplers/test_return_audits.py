"""Some ways back are followed to their end to see whether early ends decide the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import RelativeDensity
from test_trajectories import on_flower, petals, tilted

from invlift.chains import Chain
from invlift.posterior import Posterior
from invlift.samplers.constrained import retractions
from invlift.samplers.kernels import ConstrainedHMC, ConstrainedNUTS, constrained

FLOWER = RelativeDensity(on_flower, tilted)


def chains_on_flower(kernel, step_size=0.6, num_draws=800):
    """Positions (8, draws, 2) and statistics at a step that often cannot be reversed."""

    def run(rng_key):
        def body(state, key):
            state, info = kernel.step(FLOWER, key, state, step_size)
            return state, (kernel.position(state), info)

        start = kernel.init(FLOWER, jnp.asarray([petals(0.0), 0.0]))
        return jax.lax.scan(body, start, jax.random.split(rng_key, num_draws))[1]

    positions, info = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(3), 8))
    return np.asarray(positions), {name: np.asarray(values) for name, values in info.items()}


@pytest.fixture(scope="module")
def audited():
    return chains_on_flower(ConstrainedHMC())


def test_audits_cost_little_agree_and_leave_the_draws_as_they_are(audited, monkeypatch):
    positions, info = audited
    monkeypatch.setattr(constrained, "AUDITED", 0.0)
    expected, unaudited = chains_on_flower(ConstrainedHMC())
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_array_equal(info["is_accepted"], unaudited["is_accepted"])
    assert unaudited["num_return_audits"].sum() == 0
    assert info["num_return_audits"].sum() > 200
    assert info["num_return_disagreements"].sum() == 0
    totals = [each["num_factorisations"].sum() for each in (info, unaudited)]
    assert totals[1] < totals[0] < 1.02 * totals[1]
    assert np.mean(info["num_projection_failures"] > 0) > 0.4


@pytest.mark.parametrize(
    "kernel", [ConstrainedHMC(), pytest.param(ConstrainedNUTS(), marks=pytest.mark.slow)]
)
def test_a_wrong_early_check_is_reported(kernel, monkeypatch):
    """Negative control: it takes every way back for one that leads to the start."""
    monkeypatch.setattr(retractions, "CERTAIN_ERROR", 1e3)
    monkeypatch.setattr(retractions, "CERTAIN_CONTRACTION", 1e3)
    _, info = chains_on_flower(kernel)
    assert info["num_return_audits"].sum() > 200
    assert info["num_return_disagreements"].sum() > 0.05 * info["num_return_audits"].sum()
    # Beyond those that the exact check found, failures are steps that did not arrive.
    assert np.all(info["num_return_disagreements"] <= info["num_projection_failures"])


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
