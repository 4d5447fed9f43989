"""Every example runs, in a small version, and its results open."""

import re
import runpy
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io
from crafted import run_from_prior
from problem_files import trace_a_step
from scipy.special import erf

import invlift
from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.problems import load, read_python_problem
from invlift.samplers.kernels import KERNELS

EXAMPLES = Path(__file__).parents[2] / "examples"
#: All are built, and a step of their sampler is traced of one of each kind.
BUILT = (
    "disc/problem.toml",
    "calibration/problem.toml",
    "plate/problem.toml",
    "wolfcamp/problem.toml",
    "electrodes/trunk.toml",
    "ground_line/problem.toml",
    "insert/problem.toml",
    "kit4/problem.toml",
    "well_test/problem.toml",
    "theis/korendijk.toml",
    "pumping_tests/problem.toml",
    "lauswiesen/problem.toml",
    "time_lapse/problem.toml",
    "body3d/problem.toml",
    "electrodes/tank.toml",
)
TRACED = "lauswiesen/problem.toml", "time_lapse/problem.toml"


@pytest.mark.slow
@pytest.mark.parametrize("file", BUILT)
def test_example_is_built(file):
    spec = read_problem(EXAMPLES / file)
    field = build_problem(spec, needs_values="calibration" not in file)
    if file in TRACED:
        trace_a_step(field, spec.sampler.kernel())


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ("ground_line/problem", "ground_line/gallery", "observations"),
        ("wolfcamp/problem", "wolfcamp/rim_in_doubt", "pde"),
    ],
)
def test_examples_differ_in_a_table(one, other, differs):
    """A measured line from a simulated one, and a rim in doubt from a known one."""
    one, other = (read_problem(EXAMPLES / f"{name}.toml") for name in (one, other))
    for table in {"mesh", "electrodes", "pde", "prior", "noise", "observations"} - {differs}:
        assert getattr(one, table) == getattr(other, table)
    assert getattr(one, differs) != getattr(other, differs)


#: Problems of Python files, and shapes of some of their draws.
PYTHON = {
    "soil_carbon/soil_carbon.py:ak": {},
    "voltage_clamp/voltage_clamp.py:sodium": {},
    "fitzhugh_nagumo/fitzhugh_nagumo.py": {},
    "theis/theis.py:gridley": {},
    "hare_lynx/hare_lynx.py": {"hare_path": (21,), "lynx_path": (21,), "sigma": (2,)},
    "state_space/autoregressive.py": {"log_signal_path": (1000,)},
    "generators/lotka_volterra.py": {"noise": (50, 2)},
    "inpainting/inpainting.py": {"image": (8, 8)},
    "pose/pose.py:limbs": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PYTHON)
def test_example_of_a_python_file_is_built(name):
    problem = load(read_python_problem(str(EXAMPLES / name)))
    trace_a_step(problem, KERNELS["chmc"]())
    if shapes := PYTHON[name]:
        found = problem.shapes_of_draws()
        assert {each: found[each] for each in shapes} == shapes


@pytest.mark.slow
def test_soil_carbon_is_its_closed_form():
    """Without feedback each pool decays by itself; k2 is the median of what lies below k1."""
    problem = load(read_python_problem(str(EXAMPLES / "soil_carbon" / "soil_carbon.py:hn")))
    k1, gamma, c0 = 0.3, 0.25, 9.0
    found = jax.jit(problem.model.describe)(jnp.array([k1, 0.5, 1.0, 0.4, gamma, c0]))
    k2, days = found["k2"], dict(problem.model.kept_axes)["carbon_path"][0][1]
    np.testing.assert_allclose(2.0 * erf(k2 / np.sqrt(2.0)), erf(k1 / np.sqrt(2.0)), rtol=1e-12)
    assert found["alpha21"] == 0.0
    # All that leaves the second pool enters the first, which loses it for good.
    one, two = gamma * c0, (1.0 - gamma) * c0
    slow = two * k2 / (k1 - k2)
    rest = (one - slow) * np.exp(-k1 * np.array(days)) + (two + slow) * np.exp(-k2 * np.array(days))
    np.testing.assert_allclose(found["carbon_path"], c0 - rest, rtol=1e-10)


