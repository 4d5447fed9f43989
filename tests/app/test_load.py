"""Results are opened from Python as they were written, and while a run goes on."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import pyvista
import skfem
from command_line import call
from crafted import run_from_prior
from problem_files import write_problem
from structured import box_mesh

import invlift
from invlift.errors import InputError
from invlift.fem.equations.forms import conduction
from invlift.posterior.statistics.labelled import read_groups, save_netcdf
from invlift.unknowns.axes import OF_READINGS

OPTIONS = {"sampler.method": "pcn", "sampler.draws": 60}
OPTIONS |= {"output.exceedance": [0.5, 2.0]}
FIELDS = "log_conductivity", "solution"


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
    assert {*posterior.fit.by_sensor()} <= {*OF_READINGS}  # which no column of a table may be
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
    thinned = [
        replace(
            each,
            draws={name: x[::3] if name in FIELDS else x for name, x in each.draws.items()},
            every=dict.fromkeys(FIELDS, 3),
        )
        for each in posterior.chains
    ]
    few = replace(posterior, chains=thinned).flux("left")
    assert few["stored_draw"].values.tolist() == list(range(0, 60, 3))
    np.testing.assert_allclose(few, -5.0, rtol=1e-9)
    solved = [
        replace(each, draws={name: x for name, x in each.draws.items() if name != "solution"})
        for each in posterior.chains
    ]
    again = replace(posterior, chains=solved).flux("left")
    np.testing.assert_allclose(again, flux, rtol=1e-9)
    bare = replace(posterior, boundary_flux=None)
    with pytest.raises(InputError, match=r"^posterior, flux: expected a problem of a field"):
        bare.flux("left")


def test_chains_of_a_killed_run_are_a_posterior_by_their_draws_so_far(results, tmp_path, capsys):
    """Of which commands say that they are not enough."""
    folder = tmp_path / "out"
    shutil.copytree(results, folder)
    for name in ("posterior.nc", "run.json", "posterior.vtu"):
        (folder / name).unlink()
    running, done = invlift.load(folder), invlift.load(results)
    for name in ("log_conductivity", "noise_score", "predicted"):
        np.testing.assert_array_equal(running.draws(name), done.draws(name))
    np.testing.assert_array_equal(running.fit.sensors().noise_sd, done.fit.sensors().noise_sd)
    capsys.readouterr()
    assert call("loo", results, folder) == 3
    out = capsys.readouterr().out
    assert f"{folder}: the run has not converged" in out
    first, second = (line.split()[1:] for line in out.splitlines()[1:3])
    assert first == second
    assert call("next-sensor", folder, "--num", "1") == 3
    out = capsys.readouterr().out
    assert "From 120 draws: a place without information has a share of about 0.008." in out
    assert "has not converged" in out
    # a chain that has not begun
    for piece in (folder / "chains").glob("chain-1-*.piece"):
        piece.unlink()
    assert (running.num_chains, invlift.load(folder).num_chains) == (2, 1)


def test_a_copy_of_a_run_goes_on_in_its_own_folder(results, tmp_path):
    shutil.copy(results / "problem.toml", tmp_path)
    assert invlift.read_problem(tmp_path / "problem.toml").output.dir == tmp_path


def with_record(**changes):
    def spoil(folder):
        record = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(record | changes))

    return spoil


def with_problem(folder):
    text = (folder / "problem.toml").read_text()
    (folder / "problem.toml").write_text(text.replace("std = 0.3", "std = 0.31"))


def of_another_problem(folder):
    (folder / "posterior.nc").unlink()
    with_problem(folder)


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
            (lambda at: (at / "posterior.nc").write_bytes(b"no"), "expected a netCDF-4 file"),
            (lambda at: (at / "run.json").unlink(), "run.json"),
            (of_another_problem, "expected this problem"),
            (without_draws, "at least one chain"),
        ]
    ):
        folder = tmp_path / f"{place}" / "out"
        shutil.copytree(results, folder)
        spoil(folder)
        with pytest.raises(InputError, match=message):
            invlift.load(folder)


def written_anew(folder):
    """Draws by a program that knows nothing of the digest in the file, beside another record."""
    groups = read_groups(folder / "posterior.nc")
    save_netcdf([each for each in groups.items() if each[0] != "/"], folder / "posterior.nc")
    invlift.load(folder)
    with_record(num_draws=10**30)(folder)


def test_files_of_other_runs_are_not_taken(results, tmp_path, capsys):
    for spoil, name in (
        (written_anew, "run.json"),
        (with_record(mesh_sha256="0" * 64), "run.json"),
        (with_problem, "problem.toml"),
    ):
        folder = tmp_path / spoil.__name__
        shutil.copytree(results, folder)
        spoil(folder)
        with pytest.raises(InputError, match=f"{name}: expected the file that was written with"):
            invlift.load(folder)
    assert call("report", folder) == 2
    assert f"{folder / name}: expected the file" in capsys.readouterr().err


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
    page = (folder / "report.html").read_text()
    assert "<th>seed</th>" in page
    assert "kind = &quot;matern&quot;" in page
    (folder / "posterior.nc").unlink()
    assert call("report", folder) == 0
    assert "<th>seed</th>" not in (folder / "report.html").read_text()


def test_solutions_of_other_elements_are_not_taken_to_be_linear(tmp_path):
    """What a reading has between nodes, `at` has as well or says that it has not."""
    mesh = box_mesh(2, 3)
    places = np.array([[0.3, 0.4], [0.7, 0.5]])
    prior = invlift.matern_prior(mesh, range=1.0, std=0.3, smoothness=1.0)

    def posterior_of(element, name):
        basis = skfem.Basis(skfem.MeshTri(mesh.points.T, mesh.cells.T), element)
        form, probes = invlift.Form(basis, conduction), basis.probes(places.T)
        parts = {"load": np.ones(basis.N), "held": basis.get_dofs(), "readings": probes}
        equation = invlift.linear_equation(form, **parts, name=name)
        problem = invlift.inverse_problem(equation, prior, 0.1, np.ones(2))
        return problem.posterior(run_from_prior(problem))

    linear = posterior_of(skfem.ElementTriP1(), "log_conductivity")
    assert "conductivity_mean" in linear.fields()
    read = np.stack(linear.draws("predicted"))
    np.testing.assert_allclose(linear.at(places, "solution"), read, rtol=1e-10)
    posterior = posterior_of(skfem.ElementTriP2(), "log_modulus")
    posterior.write(tmp_path)
    saved = invlift.load(tmp_path)
    with pytest.raises(InputError, match="without groups, as no problem file says"):
        saved.mean_over("left")
    for found in (posterior, saved):
        assert "log_modulus_mean" in found.fields()
        assert "conductivity_mean" not in found.fields()
        for ask in (found.at, lambda _, name, of=found: of.mean_over(None, name)):
            with pytest.raises(InputError, match="linear between nodes, found solution"):
                ask(places, "solution")
