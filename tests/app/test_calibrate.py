"""invlift calibrate: simulations that share programs, are never lost, and see a wrong density."""

import itertools
import json
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from command_line import call
from matplotlib.image import imread
from problem_files import write_problem

import invlift
from invlift.app.runs.scalars import random_entries
from invlift.app.studies.calibrate import _Task, calibrate
from invlift.app.studies.simulate import simulate_problem
from invlift.errors import InputError
from invlift.noise import gaussian_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.programs.compilation import Program
from invlift.samplers.kernels import HMC, KERNELS
from invlift.samplers.kernels.base import Kernel
from invlift.unknowns.distributions import lognormal

LOGNORMAL = {"distribution": "lognormal", "location": -1.0, "scale": 1.0}


def curved(theta):
    """Two parameters, three observations, no symmetry."""
    first, second = theta
    return jnp.stack([first + 0.3 * second**2, jnp.exp(0.5 * second), first - second])


def curved_problem(scale=0.5):
    return jax_problem(curved, 2, gaussian_noise(lognormal(-1.0, scale)), np.zeros(3))


NUM = 9


def calibrated(num=NUM, problem=None, **options):
    settings = {"method": "hmc", "draws": 31, "warmup": 40, "seed": 3} | options
    return calibrate(problem or curved_problem(), simulations=num, **settings)


def without_time(rows):
    return [(row.simulation, row.outcome, dict(row.ranks), row.num_draws, row.ess) for row in rows]


@pytest.fixture(scope="module")
def whole_and_programs():
    """All simulations, and how many programs had been compiled before and after each."""
    begun = [Program.num_begun]
    found = calibrated(on_simulation=lambda row, num: begun.append(Program.num_begun))
    return found, begun


@pytest.fixture(scope="module")
def whole(whole_and_programs):
    return whole_and_programs[0]


def test_every_simulation_has_ranks_of_every_quantity(whole):
    assert [row.simulation for row in whole.simulations] == list(range(NUM))
    assert whole.names == ("sigma", "log_likelihood", "parameters[0]", "parameters[1]")
    assert whole.num_counted == NUM
    assert not whole.failures
    for name, ranks in whole.ranks.items():
        assert ranks.shape == (NUM,), name
        assert ranks.min() >= 0
        assert ranks.max() <= 31
        assert len(set(ranks)) > 3
    for row in whole.simulations:
        assert row.ess >= 31
        assert row.num_draws >= 100


def test_results_depend_on_the_seed_and_not_on_the_cores(whole, monkeypatch):
    monkeypatch.setattr("invlift.app.studies.calibrate.num_cores", lambda: 3)
    threads = set()
    again = calibrated(on_simulation=lambda row, num: threads.update(threading.enumerate()))
    assert len({each.name for each in threads if each.name.startswith("simulation")}) == 3
    assert without_time(again.simulations) == without_time(whole.simulations)
    monkeypatch.setattr("invlift.app.studies.calibrate.num_cores", lambda: 1)
    fewer = calibrated(3)
    assert without_time(fewer.simulations) == without_time(whole.simulations[:3])
    other = calibrated(3, seed=4)
    assert without_time(other.simulations) != without_time(fewer.simulations)


def test_simulations_share_their_programs(whole_and_programs):
    """Negative control: the first one compiles them."""
    before, first, *others = whole_and_programs[1]
    assert before < first
    assert others == [first] * (NUM - 1)


