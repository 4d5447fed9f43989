"""The command line under rough treatment: nothing is lost, and nothing ends in a traceback."""

import os
import shutil

import pytest
from command_line import (
    assert_one_line,
    call,
    finish,
    let_go,
    start,
    start_held,
    strict_json,
)
from problem_files import SENSORS, write_problem
from test_cli import LONG, RESULTS

QUICK = {"sampler.draws": 6, "sampler.warmup": 4, "sampler.chains": 1, "sampler.method": "pcn"}


def inodes(cache):
    return {file: file.stat().st_ino for file in cache.rglob("*.program")}


@pytest.mark.slow  # processes that start: 10 to 25 s
def test_a_killed_run_is_resumed_by_itself_alone_with_programs_that_it_compiled(tmp_path, capsys):
    """The first process compiles them, the second finds them: the problem is the same."""
    places = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAX_COMPILATION_CACHE_DIR": ""}
    changes = LONG | {"sampler.method": "pcn"}
    path = write_problem(tmp_path, changes)
    out = tmp_path / "out"
    first = start_held(100, "run", path, places=places)
    assert any(out.glob("chains/*.piece"))
    kept = {file: file.read_bytes() for file in (out / "problem.toml", out / "chains" / "run.json")}
    for options in ([], ["--seed", 6, "--resume"]):
        assert call("run", path, *options) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert str(out) in captured.err
    first.kill()
    first.communicate()
    assert kept == {file: file.read_bytes() for file in kept}
    assert call("run", path, "--seed", 6, "--resume") == 2
    assert_one_line(capsys, ["run.json, seed: expected 6, found 5", str(out / "chains")])
    compiled = inodes(tmp_path / "cache")
    assert compiled
    status, printed, err = finish(start("run", path, "--resume", places=places))
    assert status in (0, 3), printed + err
    assert compiled.items() <= inodes(tmp_path / "cache").items()  # else it is another file
    # Negative control: another problem is refused.
    other = write_problem(tmp_path, changes | {"noise.sigma": 0.2})
    assert call("run", other, "--resume") == 2
    assert_one_line(capsys, ["expected this problem"])


@pytest.mark.slow
def test_a_folder_that_was_removed_is_made_again(tmp_path):
    """A process that starts, compiles and draws: 10 s and more."""
    path = write_problem(tmp_path, LONG | {"sampler.draws": 200})
    out = tmp_path / "out"
    process = start_held(100, "run", path)
    shutil.rmtree(out)
    let_go(process)
    status, printed, err = finish(process)
    assert status in (0, 3), printed + err
    assert {entry.name for entry in out.iterdir()} == RESULTS | {"chains"}
    assert call("run", out / "problem.toml", "--resume", "--draws", 250) in (0, 3)
    assert strict_json(out / "run.json")["num_draws"] == 250


def test_simulate_overwrites_nothing(tmp_path, capsys):
    path = write_problem(tmp_path)
    options = ["--sigma", 1, "--seed", 1, "--out", tmp_path / "s.csv"]
    truth = tmp_path / "s_truth.vtu"
    truth.write_text("precious")
    assert call("simulate", path, *options) == 2
    assert_one_line(capsys, ["--out", str(truth)])
    assert truth.read_text() == "precious"
    truth.unlink()
    (tmp_path / "s.csv").symlink_to(tmp_path / "elsewhere.csv")
    assert call("simulate", path, *options) == 2
    assert_one_line(capsys, ["--out", "s.csv"])
    assert not (tmp_path / "elsewhere.csv").exists()


def test_names_of_folders_are_printed_as_they_are(tmp_path, capsys):
    out = tmp_path / "c[/d]" / "res[bold]x:smile:" / "höhe 1"
    assert call("run", write_problem(tmp_path, QUICK), "--out", out) == 3
    assert f"Written to {out}: " in capsys.readouterr().out
    assert (out / "posterior.vtu").exists()


def test_names_that_no_terminal_or_problem_file_should_have(tmp_path, capsys):
    for name in ("a\x1b[31mb", "null\0name", os.fsdecode(b"latin-\xff")):
        assert call("check", tmp_path / f"{name}.toml") == 2
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        assert printed.isascii()
        assert printed.rstrip("\n").isprintable()
    path = write_problem(tmp_path, QUICK)
    assert call("run", path, "--out", tmp_path / os.fsdecode(b"latin-\xff")) == 2
    assert_one_line(capsys, ["--out", "UTF-8"])
    assert call("check", write_problem(tmp_path / os.fsdecode(b"folder-\xff"), QUICK)) == 2
    assert_one_line(capsys, ["UTF-8"])


@pytest.mark.slow
def test_a_reader_that_leaves_and_a_cache_that_cannot_be_written_to_change_nothing(tmp_path):
    """`invlift run ... | head -1`: what was to be done is done, with its own status.

    A process that starts and compiles: 10 s and more.
    """
    (tmp_path / "no").write_text("in the way")
    places = {"XDG_CACHE_HOME": str(tmp_path / "no"), "MPLCONFIGDIR": str(tmp_path / "no" / "x")}
    places["JAX_COMPILATION_CACHE_DIR"] = ""
    process = start("run", write_problem(tmp_path, QUICK), places=places)
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(300) == 3
    for words in ("arning", "temporary cache", "Traceback", "Exception"):
        assert words not in err
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == RESULTS | {"chains"}


INTERRUPTED = """
import os, signal, sys

module = sys.argv.pop(1)

class Pressing:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressing())
from invlift.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["numpy", "invlift.app.commands.run"])
def test_interrupted_at_once_is_one_line(tmp_path, module):
    """Ctrl-C while a module is imported: before all others, and after most."""
    path = write_problem(tmp_path, QUICK)
    status, out, err = finish(start(module, "run", path, program=("-c", INTERRUPTED)))
    assert status == 3
    assert err == "invlift: interrupted\n"
    assert out == ""
    assert not (tmp_path / "out").exists()


def test_readings_that_contradict_each_other_are_named_before_sampling(tmp_path, capsys):
    table = SENSORS.replace("0.8,0.2,3.1", "0.30000001,0.4,2.9")
    path = write_problem(tmp_path, QUICK | {"noise.sigma": 0.001}, sensors=table)
    call("run", path, "--anyway")
    err = capsys.readouterr().err
    assert err.index("miss the readings by up to") < err.index("chain 0: ")
