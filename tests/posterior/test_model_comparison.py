"""Comparison of saved runs: against closed form and ArviZ, and what cannot be compared."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from posterior_cases import LinearModel, make_posterior, normal_posterior

from invlift.errors import InputError
from invlift.posterior.labelled import save_netcdf
from invlift.posterior.leave_one_out import standard_error
from invlift.posterior.model_comparison import SavedRun, compare_runs, read_saved_run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz


@pytest.fixture(scope="module")
def models():
    """Three models of the same readings, which are of the first: noise right, too large, larger."""
    first = LinearModel(sigma=1.5)
    others = [LinearModel(sigma=sigma) for sigma in (3.0, 6.0)]
    for other in others:
        other.observed = first.observed
    return dict(zip("abc", (first, *others), strict=True))


@pytest.fixture(scope="module")
def folders(models, tmp_path_factory):
    rng, folder = np.random.default_rng(7), tmp_path_factory.mktemp("runs")
    for name, model in models.items():
        model.posterior(rng, num_draws=1000).write(folder / name)
    return folder


@pytest.fixture(scope="module")
def rows(folders):
    return compare_runs([read_saved_run(folders / name) for name in "cab"])


def test_runs_come_best_first_with_the_differences_of_closed_form(models, folders, rows):
    exact = {
        str(folders / name): model.left_out().logpdf(model.observed)
        for name, model in models.items()
    }
    best = max(exact.values(), key=np.sum)
    assert [row.run.name for row in rows] == sorted(exact, key=lambda name: -exact[name].sum())
    for row in rows:
        # Monte Carlo error with k below 0.7 and 4000 draws
        assert row.run.loo.elpd.sum() == pytest.approx(exact[row.run.name].sum(), abs=0.1)
        below = best - exact[row.run.name]
        assert row.below.sum() == pytest.approx(below.sum(), abs=0.1)
        error = np.sqrt(8 * below.var(ddof=1))
        assert standard_error(row.below) == pytest.approx(error, abs=0.1)
        assert row.run.loo.pareto_k.shape == (8,)
        assert row.run.loo.pareto_k.max() < 0.7
    # negative control: the differences are larger than what they are compared to
    assert rows[1].below.sum() > 0.5
    assert rows[2].below.sum() > 2.0


def test_columns_are_those_of_arviz(folders, rows):
    data = {name: arviz.from_netcdf(folders / name / "posterior.nc") for name in "abc"}
    is_new = hasattr(arviz, "convert_to_datatree")
    table = arviz.compare(data, method="stacking", **({"round_to": "none"} if is_new else {}))
    # of divisor d; in ArviZ 1.x se has divisor d - 1
    table["dse"] *= np.sqrt(8 / 7)
    table["se"] *= 1.0 if is_new else np.sqrt(8 / 7)
    table.columns = [name.removesuffix("_loo") for name in table.columns]
    for row in rows:
        expected = table.loc[row.run.name[-1]]
        (elpd, error), (num_effective, _) = row.run.loo.totals().values()
        for found, key in (
            (elpd, "elpd"), (error, "se"), (num_effective, "p"), (row.below.sum(), "elpd_diff"),
            (standard_error(row.below), "dse"), (row.weight, "weight"),
        ):  # fmt: skip
            assert found == pytest.approx(abs(expected[key]) * np.sign(found), abs=0.01), key
    assert sum(row.weight for row in rows) == pytest.approx(1.0)


def test_two_halves_of_the_truth_share_the_weight():
    """Each of two models predicts one half of the readings well."""
    runs, rng = [], np.random.default_rng(1)
    for half in (slice(0, 10), slice(10, 20)):
        offset = np.full(20, 3.0)
        offset[half] = 0.0
        predicted = [offset + 0.1 * rng.normal(size=(300, 20)) for _ in range(2)]
        runs.append((str(half), normal_posterior(predicted, np.zeros(20), 1.0)))
    rows = compare_runs(
        [SavedRun(name, np.zeros(20), each.leave_one_out(), True) for name, each in runs]
    )
    assert [row.weight for row in rows] == pytest.approx([0.5, 0.5], abs=0.02)


def without_group(source, folder, group):
    """The same run as an older version has written it."""
    folder.mkdir()
    data = {
        name: xr.load_dataset(source / "posterior.nc", group=name, engine="h5netcdf")
        for name in ("posterior", "log_likelihood", "observed_data")
        if name != group
    }
    save_netcdf(data.items(), folder / "posterior.nc")
    (folder / "run.json").write_text((source / "run.json").read_text())


@pytest.mark.parametrize("group", ["log_likelihood", "observed_data"])
def test_a_run_without_log_likelihood_is_refused(folders, tmp_path, group):
    without_group(folders / "a", tmp_path / "old", group)
    with pytest.raises(InputError, match=f"without {group}; write the results again.*--resume"):
        read_saved_run(tmp_path / "old")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "posterior.nc").unlink(), "no posterior.nc"),
        (lambda folder: (folder / "posterior.nc").write_bytes(b"junk"), "cannot be read"),
        (lambda folder: (folder / "run.json").unlink(), "run.json: expected the record"),
        (lambda folder: (folder / "run.json").write_text("[1]"), "with its verdict"),
    ],
)
def test_folders_that_are_no_runs_are_refused(folders, tmp_path, spoil, message):
    for name in ("posterior.nc", "run.json"):
        (tmp_path / name).write_bytes((folders / "a" / name).read_bytes())
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        read_saved_run(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_saved_run(tmp_path / "none")


def test_draws_that_cannot_be_weighted_are_refused(tmp_path):
    normal_posterior([np.zeros((12, 2))] * 2, np.ones(2), 1.0).write(tmp_path / "few")
    with pytest.raises(InputError, match="at least 25 draws, found 24"):
        read_saved_run(tmp_path / "few")
    predicted = [np.full((30, 2), [0.0, np.inf])] * 2
    normal_posterior(predicted, np.ones(2), 1.0).write(tmp_path / "infinite")
    with pytest.raises(InputError, match="1 of 2 sensors, the first sensor 1"):
        read_saved_run(tmp_path / "infinite")


def test_runs_of_other_readings_are_refused(folders):
    first, second = (read_saved_run(folders / name) for name in "ab")
    changed = replace(second, observed=second.observed + np.where(np.arange(8) == 5, 1e-9, 0.0))
    with pytest.raises(InputError, match="8 readings, not the same"):
        compare_runs([first, changed])
    fewer = replace(second, observed=second.observed[:7])
    with pytest.raises(InputError, match=r"the 8 readings of .*, found 7 readings"):
        compare_runs([first, fewer])
    of_pairs = replace(second, loo=replace(second.loo, elpd=second.loo.elpd[::2]))
    with pytest.raises(InputError, match=r"expected 8 densities of .*, found 4, of vectors"):
        compare_runs([first, of_pairs])


def test_what_a_run_was_judged_is_kept(folders, tmp_path):
    assert read_saved_run(folders / "a").is_converged
    make_posterior(chains=make_posterior().chains[:1]).write(tmp_path)
    assert not json.loads((tmp_path / "run.json").read_text())["verdict"]["is_converged"]
    assert not read_saved_run(tmp_path).is_converged
