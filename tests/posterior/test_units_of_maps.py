"""Maps have the units that a problem names, and the lines inside the body."""

from dataclasses import replace

import meshio
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import LogNorm

from invlift.chains import Chain
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.posterior import Posterior
from invlift.posterior.output import report
from invlift.posterior.statistics.parts import Readings
from invlift.posterior.statistics.quantity import Quantity
from invlift.units import logarithmic

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
MESH = mesh_from_arrays(POINTS, [[0, 1, 2], [0, 2, 3]], subdomains={"low": [0], "high": [1]})


def posterior(unit):
    rng = np.random.default_rng(0)
    draws = {"log_conductivity": rng.normal(size=(50, 4)), "solution": rng.normal(size=(50, 4))}
    chain = Chain(draws, {}, {}, {}, 1.0, 1.0, 1.0)
    field = Quantity("log_conductivity", {"node": None}, logarithmic(unit) if unit else "")
    solution = Quantity("solution", {"node": None}, "degC", is_derived=True)
    mesh = replace(MESH, unit="m" if unit else "")
    return Posterior([chain], quantities=(field, solution), mesh=mesh)


@pytest.mark.parametrize("unit", ["W/(m K)", ""])
def test_maps_have_the_units_of_the_problem(unit):
    panels = posterior(unit).plot.fields()
    axes = np.ravel(panels)
    first = axes[0]
    has_unit = bool(unit)
    assert (first.get_title(loc="left") == "Conductivity, posterior median") == has_unit
    assert isinstance(first.images[0].norm, LogNorm) == has_unit
    labels = {each.get_ylabel() for each in first.figure.axes}
    labels |= {each.get_ylabel() for axis in axes for each in axis.child_axes}
    assert (unit in labels) or not has_unit
    assert {each.get_xlabel() for each in axes} - {""} == {"x [m]" if has_unit else "x"}
    inner = [each.get_segments() for each in first.collections if each.get_linestyles()[0][1]]
    np.testing.assert_array_equal(np.sort(np.concatenate(inner)[0], axis=0), POINTS[[0, 2]])


def names_in(path):
    mesh = meshio.read(path)
    return {*mesh.point_data, *mesh.cell_data}


def with_readings(unit):
    own = posterior(unit)
    rng = np.random.default_rng(1)
    draws = own.chains[0].draws | {"sigma": rng.random(50), "predicted": rng.normal(size=(50, 2))}
    degrees = "degC" if unit else ""
    further = Quantity("sigma", unit=degrees), Quantity("predicted", {"sensor": None}, degrees)
    quantities = own.quantities[0], Quantity("solution", {"node": None}, degrees), *further
    readings = Readings(np.array([1.0, 2.0]), points=POINTS[:2, :2] + 0.1)
    return Posterior([replace(own.chains[0], draws=draws)], quantities=quantities,
                     mesh=own.mesh, sensors=readings)  # fmt: skip


@pytest.mark.parametrize("unit", ["W/(m K)", ""])
def test_files_name_the_units(unit, tmp_path):
    """Names with units only where a unit is known, and never at a logarithm."""
    whole = with_readings(unit)
    behind = " [degC]" if unit else ""
    whole.write(tmp_path)
    conductivity = f" [{unit}]" if unit else ""
    fields = names_in(tmp_path / "posterior.vtu")
    assert {f"solution_mean{behind}", f"conductivity_q50{conductivity}"} <= fields
    assert {"log_conductivity_mean", "solution_r_hat"} <= fields
    assert {f"observed{behind}", f"predicted_sd{behind}"} <= names_in(tmp_path / "sensors.vtu")
    assert names_in(tmp_path / "draws/draws_0000.vtu") == {
        "log_conductivity", f"conductivity{conductivity}"
    }  # fmt: skip
    table = pd.read_csv(tmp_path / "sensor_fit.csv")
    place = "x [m]" if unit else "x"
    assert {place, f"observed{behind}", f"predicted_sd{behind}"} <= {*table}
    summary = pd.read_csv(tmp_path / "summary.csv", index_col="name")
    assert ("unit" in summary) == bool(unit)
    assert not unit or summary.loc["sigma", "unit"] == "degC"


def test_the_first_map_has_the_names_of_few_sensors():
    """Not where one place has two of them."""
    own = posterior("")
    for labels, points, shown in (
        (["north", "south"], POINTS[:2], ["north", "south"]),
        (["north", "south"], POINTS[[0, 0]], []),
    ):
        readings = Readings(np.array([1.0, 2.0]), points=points, labels=labels)
        axes = np.ravel(replace(own, sensors=readings).plot.fields())
        assert [each.get_text() for each in axes[0].texts] == shown
        assert not axes[1].texts


def test_the_report_names_the_units(tmp_path, monkeypatch):
    """On the axes and the colours of every picture, and in its tables."""
    unit, labels = "W/(m K)", []

    def noted(panels, words):
        for axis in panels.figure.axes:
            for each in (axis, *axis.child_axes):  # the latter have the colours
                labels.extend([each.get_xlabel(), each.get_ylabel()])
        return ""

    monkeypatch.setattr(report, "_image", noted)
    own = with_readings(unit)
    verdict = {"headline": "", "warnings": [], "is_converged": True}
    page = report.write_report(own, {"verdict": verdict}, tmp_path / "report.html", "title")
    text = page.read_text(encoding="utf-8")
    across = {each for each in labels if each in ("x", "y", "x [m]", "y [m]")}
    assert across == {"x [m]", "y [m]"}
    for each in ("degC", unit, "observed reading [degC]", "predicted reading [degC]"):
        assert each in labels
    for each in (">observed [degC]<", ">x [m]<", ">sigma [degC]<"):
        assert each in text
