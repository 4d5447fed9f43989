"""The command line as a person meets it: exit statuses, files, one line for each mistake."""

import json
import shlex
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import pyvista
import xarray as xr
from command_line import assert_one_line, call, finish, start_held, strict_json
from problem_files import REMOVED, SENSORS, readings, write_problem

from invlift.app.checks import Finding, Report
from invlift.app.cli import COMMANDS, _parser
from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.tables.sensors import read_sensors

RESULTS = {
    "posterior.vtu", "sensors.vtu", "sensor_fit.csv", "posterior.nc", "summary.csv", "problem.toml",
    "run.json", "posterior.png", "report.html", "draws.pvd", "draws",
}  # fmt: skip
POINT_FIELDS = {
    "log_conductivity_mean", "log_conductivity_sd", "log_conductivity_q05", "log_conductivity_q50",
    "log_conductivity_q95", "conductivity_mean", "conductivity_q05", "conductivity_q50",
    "conductivity_q95", "solution_mean", "solution_sd", "log_conductivity_ess_bulk",
    "solution_q05", "solution_q50", "solution_q95",
    "log_conductivity_r_hat", "variance_reduction", "log_conductivity_ess_tail",
    "log_conductivity_mcse_mean", "log_conductivity_mcse_sd",
}  # fmt: skip


# --- bad input ----------------------------------------------------------------------------------


def add_orphan(folder):
    path = folder / "box.msh"
    text = path.read_text().replace("$Nodes\n16\n", "$Nodes\n17\n")
    path.write_text(text.replace("$EndNodes", "17 5.0 5.0 0.0\n$EndNodes", 1))


BAD = [  # changes of the problem, rows of sensors, what else to spoil, parts of the message
    ({"mesh.file": "none.msh"}, None, None, ["none.msh", "no such file"]),
    ({}, None, lambda f: (f / "sensors.csv").write_bytes(b"\xff\xfe\0"), ["sensors.csv"]),
    ({}, None, lambda f: (f / "problem.toml").write_text("[mesh\n"), ["line 1"]),
    ({}, None, add_orphan, ["box.msh", "17"]),
    ({}, "0.3,0.4,2,0.1\n1.5,0.5,2,0.1\n", None, ["sensors.csv, row 3", "0.5"]),
]


