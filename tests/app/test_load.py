"""Results are opened from Python as they were written, and while a run goes on."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pyvista
import skfem
from command_line import call
from problem_files import write_problem
from run_folders import run_from_prior
from structured import box_mesh

import invlift
from invlift.errors import InputError
from invlift.fem.equations.forms import conduction
from invlift.posterior.statistics.labelled import read_groups, save_netcdf

OPTIONS = {"sampler.method": "pcn", "sampler.draws": 60}
OPTIONS |= {"output.exceedance": [0.5, 2.0]}
COOLING = Path("examples/own_models/cooling.py").resolve()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of a run; beside it mesh and sensors."""
    folder = tmp_path_factory.mktemp("load")
    call("run", write_problem(folder, OPTIONS))
    return folder / "out"


def test_a_run_is_what_it_was(results):
    posterior = invlift.load(results)
    table = pd.read_csv(results / "summary.csv", index_col="name")
    summary = posterior.summary()
    pd.testing.assert_frame_equal(summary, table.loc[summary.index], check_names=False)
    grid = pyvista.read(results / "posterior.vtu")
    fields = posterior.fields()
    assert set(fields) == set(grid.point_data)
    assert {"conductivity_above_0.5", "conductivity_above_2"} < set(fields)
    for name, values in fields.items():  # moments of the solution are summed in another order
        np.testing.assert_allclose(values, grid[name], rtol=1e-9, err_msg=name)
    fit = pd.read_csv(results / "sensor_fit.csv")
    for name in ("standardised_residual", "predicted_mean"):
        np.testing.assert_array_equal(getattr(posterior.fit.sensors(), name), fit[name])
    np.testing.assert_array_equal(posterior.fit.leave_one_out().elpd, fit["loo_elpd"])
    record = json.loads((results / "run.json").read_text())
    assert posterior.verdict().headline == record["verdict"]["headline"]
    assert list(posterior.verdict().reasons) == record["verdict"]["reasons"]
    again = json.loads(json.dumps(posterior.record()))
    assert again == {key: record[key] for key in again}


def test_a_field_at_points_and_over_groups(results):
    posterior = invlift.load(results)
    points = pd.read_csv(results.parent / "sensors.csv")[["x", "y"]].to_numpy()
    at = posterior.at(points, "solution")  # which is what the sensors read
    assert at.dims == ("chain", "draw", "point")
    np.testing.assert_allclose(at, np.stack(posterior.draws("predicted")), rtol=1e-12)
    means = posterior.mean_over()
    assert means.dims == ("chain", "draw")
    draws = np.stack(posterior.draws("log_conductivity"))
    assert draws.min() < float(means.min()) < float(means.max()) < draws.max()
    assert posterior.mean_over("left").shape == means.shape
    with pytest.raises(InputError, match="one of log_conductivity, solution, found 'sigma'"):
        posterior.at(points, "sigma")
    # without the file of the mesh its groups are unknown, and all else as before
    mesh = results.parent / "box.msh"
    content = mesh.read_bytes()
    mesh.unlink()
    try:
        again = invlift.load(results)
        np.testing.assert_array_equal(again.at(points), posterior.at(points))
        with pytest.raises(InputError, match=r"without groups, as .*box\.msh is gone.*'left'"):
            again.mean_over("left")
        with pytest.raises(InputError, match=r"box\.msh: expected the mesh file of the run"):
            again.flux("left")
    finally:
        mesh.write_bytes(content)


def test_the_flux_of_each_draw_balances_the_source(results, monkeypatch):
    posterior = invlift.load(results)
    posterior.boundary_flux("left", "")  # builds the equation
    with monkeypatch.context() as patch:  # the stored solutions are not solved for once more
        patch.setattr("invlift.fem.linalg.factorise", None)
        flux = posterior.flux("left")  # where u is held; 5 is the source of a body of size 1
    assert (flux.name, flux.dims, flux.attrs["units"]) == ("flux", ("chain", "draw"), "C U")
    np.testing.assert_allclose(flux, -5.0, rtol=1e-9)
    with pytest.raises(InputError, match=r"^flux, top: .*Robin condition: left, found 'top'"):
        posterior.flux("top")  # insulated
    with pytest.raises(InputError, match=r"boundary group .* found 'lft'"):
        posterior.flux("lft")
    field = invlift.build_problem(invlift.read_problem(results.parent / "problem.toml"))
    options = {"method": "pcn", "chains": 2, "warmup": 20, "draws": 60, "seed": 5}
    run = invlift.sample(field, **options, max_field_megabytes=0.01)
    thinned = field.posterior(run).flux("left")
    step = run.chains[0].every["log_conductivity"]
    assert step > 1
    assert thinned["stored_draw"].values.tolist() == list(range(0, 60, step))
    np.testing.assert_allclose(thinned, -5.0, rtol=1e-9)
    solved = [
        replace(each, draws={name: x for name, x in each.draws.items() if name != "solution"})
        for each in posterior.chains
    ]
    again = replace(posterior, chains=solved).flux("left")
    np.testing.assert_allclose(again, flux, rtol=1e-9)
    in_kelvin = field.with_units({"solution": "K"}).posterior(run)
    assert in_kelvin.flux("left").attrs["units"] == "C K"
    bare = replace(posterior, boundary_flux=None)
    with pytest.raises(InputError, match=r"^posterior, flux: expected a problem of a field"):
        bare.flux("left")


