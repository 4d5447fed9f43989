"""Comparison of saved runs: against closed form and ArviZ, and what cannot be compared."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from posterior_cases import LinearModel, normal_posterior

from invlift.errors import InputError
from invlift.posterior.output.run_folder import read_posterior
from invlift.posterior.statistics.model_comparison import compare_runs

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
def table(folders):
    return compare_runs({name: read_posterior(folders / name) for name in "cab"})


def test_runs_come_best_first_with_the_differences_of_closed_form(models, table):
    exact = {name: model.left_out().logpdf(model.observed) for name, model in models.items()}
    best = max(exact.values(), key=np.sum)
    assert table.index.tolist() == sorted(exact, key=lambda name: -exact[name].sum())
    for name, row in table.iterrows():
        # Monte Carlo error with k below 0.7 and 4000 draws
        assert row["elpd"] == pytest.approx(exact[name].sum(), abs=0.1)
        below = best - exact[name]
        assert row["below"] == pytest.approx(below.sum(), abs=0.1)
        assert row["below_se"] == pytest.approx(np.sqrt(8 * below.var(ddof=1)), abs=0.1)
        assert row["num_unreliable"] == 0
        assert row["max_pareto_k"] < 0.7
    # negative control: the differences are larger than what they are compared to
    assert table["below"].iloc[1] > 0.5
    assert table["below"].iloc[2] > 2.0


def test_columns_are_those_of_arviz(folders, table):
    data = {name: arviz.from_netcdf(folders / name / "posterior.nc") for name in "abc"}
    is_new = hasattr(arviz, "convert_to_datatree")
    expected = arviz.compare(data, method="stacking", **({"round_to": "none"} if is_new else {}))
    # of divisor d; in ArviZ 1.x se has divisor d - 1
    expected["dse"] *= np.sqrt(8 / 7)
    expected["se"] *= 1.0 if is_new else np.sqrt(8 / 7)
    expected.columns = [name.removesuffix("_loo") for name in expected.columns]
    for name, row in table.iterrows():
        for ours, theirs in (
            ("elpd", "elpd"), ("se", "se"), ("p_loo", "p"), ("below", "elpd_diff"),
            ("below_se", "dse"), ("weight", "weight"),
        ):  # fmt: skip
            size = abs(expected.loc[name, theirs])
            assert row[ours] == pytest.approx(size * np.sign(row[ours]), abs=0.01), ours
    assert table["weight"].sum() == pytest.approx(1.0)


def test_two_halves_of_the_truth_share_the_weight():
    """Each of two models predicts one half of the readings well."""
    runs, rng = {}, np.random.default_rng(1)
    for half in (slice(0, 10), slice(10, 20)):
        offset = np.full(20, 3.0)
        offset[half] = 0.0
        predicted = [offset + 0.1 * rng.normal(size=(300, 20)) for _ in range(2)]
        runs[str(half)] = normal_posterior(predicted, np.zeros(20), 1.0)
    assert compare_runs(runs)["weight"].tolist() == pytest.approx([0.5, 0.5], abs=0.02)


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
        read_posterior(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_posterior(tmp_path / "none")


def test_draws_that_cannot_be_weighted_are_refused():
    good = normal_posterior([np.zeros((30, 2))] * 2, np.ones(2), 1.0)
    few = normal_posterior([np.zeros((12, 2))] * 2, np.ones(2), 1.0)
    with pytest.raises(InputError, match=r"^few: expected .*25 draws"):
        compare_runs({"good": good, "few": few})
    infinite = [np.full((30, 2), [0.0, np.inf])] * 2
    with pytest.raises(InputError, match="1 of 2 readings, the first is index 1"):
        compare_runs({"a": good, "b": normal_posterior(infinite, np.ones(2), 1.0)})


def test_runs_of_other_readings_are_refused(folders):
    first, second = (read_posterior(folders / name) for name in "ab")
    values = second.sensors.values + np.where(np.arange(8) == 5, 1e-9, 0.0)
    changed = replace(second, sensors=replace(second.sensors, values=values))
    with pytest.raises(InputError, match="8 readings, not the same"):
        compare_runs({"first": first, "changed": changed})
    moved = replace(second, sensors=replace(second.sensors, values=second.sensors.values[::-1]))
    with pytest.raises(InputError, match="8 readings, in another order"):
        compare_runs({"first": first, "moved": moved})
    limits = np.where(np.arange(8) == 5, "<", "")
    first, same, other = (
        replace(each, sensors=replace(each.sensors, limits=of))
        for each, of in ((first, limits), (second, limits), (second, np.roll(limits, 1)))
    )
    assert len(compare_runs({"first": first, "same": same})) == 2
    for run in (second, other):
        with pytest.raises(InputError, match=r"run: expected the censored readings of first"):
            compare_runs({"first": first, "run": run})
    of_pairs = replace(same)
    loo = second.fit.leave_one_out()
    of_pairs.fit.__dict__["_leave_one_out"] = replace(loo, elpd=loo.elpd[::2])
    with pytest.raises(InputError, match=r"expected 8 densities of .*, found 4, of vectors"):
        compare_runs({"first": first, "of_pairs": of_pairs})
