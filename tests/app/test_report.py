"""invlift report: from the folder of a run to its page and its series of draws."""

import shutil

import numpy as np
import pytest
import pyvista
from command_line import call
from run_folders import HOSTILE, write_run

from invlift.app.report import write_report
from invlift.posterior.report.content import NUM_DRAWS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "out"
    return folder, write_run(folder)


@pytest.fixture
def copy(run, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run[0], folder)
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}


def test_a_report_is_written_into_the_folder(copy, capsys):
    before = contents(copy)
    assert call("report", copy) == 0
    out = capsys.readouterr().out
    assert str(copy / "report.html") in out
    assert str(copy / "draws.pvd") in out
    after = contents(copy)
    assert {path: after[path] for path in before} == before
    names = {str(path) for path in after if path not in before}
    assert names == {"report.html", "draws.pvd"} | {
        f"draws/draws_{i:04d}.vtu" for i in range(NUM_DRAWS)
    }
    # again: the same, and nothing left over
    assert call("report", copy) == 0
    again = contents(copy)
    assert set(again) == set(after)
    assert again[next(p for p in again if p.name == "report.html")].startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("location", ["nodes", "cells"])
def test_the_series_holds_the_draws_of_the_page(tmp_path, location):
    posterior = write_run(tmp_path / "out", location=location, num_draws=2)
    page, series = write_report(tmp_path / "out")
    reader = pyvista.get_reader(series)
    assert len(reader.time_values) == 4
    draws = np.concatenate([chain.draws["log_conductivity"] for chain in posterior.chains])
    seen = set()
    for index in range(4):
        reader.set_active_time_point(index)
        grid = reader.read()[0]
        data = grid.point_data if location == "nodes" else grid.cell_data
        seen.add(np.asarray(data["log_conductivity"]).tobytes())
        np.testing.assert_allclose(data["conductivity"], np.exp(data["log_conductivity"]))
    assert seen == {values.tobytes() for values in draws}
    assert page.stat().st_size < 5e6


def test_out_writes_the_page_alone(copy, tmp_path):
    before = contents(copy)
    assert call("report", copy, "--out", tmp_path / "page.html") == 0
    assert contents(copy) == before
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_groups_come_with_their_conditions(copy):
    page = write_report(copy)[0].read_text()
    for name, condition in (
        ("left", "solution = 1.5"),
        ("right", "flux -2 into the body"),
        ("top", "none: nothing flows through"),
    ):
        row = next(part for part in page.split("<tr>") if f"</span>{name}</th>" in part)
        assert condition in row


def test_the_default_boundary_holds_for_groups_without_their_own(copy):
    path = copy / "problem.toml"
    path.write_text(path.read_text().replace("left = 1.5", "boundary = 2.5"))
    page = write_report(copy)[0].read_text()
    rows = {name: next(p for p in page.split("<tr>") if f"</span>{name}</th>" in p)
            for name in ("boundary", "left", "right")}  # fmt: skip
    assert "solution = 2.5" in rows["boundary"]
    assert "that of boundary" in rows["left"]
    assert "flux -2" in rows["right"]


@pytest.mark.parametrize("change", ["gone", "other", "moved"])
def test_a_mesh_that_is_not_that_of_the_run_is_not_shown(tmp_path, change):
    write_run(tmp_path / "out")
    mesh = tmp_path / "box.msh"
    if change == "gone":
        mesh.unlink()
    elif change == "other":
        write_run(tmp_path / "other" / "out", num=3)
        shutil.copy(tmp_path / "other" / "box.msh", mesh)
    else:
        mesh.write_text(mesh.read_text().replace("1 0.0 0.0 0.0\n", "1 -0.1 0.0 0.0\n"))
    page = write_report(tmp_path / "out")[0].read_text()
    assert "is gone or has changed since the run" in page
    assert "flux -2" not in page


def test_names_of_groups_are_text(tmp_path):
    write_run(tmp_path / "out", hostile=True)
    page = write_report(tmp_path / "out")[0].read_text()
    assert "</span>&lt;script&gt;document.title=taken" in page
    assert page.count("<script") == 1
    assert HOSTILE not in page
    assert "<img src=x" not in page


BAD = {
    "no folder": (lambda f: shutil.rmtree(f), (), ["copy", "no such folder"]),
    "no run": (
        lambda f: [(f / n).unlink() for n in ("run.json", "posterior.nc", "posterior.vtu")],
        (), ["copy", "results folder of a run"],
    ),
    "damaged": (
        lambda f: (f / "posterior.vtu").write_text("<VTKFile"), (), ["posterior.vtu", "copy of"],
    ),
    "problem": (
        lambda f: (f / "problem.toml").write_text("[mesh\n"), (), ["problem.toml, line 1"],
    ),
    "out is there": (
        lambda f: (f.parent / "a.html").write_text("mine"), ("--out", "a.html"), ["a.html", "--out"]
    ),
    "out is a folder": (lambda f: None, ("--out", "copy"), ["--out", "there already"]),
    "out in no folder": (lambda f: None, ("--out", "b/a.html"), ["--out", "directory first"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(copy, capsys, monkeypatch, case):
    monkeypatch.chdir(copy.parent)
    spoil, options, parts = BAD[case]
    spoil(copy)
    before = contents(copy.parent)
    assert call("report", copy, *options) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("invlift: ")
    assert captured.err.count("\n") == 1
    for part in ("expected", "found", *parts):
        assert part in captured.err, captured.err
    assert contents(copy.parent) == before


def test_a_folder_without_permission_is_one_line(copy, capsys, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("invlift.atomic.os.replace", refuse)
    assert call("report", copy) == 2
    captured = capsys.readouterr()
    assert "report.html" in captured.err
    assert captured.err.count("\n") == 1
    assert not (copy / "report.html").exists()
