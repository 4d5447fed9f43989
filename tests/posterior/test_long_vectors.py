"""Every recorded quantity is diagnosed, also vectors that are too long for a table."""

import numpy as np
import pytest
from posterior_cases import Chain, make_chains, make_posterior

from invlift.posterior import Posterior
from invlift.posterior.statistics import scalars

NUM_LATENT = 1_001


def independent(*shape, seed=0, num_draws=400):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(num_draws, *shape)) for _ in range(4)]


def posterior_of(**quantities):
    return Posterior(
        [
            Chain(dict(zip(quantities, each, strict=True)))
            for each in zip(*quantities.values(), strict=True)
        ]
    )


def test_a_thousand_latent_variables_are_judged_without_filling_the_summary():
    name, draws = "latent", independent(NUM_LATENT, num_draws=200)
    sound = posterior_of(**{name: draws})
    assert sound.verdict().is_converged
    assert list(sound.summary().index) == [f"{name}_field_mean", f"{name}_field_std"]
    assert np.all(sound.vector_diagnostics[name].ess_bulk > 300)
    # One of them alone is elsewhere in one of the chains.
    draws[2][:, 7] += 3.0
    apart = posterior_of(**{name: draws}).verdict()
    assert not apart.is_converged
    assert f"of {NUM_LATENT} entries of {name}, and largest at number 7 with" in str(apart)


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 4), ((20,), 10)])
def test_stuck_chains_on_a_manifold_of_ones_own_are_not_called_converged(shape, most, monkeypatch):
    """Nothing but a position is recorded there, which may be too long for a table."""
    monkeypatch.setattr(scalars, "MAX_ENTRIES", most)
    draws = independent(*shape)
    assert posterior_of(position=draws).verdict().is_converged
    draws[1][:] = draws[1][0]
    verdict = posterior_of(position=draws).verdict()
    assert not verdict.is_converged
    assert "chain 1 never moved" in str(verdict)
    draws[1] = independent(*shape, seed=1)[0]
    draws[1][100:250] = draws[1][100]
    assert "chain 1 stayed in one place for 150 of 400 draws" in str(
        posterior_of(position=draws).verdict()
    )
    draws[3][-1] = np.nan
    assert "chain 3 holds draws that are not finite" in str(posterior_of(position=draws).verdict())


def test_a_long_vector_beside_a_field_is_judged_too(monkeypatch):
    monkeypatch.setattr(scalars, "MAX_ENTRIES", 10)
    chains = make_chains(25, 25)
    for chain, values in zip(chains, independent(12), strict=True):
        chain.draws["weights"] = values
    assert make_posterior(chains=chains).verdict().is_converged
    for number, chain in enumerate(chains):
        chain.draws["weights"][:, 4] = float(number)
    assert "R-hat is above" in str(make_posterior(chains=chains).verdict())


def test_predictions_are_diagnosed_where_nothing_else_is_recorded():
    draws = independent(5)
    assert posterior_of(predicted=draws).verdict().is_converged
    draws[0] += 2.0
    assert not posterior_of(predicted=draws).verdict().is_converged