def of_example(name):
    return runpy.run_path(str(EXAMPLES / name / f"{name}.py"))


def test_what_lauswiesen_tells_without_a_mesh():
    """The page's figures; of simulated drawdowns the truth, and no gap of wells exchanged."""
    names = of_example("lauswiesen")
    table, smallest = names["read"](), names["smallest_residual"]
    transmissivity, storage, rest = names["fit"](table)
    np.testing.assert_allclose([transmissivity, storage], [0.0255, 0.0411], rtol=3e-3)
    assert np.sqrt(np.mean(rest**2)) == pytest.approx(8.9e-3, abs=1e-4)
    assert smallest(names["gaps"](table)) == pytest.approx(4.4e-3, abs=1e-4)
    truth = np.array([0.01, 0.002])
    made = table.assign(value=names["theis"](table, np.log(truth)))
    np.testing.assert_allclose(names["fit"](made)[:2], truth, rtol=1e-4)
    assert smallest(names["gaps"](made)) < 1e-12


def test_voltage_clamp_is_the_solution_of_its_equations():
    """By small steps, with rates written out, at Hodgkin & Huxley's own values."""
    example = of_example("voltage_clamp")

    def slope(t, x):
        v = -63.0
        am, bm = 0.1 * (v + 25) / (np.exp((v + 25) / 10) - 1), 4 * np.exp(v / 18)
        ah, bh = 0.07 * np.exp(v / 20), 1 / (np.exp((v + 30) / 10) + 1)
        return {"m": am * (1 - x["m"]) - bm * x["m"], "h": ah * (1 - x["h"]) - bh * x["h"]}

    at_rest = {"m": 2.5 / (np.exp(2.5) - 1), "h": 0.07}
    at_rest["m"] /= at_rest["m"] + 4
    at_rest["h"] /= at_rest["h"] + 1 / (np.exp(3) + 1)
    times = np.array([0.0, 0.2, 1.0, 5.0])
    x = invlift.solve_ode(slope, at_rest, times, 0.001)
    found = example["sodium_conductance"](
        times, -63.0, alpha_m1=0.1, alpha_m2=25.0, alpha_m3=10.0, beta_m1=4.0, beta_m2=18.0,
        alpha_h1=0.07, alpha_h2=20.0, beta_h1=30.0, beta_h2=10.0, g_Na=120.0,
    )  # fmt: skip
    np.testing.assert_allclose(found, 120 * x["m"] ** 3 * x["h"], rtol=1e-8)


@pytest.mark.slow
def test_current_stimulus_starts_at_the_mode():
    """Spikes are where they were; without the fits to parts of the record they are not."""
    example = of_example("current_stimulus")
    problem = example["problem"](1.0)
    for white in example["starts"](problem, chains=2):
        misfit = problem.predict(jnp.append(0.0, white)) - problem.observed
        assert np.std(misfit) < 1.1


def small(source, target, settings):
    """Copy an example with other values of its settings."""
    text = source.read_text()
    for old, new in settings.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    target.write_text(text)


@pytest.mark.slow
def test_examples_of_diffusions_are_built(tmp_path):
    """One with few readings and steps."""
    settings = {
        "NUM_READINGS, SPACING = 50": "NUM_READINGS, SPACING = 6",
        "STEPS, FINE_STEPS = 20": "STEPS, FINE_STEPS = 4",
    }
    file = tmp_path / "fitzhugh_nagumo.py"
    small(EXAMPLES / "diffusions" / file.name, file, settings)
    for each in (f"{file}:noisy", EXAMPLES / "diffusions" / "influenza.py"):
        trace_a_step(load(read_python_problem(f"{each}")), KERNELS["chmc"]())


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_matrix_factorisation_runs(tmp_path, monkeypatch, capsys):
    """With few ratings, one rank and few draws."""
    script = tmp_path / "factorisation.py"
    settings = {
        "NUM_USERS, NUM_ITEMS, RANK = 60, 40, 5": "NUM_USERS, NUM_ITEMS, RANK = 12, 8, 2",
        "NUM_KNOWN, NUM_HELD_OUT, NOISE = 1200, 600": "NUM_KNOWN, NUM_HELD_OUT, NOISE = 70, 20",
        "RANKS = (5, 10, 15)": "RANKS = (2,)",
        "NUM_WARMUP, NUM_DRAWS = 2, 400, 600": "NUM_WARMUP, NUM_DRAWS = 1, 20, 20",
    }
    small(EXAMPLES / "matrix_factorisation" / script.name, script, settings)
    monkeypatch.setattr("sys.argv", [script.name])
    runpy.run_path(str(script), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) == 2
    rows = (tmp_path / "scores.csv").read_text().splitlines()
    assert len(rows) == 3
    assert (tmp_path / "scores.png").stat().st_size > 10_000


