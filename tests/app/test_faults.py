"""What a run meets outside itself: kills, full discs, limits of a batch system, files of others."""

import pytest
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
