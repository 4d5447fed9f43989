"""Options of commands that cannot be are told in one line, before anything is written."""

import pytest
from command_line import assert_one_line, call
from problem_files import write_problem

SERIES = "simulate", "--seed", "1", "--draws", "2"
READINGS = "simulate", "--sigma", "1", "--seed", "1"
#: A command with its options, and what is said.
BAD = [
    (["run", "--method", "nutz"], ["--method", '"chmc"', 'did you mean "nuts"']),
    (["calibrate", "--simulations", "many"], ["--simulations", "an integer"]),
    (["calibrate", "--simulations", "9", "--draws", "3"], ["--draws", "an integer from 7"]),
    (["calibrate", "--simulations", "9", "--resume"], ["no such directory"]),
    (["compare", "--methods", "chmc,gibbs"], ["--methods", "names among chmc,"]),
    (["compare", "--methods", "pcn,pcn"], ["--methods", "different names"]),
    (["compare", "--methods", "pcn", "--budget", "nan"], ["--budget", "a positive number"]),
    ([*READINGS, "--sigma", "nan", "--out", "a.csv"], ["--sigma", "nan"]),
    ([*READINGS, "--seed", "-1", "--out", "a.csv"], ["--seed", "-1"]),
    ([*READINGS, "--out", "none/a.csv"], ["--out", "none"]),
    ([*READINGS, "--out", "."], ["--out", "."]),
    ([*READINGS, "--out", "sensors.csv"], ["--out", "sensors.csv"]),
    ([*SERIES, "--out", "."], ["--out", ".pvd"]),
    ([*SERIES, "--out", "none/a.pvd"], ["--out", "none"]),
    ([*SERIES, "--draws", "0", "--out", "a.pvd"], ["--draws", "from 1 to"]),
    ([*SERIES, "--out", "a.csv"], ["--out", ".pvd", "a.csv"]),
    ([*SERIES, "--sigma", "1", "--out", "a.pvd"], ["--sigma", "--draws"]),
    ([*SERIES, "--out", "there.pvd"], ["--out", "there, which is there already"]),
]


@pytest.mark.parametrize(("words", "parts"), BAD)
def test_they_are_one_line_and_status_2(tmp_path, monkeypatch, capsys, words, parts):
    monkeypatch.chdir(tmp_path)
    command, *options = words
    path = write_problem(tmp_path)
    (tmp_path / "there").mkdir()
    before = set(tmp_path.rglob("*"))
    assert call(command, path, *options) == 2
    assert_one_line(capsys, parts)
    assert set(tmp_path.rglob("*")) == before
