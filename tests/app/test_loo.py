"""``invlift loo``: the table, exit statuses, one line for each mistake."""

import numpy as np
from command_line import assert_one_line, call
from normal_noise import NormalNoise

from invlift.chains import Chain
from invlift.posterior import Posterior, Readings


def write_run(folder, sigma, *, spread=0.2, seed=0, num_chains=2):
    """Draws that predict twelve readings, which are off them by as much as normal noise of 1."""
    rng = np.random.default_rng(seed)
    readings = Readings(np.linspace(-1.5, 1.5, 12), sigma=sigma)
    chains = [
        Chain({"predicted": spread * rng.normal(size=(400, 12))}, {}, {}, {}, 1.0, 1.0, 1.0)
        for _ in range(num_chains)
    ]
    noise = NormalNoise(readings.values, sigma)
    Posterior(chains, sensors=readings, noise=noise).write(folder)


def test_runs_are_compared(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run("right", 1.0)
    write_run("wide", 5.0)
    assert call("loo", "wide", "right") == 0
    heading, first, second = capsys.readouterr().out.rstrip("\n").split("\n")
    assert " ".join(heading.split()) == "run elpd se below best its se p_loo k > 0.7 weight"
    assert first.split()[:1] + first.split()[3:5] == ["right", "0", "0"]
    assert second.split()[0] == "wide"
    assert float(second.split()[3]) > 5.0
    assert first.split()[-2:] == ["0", "1"]


def test_a_comparison_that_is_not_reliable_says_so_and_has_status_3(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run("right", 1.0)
    write_run("narrow", 0.1)
    write_run("alone", 1.0, num_chains=1)
    assert call("loo", "right", "narrow", "alone") == 3
    out = capsys.readouterr().out
    for name, reason in (("narrow", "Pareto k up to"), ("alone", "has not converged")):
        (line,) = (line for line in out.splitlines() if line.startswith(f"{name}: "))
        assert reason in line
    assert out.endswith("\nThis comparison is not reliable.\n")


def test_bad_folders_are_one_line_and_status_2(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run("right", 1.0)
    (tmp_path / "empty").mkdir()
    rng = np.random.default_rng(1)
    chain = Chain({"predicted": rng.normal(size=(30, 12))}, {}, {}, {}, 1.0, 1.0, 1.0)
    readings = Readings(np.ones(12), sigma=1.0)
    noise = NormalNoise(readings.values, 1.0)
    Posterior([chain], sensors=readings, noise=noise).write("other")
    for folders, parts in (
        (["right"], ["two or more folders"]),
        (["right", "./right/"], ["two or more folders", "each once"]),
        (["right", "none"], ["none", "no such folder"]),
        (["right", "empty"], ["empty", "no posterior.nc"]),
        (["right", "other"], ["other", "the 12 readings of right", "12 readings, not the same"]),
    ):
        assert call("loo", *folders) == 2
        assert_one_line(capsys, parts)
