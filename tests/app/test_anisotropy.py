"""An unknown ratio and angle of anisotropy: what is known of them is an exact posterior."""

import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked
from problem_files import build, readings, write_problem
from refusals import refused
from structured import box_mesh

import invlift
from invlift.app.runs.quantities import quantities_of

LOGNORMAL = {"distribution": "lognormal", "median": 3.0, "factor": 2.0}
UNIFORM = {"distribution": "uniform", "low": -90.0, "high": 90.0}
TIMES = "x,y,time,value\n0.3,0.4,0.1,2.1\n0.6,0.7,0.3,2.9\n"
IN_TIME = {"pde.dirichlet": {"left": {"steps": [[0.0, 1.0]]}}, "pde.storage": 1.0}


@pytest.mark.parametrize(("unknown", "keys"), [("ratio", {}), ("angle", {}), ("both", IN_TIME)])
def test_at_each_value_it_is_the_model_of_the_number(tmp_path, unknown, keys):
    """Also on a refined mesh; unknowns are called as their keys."""
    sensors = {"sensors": TIMES} if keys else {}
    known = {"ratio": 4.0, "angle": -25.0}
    given = known | {
        key: law
        for key, law in (("ratio", LOGNORMAL), ("angle", UNIFORM))
        if unknown in (key, "both")
    }
    models = [
        build(write_problem(tmp_path, {"pde.anisotropy": each} | keys, **sensors)).model
        for each in (given, known)
    ]
    names = [f"anisotropy_{key}" for key in known if unknown in (key, "both")]
    assert list(models[0].on_mesh.further) == names
    phi = np.linspace(-0.5, 0.5, models[1].num_coefficients)
    further = [known[name.removeprefix("anisotropy_")] for name in names]
    for model, number in zip(models, [np.append(phi, further), phi], strict=True):
        found = [readings(each, number) for each in (model, model.on_mesh.refined())]
        if model is models[0]:
            expected = found
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    turned = readings(models[0], np.append(phi, np.array(further) * 1.5))
    assert np.abs(turned - found[0]).max() > 1e-3 * np.abs(found[0]).max()


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
        ({"ratio": 2.0, "angle": "x"}, ["[pde] anisotropy.angle"]),
    ],
)
def test_mistakes_are_named(tmp_path, given, parts):
    with refused(*parts):
        build(write_problem(tmp_path, {"pde.anisotropy": given}))


def test_unknowns_have_the_units_that_a_problem_names(tmp_path):
    """Boundary and ambient values that of the solution; none is told without a table [units]."""
    normal = {"distribution": "normal", "mean": 0.5, "sd": 0.2}
    keys = {
        "pde.dirichlet": {"left": normal},
        "pde.robin": {"top": {"coefficient": 2.0, "ambient": normal}},
        "pde.anisotropy": {"ratio": LOGNORMAL, "angle": UNIFORM},
    }
    for units, (solution, angle) in (({"solution": "degC"}, ("degC", "deg")), ({}, ("", ""))):
        changes = keys | ({"units": units} if units else {})
        problem = build(write_problem(tmp_path, changes))
        found = {each.name: each.unit for each in quantities_of(problem)}
        assert found["dirichlet_left"] == found["robin_top_ambient"] == solution
        assert found["anisotropy_angle"] == angle
        assert found["anisotropy_ratio"] == ""