def test_chains_that_are_saved_are_a_posterior_before_the_run_is_done(results, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(results, folder)
    for name in ("posterior.nc", "run.json", "posterior.vtu"):
        (folder / name).unlink()
    running, done = invlift.load(folder), invlift.load(results)
    for name in ("log_conductivity", "noise_score", "predicted"):
        np.testing.assert_array_equal(running.draws(name), done.draws(name))
    np.testing.assert_array_equal(running.fit.sensors().noise_sd, done.fit.sensors().noise_sd)
    # a chain that has not begun
    for piece in (folder / "chains").glob("chain-1-*.piece"):
        piece.unlink()
    assert (running.num_chains, invlift.load(folder).num_chains) == (2, 1)


def test_runs_that_were_killed_are_compared_and_tell_where_to_measure(results, tmp_path, capsys):
    """By the draws so far, of which the commands say that they are not enough."""
    folder = tmp_path / "out"
    shutil.copytree(results, folder)
    for name in ("posterior.nc", "run.json"):
        (folder / name).unlink()
    capsys.readouterr()
    assert call("loo", results, folder) == 3
    out = capsys.readouterr().out
    assert f"{folder}: the run has not converged" in out
    first, second = (line.split()[1:] for line in out.splitlines()[1:3])
    assert first == second
    for each in (results, folder):
        assert call("next-sensor", each, "--num", "1") == 3
        out = capsys.readouterr().out
        assert "From 120 draws: a place without information has a share of about 0.008." in out
        assert "has not converged" in out


def test_a_copy_of_a_run_goes_on_in_its_own_folder(results, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(results, folder)
    before = (results / "posterior.nc").read_bytes()
    call("run", folder / "problem.toml", "--resume", "--draws", "70")
    assert invlift.load(folder).num_draws == 70
    assert (results / "posterior.nc").read_bytes() == before


@pytest.mark.slow  # a program of its own
def test_a_python_problem_is_opened_while_it_runs(tmp_path, monkeypatch):
    """With the data beside the file, the name behind the colon and the options of the run."""
    content = COOLING.read_text().replace("\nproblem = ", "\nmade = ")
    readings = re.search(r"np.array\(\[(.*)\]\)", content)
    (tmp_path / "readings.csv").write_text(readings[1].replace(", ", "\n"))
    data = 'np.loadtxt(__file__.replace("model.py", "readings.csv"))'
    (tmp_path / "model.py").write_text(content.replace(readings[0], data))
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    options = ["--method", "pcn", "--chains", "2", "--warmup", "50", "--draws", "60"]
    call("run", "../model.py:made", *options, "--out", "out")
    posterior = invlift.load("out")
    assert posterior.summary().index.tolist()[-1] == "sigma"
    assert posterior.fit.sensors().observed.size == 13
    for name in ("posterior.nc", "run.json", "report.html"):
        Path("out", name).unlink(missing_ok=True)
    np.testing.assert_array_equal(invlift.load("out").draws("sigma"), posterior.draws("sigma"))
    assert call("report", "out") == 0
    Path("out/chains/source.json").write_text("{}")
    with pytest.raises(InputError, match="expected the source and the sampler of a run"):
        invlift.load("out")


def damaged(folder):
    (folder / "posterior.nc").write_bytes(b"no draws")


def without_record(folder):
    (folder / "run.json").unlink()


def of_another_problem(folder):
    (folder / "posterior.nc").unlink()
    text = (folder / "problem.toml").read_text()
    (folder / "problem.toml").write_text(text.replace("std = 0.3", "std = 0.31"))


def without_draws(folder):
    for path in (folder / "posterior.nc", *(folder / "chains").glob("*.piece")):
        path.unlink()


def without_results(folder):
    """As a checkpoint is, of chains alone."""
    chains = folder.rename(folder.with_name("whole")) / "chains"
    chains.rename(folder)


def test_folders_that_cannot_be_opened(results, tmp_path):
    for place, (spoil, message) in enumerate(
        [
            (shutil.rmtree, "results folder of a run, found no such folder"),
            (without_results, r"--resume, in Python sample\(..., checkpoint=folder, resume=True\)"),
            (damaged, "posterior.nc: expected a netCDF-4 file"),
            (without_record, "run.json"),
            (of_another_problem, "expected this problem"),
            (without_draws, "at least one chain"),
        ]
    ):
        folder = tmp_path / f"{place}" / "out"
        shutil.copytree(results, folder)
        spoil(folder)
        with pytest.raises(InputError, match=message):
            invlift.load(folder)


def with_record(**changes):
    def spoil(folder):
        record = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(record | changes))

    return spoil


def with_problem(folder):
    text = (folder / "problem.toml").read_text()
    (folder / "problem.toml").write_text(text.replace("std = 0.3", "std = 0.31"))


OF_OTHER_RUNS = {
    "mesh": (with_record(mesh_sha256="0" * 64), "run.json"),
    "draws": (with_record(num_draws=10**30), "run.json"),
    "problem": (with_problem, "problem.toml"),
}


@pytest.mark.parametrize("case", OF_OTHER_RUNS)
def test_files_of_other_runs_are_not_taken(results, tmp_path, capsys, case):
    folder, (spoil, name) = tmp_path / "out", OF_OTHER_RUNS[case]
    shutil.copytree(results, folder)
    spoil(folder)
    for command in (["report", folder], ["loo", results, folder], ["next-sensor", folder]):
        assert call(*command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{folder / name}: expected the file that was written with posterior.nc" in line


def test_a_record_of_another_size_is_not_taken_beside_draws_written_anew(results, tmp_path):
    """By a program that knows nothing of the digest in the file."""
    folder = tmp_path / "out"
    shutil.copytree(results, folder)
    groups = read_groups(folder / "posterior.nc")
    save_netcdf([each for each in groups.items() if each[0] != "/"], folder / "posterior.nc")
    invlift.load(folder)
    with_record(num_draws=10**30)(folder)
    with pytest.raises(InputError, match=r"run.json: expected the file that was written with"):
        invlift.load(folder)


@pytest.mark.usefixtures("drawn")
@pytest.mark.slow
def test_files_whose_lines_are_laid_out_anew_are_the_same_run(results, tmp_path):
    """Negative control: the values are what counts."""
    folder = tmp_path / "out"
    shutil.copytree(results, folder)
    with_record()(folder)
    assert (folder / "run.json").read_text().count("\n") == 0
    text = (folder / "problem.toml").read_text()
    moved = tmp_path / "moved.msh"
    shutil.copy(results.parent / "box.msh", moved)
    text = re.sub(r'"[^"]*box.msh"', f'"{moved}"', text)
    (folder / "problem.toml").write_bytes(text.replace("\n", "\r\n").encode())
    assert invlift.load(folder).mesh.name == f"{moved}"
    # A record without draws beside it is of no run: the page tells what the chains say.
    assert call("report", folder) == 0
    assert "<th>seed</th>" in (folder / "report.html").read_text()
    (folder / "posterior.nc").unlink()
    assert call("report", folder) == 0
    assert "<th>seed</th>" not in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("element", "name"),
    [(skfem.ElementTriP1(), "log_conductivity"), (skfem.ElementTriP2(), "log_modulus")],
)
def test_solutions_of_other_elements_are_not_taken_to_be_linear(element, name, tmp_path):
    """What a reading has between nodes, `at` has as well or says that it has not."""
    mesh = box_mesh(2, 3)
    basis = skfem.Basis(skfem.MeshTri(mesh.points.T, mesh.cells.T), element)
    places = np.array([[0.3, 0.4], [0.7, 0.5]])
    parts = {"load": np.ones(basis.N), "held": basis.get_dofs(), "readings": basis.probes(places.T)}
    equation = invlift.linear_equation(invlift.Form(basis, conduction), **parts, name=name)
    prior = invlift.matern_prior(mesh, range=1.0, std=0.3, smoothness=1.0)
    problem = invlift.inverse_problem(equation, prior, 0.1, np.ones(2))
    posterior = problem.posterior(run_from_prior(problem))
    posterior.write(tmp_path)
    saved = invlift.load(tmp_path)
    with pytest.raises(InputError, match="without groups, as no problem file says"):
        saved.mean_over("left")
    for found in (posterior, saved):
        assert f"{name}_mean" in found.fields()
        assert ("conductivity_mean" in found.fields()) == (name == "log_conductivity")
        if element.maxdeg == 1:
            read = np.stack(posterior.draws("predicted"))
            np.testing.assert_allclose(found.at(places, "solution"), read, rtol=1e-10)
        else:
            for ask in (found.at, lambda _, name, of=found: of.mean_over(None, name)):
                with pytest.raises(InputError, match="linear between nodes, found solution"):
                    ask(places, "solution")