def from_prior(script, sample):
    """What an example defines, with draws from the prior in the place of its runs."""
    names = runpy.run_path(str(script))[sample].__globals__
    names[sample] = lambda problem, *_, **__: (run_from_prior(problem, 200), 1.0)
    return names


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_inpainting_compares(tmp_path, monkeypatch):
    folder, script = EXAMPLES / "inpainting", tmp_path / "inpainting.py"
    (tmp_path / "decoder.npz").write_bytes((folder / "decoder.npz").read_bytes())
    settings = {
        "SHOWN, NUM_SHOWN = (44, 30, 10, 96), 8": "SHOWN, NUM_SHOWN = (44, 96), 3",
        "WIDTHS = (0.1, 0.03, 0.01)": "WIDTHS = (0.1,)",
    }
    small(folder / "inpainting.py", script, settings)
    monkeypatch.setattr("sys.argv", ["inpainting.py"])
    from_prior(script, "drawn")["main"]()
    assert len((tmp_path / "data" / "efficiency.csv").read_text().splitlines()) == 5
    rows = np.loadtxt(tmp_path / "data" / "completions.csv", delimiter=",", skiprows=1)
    assert rows.shape == (8, 65)
    assert (tmp_path / "completions.png").stat().st_size > 5_000


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_pose_compares(tmp_path, monkeypatch, capsys):
    for name in ("pose.py", "skeleton.py"):
        (tmp_path / name).write_text((EXAMPLES / "pose" / name).read_text())
    settings = {"num_steps=125": "num_steps=2", "3, 10, 20.0": "1, 2, 0.1"}
    small(EXAMPLES / "pose" / "compare.py", tmp_path / "compare.py", settings)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("pose", "skeleton"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    names = from_prior(tmp_path / "compare.py", "sampled")
    names["FIXED"]["constrained HMC"] = names["FIXED"]["HMC"]
    names["plot_poses"]()
    names["plot_errors"]()
    names["errors"](2, "constrained HMC")
    said = capsys.readouterr().out
    assert re.search("scene 2, constrained HMC: [0-9]+ mm after 0.0 s", said)
    assert re.search("scene 1: constrained HMC is lower at [0-9]+% of the times", said)
    for name in ("poses.png", "errors.png"):
        assert (tmp_path / name).stat().st_size > 5_000


def test_a_skeleton_keeps_its_limbs_and_angles():
    """At rest it stands; whatever the pose, limbs have their lengths and angles are in range."""
    names = runpy.run_path(str(EXAMPLES / "pose" / "skeleton.py"))
    shares, skeleton = np.array(list(names["SHARES"].values())), jax.jit(names["skeleton"])
    rest = skeleton(np.zeros(3), np.zeros(names["NUM_TURNS"]), shares)
    place = dict(zip(names["JOINTS"], np.asarray(rest), strict=True))
    assert place["head"][1] > place["neck"][1] > 0.0 > place["left knee"][1]
    assert place["left hip"][0] > 0.0 > place["right hip"][0]
    assert place["left toes"][2] < place["left ankle"][2]  # it faces the camera
    rng = np.random.default_rng(1)
    pose = 3.0 * rng.standard_normal(names["NUM_TURNS"])
    found = np.asarray(skeleton(rng.standard_normal(3), pose, shares))
    lengths = np.linalg.norm(found[1:] - found[names["PARENTS"]], axis=1)
    np.testing.assert_allclose(lengths, shares[names["LIMBS"]], rtol=1e-12)
    table = np.deg2rad([turn[1:] for turns in names["TURNS"].values() for turn in turns])
    angles = np.asarray(names["angles_of"](pose))
    assert ((angles > table[:, 0]) & (angles < table[:, 2])).all()


@pytest.mark.slow  # 20 s
def test_readings_of_electrodes_are_those_of_the_script(tmp_path, monkeypatch):
    folder = tmp_path / "examples" / "electrodes"
    folder.mkdir(parents=True)
    (tmp_path / "meshes").symlink_to(EXAMPLES.parent / "meshes")
    script = folder / "make_readings.py"
    script.write_text((EXAMPLES / "electrodes" / "make_readings.py").read_text())
    runpy.run_path(str(script), run_name="__main__")
    for name in ("tank.csv", "trunk.ohm"):
        lines = [each.read_text().splitlines() for each in
                 (folder / name, EXAMPLES / "electrodes" / name)]  # fmt: skip
        assert len(lines[0]) == len(lines[1]) > 100
        made, kept = ([re.split(r"[ ,]", line) for line in each[60:]] for each in lines)
        np.testing.assert_allclose(np.array(made, float), np.array(kept, float), rtol=1e-3)


def test_no_example_is_forgotten():
    files = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*.toml")}
    tried = {file.split("/")[0] for file in BUILT}
    assert {file.split("/")[0] for file in files} == tried | {"ktc"}
    for file in files - {*BUILT, "ktc/problem.toml"}:  # of those that are built otherwise
        read_problem(EXAMPLES / file)


def test_tank_of_the_challenge_is_built_of_files_as_it_has_them(tmp_path):
    """The person has the data: here are two of its 76 injections."""
    currents, pairs = np.zeros((32, 2)), np.eye(32)[:, :31] - np.eye(32, k=-1)[:, :31]
    currents[[0, 2], 0] = currents[[2, 4], 1] = 1.5, -1.5
    empty, volts = np.random.default_rng(3).standard_normal((2, 62, 1))
    volts[40] = np.nan
    data = {"Inj": currents, "Mpat": pairs, "Uel": volts}
    scipy.io.savemat(tmp_path / "data1.mat", data)
    data = {"Injref": currents, "Mpat": pairs, "Uelref": empty}
    scipy.io.savemat(tmp_path / "ref.mat", data)
    text = (EXAMPLES / "ktc" / "problem.toml").read_text(encoding="utf-8")
    text = text.replace("../..", EXAMPLES.parent.as_posix())
    (tmp_path / "problem.toml").write_text(text, encoding="utf-8")
    problem = build_problem(read_problem(tmp_path / "problem.toml"))
    is_there = ~np.isnan(volts[:, 0])
    assert np.allclose(np.sort(problem.observed), np.sort((volts - empty)[is_there, 0]))


def test_score_of_the_challenge_is_the_similarity_of_its_definition():
    found = runpy.run_path(str(EXAMPLES / "ktc" / "score.py"))
    rng = np.random.default_rng(5)
    truth, other = (rng.random((2, 12, 12)) < 0.3).astype(float)
    places = np.argwhere(truth >= 0.0)
    squares = ((places[:, None] - places) ** 2).sum(axis=2)
    weights = np.exp(-0.5 * squares / 80.0**2)
    weights /= weights.sum(axis=1, keepdims=True)
    x, y = truth.ravel(), other.ravel()
    one, two = weights @ x, weights @ y
    both = weights @ (x * y) - one * two
    spread = weights @ x - one**2 + weights @ y - two**2
    expected = (2 * one * two + 1e-4) * (2 * both + 9e-4)
    expected /= (one**2 + two**2 + 1e-4) * (spread + 9e-4)
    assert np.isclose(found["similarity"](truth, other), expected.mean(), rtol=1e-10)
    classes = truth + 2.0 * other * (truth == 0.0)
    assert np.isclose(found["score"](classes, classes), 1.0)
    assert found["score"](classes, 0.0 * classes) < 0.2  # negative control
