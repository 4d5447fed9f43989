"""Files as other programs read them: PyVista, a strict JSON reader, a CSV reader."""

import csv
import dataclasses
import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import pyvista
from posterior_cases import Chain, box, make_chains, make_posterior, square
from scipy.stats import norm

from invlift.errors import InputError
from invlift.posterior import Posterior, Quantity, Readings
from invlift.posterior.output.files import in_three_dimensions, write_fields, write_json
from invlift.standards import NO_STANDARDS

FIELDS = {
    "log_conductivity_mean", "log_conductivity_sd", "log_conductivity_q05", "log_conductivity_q50",
    "log_conductivity_q95", "log_conductivity_ess_bulk", "log_conductivity_r_hat",
    "log_conductivity_prior_sd", "conductivity_mean", "conductivity_q05", "conductivity_q50",
    "conductivity_q95", "variance_reduction", "log_conductivity_ess_tail",
    "log_conductivity_mcse_mean", "log_conductivity_mcse_sd",
}  # fmt: skip
SOLUTION = {f"solution_{name}" for name in ("mean", "sd", "q05", "q50", "q95")}


class Stalls:
    """Standards of a kernel that nobody has heard of."""

    min_acceptance = short_step = None
    caveat = ""
    failures = "num_stalls"
    failures_in_words = "the sampler stalled"
    advice = "give it a push"


