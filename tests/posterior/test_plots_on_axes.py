"""Pictures on a new figure and on axes of the user's: the same is drawn on both."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from posterior_cases import make_posterior

from invlift.errors import InputError
from invlift.posterior import Posterior
from invlift.posterior.figures.plots import Plots

#: Pictures of a field problem, by method, with what is named of each.
PICTURES = {
    "fields": {},
    "chains": {},
    "parameters": {},
    "leave_one_out": {},
    "sensors": {},
}


def drawn(axes):
    """Numbers of what is drawn on axes, and their titles."""
    return [
        (
            ax.get_title("left"),
            len(ax.lines), len(ax.patches), len(ax.collections), len(ax.images),
            [np.asarray(line.get_ydata(), float).tolist() for line in ax.lines],
        )
        for ax in axes
    ]  # fmt: skip


def test_every_picture_has_its_case():
    named = {name for name in vars(Plots) if not name.startswith("_")} - {"posterior"}
    assert named == {*PICTURES, "series"}  # which test_along_axis draws


@pytest.mark.parametrize("name", PICTURES)
def test_the_same_is_drawn_on_axes_of_ones_own(name):
    posterior = make_posterior()
    own = getattr(posterior.plot, name)()
    shape = own[0].get_subplotspec().get_gridspec().get_geometry()
    grid = Figure().subplots(*shape, squeeze=False)
    given = getattr(posterior.plot, name)(ax=grid)
    assert given.figure is grid[0, 0].figure
    where = {ax.get_subplotspec().num1: ax for ax in own}
    assert where
    assert drawn(grid.flat[number] for number in where) == drawn(where.values())
    # negative control: what is drawn on bare axes is seen to differ
    assert drawn(Figure().subplots(1, 1, squeeze=False).flat) != drawn(own[:1])


@pytest.mark.parametrize("name", PICTURES)
def test_axes_that_do_not_fit_are_refused(name):
    plot = getattr(make_posterior().plot, name)
    for wrong in (np.append(Figure().subplots(5, 5), None), ["axes"], Figure().subplots(7, 1)):
        with pytest.raises(InputError, match=r"^ax: expected .* axes of matplotlib"):
            plot(ax=wrong)


def test_a_picture_shows_itself_in_a_notebook_and_on_a_figure_of_ones_own_does_not(tmp_path):
    posterior = make_posterior()
    assert posterior.plot.sensors()._repr_png_().startswith(b"\x89PNG")
    own = posterior.plot.sensors(tmp_path / "a.png", ax=Figure().subplots(1, 2))
    assert own._repr_png_() is None
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_names_of_earlier_versions_say_where_they_are_now():
    posterior = make_posterior()
    with pytest.raises(AttributeError, match=r"it is posterior\.plot\.fields now"):
        _ = posterior.plot_fields
    with pytest.raises(AttributeError, match=r"it is posterior\.fit\.table now"):
        _ = posterior.sensor_table
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = posterior.nothing
    from invlift.posterior.posterior import _MOVED

    for name, place in _MOVED.items():
        assert not hasattr(Posterior, name)
        part, method = place.removesuffix("()").split(".")
        assert hasattr(type(getattr(posterior, part)), method)


def test_a_picture_is_drawn_once_and_keeps_its_layout(monkeypatch):
    posterior = make_posterior()
    drawn, draw = [], Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda own, to: (drawn.append(own), draw(own, to))[1])
    panels = posterior.plot.sensors()
    drawn.clear()
    layout = panels.figure.get_layout_engine()
    panels.figure._repr_png_()
    assert len(drawn) == 1
    assert layout is panels.figure.get_layout_engine() is not None