def test_an_interrupted_calibration_goes_on_to_the_same_end(whole, tmp_path, monkeypatch, caplog):
    simulate, pressed, seen = _Task.simulate, [], []

    def press(simulation, num_done):  # Ctrl-C
        if num_done == 3:
            pressed.append(True)
            raise KeyboardInterrupt

    def simulate_some(task, simulation):
        while simulation >= 5 and not pressed:
            time.sleep(0.01)
        return simulate(task, simulation)

    def resumed(num=NUM, **options):
        seen.clear()
        options = {"on_simulation": lambda row, _: seen.append(row.simulation)} | options
        return calibrated(num, directory=tmp_path, resume=True, **options)

    with monkeypatch.context() as patch:
        patch.setattr(_Task, "simulate", simulate_some)
        patch.setattr("invlift.app.studies.calibrate.num_cores", lambda: 2)
        stopped = calibrated(directory=tmp_path, on_simulation=press)
    assert 3 <= len(stopped.simulations) <= 7  # two were under way
    assert "stopped after" in stopped.verdict().reasons[-1]
    record = json.loads((tmp_path / "calibration.json").read_text())
    assert record["is_interrupted"] is True
    with pytest.raises(InputError, match=r"calibration.json, which is there already"):
        calibrated(directory=tmp_path)
    with pytest.raises(InputError, match="warmup: expected 41, found 40"):
        resumed(warmup=41)
    with pytest.raises(InputError, match="problem: expected this problem, found another one"):
        resumed(problem=curved_problem(0.6))
    assert without_time(resumed().simulations) == without_time(whole.simulations)
    assert len(seen) == NUM - len(stopped.simulations)
    record = json.loads((tmp_path / "calibration.json").read_text())
    assert record["is_interrupted"] is False
    assert record["num_counted"] == NUM
    assert record["p_values"] == whole.p_values()
    # What is there counts, even if fewer are asked for; a finished one is read, not run.
    assert without_time(resumed(4).simulations) == without_time(whole.simulations)
    assert not seen
    # Rows that are damaged are simulated again.
    table = tmp_path / "calibration.csv"
    lines = table.read_text().splitlines()
    changed = lines[5].replace(",ok,", ",the chain never moved,")
    table.write_text("\n".join([*lines[:5], changed, *lines[6:-1], lines[-1][:20]]))
    assert without_time(resumed().simulations) == without_time(whole.simulations)
    assert len(seen) == 2
    assert "2 rows cut off or changed; their simulations are run again" in caplog.text
    caplog.clear()
    table.write_text(lines[0][:30])  # in the middle of the names
    assert without_time(resumed(2).simulations) == without_time(whole.simulations[:2])
    assert "rows cut off" not in caplog.text


def test_limits_of_censored_readings_belong_to_a_calibration():
    """Readings do not: they are simulated."""
    noise = gaussian_noise(0.5).with_limits(np.array(["<", "", ""]))

    def identity(*observed):
        problem = jax_problem(curved, 2, noise, np.array(observed))
        entries = random_entries(problem, 3)
        return _Task(problem, HMC(), 31, 40, 3, "prior", entries).identity()["problem"]

    assert identity(0.1, 0.2, 0.3) == identity(0.1, 0.4, 0.5) != identity(0.2, 0.2, 0.3)


def test_resuming_needs_a_calibration(tmp_path):
    with pytest.raises(InputError, match=r"no calibration.json in it"):
        calibrated(directory=tmp_path, resume=True)
    with pytest.raises(InputError, match="resume: expected a directory"):
        calibrated(resume=True)
    (tmp_path / "calibration.json").write_text("{}")
    with pytest.raises(InputError, match="the files of a calibration"):
        calibrated(directory=tmp_path, resume=True)


class Sticky(KERNELS["pcn"], settings=True):
    """Stays where it is: in most iterations, or in all if the first reading is negative."""

    def step(self, target, rng_key, state, tuning):
        new, statistics = super().step(target, rng_key, state, tuning)
        stays = jax.random.uniform(jax.random.fold_in(rng_key, 7)) < 0.98
        stays = stays | (target.problem.observed[0] < 0.0)
        return jax.tree.map(lambda new, old: jnp.where(stays, old, new), new, state), statistics


def test_chains_that_fail_are_counted_and_named(monkeypatch):
    monkeypatch.setattr("invlift.app.studies.calibrate.MOST_DRAWS", 8)
    found = calibrate(curved_problem(), Sticky(), simulations=6, draws=31, warmup=10, seed=3)
    assert set(found.failures) == {"the chain never moved", "too few effective draws"}
    assert sorted(itertools.chain(*found.failures.values())) == list(range(6))
    assert found.num_counted == 0
    assert {row.num_draws for row in found.simulations} == {400}
    assert all(set(row.ranks) == set(found.names) for row in found.simulations)
    verdict = found.verdict()
    assert verdict.headline == "No verdict on the calibration."
    for outcome, numbers in found.failures.items():
        words = f"{len(numbers)} of 6 simulations failed, {outcome}"
        assert any(words in reason for reason in verdict.reasons)


def test_what_keeps_a_chain_from_starting_is_told():
    single = jax_problem(lambda theta: theta**3, 1, invlift.known_noise(0.3), np.zeros(1))
    found = calibrate(single, "mams", simulations=2, draws=7, warmup=10)
    (outcome,) = found.failures
    assert outcome.startswith("no chain (")
    assert "2 of 2 simulations failed, no chain (" in str(found.verdict())


def test_readings_that_cannot_be_simulated_are_told(whole, monkeypatch):
    every = [3]

    def failing(problem, seed):
        if seed % every[0] == 0:
            raise InputError("simulated readings", "finite numbers", "inf", "correct the noise")
        return simulate_problem(problem, seed)

    monkeypatch.setattr("invlift.app.studies.calibrate.simulate_problem", failing)
    found = calibrated(6)
    ((outcome, numbers),) = found.failures.items()
    assert outcome == "no readings (simulated readings: inf)"
    assert 1 <= len(numbers) < 6
    assert not any(found.simulations[number].ranks for number in numbers)
    others = [row for row in found.simulations if row.outcome == "ok"]
    kept = [row for row in whole.simulations[:6] if row.simulation not in numbers]
    assert without_time(others) == without_time(kept)
    every[0] = 1
    with pytest.raises(InputError, match="simulated readings: expected finite numbers"):
        calibrated(2)


