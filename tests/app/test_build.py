"""From a problem file to the inverse problem it describes, for every kind of everything."""

import json
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import meshio
import numpy as np
import pandas as pd
import pytest
from crafted import run_from_prior
from problem_files import readings, write_problem
from refusals import refused
from structured import box_mesh

from invlift.app.checks.field import check_sensors
from invlift.app.problem.build import build_problem, read_mesh_of
from invlift.app.problem.problem_file import read_problem
from invlift.app.runs.quantities import names_of_readings
from invlift.app.runs.results import load
from invlift.app.studies.simulate import simulate_problem
from invlift.errors import InputError
from invlift.noise import known_noise
from invlift.problems.inverse_problem import jax_problem

field_of = jax.jit(lambda prior, white: prior.transform(white))


def build(folder, changes=None, **files):
    return build_problem(read_problem(write_problem(folder, changes, **files)))


def test_a_mesh_without_groups_gets_them_by_conditions(tmp_path):
    named = build(tmp_path / "named", {"conductivity.known": {"low": 2.0}})
    changes = {
        "mesh.boundaries": {"west": "x < 1e-9"},
        "mesh.subdomains": {"soil": "x < 0.5"},
        "pde.dirichlet": {"west": 0.0},
        "conductivity.known": {"soil": 2.0},
    }
    mesh = box_mesh(2, 3)
    bare = meshio.Mesh(mesh.points, [("triangle", mesh.cells)])
    bare.write(tmp_path / "bare.vtu")
    changes["mesh.file"] = "../bare.vtu"
    problem = build(tmp_path / "bare", changes)
    phi = np.linspace(-1.0, 1.0, 16)
    np.testing.assert_array_equal(readings(problem.model, phi), readings(named.model, phi))
    changes["mesh.boundaries"]["west"] = "x < 0"
    with refused("problem.toml, [mesh] boundaries.west: expected facets", "abs(x - "):
        build(tmp_path / "wrong", changes)


#: Of a layer of a body, and of inclusions in it.
LAYER = {"range": 0.5, "std": 0.3, "smoothness": 1.0, "median": 1.0}
INCLUSIONS = {"kind": "inclusions", "background": 1.0, "inclusion": 9.0, "range": 0.5}
INCLUSIONS["smoothness"] = 2.0


def build_prior(folder, content):
    spec = read_problem(write_problem(folder, {"prior": content}))
    return spec.prior.build(read_mesh_of(spec), partial(spec.where, "prior"))


def test_layers_and_inclusions(tmp_path):
    """In each half are twelve of the 16 nodes, of which two rows are on both sides."""
    content = {"kind": "layers", "layer": {"low": LAYER, "high": LAYER | {"mean": "ramp"}}}
    del content["layer"]["high"]["median"]
    prior = build_prior(tmp_path, content)
    assert prior.num_white > 16
    mesh = prior.mesh
    ramp = mesh.point_fields["ramp"][mesh.cells].mean(axis=1)
    is_high = np.isin(np.arange(mesh.num_cells), mesh.cells_of("high"))
    found = field_of(prior, np.zeros(prior.num_white))
    np.testing.assert_allclose(found, np.where(is_high, ramp, 0.0))
    prior = build_prior(tmp_path, INCLUSIONS)
    field = field_of(prior, np.random.default_rng(1).standard_normal(prior.num_white))
    assert 0.0 <= field.min() < field.max() <= np.log(9.0)


@pytest.mark.parametrize(
    ("where", "changes"),
    [
        (r"\[prior\] layer.low.range", {"prior": {"kind": "layers", "layer": {
            "low": LAYER | {"range": 99.0}, "high": LAYER}}}),
        (r"\[prior\] range", {"prior": INCLUSIONS | {"range": 99.0}}),
    ],
)  # fmt: skip
def test_errors_of_layers_and_inclusions_name_their_key(tmp_path, where, changes):
    with pytest.raises(InputError, match=f"problem.toml, {where}: expected"):
        build(tmp_path, changes)


def test_sensors_outside_are_dropped_or_moved(tmp_path):
    table = "x,y,value\n0.3,0.4,2.0\n1.2,0.5,3.0\n0.6,0.7,4.0\n"
    drop = build(tmp_path / "drop", {"observations.outside": "drop"}, sensors=table)
    assert drop.sensors.values.tolist() == [2.0, 4.0]
    assert drop.observed.tolist() == [2.0, 4.0]
    assert drop.sensors.outside == "1 outside the mesh by up to 0.2, left out"
    found = check_sensors(drop, None)
    assert found.level == "note"
    assert drop.sensors.outside in found.detail
    assert names_of_readings(drop) == ["row 2", "row 4"]
    moved = build(tmp_path / "moved", {"observations.outside": "project"}, sensors=table)
    assert moved.num_observations == 3
    assert "by up to 0.2, moved onto the mesh" in moved.sensors.outside
    assert names_of_readings(moved) is None  # numbered, as all are there


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"noise.sigma": "column"}, r"problem.toml, \[noise\] sigma: .*column sigma"),
        ({"pde.dirichlet": {}}, r"problem.toml, \[pde\]: .*Dirichlet or Robin.*constant"),
        (
            {"prior": {"kind": "independent", "std": {"clay": 1.0}}},
            r"problem.toml, \[prior\] std: .*high, low.*clay",
        ),
    ],
)
def test_what_does_not_fit_the_files_blames_the_key(tmp_path, changes, match):
    with pytest.raises(InputError, match=match):
        build(tmp_path, changes, sensors="x,y,value\n0.3,0.4,2.0\n")


def test_simulated_readings_that_are_not_finite_are_refused():
    problem = jax_problem(lambda x: jnp.exp(1e6 * x**2), 1, known_noise(1.0), np.zeros(1))
    with pytest.raises(InputError, match=r"simulated readings: expected finite"):
        simulate_problem(problem, 1)


def test_posterior_knows_mesh_sensors_noise_and_prior(tmp_path):
    prior = {"prior": {"kind": "independent", "std": 0.3}}
    table = "x,y,value,sigma,depth\n0.3,0.4,2.1,0.1,low\n0.6,0.7,2.9,0.2,\n0.8,0.2,3.1,0.1,2 m\n"
    field = build(tmp_path, prior, sensors=table)
    run = replace(run_from_prior(field), compile_seconds=1.5)
    posterior = field.posterior(run)
    posterior.write(tmp_path / "out")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["compile_seconds"] == 1.5
    assert record["is_interrupted"] is False
    fit = pd.read_csv(tmp_path / "out" / "sensor_fit.csv", keep_default_na=False)
    assert fit["depth"].tolist() == ["low", "", "2 m"]
    assert load(tmp_path / "out").sensors.coordinates["depth"] == ["low", "", "2 m"]
    assert posterior.to_arviz()["posterior"]["log_conductivity"].dims == ("chain", "draw", "cell")
    assert posterior.fields()["log_conductivity_mean"].shape == (field.mesh.num_cells,)
    np.testing.assert_allclose(
        posterior.fields()["log_conductivity_prior_sd"], field.prior.pointwise_std()
    )
    draws = np.concatenate(posterior.draws("log_conductivity"))
    predicted = np.concatenate(posterior.draws("predicted"))
    np.testing.assert_allclose(predicted[3], readings(field.model, draws[3]), rtol=1e-9)
