"""Problem files with kinds of readings, offsets, known regions and unknown conditions."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from command_line import call
from crafted import run_from_prior
from problem_files import are_same, assert_named, build, readings, write_problem
from structured import box_mesh

import invlift
from invlift.app.problem.problem_file import read_problem
from invlift.app.runs.quantities import quantities_of

NORMAL = {"distribution": "normal", "mean": 0.5, "sd": 0.2}
POSITIVE = {"distribution": "lognormal", "median": 2.0, "factor": 1.5}
SENSORS = (
    "x,y,kind,over,radius,value,sigma,group,name\n"
    "0.3,0.4,point,,,2.1,0.1,loggers,a\n"
    "0.6,0.7,point,,,2.9,0.2,,b\n"
    "0.5,0.5,average,,0.2,2.5,0.1,own,c\n"
    ",,average,high,,3.1,0.1,own,d\n"
    ",,flux,left,,-2.0,0.1,own,e\n"
    ",,flux,top,,-1.0,0.1,own,f\n"
    "0.2,0.2,log_conductivity,,,0.1,0.1,own,g\n"
)
CHANGES = {
    "pde": {
        "source": {"low": NORMAL, "high": 5.0},
        "dirichlet": {"left": {"distribution": "normal", "mean": "ramp", "sd": 0.1, "range": 1.0}},
        "neumann": {"bottom": {"distribution": "uniform", "low": -1.0, "high": 1.0}},
        "robin": {"top": {"coefficient": POSITIVE, "ambient": NORMAL}},
        "point_source": [{"place": [0.7, 0.3], "strength": NORMAL}],
    },
    "observations.offset": {"loggers": NORMAL},
    "conductivity": {"known": {"high": 2.0}},
    "noise": {"sigma": "column"},
}
NAMES = [
    "source_low", "dirichlet_left", "neumann_bottom", "point_source_1", "robin_top_coefficient",
    "robin_top_ambient", "offset_loggers",
]  # fmt: skip


def write(folder, changes=None, sensors=SENSORS):
    own = copy.deepcopy(CHANGES) | (changes or {})
    return write_problem(folder, own, sensors=sensors)


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    return build(write(tmp_path_factory.mktemp("problem"), {"units": {"solution": "K"}}))


@pytest.fixture(scope="module")
def posterior(problem):
    return problem.posterior(run_from_prior(problem))


def test_unknowns_have_the_names_of_their_keys(problem):
    names = [name for name, _ in problem.prior.shapes]
    assert names[0] == "log_conductivity"
    assert sorted(names[1:]) == sorted(NAMES)
    np.testing.assert_allclose(problem.sensors.points[3], [0.75, 0.5], atol=0.1)
    assert problem.prior.parts["log_conductivity"].location == "nodes"


def test_simulated_readings_keep_their_kinds(tmp_path):
    assert call("simulate", write(tmp_path), "--seed", 1, "--out", tmp_path / "made.csv") == 0
    made = invlift.read_sensors(tmp_path / "made.csv", 2)
    assert made.kinds.tolist()[3:] == ["average", "flux", "flux", "log_conductivity"]
    assert made.over.tolist()[3:6] == ["high", "left", "top"]
    assert made.groups.tolist()[:3] == ["loggers", "", "own"]


def test_results_tell_of_each_unknown(problem, posterior, tmp_path):
    posterior.write(tmp_path)
    summary = pd.read_csv(tmp_path / "summary.csv", index_col=0)
    assert [name for name in summary.index if name.startswith("dirichlet_left[")]
    assert set(NAMES) - {"dirichlet_left"} <= set(summary.index)
    fit = pd.read_csv(tmp_path / "sensor_fit.csv")
    assert fit["kind"].tolist() == problem.sensors.kinds.tolist()
    assert fit["over"].fillna("").tolist() == problem.sensors.over.tolist()
    assert np.isfinite(fit[["x [m]", "y [m]", "predicted_mean"]]).all(axis=None)


def test_fluxes_of_draws_are_those_that_are_read(posterior):
    """With all conditions in doubt."""
    predicted = posterior.to_arviz().posterior["predicted"]
    for group, name in (("left", "e"), ("top", "f")):
        flux = posterior.flux(group)
        np.testing.assert_allclose(flux, predicted.sel(sensor=name), rtol=1e-9)
        assert float(flux.std()) > 0.01
        assert flux.attrs["units"] == "C K"


def test_what_is_known_has_no_uncertainty(posterior):
    fields = posterior.fields()
    inside = fields["log_conductivity_prior_sd"] == 0.0
    assert inside.any()
    np.testing.assert_allclose(fields["conductivity_mean"][inside], 2.0)
    assert (fields["log_conductivity_sd"][inside] == 0.0).all()
    assert np.isnan(fields["variance_reduction"][inside]).all()
    assert (fields["log_conductivity_sd"][~inside] > 0.0).all()
    assert "constant" not in " ".join(posterior.verdict().reasons)
    assert posterior.sensors.coordinates["kind"][0] == "point"
    assert posterior.next_sensors(1).best.shape[0] == 1


def test_mistakes_are_named(tmp_path):
    for changes, sensors, parts in (
        ({"pde.source": {"lw": NORMAL}}, SENSORS, ["[pde] source", "did you mean 'low'?"]),
        ({"pde.dirichlet": {"left": {**NORMAL, "mean": "rmp"}}}, SENSORS,
         ["[pde] dirichlet.left.mean", "'rmp'", "did you mean 'ramp'?"]),
        ({"pde.robin": {"top": {"coefficient": NORMAL}}}, SENSORS,
         ["[pde] robin.top.coefficient.distribution", '"normal"']),
        ({"observations.offset": {"tools": NORMAL}}, SENSORS,
         ["[observations] offset.tools", "found loggers, own"]),
        ({}, SENSORS.replace("flux,left", "flux,bottom"),
         ["column over, bottom", "Dirichlet or a Robin condition: left, top", "found 'bottom'"]),
        ({}, SENSORS.replace("0.2,0.2,log", "0.8,0.2,log"), ["row 8", "conductivity is unknown"]),
    ):  # fmt: skip
        assert_named(write(tmp_path, changes, sensors), parts)


EXPERIMENTS = (
    "x,y,kind,over,value,experiment\n"
    "0.3,0.4,point,,2.1,second\n"
    "0.3,0.4,log_conductivity,,0.1,\n"
    ",,flux,left,-1.0,first\n"
    "0.8,0.4,log_conductivity,,0.1,second\n"
)


def test_readings_of_no_experiment(tmp_path):
    changes = {
        "experiment": {"first": {"source": NORMAL}, "second": {}},
        "pde": {"source": 1.0, "dirichlet": {"left": NORMAL}},
    }
    field = build(write_problem(tmp_path, changes, sensors=EXPERIMENTS))
    assert field.sensors.experiments.tolist() == ["", "first", "second", "second"]
    assert field.sensors.kinds.tolist() == ["log_conductivity", "flux", "point", "log_conductivity"]
    assert set(field.model.on_mesh.further) == {"first_source", "dirichlet_left"}
    phi = np.linspace(-1.0, 1.0, 16)
    found = np.asarray(readings(field.model, np.append(phi, [1.0, 0.0])))
    expected = field.mesh.values_at([[0.3, 0.4], [0.8, 0.4]], "node") @ phi
    np.testing.assert_allclose(found[[0, 3]], expected)
    broken = EXPERIMENTS.replace("point,,2.1,second", "point,,2.1,")
    path = write_problem(tmp_path / "b", changes, sensors=broken)
    assert_named(path, ["row 2, column experiment: expected one of first"])


def test_columns_and_places_of_other_tables(tmp_path):
    wide = "Date;T west;T east\n2024-05-01;2,1;2,9\n2024-05-01;2,3;\n"
    keys = {"file": "sensors.csv", "places": "wells.csv", "columns": {"value": "T *"}}
    path = write_problem(tmp_path, {"observations": keys}, sensors=wide)
    (tmp_path / "wells.csv").write_text("name,x,y\neast,0.6,0.7\nwest,0.3,0.4\n", "utf-8")
    spec = read_problem(path)
    sensors = build(path).sensors
    assert sensors.values.tolist() == [2.1, 2.3, 2.9]
    assert sensors.points.tolist() == [[0.3, 0.4], [0.3, 0.4], [0.6, 0.7]]
    again = tmp_path / "again.toml"
    again.write_text(spec.to_toml())
    assert read_problem(again).observations == spec.observations
    keys["columns"] = {"value": "U *"}
    assert_named(
        write_problem(tmp_path, {"observations": keys}, sensors=wide),
        ["[observations] columns.value", "'T west', 'T east'", "found U *"],
    )


def test_expressions_are_as_fields_of_the_mesh_file(tmp_path):
    """The ramp of the mesh is 1 + x."""
    sensors = "x,y,kind,over,value,sigma\n,,flux,left,1,0.1\n,,flux,top,1,0.1\n"
    found = []
    for ramp in ("ramp", "1 + x"):
        pde = {
            "source": ramp,
            "dirichlet": {"left": ramp},
            "neumann": {"bottom": ramp},
            "robin": {"top": {"coefficient": ramp, "ambient": ramp}},
        }
        changes = {"pde": pde, "prior.mean": ramp}
        found.append(build(write_problem(tmp_path / ramp[0], changes, sensors=sensors)))
    for part in ("model", "prior"):
        assert are_same(*(getattr(each, part) for each in found))
    fluxes = np.asarray(readings(found[0].model, np.zeros(16)))
    np.testing.assert_allclose(fluxes.sum(), -3.0, rtol=1e-12)  # source, and inflow at the bottom
    path = write_problem(tmp_path / "t", {"pde.dirichlet": {"left": "exp(x + t)"}})
    assert_named(path, ["[pde] dirichlet.left", "a sum of products", "exp(x + t)"])


def test_units_of_columns_are_converted(tmp_path):
    """A mesh and places in mm, readings in mV beside their sigma in V; results have the unit."""
    plain = "x,y,value,sigma\n0.3,0.4,2.1,0.1\n0.6,0.7,2.9,0.2\n"
    other = "x [mm],y [cm],value [mV],sigma [V]\n300,40,2100,0.1\n600,70,2900,0.2\n"
    units = {"length": "m", "solution": "V"}
    box = box_mesh(2, 3)
    large = replace(box, points=1000.0 * box.points)
    path = write_problem(
        tmp_path / "a", {"units": units, "mesh.unit": "mm"}, sensors=other, mesh=large
    )
    fields = [build(each) for each in (path, write_problem(tmp_path / "b", sensors=plain))]
    np.testing.assert_allclose(fields[0].mesh.points, fields[1].mesh.points, rtol=1e-15)
    assert fields[0].mesh.notes == ("converted from mm to m",)
    for name in ("points", "values", "sigma"):
        np.testing.assert_allclose(*(getattr(each.sensors, name) for each in fields), rtol=1e-14)
    assert fields[0].sensors.notes == (
        "read with x converted from mm to m, y converted from cm to m, "
        "value converted from mV to V",
    )
    described = {each.name: each.unit for each in quantities_of(fields[0])}
    assert described["solution"] == described["predicted"] == "V"
    assert fields[0].mesh.unit == "m"
    assert fields[1].mesh.unit == ""
    assert {each.unit for each in quantities_of(fields[1])} == {""}
    for keys, text, parts in (
        ({"length": "V"}, plain, ["[units] length", "a unit of length", "'V'"]),
        ({"solution": "K"}, other, ["column value", "converted to 'K'", "'mV'"]),
        ({"solution": "degC"}, other.replace("mV", "K").replace("[V]", "[K]"),
         ["column value", "converted to 'degC'", "'K'"]),
    ):  # fmt: skip
        assert_named(write_problem(tmp_path / "c", {"units": keys}, sensors=text), parts)
    path = write_problem(tmp_path / "s", {"mesh.unit": "s"})
    assert_named(path, ["[mesh] unit", "a unit of length", "'s'"])


def test_a_file_of_each_sensor(tmp_path):
    """By a list or by a pattern; what a run keeps has them; errors name the file and the row."""
    (tmp_path / "loggers").mkdir()
    for number, text in enumerate(("x;y;value\n0,3;0,4;2,1\n", "x,y,value\n0.6,0.7,2.9\n")):
        (tmp_path / "loggers" / f"w{number}.csv").write_text(text, encoding="utf-8")
    listed = [f"loggers/w{number}.csv" for number in (0, 1)]
    found = []
    for given in (listed, "loggers/*.csv"):
        path = write_problem(tmp_path, {"observations.file": given})
        again = path.with_name("again.toml")
        again.write_text(read_problem(path).to_toml(), encoding="utf-8")
        found += [build(path).sensors, build(again).sensors]
    for sensors in found:
        assert sensors.labels.tolist() == ["w0", "w1"]
        assert sensors.values.tolist() == [2.1, 2.9]
    (tmp_path / "loggers" / "w1.csv").write_text("x,y,value\n6,0.7,2.9\n", encoding="utf-8")
    assert_named(path, ["loggers/*.csv, row 2 of w1.csv: expected a sensor ins"])
