"""Maps have the units that a problem names, and the lines inside the body."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import LogNorm

from invlift.chains import Chain
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.posterior import Posterior
from invlift.posterior.statistics.quantity import Quantity
from invlift.units import logarithmic, of_logarithm

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


def test_units_of_logarithms():
    assert of_logarithm(logarithmic("W/(m K)")) == "W/(m K)"
    assert of_logarithm("degC") == ""
