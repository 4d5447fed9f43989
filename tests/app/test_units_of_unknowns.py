"""Units of unknown numbers, of those that [units] names."""

import pytest
from crafted import run_from_prior
from problem_files import build, write_problem

import invlift
from invlift.app.runs.quantities import quantities_of
from invlift.units import product, size_of

NORMAL = {"distribution": "normal", "mean": 0.5, "sd": 0.2}
LOGNORMAL = {"distribution": "lognormal", "median": 3.0, "factor": 2.0}
WELL = {"place": [0.5, 0.5], "strength": NORMAL}
STEPS = {"left": {"steps": [[0.0, 1.0]]}}
TIMES = "x,y,time,value\n0.3,0.4,0.1,2.1\n0.6,0.7,0.3,2.9\n"
HEAT = {"units": {"solution": "degC", "conductivity": "W/(m K)"}}
WATER = {"units": {"solution": "m", "conductivity": "m^2/s"}, "pde.time_unit": "s"}


@pytest.mark.parametrize(
    ("keys", "sensors", "expected"),
    [
        (
            # A group may be called as a key.
            {"pde.source": {"low": NORMAL}, "pde.neumann": {"top": NORMAL, "ambient": NORMAL},
             "pde.robin": {"bottom": {"coefficient": LOGNORMAL, "ambient": NORMAL}},
             "pde.point_source": [WELL], "pde.lines": {"right": LOGNORMAL},
             "mesh.boundaries": {"ambient": "x > 0.99"}, "pde.dirichlet": {"left": NORMAL}},
            {},
            {"source_low": "W/m^3", "neumann_top": "W/m^2", "neumann_ambient": "W/m^2",
             "robin_bottom_coefficient": "W/(m^2 K)", "robin_bottom_ambient": "degC",
             "point_source_1": "W/m", "line_right": "W/K", "dirichlet_left": "degC"},
        ),
        ({"pde.point_source": [WELL], "pde.thickness": 2.0}, {}, {"point_source_1": "W"}),
        (WATER | {"pde.storage": LOGNORMAL, "pde.dirichlet": STEPS, "pde.point_source": [WELL]},
         {"sensors": TIMES}, {"storage": "1", "point_source_1": "m^3/s"}),
        ({"pde.time_unit": "h", "pde.dirichlet": STEPS,
          "pde.storage.field": {"kind": "matern", "range": 1.0, "std": 1.0, "smoothness": 1.0}},
         {"sensors": TIMES}, {"log_storage": "ln(re 1 W h/(m^3 K))"}),
        ({"pde.source": NORMAL, "pde.dirichlet": {"left": NORMAL}, "units.conductivity": "pints"},
         {}, {"source": "", "dirichlet_left": "degC"}),
        ({"observations.offset": {"loggers": NORMAL, "meters": NORMAL}},
         {"sensors": "x,y,kind,over,value,group\n.3,.4,point,,2,loggers\n,,flux,left,1,meters\n"},
         {"offset_loggers": "degC", "offset_meters": ""}),
    ],
    ids=["steady", "thickness", "storage", "field of the storage", "an unknown unit", "offsets"],
)  # fmt: skip
def test_unknowns_have_the_unit_of_their_kind(tmp_path, keys, sensors, expected):
    problem = build(write_problem(tmp_path, HEAT | keys, **sensors))
    found = {each.name: each.unit for each in quantities_of(problem)}
    assert {name: found[name] for name in expected} == expected


def test_the_unit_of_a_product_has_its_size():
    powers = [("mW/(cm K)", 2), ("K", 1), ("mm", -2), ("h", -1)]
    size, exponents = size_of(product(powers))
    wanted, of_wanted = 1.0, [0] * 5
    for unit, power in powers:
        factor, own = size_of(unit)
        wanted *= factor**power
        of_wanted = [a + power * b for a, b in zip(of_wanted, own, strict=True)]
    assert size == pytest.approx(wanted)
    assert list(exponents) == of_wanted
    assert product([("apples", 1), (None, 0)]) == "apples"
    assert product([("apples", 1), ("m", 1)]) == product([(None, 1)]) == ""


def test_readings_of_several_kinds_have_their_own_units(tmp_path):
    table = "x,y,kind,over,value\n.3,.4,point,,2\n,,average,right,1\n"
    one = build(write_problem(tmp_path, HEAT, sensors=table))
    assert one.units["predicted"] == "degC"
    rows = ",,flux,left,-5\n.3,.4,log_conductivity,,1\n"
    several = build(write_problem(tmp_path, HEAT | {"units.length": "m"}, sensors=table + rows))
    several.posterior(run_from_prior(several)).write(tmp_path / "out")
    posterior = invlift.load(tmp_path / "out")
    assert posterior.mesh.unit == "m"
    fit = posterior.fit
    assert fit.predicted.unit == ""
    assert fit.table()["units"].tolist() == ["degC", "degC", "", "ln(re 1 W/(m K))"]
