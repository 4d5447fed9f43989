"""Simulated readings: noise of the problem file or of a given scale, and the truth behind them."""

from dataclasses import replace

import numpy as np
import pytest
import pyvista
from command_line import call
from problem_files import write_problem
from scipy.stats import kstest

import invlift
from invlift.app.studies.simulate import simulate_by_name, simulate_problem, simulate_readings
from invlift.noise import gaussian_noise, known_noise, student_t_noise
from invlift.unknowns.distributions import lognormal

LOGNORMAL = {"distribution": "lognormal", "location": -2.0, "scale": 0.7}


def field_at(folder, num_sensors=400, changes=None):
    """A problem with many sensors off the edge where the solution is held."""
    points = 0.2 + 0.7 * np.random.default_rng(3).random((num_sensors, 2))
    table = "x,y\n" + "".join(f"{x!r},{y!r}\n" for x, y in points.tolist())
    spec = invlift.read_problem(write_problem(folder, changes, sensors=table))
    return invlift.build_problem(spec, needs_values=False)


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    return field_at(tmp_path_factory.mktemp("field"))


def exact(field, truth):
    return np.asarray(field.model.readings_of(truth["log_conductivity"], truth["solution"][None]))


def test_noise_of_the_file_is_drawn_told_and_kept_with_the_truth(tmp_path, capsys):
    table = "x,y\n0.3,0.4\n0.6,0.7\n0.81,0.2\n"
    path = write_problem(tmp_path, {"noise.sigma": LOGNORMAL}, sensors=table)
    drawn = []
    for file, seed in (("a", 4), ("b", 4), ("c", 5)):
        assert call("simulate", path, "--seed", seed, "--out", tmp_path / f"{file}.csv") == 0
        grid = pyvista.read(tmp_path / f"{file}_truth.vtu")
        assert set(grid.field_data) == {"sigma"}
        assert set(grid.point_data) == {"log_conductivity", "solution"}
        drawn.append(float(grid.field_data["sigma"][0]))
        printed = capsys.readouterr().out
        assert "3 sensors, noise of the problem file" in printed
        assert f"Drawn from their priors: sigma {drawn[-1]:.6g}\n" in printed
    assert drawn[0] == drawn[1] != drawn[2]
    first, second, third = ((tmp_path / f"{name}.csv").read_bytes() for name in "abc")
    assert first == second != third
    # a given scale is known: nothing is drawn
    assert call("simulate", path, "--sigma", 0.5, "--seed", 4, "--out", tmp_path / "d.csv") == 0
    assert pyvista.read(tmp_path / "d_truth.vtu").field_data.keys() == []
    printed = capsys.readouterr().out
    assert "noise 0.5" in printed
    assert "Drawn" not in printed


def test_noise_that_needs_a_column_is_refused_without_it(tmp_path, capsys):
    path = write_problem(tmp_path, {"noise.sigma": "column"}, sensors="x,y\n0.3,0.4\n")
    options = ["--seed", 1, "--out", tmp_path / "a.csv"]
    assert call("simulate", path, *options) == 2
    assert "a column sigma" in capsys.readouterr().err
    assert not list(tmp_path.glob("a*"))
    table = "x,y,sigma\n0.3,0.4,0.1\n0.6,0.7,0.002\n"
    path = write_problem(tmp_path, {"noise.sigma": "column"}, sensors=table)
    assert call("simulate", path, "--seed", 1, "--out", tmp_path / "b.csv") == 0
    assert invlift.read_sensors(tmp_path / "b.csv", 2).sigma.tolist() == [0.1, 0.002]


def test_any_noise_has_its_own_distribution_at_the_parameters_drawn(field):
    sensors, truth = simulate_readings(field, known_noise(0.01), seed=7)
    error = (sensors.values - exact(field, truth)) / 0.01
    assert kstest(error, "norm").pvalue > 1e-3
    assert kstest(error / 1.3, "norm").pvalue < 1e-3  # negative control
    assert not {"sigma", "prior_range"} & truth.keys()
    for relative in (False, True):
        noise = student_t_noise(lognormal(-3.0, 0.5), lognormal(0.3, 0.1), relative=relative)
        sensors, truth = simulate_readings(field, noise, seed=2)
        predicted = exact(field, truth)
        error = np.log(sensors.values / predicted) if relative else sensors.values - predicted
        error /= truth["sigma"]
        assert kstest(error, "t", args=(float(truth["degrees_of_freedom"]),)).pvalue > 1e-3
        assert kstest(error, "norm").pvalue < 1e-3  # negative control


