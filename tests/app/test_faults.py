"""What a run meets outside itself: kills, full discs, limits of a batch system, files of others."""

import subprocess
import sys

import pytest
import xarray as xr
from problem_files import write_problem
from test_cli import assert_one_line_at_end, call

from invlift.app.commands import run as run_command


class Killed(BaseException):
    """Ends a process where it stands, as far as its files go."""


# --- a run that was killed before it had begun ----------------------------------------------------


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A problem whose run was killed after it had written its problem file, and its directory."""
    path = write_problem(tmp_path)

    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run_command, "sample", kill)
        with pytest.raises(Killed):
            run_command_on(path)
    out = tmp_path / "out"
    (out / "chains" / ".lock").touch()
    (out / ".problem-0123abcd.tmp.toml").write_text("[mesh")
    (out / "chains" / ".run-0123abcd.tmp.json").write_text("{")
    assert (out / "problem.toml").exists()
    return path, out


def run_command_on(path):
    from invlift.app.cli import main

    main(["run", str(path)])


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_a_run_killed_before_its_chains_were_begun_is_begun_again(killed, options):
    path, out = killed
    assert call("run", path, *options) in (0, 3)
    assert (out / "posterior.nc").exists()
    assert not list(out.glob("**/.*.tmp*"))


@pytest.mark.parametrize("options", [[], ["--resume"]])
@pytest.mark.parametrize("name", ["mine.txt", "chains/chain-0-20.piece", "run.json"])
def test_a_directory_with_more_than_that_is_left_alone(killed, capsys, options, name):
    path, out = killed
    (out / name).write_text("precious")
    before = {file: file.read_bytes() for file in out.glob("**/*") if file.is_file()}
    assert call("run", path, *options) == 2
    assert_one_line_at_end(capsys, [str(out)])
    assert {file: file.read_bytes() for file in out.glob("**/*") if file.is_file()} == before


def test_somebodys_problem_file_is_no_run(tmp_path, capsys):
    path = write_problem(tmp_path / "mine")
    before = path.read_bytes()
    for options in ([], ["--resume"]):
        assert call("run", path, "--out", tmp_path / "mine", *options) == 2
    assert path.read_bytes() == before


# --- a disc that is full --------------------------------------------------------------------------


def run_with_room(num_bytes, *arguments):
    """The command line in a process whose files may not grow beyond a size."""
    limits = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({num_bytes}, {num_bytes}))"
    program = (
        f"import resource, sys; {limits}; from invlift.app.cli import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with all the room there is: its problem file and results."""
    path = write_problem(tmp_path_factory.mktemp("whole"), {"sampler.draws": 400})
    assert call("run", path) in (0, 3)
    return path, path.parent / "out"


@pytest.mark.parametrize(
    ("part", "name"),
    [(0.2, "chains/chain-"), (0.5, "posterior.nc"), (1.2, "posterior.png")],
)
def test_a_full_disc_is_told_in_a_line_and_the_run_goes_on(whole, tmp_path, part, name):
    """Two whole runs, one in a process of its own: up to 15 s."""
    path, expected = whole
    out = tmp_path / "out"
    size = (expected / "posterior.nc").stat().st_size
    found = run_with_room(int(part * size), "run", path, "--out", out)
    progress = ("chain ", "compiling")
    lines = [line for line in found.stderr.splitlines() if not line.startswith(progress)]
    assert (found.returncode, len(lines)) == (2, 1), found.stderr
    assert lines[0].startswith(f"invlift: {out}/{name}")
    assert "--resume" in lines[0]
    assert not list(out.glob("**/.*.tmp*"))
    chains = {file: file.read_bytes() for file in (out / "chains").glob("*.piece")}
    assert bool(chains) == (name != "chains/chain-")
    assert call("run", path, "--out", out, "--resume") in (0, 3)
    assert all(file.read_bytes() == content for file, content in chains.items())
    one, other = (xr.load_dataset(f / "posterior.nc", group="posterior") for f in (expected, out))
    xr.testing.assert_identical(one, other)