def strict_json(path):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A posterior of fields on nodes, and the folder and the files of its results."""
    posterior = make_posterior()
    folder = tmp_path_factory.mktemp("runs") / "results" / "here"
    return posterior, folder, posterior.write(folder, {"seed": 1})


@pytest.mark.parametrize("place", ["nodes of the plane", "cells in space"])
def test_fields_open_in_pyvista(tmp_path, place, written):
    posterior, folder, _ = written
    of_field, mesh = "point_data", square
    if place == "cells in space":
        of_field, mesh = "cell_data", box
        folder, posterior = tmp_path, make_posterior("cells", mesh=mesh)
        posterior.write(folder)
    grid = pyvista.read(folder / "posterior.vtu")
    assert set(grid.point_data) - SOLUTION == (FIELDS if mesh is square else set())
    assert set(grid.cell_data) == (set() if mesh is square else FIELDS)
    np.testing.assert_array_equal(grid.points, in_three_dimensions(posterior.mesh.points))
    kind = pyvista.CellType.TRIANGLE if mesh is square else pyvista.CellType.TETRA
    np.testing.assert_array_equal(grid.cells_dict[kind], posterior.mesh.cells)
    for name, values in posterior.fields().items():
        found = grid.point_data if name in SOLUTION else getattr(grid, of_field)
        np.testing.assert_array_equal(found[name], values)


def test_fields_hold_what_their_names_say():
    posterior = make_posterior()
    fields = posterior.fields()
    draws = np.concatenate(posterior.draws("log_conductivity"))
    np.testing.assert_allclose(fields["log_conductivity_sd"], draws.std(axis=0, ddof=1))
    np.testing.assert_allclose(fields["conductivity_mean"], np.exp(draws).mean(axis=0))
    np.testing.assert_allclose(fields["conductivity_q05"], np.exp(np.quantile(draws, 0.05, axis=0)))
    np.testing.assert_allclose(fields["variance_reduction"], 1 - draws.var(axis=0, ddof=1))
    assert np.abs(fields["solution_mean"] - 2.0).max() < 5 * 0.1 / np.sqrt(1600)
    solutions = np.concatenate(posterior.draws("solution"))
    np.testing.assert_allclose(fields["solution_q95"], np.quantile(solutions, 0.95, axis=0))
    # negative control: a prior twice as wide is another reduction
    wide = make_posterior(prior_sd=2.0).fields()["variance_reduction"]
    assert (wide > fields["variance_reduction"] + 0.1).all()


def test_sensors_open_in_pyvista(written):
    posterior, folder, _ = written
    grid = pyvista.read(folder / "sensors.vtu")
    assert set(grid.point_data) == {
        "observed", "predicted_mean", "predicted_sd", "standardised_residual",
        "predictive_p_value", "loo_elpd", "loo_pareto_k", "loo_pit",
    }  # fmt: skip
    assert (grid.celltypes == pyvista.CellType.VERTEX).all()
    assert grid.n_cells == 6
    np.testing.assert_array_equal(grid.points, in_three_dimensions(posterior.sensors.points))
    np.testing.assert_array_equal(grid.point_data["observed"], posterior.sensors.values)
    predicted = np.concatenate(posterior.draws("predicted"))
    np.testing.assert_allclose(grid.point_data["predicted_mean"], predicted.mean(axis=0))
    sigma = np.concatenate(posterior.draws("sigma"))
    p_value = norm.cdf((posterior.sensors.values - predicted) / sigma[:, None]).mean(axis=0)
    np.testing.assert_allclose(grid.point_data["predictive_p_value"], p_value)
    np.testing.assert_allclose(grid.point_data["standardised_residual"], norm.ppf(p_value))


def test_numbers_without_a_place_are_field_data(tmp_path):
    points, cells = square(60)
    values = np.random.default_rng(0).normal(size=3600)
    numbers = {"sigma": 0.1 + 1e-17, 'a<"b"&': np.array([1.0, -2e-300])}
    for file, given in (("with.vtu", numbers), ("without.vtu", {})):
        write_fields(tmp_path / file, points, cells, {"v": values}, {}, numbers=given)
        grid = pyvista.read(tmp_path / file)
        assert set(grid.field_data) == set(given)
        for name, expected in given.items():
            np.testing.assert_array_equal(grid.field_data[name], np.atleast_1d(expected))
        np.testing.assert_array_equal(grid.point_data["v"], values)


def test_folder_holds_the_results_and_nothing_else(written):
    _, folder, paths = written
    names = {"posterior.vtu", "sensors.vtu", "posterior.nc", "summary.csv", "run.json"}
    names |= {"sensor_fit.csv", "draws.pvd"}
    there = {path.name for path in folder.iterdir()}
    assert there == names | {"draws"}
    assert {path.name for path in paths} == names


def test_summary_is_a_plain_table(written):
    posterior, folder, _ = written
    with open(folder / "summary.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [row["name"] for row in rows]
    assert names == [*posterior.summary().index, "elpd_loo", "p_loo", "num_loo_unreliable"]
    assert (rows[-1]["mean"], rows[-1]["sd"]) == ("0.0", "")
    for row, (estimate, error) in zip(
        rows[-3:-1], posterior.fit.leave_one_out().totals().values(), strict=True
    ):
        assert (float(row["mean"]), float(row["sd"])) == (estimate, error)
        assert row["q05"] == row["mcse_mean"] == row["r_hat"] == ""
    for row in rows[:-3]:
        assert float(row["sd"]) == posterior.summary().loc[row["name"], "sd"]


def test_record_of_the_run(tmp_path):
    chains = make_posterior().chains[:1]
    posterior = make_posterior(chains=chains, num_draws_requested=1000)
    posterior.write(tmp_path, {"seed": np.int64(3), "mesh": Path("a") / "b", "bad": np.nan})
    record = strict_json(tmp_path / "run.json")
    assert record["seed"] == 3
    assert record["mesh"] == str(Path("a") / "b")
    assert record["bad"] is None
    assert record["num_factorisations"] == 400 * 30
    assert record["num_projection_failures"] == 0
    assert record["step_size"] == [0.5]
    assert record["sampling_seconds"] == [2.0]
    assert "num_divergences" not in record
    assert record["verdict"]["is_converged"] is False
    assert record["verdict"]["reasons"]


def test_record_counts_what_went_wrong_by_its_name():
    rng = np.random.default_rng(4)
    for counted, presumed in (("num_divergences", NO_STANDARDS), ("num_stalls", Stalls())):
        stats = {"acceptance_rate": np.ones(60), counted: np.arange(60) % 20 == 0}
        chains = [Chain({"parameters": rng.normal(size=(60, 2))}, stats) for _ in range(2)]
        record = Posterior(chains, standards=presumed).record()
        assert record["num_projection_failures"] is None
        assert record[counted] == 6
        assert len({"num_divergences", "num_stalls"} & set(record)) == 1


def test_json_is_strict_and_complete(tmp_path):
    write_json(
        tmp_path / "a.json",
        {
            "inf": -np.inf, "array": np.array([[1.0, np.nan]]), "bool": np.bool_(True),
            "none": None, "tuple": (1, 2), "day": date(2026, 1, 1), "nested": {1: {"é": 0.1}},
        },
    )  # fmt: skip
    assert strict_json(tmp_path / "a.json") == {
        "inf": None, "array": [[1.0, None]], "bool": True, "none": None, "tuple": [1, 2],
        "day": "2026-01-01", "nested": {"1": {"é": 0.1}},
    }  # fmt: skip


def test_unusable_destinations_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match="file"):
        write_json(tmp_path / "file" / "a.json", {})
    with pytest.raises(InputError, match=r"folder\.json"):
        write_json(tmp_path / "folder.json", {})


def test_fields_that_do_not_fit_are_refused(tmp_path):
    points, cells = square()
    with pytest.raises(InputError, match="point field v: expected 25 values"):
        write_fields(tmp_path / "a.vtu", points, cells, {"v": np.zeros(24)}, {})
    with pytest.raises(InputError, match="cell field v"):
        write_fields(tmp_path / "a.vtu", points, cells, {}, {"v": np.zeros((len(cells), 1))})


def test_readings_and_predictions_are_a_table(written):
    posterior, folder, _ = written
    with open(folder / "sensor_fit.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    fit = posterior.fit.sensors()
    assert [row["sensor"] for row in rows] == [str(i) for i in range(len(fit.observed))]
    for name in ("observed", "predicted_mean", "standardised_residual"):
        assert [float(row[name]) for row in rows] == getattr(fit, name).tolist()
    assert [float(row["loo_elpd"]) for row in rows] == posterior.fit.leave_one_out().elpd.tolist()
    table = posterior.fit.table()
    assert [*rows[0]] == [table.index.name, *table.columns]
    assert [float(row["predicted_sd"]) for row in rows] == table["predicted_sd"].tolist()
    with pytest.raises(InputError, match="posterior: expected readings, found none"):
        make_posterior(sensors=None).fit.table()
    labels = [f"well {i}" for i in range(len(fit.observed))]
    named = dataclasses.replace(posterior.sensors, labels=labels)
    assert [*dataclasses.replace(posterior, sensors=named).fit.table().index] == labels


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chains": []}, "at least one chain with draws"),
        ({"chains": [Chain({})]}, "at least one chain with draws"),
        ({"chains": [Chain({"a": np.ones(3)}), Chain({"b": np.ones(3)})]}, "same quantities"),
        ({"chains": [Chain({"a": np.ones(3), "b": np.ones(4)})]}, "equally many"),
        ({"chains": [Chain({"log_conductivity": np.ones((0, 25))})]}, "at least one draw"),
        ({"quantities": [Quantity("sigma", {"node": None})]}, "sigma: expected axes node, found"),
        ({"chains": make_chains(24, 25)}, "a value for each node"),
        ({"sensors": Readings(np.zeros(5))}, "draws of predicted: expected a value"),
        (
            {"chains": [Chain({"noise_score": np.ones((3, 5))})]},
            "draws of noise_score",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        make_posterior(**changes)
