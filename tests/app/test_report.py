"""invlift report: from the folder of a run to its page."""

import shutil

import numpy as np
import pytest
import pyvista
from command_line import assert_one_line, call
from run_folders import write_run

from invlift.posterior.output.files import NUM_DRAWS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "out"
    write_run(folder)
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}


def test_a_report_is_written_into_the_folder_or_elsewhere(run, tmp_path, capsys):
    shutil.copytree(run, copy := tmp_path / "copy")
    before = contents(copy)
    assert call("report", copy) == 0
    assert str(copy / "report.html") in capsys.readouterr().out
    after = contents(copy)
    assert {path: after[path] for path in before} == before
    assert {str(path) for path in after if path not in before} == {"report.html"}
    assert call("report", copy, "--out", tmp_path / "page.html") == 0
    assert (tmp_path / "page.html").exists()
    assert contents(copy) == after


def test_the_series_holds_draws_of_all_chains(tmp_path):
    posterior = write_run(tmp_path / "out", location="cells", num_draws=60)
    reader = pyvista.get_reader(tmp_path / "out" / "draws.pvd")
    assert len(reader.time_values) == NUM_DRAWS
    draws = [{row.tobytes() for row in chain.draws["log_conductivity"]}
             for chain in posterior.chains]  # fmt: skip
    seen = []
    for index in range(NUM_DRAWS):
        reader.set_active_time_point(index)
        data = reader.read()[0].cell_data
        seen.append(np.asarray(data["log_conductivity"]).tobytes())
        np.testing.assert_allclose(data["conductivity"], np.exp(data["log_conductivity"]))
    assert [sum(each in own for each in seen) for own in draws] == [NUM_DRAWS // 2] * 2
    assert len(set(seen)) == NUM_DRAWS


BAD = {
    "no folder": (lambda f: shutil.rmtree(f), (), ["copy", "no such folder"]),
    "no run": (
        lambda f: [(f / n).unlink() for n in ("run.json", "posterior.nc", "posterior.vtu")],
        (), ["copy", "results folder of a run"],
    ),
    "damaged": (
        lambda f: (f / "run.json").write_text('{"verdict": 1}'), (), ["run.json, verdict"],
    ),
    "out is there": (lambda f: None, ("--out", "copy"), ["--out", "there already"]),
    "out in no folder": (lambda f: None, ("--out", "b/a.html"), ["--out", "directory first"]),
}  # fmt: skip


def test_bad_input_is_one_line_and_status_2(run, tmp_path, capsys, monkeypatch):
    for case, (spoil, options, parts) in BAD.items():
        folder = tmp_path / case / "copy"
        shutil.copytree(run, folder)
        monkeypatch.chdir(folder.parent)
        spoil(folder)
        before = contents(folder.parent)
        assert call("report", folder, *options) == 2
        assert_one_line(capsys, parts)
        assert contents(folder.parent) == before