def test_parameters_are_drawn_from_their_prior(tmp_path):
    field = field_at(tmp_path, 2, {"prior.range": LOGNORMAL})
    noise = gaussian_noise(lognormal(-2.0, 0.7))
    truths = [simulate_readings(field, noise, seed)[1] for seed in range(100)]
    logs = np.log([truth["sigma"] for truth in truths])
    assert kstest((logs + 2.0) / 0.7, "norm").pvalue > 1e-3
    assert kstest((logs + 2.0) / 1.1, "norm").pvalue < 0.05  # negative control
    _, truth = simulate_readings(field, known_noise(0.1), seed=1)
    white = np.random.default_rng(1).standard_normal(field.prior.num_white)
    expected = field.prior.parameters(white)["prior_range"]
    np.testing.assert_allclose(truth["prior_range"], expected, rtol=1e-12)


def test_readings_that_the_noise_cannot_have_made_are_refused(tmp_path):
    table = "x,y\n0.0,0.5\n0.6,0.7\n"  # the first on the edge where the solution is held at 0
    spec = invlift.read_problem(write_problem(tmp_path, sensors=table))
    field = invlift.build_problem(spec, needs_values=False)
    with pytest.raises(invlift.InputError, match="index 0: expected a reading other than 0"):
        simulate_readings(field, student_t_noise(0.1, 4.0, relative=True), seed=1)
    simulate_readings(field, student_t_noise(0.1, 4.0), seed=1)


def test_a_problem_is_simulated_with_the_same_random_numbers(tmp_path):
    field = field_at(tmp_path, 3)
    field = replace(field, noise=gaussian_noise(lognormal(-1.0, 0.7)))
    sensors, truth = simulate_readings(field, field.noise, seed=5)
    problem, theta = simulate_problem(field, seed=5)
    np.testing.assert_allclose(problem.observed, sensors.values, rtol=1e-10)
    zeta, white = problem.split(theta)
    np.testing.assert_allclose(field.prior.transform(white), truth["log_conductivity"])
    np.testing.assert_allclose(field.noise.sigma(zeta), truth["sigma"])


def test_readings_beyond_their_limits_are_told_from_numbers():
    """Of a model without a table of sensors."""
    noise = known_noise(0.1).with_limits(["", "<", ">"])
    unknowns = {"a": invlift.normal(0.0, 1e-3)}
    problem = invlift.inverse_problem(lambda a: a * np.ones(3), unknowns, noise, [0.0, 1.0, 1.0])
    columns, _ = simulate_by_name(problem, seed=1)
    assert columns["limit"].tolist() == ["", "<", ""]
    assert columns["value"][1] == 1.0
    assert abs(columns["value"][2]) < 1.0
    without = invlift.inverse_problem(lambda a: a * np.ones(3), unknowns, 0.1, [0.0, 1.0, 1.0])
    assert "limit" not in simulate_by_name(without, seed=1)[0]


# --- a series of draws from the prior -----------------------------------------------------------

UNKNOWN = {
    "noise.sigma": LOGNORMAL,
    "prior.range": {"distribution": "lognormal", "location": 0.0, "scale": 0.3},
}


def steps_of(path):
    reader = pyvista.get_reader(path)
    for index in range(len(reader.time_values)):
        reader.set_active_time_point(index)
        yield reader.read()[0]


def test_draws_are_a_series_of_different_fields_and_the_same_again(tmp_path, capsys):
    path = write_problem(tmp_path, UNKNOWN, sensors="x,y\n0.3,0.4\n0.6,0.7\n")
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        out = tmp_path / f"{name}.pvd"
        assert call("simulate", path, "--draws", 3, "--seed", seed, "--out", out) == 0
        assert "3 draws from the prior" in capsys.readouterr().out
    first, second, third = (list(steps_of(tmp_path / f"{name}.pvd")) for name in "abc")
    assert len(first) == len(second) == len(third) == 3
    for one, same, other in zip(first, second, third, strict=True):
        assert set(one.point_data) == {"log_conductivity", "conductivity", "solution"}
        assert set(one.field_data) >= {"sigma", "prior_range"}
        np.testing.assert_array_equal(one["conductivity"], np.exp(one["log_conductivity"]))
        for name in ("log_conductivity", "solution", "sigma", "prior_range"):
            np.testing.assert_array_equal(one[name], same[name])
            assert np.any(one[name] != other[name])
    assert first[0]["prior_range"] != first[1]["prior_range"]
    # the first of them is the field behind the readings of the same seed
    assert call("simulate", path, "--seed", 4, "--out", tmp_path / "s.csv") == 0
    truth = pyvista.read(tmp_path / "s_truth.vtu")
    for name in ("log_conductivity", "solution", "sigma", "prior_range"):
        np.testing.assert_allclose(first[0][name], truth[name], rtol=1e-9)


def test_a_prior_too_wide_for_numbers_is_refused(tmp_path, capsys):
    path = write_problem(tmp_path, {"prior.std": 50.0, "prior.mean": 300.0})
    out = tmp_path / "a.pvd"
    assert call("simulate", path, "--draws", 60, "--seed", 1, "--out", out) == 2
    assert "from the prior: expected a finite conductivity" in capsys.readouterr().err
    assert not list(tmp_path.glob("a*"))
