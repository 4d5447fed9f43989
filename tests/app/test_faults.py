"""What a run meets outside itself: kills, full discs, limits of a batch system, files of others."""

import gc
import resource
import shutil
import sys
from contextlib import contextmanager

import h5py
import pytest
import xarray as xr
from command_line import assert_one_line, call
from problem_files import write_problem

from invlift.app.commands import run as run_command

QUICK = {"sampler.method": "pcn"}


class Killed(BaseException):
    """Ends a process where it stands, as far as its files go."""


# --- a run that was killed before it had begun ----------------------------------------------------


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A problem whose run was killed after it had written its problem file, and its directory."""
    path = write_problem(tmp_path, QUICK)

    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run_command, "sample", kill)
        with pytest.raises(Killed):
            call("run", path)
    out = tmp_path / "out"
    (out / ".problem-0123abcd.tmp.toml").write_text("[mesh")
    assert (out / "problem.toml").exists()
    return path, out


def test_a_run_killed_before_its_chains_were_begun_is_begun_again(killed, capsys):
    path, out = killed
    assert call("run", path, "--resume") == 2
    assert_one_line(capsys, [str(out), "begin one without --resume"])
    assert call("run", path) in (0, 3)
    assert (out / "posterior.nc").exists()


def test_a_directory_with_more_than_that_is_left_alone(killed, capsys):
    path, out = killed
    for name in ("mine.txt", "chains/chain-0-20.piece", "run.json"):
        (out / name).write_text("precious")
        before = {file: file.read_bytes() for file in out.glob("**/*") if file.is_file()}
        for options in ([], ["--resume"]):
            assert call("run", path, *options) == 2
            assert_one_line(capsys, [str(out)])
        assert {file: file.read_bytes() for file in out.glob("**/*") if file.is_file()} == before
        (out / name).unlink()


def test_somebodys_problem_file_is_no_run(tmp_path, capsys):
    path = write_problem(tmp_path / "mine")
    before = path.read_bytes()
    for options in ([], ["--resume"]):
        assert call("run", path, "--out", tmp_path / "mine", *options) == 2
    assert path.read_bytes() == before


# --- a disc that is full --------------------------------------------------------------------------


@contextmanager
def room(num_bytes):
    """No file that is written meanwhile may grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with all the room there is: its problem file and results."""
    path = write_problem(tmp_path_factory.mktemp("whole"), QUICK | {"sampler.draws": 400})
    assert call("run", path) in (0, 3)
    return path, path.parent / "out"


@pytest.mark.parametrize(("part", "name"), [(0.2, "chains/chain-"), (0.8, "posterior.nc")])
def test_a_full_disc_is_told_in_a_line_and_the_run_goes_on(whole, tmp_path, capsys, part, name):
    path, expected = whole
    out = tmp_path / "out"
    size = int(part * (expected / "posterior.nc").stat().st_size)
    capsys.readouterr()
    with room(size):
        assert call("run", path, "--out", out) == 2
    progress = ("chain ", "compiling")
    lines = [each for each in capsys.readouterr().err.splitlines() if not each.startswith(progress)]
    assert len(lines) == 1, lines
    assert lines[0].startswith(f"invlift: {out}/{name}")
    assert "--resume" in lines[0]
    assert not list(out.glob("**/.*.tmp*"))
    chains = {file: file.read_bytes() for file in (out / "chains").glob("*.piece")}
    # A slow machine has saved the beginning of a chain before the disc is full.
    assert chains or name == "chains/chain-"
    assert call("run", path, "--out", out, "--resume") in (0, 3)
    assert all(file.read_bytes() == content for file, content in chains.items())
    one, other = (xr.load_dataset(f / "posterior.nc", group="posterior") for f in (expected, out))
    xr.testing.assert_identical(one, other)


# --- what others have put there -------------------------------------------------------------------


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole[1], tmp_path / "copy")


def test_readers_of_damaged_draws_leave_no_words(copied, capsys, monkeypatch):
    """h5py opens such a file, and h5netcdf stops halfway."""
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with h5py.File(copied / "posterior.nc", "a") as file:
        del file["posterior"]
        file["posterior"] = 1.0
    assert call("report", copied) == 2
    gc.collect()
    assert said == []
    assert_one_line(capsys, ["posterior.nc"])


def test_a_slip_in_the_number_of_chains_is_told(tmp_path, capsys):
    in_file = write_problem(tmp_path / "file", {"sampler.chains": 10**9})
    other = write_problem(tmp_path)
    for arguments in (["run", other, "--chains", 10**9], ["check", in_file]):
        assert call(*arguments) == 2
        assert_one_line(capsys, ["chains", "10000", "1000000000"])


def test_a_comparison_without_draws_is_none(tmp_path, capsys):
    path = write_problem(tmp_path)
    assert call("compare", path, "--methods", "pcn", "--budget", "1e-9") == 3
    assert "pcn: no draws within the budget" in capsys.readouterr().out


def test_what_is_kept_is_told_where_something_is(tmp_path, capsys, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr("invlift.app.commands.process._command", lambda _: refuse)
    path, needed = write_problem(tmp_path), {"calibrate": ["--simulations", 2]}
    words = {"run": "chains have saved", "calibrate": "simulations have saved"}
    for command in ("run", "calibrate", "report"):
        assert call(command, path, *needed.get(command, [])) == 2
        error = capsys.readouterr().err
        assert "somewhere: " in error
        assert ("kept" in error) == (command in words)
        assert words.get(command, "") in error


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    path, below = write_problem(tmp_path), tmp_path / "taken" / "below"
    for name, *options in (
        ["run"],
        ["compare", "--methods", "hmc"],
        ["calibrate", "--simulations", 2],
    ):
        assert call(name, path, *options, "--out", below) == 2
        assert_one_line(capsys, ["taken"])
