"""An unknown ratio and angle of anisotropy: what is known of them is an exact posterior."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked
from problem_files import build, readings, write_problem
from refusals import refused
from structured import box_mesh

import invlift
from invlift.app.runs.quantities import quantities_of
from invlift.programs.compilation import _name_of

LOGNORMAL = {"distribution": "lognormal", "median": 3.0, "factor": 2.0}
UNIFORM = {"distribution": "uniform", "low": -90.0, "high": 90.0}
NORMAL = {"distribution": "normal", "mean": 0.5, "sd": 0.2}


def test_at_each_value_it_is_the_model_of_the_number(tmp_path):
    """Also beside other unknowns, on a refined mesh; unknowns are called as their keys.

    They have the units that a problem names: boundary and ambient values that of the solution.
    """

    def built(value, ratio, angle):
        changes = {
            "mesh.refine_solution": 1,
            "pde.dirichlet": {"left": value},
            "pde.robin": {"top": {"coefficient": 2.0, "ambient": value}},
            "pde.anisotropy": {"ratio": ratio, "angle": angle},
            "units": {"solution": "degC"},
        }
        return build(write_problem(tmp_path, changes))

    problem, known = built(NORMAL, LOGNORMAL, UNIFORM), built(0.5, 4.0, -25.0)
    values = {"dirichlet_left": 0.5, "robin_top_ambient": 0.5}
    values |= {"anisotropy_ratio": 4.0, "anisotropy_angle": -25.0}
    names = list(problem.model.on_mesh.further)
    assert sorted(names) == sorted(values)
    # Programs serve for the same problem when it is built again, here and in the next command.
    again = jax.tree.structure(built(NORMAL, LOGNORMAL, UNIFORM))
    assert again == jax.tree.structure(problem)
    assert _name_of(again) == _name_of(jax.tree.structure(problem))
    phi = np.linspace(-0.5, 0.5, 16)
    further = np.array([values[name] for name in names])
    found = readings(problem.model, np.append(phi, further))
    np.testing.assert_allclose(found, readings(known.model, phi), rtol=1e-8)
    for name in ("anisotropy_ratio", "anisotropy_angle"):
        moved = further * np.where(np.array(names) == name, 1.5, 1.0)
        turned = readings(problem.model, np.append(phi, moved))
        assert np.abs(turned - found).max() > 1e-3 * np.abs(found).max()
    units = {each.name: each.unit for each in quantities_of(problem)}
    assert units["dirichlet_left"] == units["robin_top_ambient"] == "degC"
    assert (units["anisotropy_angle"], units["anisotropy_ratio"]) == ("deg", "")
    assert {each.unit for each in quantities_of(replace(problem, units={}))} == {""}


def test_layers_in_space_with_an_unknown_ratio():
    """From bottom to top of a cube a flux of 1 / ratio."""
    mesh = box_mesh(3, 2)
    sensors = invlift.sensors_from_arrays(
        np.full((1, 3), np.nan), [0.0], kinds=["flux"], over=["back"]
    )
    model = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=0.0, dirichlet={"front": 0.0, "back": 1.0},
        anisotropy={"ratio": invlift.lognormal(median=2.0, factor=2.0)}, location="cells",
    )  # fmt: skip
    coefficients = np.append(np.zeros(mesh.num_cells), 5.0)
    np.testing.assert_allclose(readings(model, coefficients), 0.2, rtol=1e-12)


@pytest.mark.slow
def test_the_posterior_of_a_ratio_is_exact():
    """What flows across is K / ratio: its logarithm, and all that is unknown, is normal."""
    mesh = box_mesh(2, 2)
    sensors = invlift.sensors_from_arrays(
        np.full((1, 2), np.nan), [0.2], kinds=["flux"], over=["right"]
    )
    law = invlift.lognormal(median=3.0, factor=2.0)
    model = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=0.0, dirichlet={"left": 0.0, "right": 1.0},
        anisotropy={"ratio": law, "angle": 90.0}, location="cells",
    )  # fmt: skip
    prior = invlift.independent_prior(mesh, std=1e-4)  # the field is 0, nearly
    noise = invlift.gaussian_noise(0.3, relative=True)
    problem = invlift.inverse_problem(model, prior, noise, sensors.values)
    run = invlift.sample(problem, chains=2, warmup=200, draws=1000, seed=3)
    logs = np.log(stacked(run, "anisotropy_ratio"))
    scale = np.log(2.0)
    gain = scale**2 / (scale**2 + 0.3**2 + 1e-8)
    mean = np.log(3.0) + gain * (-np.log(0.2) - np.log(3.0))
    assert_mean_within(logs, np.array(mean))
    assert_mean_within((logs - mean) ** 2, np.array((1.0 - gain) * scale**2))
    with pytest.raises(AssertionError):  # of another law, or without the reading
        assert_mean_within(logs, np.array(np.log(3.0)))


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"ratio": LOGNORMAL}, ["[pde] anisotropy.angle", "the angle of the direction"]),
        ({"ratio": UNIFORM, "angle": 3.0}, ["[pde] anisotropy.ratio.low", "from 0"]),
    ],
)
def test_mistakes_are_named(tmp_path, given, parts):
    with refused(*parts):
        build(write_problem(tmp_path, {"pde.anisotropy": given}))
