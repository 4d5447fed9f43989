"""Noise of every kind and scale from a problem file, and what does not fit the sensors."""

import numpy as np
import pytest
from problem_files import write_problem
from run_folders import run_from_prior

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.errors import InputError
from invlift.tables.sensors import read_sensors, write_sensors

GROUPED = "x,y,value,group\n0.3,0.4,2.1,old\n0.6,0.7,2.9,new\n0.8,0.2,3.1,old\n"
HALF_CAUCHY = {"distribution": "half-cauchy", "scale": 0.1}


def build(folder, noise, **files):
    """The noise that a problem file's section makes."""
    changes = {f"noise.{key}": value for key, value in noise.items()}
    return build_problem(read_problem(write_problem(folder, changes, **files))).noise


def test_readings_of_a_group_share_a_scale(tmp_path):
    noise = build(tmp_path, {"sigma": HALF_CAUCHY, "per": "group"}, sensors=GROUPED)
    sigma = np.asarray(noise.sigma(np.array([0.5, -0.5])))
    assert sigma[0] == sigma[2] != sigma[1]
    assert noise.scale.names == ("old", "new")


def test_scales_have_the_names_of_sensors(tmp_path):
    table = GROUPED.replace("value,group", "value,group,name")
    for row, name in (("2.1,old", "a"), ("2.9,new", "b"), ("3.1,old", "c")):
        table = table.replace(row, f"{row},{name}")
    changes = {"noise": {"sigma": HALF_CAUCHY, "per": "sensor"}}
    field = build_problem(read_problem(write_problem(tmp_path, changes, sensors=table)))
    posterior = field.posterior(run_from_prior(field))
    assert {"sigma[a]", "sigma[b]", "sigma[c]"} <= set(posterior.summary().index)
    assert posterior.sensors.coordinates["group"] == ["old", "new", "old"]


@pytest.mark.parametrize(
    ("old", "names"), [("group", ["row 2", "row 3"]), ("name", ["old", "new"])]
)
def test_readings_of_one_sensor_share_a_scale(tmp_path, old, names):
    """Those of its name, else of its place."""
    table = GROUPED.replace("0.8,0.2", "0.3,0.4").replace("group", old)
    noise = build(tmp_path, {"sigma": HALF_CAUCHY, "per": "sensor"}, sensors=table)
    sigma = np.asarray(noise.sigma(np.array([0.5, -0.5])))
    assert sigma[0] == sigma[2] != sigma[1]
    assert list(noise.scale.names) == names


@pytest.mark.parametrize(
    ("noise", "sensors", "message"),
    [
        ({"sigma": 0.1, "per": "sensor"}, GROUPED, r"\[noise\] per: expected \"all\""),
        (
            {"sigma": HALF_CAUCHY, "per": "group"},
            GROUPED.replace(",group", "").replace(",old", "").replace(",new", ""),
            r"\[noise\] per: expected a column group",
        ),
        (
            {"sigma": "column", "relative": True},
            "x,y,value,sigma [K]\n0.3,0.4,2.1,0.1\n0.6,0.7,2.9,0.1\n",
            r"\[noise\] relative: expected false, as sigma of .* in the unit of the readings",
        ),
        (
            {"sigma": 0.1, "relative": True},
            "x,y,value,kind\n0.3,0.4,2.1,point\n0.6,0.7,2.9,conductivity\n",
            r"\[noise\] relative: expected false, as .* of the logarithm of the conductivity",
        ),
        (
            {"sigma": HALF_CAUCHY, "per": "sensor"},
            GROUPED.replace("group", "name").replace("new", ""),
            r"row 3, column name: expected a name",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, noise, sensors, message):
    with pytest.raises(InputError, match=message):
        build(tmp_path, noise, sensors=sensors)


@pytest.mark.parametrize(("header", "is_absolute"), [("", False), (" [-]", False), (" [K]", True)])
def test_a_sigma_with_a_unit_is_no_share(tmp_path, header, is_absolute):
    (tmp_path / "a.csv").write_text(f"x,y,value,sigma{header}\n0.3,0.4,2.1,0.1\n")
    assert read_sensors(tmp_path / "a.csv", 2).is_sigma_absolute == is_absolute
    (tmp_path / "b.csv").write_text("x,y,value [mV],sigma\n0.3,0.4,2.1,0.1\n")
    converted = read_sensors(tmp_path / "b.csv", 2, units={"solution": "V"})
    assert converted.is_sigma_absolute  # it was converted with the values


def test_groups_survive_writing(tmp_path):
    (tmp_path / "a.csv").write_text(GROUPED)
    sensors = read_sensors(tmp_path / "a.csv", 2)
    write_sensors(tmp_path / "b.csv", sensors.take(np.array([2, 0])))
    assert read_sensors(tmp_path / "b.csv", 2).groups.tolist() == ["old", "old"]
