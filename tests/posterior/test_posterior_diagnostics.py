"""R-hat and effective sample sizes: against ArviZ, against known answers, and in bad cases."""

import warnings

import numpy as np
import pytest
import xarray as xr

from invlift.errors import InputError
from invlift.posterior.statistics.diagnostics import diagnose, diagnose_field

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz


def autoregressive(num_chains, num_draws, size, correlation, seed=0):
    """Stationary AR(1) chains with standard normal marginals, as a list of (num_draws, size)."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(num_chains, num_draws, size))
    for t in range(1, num_draws):
        values[:, t] *= np.sqrt(1 - correlation**2)
        values[:, t] += correlation * values[:, t - 1]
    return list(values)


def arviz_diagnostics(chains):
    data = xr.Dataset({"x": (("chain", "draw", "node"), np.stack(chains))})
    return {
        "r_hat": arviz.rhat(data)["x"].values,
        "ess_bulk": arviz.ess(data, method="bulk")["x"].values,
        "ess_tail": arviz.ess(data, method="tail", prob=(0.05, 0.95))["x"].values,
        "ess_mean": arviz.ess(data, method="mean")["x"].values,
    }


@pytest.mark.parametrize("has_ties", [False, True])
@pytest.mark.parametrize(
    ("num_chains", "num_draws", "correlation"),
    [(4, 300, 0.5), (3, 151, -0.7), (2, 21, 0.3), (3, 4, 0.0)],
)
def test_agrees_with_arviz(num_chains, num_draws, correlation, has_ties):
    chains = autoregressive(num_chains, num_draws, 20, correlation)
    if has_ties:
        chains = [np.round(chain, 1) for chain in chains]
    ours = diagnose(chains)
    for key, expected in arviz_diagnostics(chains).items():
        found = getattr(ours, key)
        if key == "ess_tail" and has_ties:
            continue  # ArviZ 0.x interpolates between equal draws and is off them by one rounding
        # ArviZ gives constant indicators of the tail full marks; here they have none
        is_known = ~np.isnan(found) if key == "ess_tail" else slice(None)
        np.testing.assert_allclose(found[is_known], expected[is_known], rtol=1e-11, err_msg=key)
        assert num_draws < 150 or not np.isnan(found).any()


def test_field_diagnostics_are_the_same_whatever_the_blocks(monkeypatch):
    chains = autoregressive(3, 60, 37, 0.4)
    chains[1][:, 8] = chains[0][:, 8] = chains[2][:, 8] = 0.0
    whole = diagnose_field(chains)
    monkeypatch.setattr("invlift.posterior.statistics.blocks.BLOCK_SIZE", 3 * 60 * 5)
    for name, values in diagnose_field(chains).items():
        np.testing.assert_array_equal(values, whole[name])
    full = diagnose(chains)
    for name in ("r_hat", "ess_bulk", "ess_tail"):
        np.testing.assert_array_equal(getattr(full, name), whole[name])
    few = diagnose_field([chain[:3] for chain in chains])
    assert all(np.isnan(values).all() for values in few.values())


@pytest.mark.parametrize("has_ties", [False, True])
@pytest.mark.parametrize(
    ("num_chains", "num_draws", "correlation"),
    [(4, 200, 0.95), (3, 151, -0.7), (1, 100, 0.5), (3, 4, 0.0)],
)
def test_precision_agrees_with_arviz_function_by_function(
    num_chains, num_draws, correlation, has_ties
):
    chains = [5.0 + 3.0 * x for x in autoregressive(num_chains, num_draws, 12, correlation)]
    if has_ties:
        chains = [np.round(chain, 1) for chain in chains]
    for chain in chains:
        chain[:, 4] = 7.0
    chains[0][num_draws // 2, 7] = np.nan
    chains[-1][num_draws // 2, 9] = np.inf
    data = xr.Dataset({"x": (("chain", "draw", "node"), np.stack(chains))})
    with np.errstate(all="ignore"):
        expected = {
            "ess_tail": arviz.ess(data, method="tail", prob=(0.05, 0.95)),
            "mcse_mean": arviz.mcse(data, method="mean"),
            "mcse_sd": arviz.mcse(data, method="sd"),
        }
    found = diagnose_field(chains, "x")
    assert set(found) == set(expected) | {"r_hat", "ess_bulk"}
    is_usable = np.isin(np.arange(12), [4, 7, 9], invert=True)
    for name in expected:
        values = found[name]
        assert np.isnan(values[~is_usable]).all(), name
        is_known = is_usable & ~np.isnan(values)
        assert num_draws < 100 or is_known.sum() == 9
        if name == "ess_tail" and has_ties:
            # see above: there the definition itself is what is agreed with
            np.testing.assert_array_equal(values, diagnose(chains).ess_tail)
            continue
        np.testing.assert_allclose(
            values[is_known], expected[name]["x"].values[is_known], rtol=1e-9, err_msg=name
        )


def test_standard_errors_are_how_far_estimates_of_other_seeds_are():
    chains = autoregressive(2, 400, 300, 0.6, seed=11)  # 300 runs of one quantity
    found = diagnose_field(chains)
    values = np.concatenate(chains)
    for key, estimates in (("mean", values.mean(axis=0)), ("sd", values.std(axis=0, ddof=1))):
        error = np.sqrt(np.mean(found[f"mcse_{key}"] ** 2))
        assert error == pytest.approx(estimates.std(ddof=1), rel=0.15)
        # negative control: correlated draws are worth fewer than their number
        assert estimates.std(ddof=1) > 1.3 * (1.0 if key == "mean" else 0.5**0.5) / 800**0.5


def test_r_hat_sees_scale_as_well_as_location():
    chains = autoregressive(4, 500, 1, 0.0)
    assert diagnose(chains).r_hat[0] < 1.01
    shifted = [*chains[:3], chains[3] + 1.0]
    assert diagnose(shifted).r_hat[0] > 1.05
    widened = [*chains[:3], chains[3] * 4.0]  # the mean agrees: only the folded version sees it
    assert diagnose(widened).r_hat[0] > 1.05


def test_one_chain_is_compared_with_itself():
    drifting = [np.linspace(0, 1, 200)[:, None]]
    assert diagnose(drifting).r_hat[0] > 1.5
    assert diagnose(autoregressive(1, 500, 1, 0.0)).r_hat[0] < 1.02


@pytest.mark.parametrize("num_draws", [1, 3])
def test_too_few_draws_give_nan(num_draws):
    result = diagnose([np.random.default_rng(i).normal(size=(num_draws, 2)) for i in range(2)])
    assert np.isnan(result.r_hat).all()
    assert np.isnan(result.ess_bulk).all()


@pytest.mark.parametrize(
    ("chains", "message"),
    [
        ([], "at least one chain"),
        ([np.zeros((0, 3))], "at least one draw"),
        ([np.zeros((5, 3)), np.zeros((4, 3))], "one shape"),
    ],
)
def test_bad_draws_are_refused(chains, message):
    with pytest.raises(InputError, match=message):
        diagnose(chains)


def test_a_quantity_of_two_values_has_the_tail_that_varies():
    chains = [np.random.default_rng(k).random((500, 1)) < 0.8 for k in range(2)]
    found = diagnose([chain.astype(float) for chain in chains])
    assert 500 < found.ess_tail[0] < 1500
