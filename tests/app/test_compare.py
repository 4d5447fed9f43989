"""invlift compare: what it measures, and what it says and writes."""

import csv
import math
import os
import signal
from contextlib import contextmanager
from dataclasses import replace

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from clocks import steady_clock
from command_line import call
from numpyro.infer.util import log_density

import invlift
from invlift.app.commands import compare as compare_command
from invlift.app.studies.compare import compare
from invlift.errors import InputError
from invlift.noise import known_noise
from invlift.posterior.statistics.comparison import Efficiency, efficiency, plot_comparison
from invlift.problems.inverse_problem import jax_problem
from invlift.problems.numpyro.numpyro_density import UnconstrainedDensity
from invlift.samplers.chains import chain, workers
from invlift.samplers.kernels import HMC


@pytest.fixture
def block_seconds(monkeypatch):
    """The time that every block of ten iterations takes, whatever the machine, s."""
    monkeypatch.setattr(chain, "time", steady_clock(0.005))
    monkeypatch.setattr(workers, "CALL_SECONDS", 0.0)  # a call runs a block
    return 0.005


def linear(theta):
    return theta[:2] + 0.5 * theta[1:]


def problem():
    return jax_problem(linear, 3, known_noise(0.5), np.array([0.4, 0.1]))


#: The same, as a file of Python.
FILE = """
import numpy as np
import invlift

def linear(theta):
    return theta[:2] + 0.5 * theta[1:]

problem = invlift.jax_problem(linear, 3, invlift.known_noise(0.5), np.array([0.4, 0.1]))
"""


def test_methods_get_the_same_chains_and_time(block_seconds):
    methods = {"hmc": HMC(num_steps=2), "laplace": "laplace"}
    news = []
    rows = list(
        compare(
            problem(),
            methods,
            budget=1.0,
            chains=2,
            warmup=100,
            seed=3,
            on_progress=lambda method, progress: news.append((method, progress.chain)),
        )
    )
    assert [row.method for row in rows] == list(methods)
    for row in rows:
        assert row.num_chains == 2
        # To within a block; of both chains.
        seconds = row.warmup_seconds + row.sampling_seconds
        assert 2.0 < seconds < 2.0 + 2.5 * block_seconds
        assert row.warmup_seconds == pytest.approx(2 * 10 * block_seconds)
        assert row.r_hat < 1.02
        assert row.ess_bulk > 100
        assert row.num_factorisations >= 2 * row.num_draws
        np.testing.assert_allclose(row.ess_per_second, row.ess_bulk / row.sampling_seconds)
    assert {(row.method, chain) for row in rows for chain in range(2)} == set(news)
    assert [row.doubt for row in rows] == ["", "approximate"]


@pytest.mark.usefixtures("block_seconds")
def test_what_keeps_one_method_from_sampling_is_a_note():
    single = jax_problem(lambda theta: theta**3, 1, known_noise(0.3), np.array([0.5]))
    rows = list(compare(single, ["mams", "rwm"], budget=0.3, chains=2, warmup=50))
    assert "at least 2 unknowns" in rows[0].note
    assert math.isnan(rows[0].ess_per_second)
    assert not rows[1].note


def test_arguments_are_checked_before_anything_runs():
    with pytest.raises(InputError, match="expected one of chmc"):
        compare(problem(), ["pcn", "gibbs"])
    with pytest.raises(InputError, match="budget: expected a positive number"):
        compare(problem(), ["pcn"], budget=0.0)
    with pytest.raises(InputError, match="chains: expected an integer from 1 to 10000, found 0"):
        compare(problem(), ["pcn"], chains=0)


def in_a_funnel():
    spread = numpyro.sample("spread", dist.HalfCauchy(2.0))
    level = numpyro.sample("level", dist.Uniform(-spread, spread))
    numpyro.sample("read", dist.Normal(level, 0.5), obs=0.3)
    numpyro.deterministic("twice", 2.0 * level)


@pytest.mark.slow
def test_a_numpyro_model_is_also_walked_on_in_its_own_coordinates():
    made = invlift.from_numpyro(in_a_funnel)
    target = UnconstrainedDensity(made)
    lifted = jnp.array([0.4, -0.7, 0.0])
    values, free = made.model.at(lifted[:2]).values, target.from_lifted(lifted)
    for name, value in target.describe(free)[0].items():
        np.testing.assert_allclose(value, values[name], rtol=1e-12)
    # d spread = spread d free[1], d level = 2 spread s (1 - s) d free[0].
    spread, share = values["spread"], jax.nn.sigmoid(free[0])
    density, _ = log_density(in_a_funnel, (), {}, values)
    expected = density + jnp.log(spread) + jnp.log(2.0 * spread * share * (1.0 - share))
    np.testing.assert_allclose(target.logdensity(free), expected, rtol=1e-10)
    rows = list(compare(made, ["chmc", "numpyro-nuts"], budget=0.3, chains=2, warmup=20))
    assert all(row.num_draws > 0 and not row.note for row in rows)
    with pytest.raises(InputError, match="a NumPyro model, for numpyro-nuts"):
        compare(problem(), ["numpyro-nuts"], budget=1.0)


