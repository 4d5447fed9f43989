"""The picture of a prior, and the command behind it."""

import numpy as np
import pytest
from command_line import call
from matplotlib.figure import Figure
from matplotlib.image import imread
from problem_files import write_problem

import invlift
from invlift.app.checks import Finding, Report
from invlift.app.studies.simulate import prior_draws

UNKNOWN = {"distribution": "lognormal", "location": 0.0, "scale": 0.3}


@pytest.fixture(autouse=True)
def _nothing_is_checked(monkeypatch):
    report = Report([Finding("ok", "mesh", "small")])
    monkeypatch.setattr("invlift.app.commands.check.check_problem", lambda *_, **__: report)


@pytest.mark.parametrize(
    "changes", [{"prior": {"kind": "independent", "std": 0.5}}, {"prior.range": UNKNOWN}]
)
def test_the_picture_shows_draws_spread_and_readings_by_name(tmp_path, monkeypatch, changes):
    drawn = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, path, **_: (drawn.append(figure), path.touch())
    )
    table = "name,x,y,value\nnorth,0.3,0.4,2.0\nsouth,0.6,0.7,2.9\n"
    path = write_problem(tmp_path, changes, sensors=table)
    assert call("check", path, "--plot", tmp_path / "a.png") == 0
    axes = {ax.get_title("left"): ax for ax in drawn[0].get_axes()}
    assert {f"Draw {index}" for index in range(4)} | {"Standard deviation"} < set(axes)
    ax = next(ax for title, ax in axes.items() if title.startswith("Readings"))
    assert [each.get_text() for each in ax.get_xticklabels()] == ["north", "south"]
    field = invlift.build_problem(spec := invlift.read_problem(path))
    draws = prior_draws(field, 50, spec.sampler.seed)
    predicted = np.stack([draw["predicted"] for draw in draws])
    outer, inner = (np.array(each.get_segments())[:, :, 1].T for each in ax.collections)
    np.testing.assert_allclose(outer, np.quantile(predicted, (0.05, 0.95), axis=0))
    np.testing.assert_allclose(inner, np.quantile(predicted, (0.25, 0.75), axis=0))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), field.sensors.values)


@pytest.mark.usefixtures("drawn")
def test_check_draws_where_it_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = write_problem(tmp_path)
    assert call("check", path, "--plot") == 0
    assert capsys.readouterr().out.endswith("Written: problem_prior.png\n")
    assert imread(tmp_path / "problem_prior.png").shape[1] > 1000
    for options, part in [
        (["--plot"], "problem_prior.png, which is there already"),
        (["--plot", "a.txt"], ".jpg, .pdf, "),
        (["--plot", "a"], ".jpg, .pdf, "),
        (["--plot", "none/a.png"], "an existing directory"),
    ]:
        assert call("check", path, *options) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("invlift: --plot")
        assert part in line