@pytest.mark.parametrize(("changes", "rows", "spoil", "parts"), BAD)
def test_bad_input_is_one_line_and_status_2(tmp_path, capsys, changes, rows, spoil, parts):
    sensors = f"x,y,value,sigma\n{rows}" if rows else SENSORS
    path = write_problem(tmp_path, changes, sensors=sensors)
    if spoil:
        spoil(tmp_path)
    for command in ("run", "check"):
        assert call(command, path) == 2
        assert_one_line(capsys, parts)
    assert not (tmp_path / "out").exists()


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path, capsys):
    path = write_problem(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    assert call("run", path) == 2
    assert_one_line(capsys, [str(tmp_path / "out"), "empty"])
    assert call("run", path, "--resume") == 2
    assert_one_line(capsys, [str(tmp_path / "out"), "a run to go on with", "no chains/run.json"])
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_usage_help_and_version(capsys):
    for arguments in ([], ["run"], ["frobnicate"], ["simulate", "a.toml"], ["calibrate", "a.toml"]):
        assert call(*arguments) == 2
        assert "usage: invlift" in capsys.readouterr().err
    assert call("--help") == 0
    printed = capsys.readouterr().out
    commands = "run check compare calibrate loo report schema serve simulate"
    for command in commands.split():
        assert command in printed
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith("invlift 0.")


def modules_after(*arguments):
    """Large modules that a process has imported when it has printed help, and its seconds."""
    code = (
        "import sys, time\n"
        "from invlift.app.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        "large = {'jax', 'numpy', 'pandas', 'pydantic', 'rich', 'skfem'} & {*sys.modules}\n"
        "print(time.process_time(), *sorted(large), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, *large = done.stderr.split()
    return large, float(seconds)


def test_help_is_there_at_once():
    large, seconds = modules_after("--help")
    assert large == []
    assert seconds < 0.5
    # negative control: the names of methods are those that are registered
    assert "jax" in modules_after("run", "--help")[0]


def test_each_command_has_an_example_that_it_takes(capsys):
    for name, (_, rest) in COMMANDS.items():
        words = shlex.split(rest.partition(">")[0])
        assert _parser(name).parse_args([name, *words]).command == name
        with pytest.raises(SystemExit):
            _parser(name).parse_args([name, "--help"])
        assert f"example: invlift {name} {rest}" in capsys.readouterr().out
    with pytest.raises(SystemExit):  # negative control
        _parser("simulate").parse_args(["simulate", "disc/problem.toml"])


# --- check and simulate -------------------------------------------------------------------------


def test_check_prints_findings_and_a_verdict(tmp_path, capsys, monkeypatch):
    path = write_problem(tmp_path)
    seen, level = [], ""

    def look(_, spec, *, on_finding):
        seen.append(spec)
        found = [Finding("ok", "mesh", "of 16 nodes"), Finding(level, "prior", "[sd] 1")]
        for each in found:
            on_finding(each)
        return Report(found)

    monkeypatch.setattr("invlift.app.commands.check.check_problem", look)
    for level, status in (("ok", 0), ("note", 0), ("bad", 3)):
        assert call("check", path) == status
        *lines, blank, verdict = capsys.readouterr().out.rstrip("\n").split("\n")
        assert lines == ["  ok  mesh: of 16 nodes", f"{level:>4}  prior: [sd] 1"]
        assert blank == ""
        assert verdict.startswith("Not ready to run" if status else "Ready to run")
    assert seen == [read_problem(path)] * 3


def test_simulate_writes_what_run_reads_and_the_truth_behind_it(tmp_path, capsys):
    table = "x,y\n0.3,0.4\n0.6,0.7\n0.81,0.2\n"
    path = write_problem(tmp_path, {"noise": REMOVED}, sensors=table)
    arguments = ["simulate", path, "--sigma", 1e-6, "--seed", 4, "--out"]
    assert call("run", path) == 2
    assert_one_line(capsys, ["no column 'value'"])
    assert call(*arguments, tmp_path / "first.csv") == 0
    assert call(*arguments, tmp_path / "second.csv") == 0
    first = (tmp_path / "first.csv").read_bytes()
    assert first == (tmp_path / "second.csv").read_bytes()
    table = read_sensors(tmp_path / "first.csv", 2)
    grid = pyvista.read(tmp_path / "first_truth.vtu")
    assert set(grid.point_data) == {"log_conductivity", "solution"}
    assert grid.n_points == 16
    places = pyvista.PolyData(np.column_stack([table.points, np.zeros(3)]))
    predicted = places.sample(grid)["solution"]
    np.testing.assert_allclose(predicted, table.values, rtol=0, atol=6e-6)
    assert np.ptp(table.values) > 1e-3
    # the table takes the place of the positions
    path = write_problem(tmp_path, sensors=first.decode())
    field = build_problem(read_problem(path))
    np.testing.assert_array_equal(field.observed, table.values)
    found = readings(field.model, np.asarray(grid["log_conductivity"]))
    np.testing.assert_allclose(found, table.values, rtol=0, atol=6e-6)


def test_simulate_on_cells_writes_cell_data(tmp_path):
    path = write_problem(tmp_path, {"prior": {"kind": "independent", "std": 0.5}})
    assert call("simulate", path, "--draws", 1, "--seed", 1, "--out", tmp_path / "s.pvd") == 0
    grid = pyvista.get_reader(tmp_path / "s.pvd").read()[0]
    assert set(grid.cell_data) == {"log_conductivity", "conductivity"}
    assert set(grid.point_data) == {"solution"}


# --- run ----------------------------------------------------------------------------------------


FEW = ["--method", "pcn", "--chains", 1, "--draws", 7, "--warmup", 9, "--seed", 3]


def test_overrides_apply_and_too_few_draws_have_status_3(tmp_path, capsys):
    """Without pictures, which may be left out."""
    path = write_problem(tmp_path, {"output.report": False})
    assert call("run", path, "--out", tmp_path / "other", *FEW) == 3
    captured = capsys.readouterr()
    assert "Not converged" in captured.out
    assert "report.html" not in captured.out
    assert not (tmp_path / "out").exists()
    names = {entry.name for entry in (tmp_path / "other").iterdir()}
    assert names == (RESULTS | {"chains"}) - {"posterior.png", "report.html"}
    spec = read_problem(tmp_path / "other" / "problem.toml")
    assert spec.sampler.model_dump() == {
        "method": "pcn", "chains": 1, "warmup": 9, "draws": 7, "seed": 3,
        "starts": "prior", "options": {}, "budget": None,
    }  # fmt: skip
    original = read_problem(path)
    assert spec.mesh == original.mesh
    assert spec.prior == original.prior
    assert spec.output.dir == tmp_path / "other"
    record = strict_json(tmp_path / "other" / "run.json")
    assert (record["method"], record["seed"], record["num_warmup"]) == ("pcn", 3, 9)
    with xr.open_dataset(tmp_path / "other" / "posterior.nc", group="posterior") as draws:
        assert draws["log_conductivity"].shape == (1, 7, 16)


#: With noise that hides the error of so coarse a mesh.
LONG = {"sampler.draws": 4000, "sampler.warmup": 40, "noise.sigma": 0.4, "sampler.method": "pcn"}


def test_the_answer_comes_before_the_pictures(tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise RuntimeError("no pictures")

    monkeypatch.setattr("invlift.app.commands.run._pictures", fail)
    path = write_problem(tmp_path)
    with pytest.raises(RuntimeError, match="no pictures"):
        call("run", path, *FEW, "--anyway")
    out = capsys.readouterr().out
    assert "log_conductivity_field_mean" in out
    assert "Not converged" in out
    assert (tmp_path / "out" / "posterior.nc").exists()


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A run, left to its end: folder, status and what is printed."""
    folder, out = tmp_path_factory.mktemp("whole"), StringIO()
    with redirect_stdout(out):
        status = call("run", write_problem(folder, LONG))
    return folder, status, out.getvalue()


def test_a_converged_run_has_status_0_and_all_its_files(whole_run):
    folder, status, out = whole_run
    assert status == 0, out
    assert "Converged" in out
    assert {entry.name for entry in (folder / "out").iterdir()} == RESULTS | {"chains"}
    grid = pyvista.read(folder / "out" / "posterior.vtu")
    assert grid.n_points == 16
    assert set(grid.point_data) >= POINT_FIELDS
    for name in POINT_FIELDS - {"solution_sd", "log_conductivity_ess_bulk"}:
        assert np.isfinite(grid[name]).all(), name
    held = grid.points[:, 0] == 0.0
    np.testing.assert_array_equal(grid["solution_mean"][held], 0.0)
    sensors_file = pyvista.read(folder / "out" / "sensors.vtu")
    assert sensors_file["observed"].tolist() == [2.1, 2.9, 3.1]
    with xr.open_dataset(folder / "out" / "posterior.nc", group="posterior") as draws:
        assert draws["log_conductivity"].shape == (2, 4000, 16)
        mean = draws["log_conductivity"].mean(("chain", "draw")).to_numpy()
        solution, predicted = draws["solution"].to_numpy(), draws["predicted"].to_numpy()
    np.testing.assert_allclose(grid["log_conductivity_mean"], mean, rtol=1e-6, atol=1e-9)
    quantiles = np.quantile(solution.reshape(-1, 16), (0.05, 0.95), axis=0)
    for name, expected in zip(("solution_q05", "solution_q95"), quantiles, strict=True):
        np.testing.assert_allclose(grid[name], expected, rtol=1e-6, atol=1e-9)
    grid["of_a_draw"] = solution[1, 77]
    sampled = pyvista.PolyData(sensors_file.points).sample(grid)["of_a_draw"]
    np.testing.assert_allclose(sampled, predicted[1, 77], rtol=1e-6)
    record = strict_json(folder / "out" / "run.json")
    assert record["seed"] == 5
    assert record["is_interrupted"] is False
    assert record["objections"] == []  # negative control of test_readiness
    assert len(record["mesh_sha256"]) == 64
    keys = {"step_size", "verdict", "warmup_seconds", "sampling_seconds", "factorisations"}
    for key in {"invlift", "jax", "numpy", "python"} | keys:
        assert key in json.dumps(record), key


@pytest.mark.slow  # a process that starts
def test_interrupted_and_resumed_gives_the_same_bits(whole_run, tmp_path):
    """Ctrl-C in the middle of sampling loses nothing and changes nothing."""
    path = write_problem(tmp_path, LONG)
    process = start_held(200, "run", path)
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    assert status == 3, out + err
    assert "Traceback" not in err
    assert "--resume" in out
    with xr.open_dataset(tmp_path / "out" / "posterior.nc", group="posterior") as draws:
        assert draws.sizes["draw"] == 200 - LONG["sampler.warmup"]
    assert strict_json(tmp_path / "out" / "run.json")["is_interrupted"] is True
    # without --resume nothing is overwritten
    assert call("run", path) == 2
    assert call("run", path, "--resume") == 0
    for group in ("posterior", "sample_stats"):
        one, other = (
            xr.load_dataset(folder / "out" / "posterior.nc", group=group)
            for folder in (whole_run[0], tmp_path)
        )
        xr.testing.assert_identical(one.drop_attrs(), other.drop_attrs())


def test_resuming_another_problem_is_refused(whole_run, tmp_path, capsys):
    folder = whole_run[0]
    path = Path(write_problem(tmp_path, LONG | {"prior.std": 0.31}))
    kept = [folder / "out" / name for name in ("posterior.nc", "problem.toml")]
    before = [each.stat().st_mtime_ns for each in kept]
    assert call("run", path, "--out", folder / "out", "--resume") == 2
    assert_one_line(capsys, ["expected this problem"])
    assert [each.stat().st_mtime_ns for each in kept] == before