@pytest.mark.usefixtures("drawn")
def test_hollow_bars_are_those_in_doubt(tmp_path):
    good = Efficiency("good", 4, 300, 1.0, 2.0, 1.001, 500.0, 250.0, 0.8, 0.0, 0.3, 900)
    bad = Efficiency("bad", 4, 100, 1.0, 2.0, 1.3, 3.0, 2.0, 0.8, 0.0, 0.3, 900)
    few = replace(good, method="few", num_draws=10, ess_bulk=40.0)
    rows = [good, bad, few, Efficiency("none", note="no draws")]
    figure = plot_comparison(rows, tmp_path / "a.png").figure
    bars = {bar.get_y(): bar for bar in figure.axes[0].patches}
    assert [bool(bars[y].get_facecolor()[3]) for y in sorted(bars)] == [False, False, False, True]
    assert figure.axes[0].texts[0].get_text() == "0 no draws"
    assert matplotlib.image.imread(tmp_path / "a.png").shape[1] > 1000


# The command --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("block_seconds")
def test_interrupted_command_keeps_what_was_found(tmp_path, capsys, monkeypatch, is_stopped):
    """The signal that ends a batch job, at the first news of the second method."""
    pressed, written = [], []

    @contextmanager
    def display(console, methods):
        def show(method, progress):
            if method == "rwm" and not pressed:
                pressed.append(method)
                written.append((tmp_path / "out-comparison" / "comparison.csv").read_text())
                is_stopped.clear()
                os.kill(os.getpid(), signal.SIGTERM)
                is_stopped.wait()

        yield show

    monkeypatch.setattr(compare_command, "comparison_display", display)
    path, out = tmp_path / "small.py", tmp_path / "out-comparison"
    path.write_text(FILE)
    options = "--methods", "pcn,rwm,laplace", "--budget", "0.5", "--chains", "1", "--warmup", "20"
    options += "--out", out
    assert call("compare", path, *options) == 3
    assert "rwm: stopped before its time was over" in capsys.readouterr().out
    (table,) = written  # however the command ends
    assert [line.partition(",")[0] for line in table.splitlines()] == ["method", "pcn"]
    first = _rows(tmp_path)
    assert [*first] == ["pcn", "rwm"]
    # A second one does not overwrite it.
    assert call("compare", path, *options) == 2
    assert "which is there already" in capsys.readouterr().err
    # What is done is taken, the method that was stopped and the next one are run.
    assert call("compare", path, *options, "--resume") == 0
    assert f"Written to {out}: comparison.csv, comparison.png" in capsys.readouterr().out
    rows = _rows(tmp_path)
    assert [*rows] == ["pcn", "rwm", "laplace"]
    assert rows["pcn"] == first["pcn"]
    for name in ("pcn", "rwm"):
        assert not rows[name]["note"]
        assert int(rows[name]["num_chains"]) == 1
        assert float(rows[name]["ess_bulk"]) > 0
    assert call("compare", path, *options, "--resume") == 0  # all is done
    assert _rows(tmp_path) == rows
    _check_others_are_refused(path, (*options, "--resume"), out, capsys)


def _rows(folder):
    with (folder / "out-comparison" / "comparison.csv").open(encoding="utf-8") as stream:
        return {row["method"]: row for row in csv.DictReader(stream)}


def _check_others_are_refused(path, options, out, capsys):
    capsys.readouterr()
    record = out / "comparison.json"
    whole = record.read_text()

    def refused(words, *more):
        assert call("compare", path, *options, *more) == 2
        printed = capsys.readouterr().err
        assert words in printed
        assert printed.count("\n") == 1

    refused("comparison.json, warmup: expected 77, found", "--warmup", "77")
    refused("no such directory", "--out", str(out.parent / "none"))
    record.write_text(whole[: len(whole) // 2])
    refused("found one that is cut off or changed")
    record.write_text(whole.replace('"num_chains": 1', '"num_chains": 3', 1))
    refused("found one that is cut off or changed")
    record.unlink()
    refused("no comparison.json in it")
    record.write_text(whole)
    path.write_text(FILE.replace("0.4", "0.3"))
    refused("comparison.json, problem: expected this problem, found another one")


@pytest.mark.usefixtures("block_seconds")
def test_a_method_that_is_done_is_kept_whenever_ctrl_c_is_pressed(monkeypatch):
    """While its many draws are judged."""
    pressed = []

    def press(*arguments):
        if not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        return efficiency(*arguments)

    monkeypatch.setattr("invlift.app.studies.compare.efficiency", press)
    rows = list(compare(problem(), ["pcn", "rwm"], budget=0.5, chains=1, warmup=20))
    assert [(row.method, row.note) for row in rows] == [("pcn", "")]