def test_arguments_are_checked():
    for options, words in (
        ({"num": 0}, "simulations: expected an integer from 1"),
        ({"draws": 6}, "draws: expected an integer from 7"),
        ({"warmup": 0}, "warmup: expected"),
        ({"seed": -1}, "seed: expected"),
        ({"starts": "mode"}, 'starts: expected "prior" or'),
        ({"method": "gibbs"}, "method: expected one of"),
        ({"method": KERNELS["chmc"](retraction="newtn")}, 'retraction: expected "chebyshev"'),
    ):
        with pytest.raises(InputError, match=words):
            calibrated(**options)


# A field ------------------------------------------------------------------------------------------


def test_places_are_named_by_where_they_are(tmp_path):
    field = invlift.build_problem(invlift.read_problem(write_problem(tmp_path)))
    places = random_entries(field, 3)["log_conductivity"]
    assert places != random_entries(field, 4)["log_conductivity"]
    assert len(places) == 5
    for name, place in places.items():
        x, y = field.mesh.points[place]
        assert name == f"log_conductivity({x:.3g}, {y:.3g})"


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_command(tmp_path, capsys):
    """Without readings: none are needed."""
    sensors = "x,y\n0.3,0.4\n0.6,0.7\n0.8,0.2\n"
    path = write_problem(tmp_path, {"noise.sigma": LOGNORMAL}, sensors=sensors)
    options = ["--simulations", 22, "--draws", 15, "--warmup", 30]
    assert call("calibrate", path, *options) == 0
    out = capsys.readouterr().out
    assert "Calibrated, as far as 22 simulations can tell: the ranks of 9 quantities" in out
    assert "calibration.csv, calibration.png, calibration.json" in out
    results = tmp_path / "out-calibration"
    columns = list(pd.read_csv(results / "calibration.csv").columns.drop("seconds"))
    field = [f"log_conductivity_field_{name}" for name in ("mean", "std")]
    assert columns[6:10] == ["sigma", *field, "log_likelihood"]
    assert all(column.startswith("log_conductivity(") for column in columns[10:15])
    assert columns[15:] == ["checksum"]
    record = json.loads((results / "calibration.json").read_text())
    assert record["is_calibrated"] is True
    assert set(record["p_values"]) == set(columns[6:15])
    assert {"invlift", "jax", "python"} <= set(record["versions"])
    assert record["identity"]["seed"] == 5
    assert imread(results / "calibration.png").shape[1] > 1000
    assert not (tmp_path / "out").exists()


class PriorDraws(Kernel, settings=True):
    """Draws that know nothing of the data."""

    def init(self, target, position):
        return position

    def position(self, state):
        return state

    def step(self, target, rng_key, state, tuning):
        statistics = {"acceptance_rate": jnp.ones(()), "num_factorisations": jnp.asarray(0)}
        return jax.random.normal(rng_key, state.shape), statistics


FILE = """
import jax.numpy as jnp
import numpy as np
import invlift

def curved(theta):
    first, second = theta
    return jnp.stack([first + 0.3 * second**2, jnp.exp(0.5 * second), first - second])

problem = invlift.jax_problem(curved, 2, invlift.known_noise(0.3), np.zeros(3))
"""


def test_draws_from_the_prior_pass_by_everything_but_the_likelihood(tmp_path, capsys, monkeypatch):
    """What the log likelihood is looked at for (Modrak et al. 2023, section 2)."""
    monkeypatch.setitem(KERNELS, "prior", PriorDraws)
    path = tmp_path / "small.py"
    path.write_text(FILE)
    options = ["--simulations", 25, "--draws", 31, "--warmup", 10, "--seed", 1]
    assert call("calibrate", path, "--method", "prior", *options, "--out", tmp_path / "out") == 3
    printed = " ".join(capsys.readouterr().out.split())
    assert "Not calibrated: 1 of 3 quantities leave their bands." in printed
    assert "log_likelihood: the posterior is too narrow" in printed
    p_values = json.loads((tmp_path / "out" / "calibration.json").read_text())["p_values"]
    assert set(p_values) == {"log_likelihood", "parameters[0]", "parameters[1]"}
    assert p_values.pop("log_likelihood") < 1e-12
    assert min(p_values.values()) > 0.01
