"""Posteriors of which not all draws of the field are stored."""

import numpy as np
import pytest
import xarray as xr
from posterior_cases import Mesh, field_quantities

from invlift.chains import Chain
from invlift.moments import BatchMeans, Moments, merged
from invlift.posterior import Posterior
from invlift.posterior.statistics import scalars
from invlift.posterior.statistics.diagnostics import diagnose_field
from invlift.posterior.statistics.fields import ess_of_batches, of_all_draws
from invlift.posterior.statistics.labelled import label
from invlift.samplers.chains.fields import FieldRecord

CHAINS, DRAWS, NODES = 4, 3000, 5
POINTS = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]])
CELLS = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])


def autoregressive(rho, seed, shape=(DRAWS, NODES)):
    """Draws of unit variance with integrated autocorrelation time (1 + rho) / (1 - rho)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    draws = np.empty(shape)
    draws[0] = rng.normal(size=shape[1:])
    for index in range(1, len(draws)):
        draws[index] = rho * draws[index - 1] + noise[index]
    return draws


def chain_of(field, max_bytes):
    """A chain as `sample` returns it."""
    record = FieldRecord(max_bytes)
    for first in range(0, len(field), 10):
        record.add(field[first : first + 10])
    draws = {
        "log_conductivity": np.stack(record.rows),
        "log_conductivity_field_mean": field.mean(axis=1),
        "log_conductivity_field_std": field.std(axis=1),
        "sigma": np.exp(field[:, 0]),
    }
    return Chain(
        draws=draws,
        stats={"acceptance_rate": np.full(len(field), 0.8)},
        moments={"log_conductivity": record.moments},
        batches={} if record.batch_means is None else {"log_conductivity": record.batch_means},
        every={"log_conductivity": record.every},
    )


@pytest.fixture(scope="module")
def fields():
    return [autoregressive(0.8, seed) for seed in range(CHAINS)]


def posterior_of(fields, max_bytes):
    chains = [chain_of(field, max_bytes) for field in fields]
    return Posterior(chains, field_quantities(prior_sd=1.0), Mesh(POINTS, CELLS))


@pytest.fixture(scope="module")
def thinned(fields):
    return posterior_of(fields, 300 * NODES * 8)


@pytest.fixture(scope="module")
def whole(fields):
    return posterior_of(fields, np.inf)


def test_mean_and_deviation_are_those_of_all_draws(thinned, whole):
    assert len(thinned.draws("log_conductivity")[0]) == 188  # every 16th
    assert thinned.num_draws == whole.num_draws == DRAWS
    few, all_of_them = thinned.fields(), whole.fields()
    assert few.keys() == all_of_them.keys()
    for name in ("mean", "sd"):
        name = f"log_conductivity_{name}"
        np.testing.assert_allclose(few[name], all_of_them[name], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(few["variance_reduction"], all_of_them["variance_reduction"])
    for name in ("q05", "q50", "q95"):
        name = f"log_conductivity_{name}"
        np.testing.assert_allclose(few[name], all_of_them[name], atol=0.25)
        assert not np.array_equal(few[name], all_of_them[name])


def test_scalars_and_verdict_are_those_of_all_draws(thinned, whole):
    assert thinned.summary().equals(whole.summary())
    assert thinned.verdict() == whole.verdict()


def test_effective_size_is_that_of_all_draws(fields, thinned):
    expected = CHAINS * DRAWS * (1 - 0.8) / (1 + 0.8)
    found = thinned.fields()["log_conductivity_ess_bulk"]
    # A variance from 4 x 60 batches has a relative error of sqrt(2 / 240) = 0.09.
    np.testing.assert_allclose(found, expected, rtol=4 * 0.09)
    # The standard error of the mean follows from it.
    sd, error = (thinned.fields()[f"log_conductivity_{name}"] for name in ("sd", "mcse_mean"))
    np.testing.assert_allclose(error, sd / np.sqrt(found))
    # Negative control: that of the stored draws is another.
    of_stored = diagnose_field(thinned.draws("log_conductivity"))["ess_bulk"]
    assert np.all(of_stored < 0.65 * expected)


def test_chains_that_agree_do_so_however_few_draws_are_stored(fields, whole):
    few = posterior_of(fields, 12 * NODES * 8)
    assert len(few.draws("log_conductivity")[0]) == 12
    draws = np.array(fields).reshape(2 * CHAINS, DRAWS // 2, NODES)  # the halves of chains
    between, within = draws.mean(axis=1).var(axis=0, ddof=1), draws.var(axis=1).mean(axis=0)
    np.testing.assert_allclose(
        few.fields()["log_conductivity_r_hat"], np.sqrt(1.0 + between / within), rtol=1e-3
    )
    assert few.verdict() == whole.verdict()
    # Negative control: by the stored draws alone the chains would disagree.
    assert diagnose_field(few.draws("log_conductivity"))["r_hat"].max() > 1.05


def test_a_long_vector_is_judged_by_all_draws(monkeypatch):
    monkeypatch.setattr(scalars, "MAX_ENTRIES", 100)
    chains = [autoregressive(0.5, seed, (1000, 110)) for seed in range(CHAINS)]
    names = "moments", "batches", "every"

    def posterior(max_bytes):
        found = [chain_of(chain, max_bytes) for chain in chains]
        parts = [
            {name: {"long": getattr(each, name)["log_conductivity"]} for name in names}
            | {"draws": {"long": each.draws["log_conductivity"]}}
            for each in found
        ]
        return Posterior([Chain(**each) for each in parts])

    found = posterior(40 * 110 * 8).vector_diagnostics["long"]
    whole = posterior(np.inf).vector_diagnostics["long"]
    assert found.r_hat.max() < 1.05
    np.testing.assert_allclose(np.median(found.ess_bulk), np.median(whole.ess_bulk), rtol=0.1)


def test_chains_too_short_for_means_of_batches(fields):
    short = [field[:20] for field in fields]
    posterior = posterior_of(short, 8 * NODES * 8)
    assert len(posterior.draws("log_conductivity")[0]) < 20
    found, expected = posterior.fields(), np.mean(short, axis=(0, 1))
    np.testing.assert_allclose(found["log_conductivity_mean"], expected, atol=1e-12)
    assert found["log_conductivity_ess_bulk"].shape == (NODES,)


def test_batches_of_unequal_lengths_are_joined():
    values = [autoregressive(0.5, 7, (1600, 2)), autoregressive(0.5, 8, (1500, 2))]
    batches = [
        BatchMeans(50, values[0].reshape(32, 50, 2).mean(axis=1)),
        BatchMeans(25, values[1].reshape(60, 25, 2).mean(axis=1)),
    ]
    moments = merged([Moments.of(each) for each in values])
    same = [batches[0], BatchMeans(50, values[1].reshape(30, 50, 2).mean(axis=1))]
    np.testing.assert_allclose(
        ess_of_batches(moments, batches), ess_of_batches(moments, same), rtol=1e-12
    )


@pytest.mark.parametrize("shape", [(2, 2)])
def test_entries_of_a_matrix_are_those_of_a_vector(shape):
    chains = [autoregressive(0.9, seed, (DRAWS, 4)) for seed in range(3)]

    def diagnosed(shape):
        records = [FieldRecord(1e4) for _ in chains]
        for record, draws in zip(records, chains, strict=True):
            record.add(draws.reshape(-1, *shape))
        parts = [
            Chain(
                {"rate": np.stack(each.rows)},
                moments={"rate": each.moments},
                batches={"rate": each.batch_means},
                every={"rate": each.every},
            )
            for each in records
        ]
        return of_all_draws(parts, "rate")

    for key, expected in diagnosed((4,)).items():
        np.testing.assert_allclose(diagnosed(shape)[key].ravel(), expected, rtol=1e-12)


def test_too_few_batches_and_constants_have_no_effective_size():
    few = BatchMeans(25, np.random.default_rng(0).normal(size=(7, 2)))
    moments = Moments.of(np.random.default_rng(0).normal(size=(200, 2)))
    assert np.all(np.isnan(ess_of_batches(moments, [few])))
    constant = Moments.of(np.ones((500, 2)))
    assert np.all(np.isnan(ess_of_batches(constant, [BatchMeans(25, np.ones((20, 2)))])))


def test_fields_of_two_sizes_have_numbers_of_their_own():
    draws = {"first": [np.zeros((5, 2))], "second": [np.zeros((3, 4))]}
    group = label(draws, {}, every={"first": 2, "second": 4})
    assert group["first"].dims[1] == "stored_draw"
    assert group["second"].dims[1] == "stored_draw_of_second"
    np.testing.assert_array_equal(group["stored_draw"], [0, 2, 4, 6, 8])
    np.testing.assert_array_equal(group["stored_draw_of_second"], [0, 4, 8])


def test_files_say_which_draws_are_stored(thinned, tmp_path):
    thinned.write(tmp_path)
    with xr.open_dataset(tmp_path / "posterior.nc", group="posterior", engine="h5netcdf") as group:
        assert group["log_conductivity"].dims == ("chain", "stored_draw", "node")
        np.testing.assert_array_equal(group["stored_draw"], np.arange(0, DRAWS, 16))
        assert group["sigma"].dims == ("chain", "draw")
    thinned.to_arviz()
