"""Noise of every kind and scale from a problem file, and what does not fit the sensors."""

import numpy as np
from problem_files import write_problem
from refusals import refused

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.tables.sensors import read_sensors

GROUPED = "x,y,value,group\n0.3,0.4,2.1,old\n0.6,0.7,2.9,new\n0.8,0.2,3.1,old\n"
HALF_CAUCHY = {"distribution": "half-cauchy", "scale": 0.1}


def build(folder, noise, **files):
    """The noise that a problem file's section makes."""
    changes = {f"noise.{key}": value for key, value in noise.items()}
    return build_problem(read_problem(write_problem(folder, changes, **files))).noise


def test_readings_of_a_group_or_of_one_sensor_share_a_scale(tmp_path):
    """Those of its name, else of its place."""
    twice = GROUPED.replace("0.8,0.2", "0.3,0.4")
    for table, per, names in (
        (GROUPED, "group", ("old", "new")),
        (twice, "sensor", ("row 2", "row 3")),
        (GROUPED.replace("group", "name"), "sensor", ("old", "new")),
    ):
        noise = build(tmp_path, {"sigma": HALF_CAUCHY, "per": per}, sensors=table)
        sigma = np.asarray(noise.sigma(np.array([0.5, -0.5])))
        assert sigma[0] == sigma[2] != sigma[1]
        assert noise.scale.names == names


def test_what_does_not_fit_is_named(tmp_path):
    bare = GROUPED.replace(",group", "").replace(",old", "").replace(",new", "")
    named = GROUPED.replace("group", "name")
    two = "x,y,value,{}\n0.3,0.4,2.1,{}\n0.6,0.7,2.9,{}\n"
    for noise, sensors, message in (
        ({"sigma": 0.1, "per": "sensor"}, GROUPED, '[noise] per: expected "all"'),
        ({"sigma": HALF_CAUCHY, "per": "group"}, bare, "[noise] per: expected a column group"),
        ({"sigma": "column", "relative": True}, two.format("sigma [K]", 0.1, 0.1),
         "[noise] relative: expected false, as sigma of"),
        ({"sigma": 0.1, "relative": True}, two.format("kind", "point", "conductivity"),
         "of the logarithm of the conductivity"),
        ({"sigma": HALF_CAUCHY, "per": "sensor"}, named.replace("new", ""),
         "row 3, column name: expected a name"),
    ):  # fmt: skip
        with refused(message):
            build(tmp_path, noise, sensors=sensors)


def test_a_sigma_with_a_unit_is_no_share(tmp_path):
    for header, is_absolute in (("", False), (" [-]", False), (" [K]", True)):
        (tmp_path / "a.csv").write_text(f"x,y,value,sigma{header}\n0.3,0.4,2.1,0.1\n")
        assert read_sensors(tmp_path / "a.csv", 2).is_sigma_absolute == is_absolute
    (tmp_path / "b.csv").write_text("x,y,value [mV],sigma\n0.3,0.4,2.1,0.1\n")
    converted = read_sensors(tmp_path / "b.csv", 2, units={"solution": "V"})
    assert converted.is_sigma_absolute  # it was converted with the values
