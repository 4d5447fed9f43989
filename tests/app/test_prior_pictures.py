"""The picture of a prior: its numbers against draws and the formula, and the command behind it."""

import numpy as np
import pytest
from command_line import call
from matplotlib.image import imread
from problem_files import write_problem
from structured import box_mesh

import invlift
from invlift.app.checks import Finding, Report
from invlift.app.prior_pictures import line_outward, matern_correlation, picture_prior
from invlift.posterior.field_plots import plot_prior

UNKNOWN = {"distribution": "lognormal", "location": 0.0, "scale": 0.3}
GAMMA = {"distribution": "gamma", "concentration": 4.0, "rate": 3.67206}  # of median 1


def test_formula_is_exponential_and_has_the_range_it_should():
    distances = np.array([0.0, 0.1, 0.7, 2.0])
    expected = np.exp(-2.0 * distances / 0.7)
    np.testing.assert_allclose(matern_correlation(distances, 0.7, 0.5), expected, rtol=1e-12)
    assert matern_correlation(0.7, 0.7, 1.0) == pytest.approx(0.14, abs=0.005)
    assert matern_correlation(0.7, 0.9, 1.0) > 0.2  # negative control


def test_line_starts_in_the_middle_and_ends_furthest_from_it():
    points = np.random.default_rng(0).random((500, 2))
    places, distances = line_outward(points)
    assert distances[0] == 0
    assert np.all(np.diff(distances) > 0)
    assert np.linalg.norm(points[places[0]] - 0.5) < 0.1
    assert distances[-1] == np.linalg.norm(points - points[places[0]], axis=1).max()


def test_correlation_is_that_of_draws(tmp_path):
    path = write_problem(tmp_path, {"prior.range": 0.6}, mesh=box_mesh(2, 8))
    picture = picture_prior(invlift.read_problem(path))
    prior = invlift.build_problem(invlift.read_problem(path)).problem.prior
    white = np.random.default_rng(1).standard_normal((prior.num_white, 4000))
    places, _ = line_outward(picture.mesh.points)
    drawn = np.corrcoef(np.asarray(prior.sqrt(white))[places])[0]
    np.testing.assert_allclose(picture.correlations[0], drawn, atol=0.06)
    assert picture.correlations[0, 0] == pytest.approx(1.0)
    assert np.ptp(picture.correlations[0]) > 0.5  # negative control: not one for all
    assert picture.predicted.shape == (50, 3)
    assert picture.formula_name == "Matern, range 0.6"
    figure = plot_prior(picture)
    titles = [ax.get_title("left") for ax in figure.get_axes()]
    assert [title for title in titles if title.startswith("Draw")] == [
        f"Draw {index}" for index in range(4)
    ]


@pytest.mark.parametrize(
    ("changes", "num_curves"),
    [
        ({"prior": {"kind": "independent", "std": 0.5}}, 1),
        ({"prior.range": UNKNOWN}, 12),
        ({"prior.range": GAMMA}, 12),
    ],
)
def test_other_priors(tmp_path, changes, num_curves):
    path = write_problem(tmp_path, changes)
    picture = picture_prior(invlift.read_problem(path))
    assert len(picture.correlations) == num_curves
    assert np.all(np.isfinite(picture.correlations))
    if num_curves == 1:
        assert np.all(picture.correlations[0, 1:] == 0)
        assert picture.formula is None
    else:
        assert np.ptp(picture.correlations[:, -1]) > 0.01
        assert picture.field_names[0].startswith("Draw 0, range ")
        assert "median range 1" in picture.formula_name
    plot_prior(picture)


def test_check_draws_where_it_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    report = Report([Finding("ok", "mesh", "small")])
    monkeypatch.setattr("invlift.app.commands.check.check_problem", lambda spec: report)
    path = write_problem(tmp_path)
    assert call("check", path, "--plot") == 0
    assert capsys.readouterr().out.endswith("Written: problem_prior.png\n")
    assert imread(tmp_path / "problem_prior.png").shape[1] > 1000
    for options, part in [
        (["--plot"], "problem_prior.png, which is there already"),
        (["--plot", "a.txt"], "ends in .png"),
        (["--plot", "none/a.png"], "an existing directory"),
    ]:
        assert call("check", path, *options) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("invlift: --plot")
        assert part in line
