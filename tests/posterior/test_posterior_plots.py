"""Slices of meshes, and figures: what they show, and that they change nothing else."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from posterior_cases import Chain, Mesh, box, make_posterior, normal_posterior, square

from invlift.errors import InputError
from invlift.posterior import Posterior, Readings
from invlift.posterior.figures.field_plots import Panel, _is_of_map, plot_maps
from invlift.posterior.figures.flat_mesh import flatten
from invlift.posterior.figures.sensor_plots import plot_leave_one_out
from invlift.posterior.figures.style import CHAIN_COLOURS
from invlift.posterior.statistics.leave_one_out import LeaveOneOut


def area(flat):
    a, b, c = (flat.points[flat.triangles[:, i]] for i in range(3))
    edges = np.stack([b - a, c - a], axis=1)
    return np.abs(np.linalg.det(edges)).sum() / 2


@pytest.mark.parametrize("height", [0.5, 5.0])
def test_slice_of_a_box_is_whole_and_interpolates_linear_fields(height):
    """It lies across the shortest side, near the middle."""
    points, cells = box(height=height)
    flat = flatten(points, cells)
    axis = 0 if height > 1 else 2
    position = float(flat.place.rpartition("= ")[2])
    assert flat.place.startswith(f"slice {'xyz'[axis]}")
    assert abs(position - min(1.0, height) / 2) < 0.2 * min(1.0, height)
    assert area(flat) == pytest.approx(height if axis == 0 else 1.0)
    gradient = np.array([1.0, -2.0, 3.0])
    expected = position * gradient[axis] + flat.points @ gradient[list(flat.axes)]
    np.testing.assert_allclose(flat.shown(points @ gradient, True), expected, atol=1e-4)
    # the outline is the rim alone: its length is the perimeter
    rim = np.linalg.norm(np.diff(flat.outline(), axis=1)[:, 0], axis=1).sum()
    assert rim == pytest.approx(2.0 + 2.0 * height if axis == 0 else 4.0)
    # and the cells are those that the plane cuts
    along = points[cells][..., axis] - position
    assert set(flat.cells) <= set(
        np.flatnonzero((along.min(axis=1) < 1e-3) & (along.max(axis=1) > -1e-3))
    )


def test_a_body_in_two_pieces_is_cut_through_one_of_them():
    points, cells = box()
    apart = np.concatenate([points, points + np.array([0.0, 0.0, 1.0])]) * [3.0, 3.0, 1.0]
    flat = flatten(apart, np.concatenate([cells, cells + len(points)]))
    assert area(flat) == pytest.approx(9.0)


def test_a_mesh_that_goes_on_far_is_shown_round_the_sensors():
    points, cells = square()
    near = np.array([[0.45, 0.95], [0.55, 1.0], [np.nan, np.nan]])
    flat = flatten(points, cells, near)
    np.testing.assert_allclose(flat.view, [[0.4, 0.9], [0.6, 1.0]])
    assert 0 < len(flat.triangles) < len(cells) / 2
    np.testing.assert_array_equal(flat.shown(points[:, 0], True), flat.points[:, 0])
    np.testing.assert_array_equal(points[cells[flat.cells]], flat.points[flat.triangles])
    for whole in (near[:1], near[2:], np.array([[0.2, 0.5], [0.8, 0.6]])):
        assert len(flatten(points, cells, whole).triangles) == len(cells)
        assert flatten(points, cells, whole).view is None


def test_triangles_without_a_value_are_not_drawn():
    flat = flatten(*square())
    values = np.arange(25.0)
    assert np.isfinite(flat.on_pixels(values, True)).all()
    values[7] = np.nan
    drawn = np.unique(flat.pixels.triangle[np.isfinite(flat.on_pixels(values, True))])
    expected = [number for number, each in enumerate(flat.triangles.tolist()) if 7 not in each]
    assert 0 < len(expected) < len(flat.triangles)
    assert drawn.tolist() == expected


def pixels_drawn(ax):
    """Values of the image of axes, (rows, columns), and the middles of its pixels, (..., 2)."""
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    values = image.get_array().filled(np.nan)
    ends = zip((left, bottom), (right, top), values.shape[::-1], strict=True)
    middles = [low + (high - low) * (np.arange(num) + 0.5) / num for low, high, num in ends]
    return values, np.stack(np.meshgrid(*middles), axis=-1)


def test_a_fan_of_slivers_is_drawn_without_gaps():
    """Thinner than a pixel where they meet, and none of them beyond its ends."""
    angles = np.linspace(0.0, 0.5 * np.pi, 601)
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points, first = np.concatenate([[[0.0, 0.0]], rim]), np.arange(1, 601)
    cells = np.stack([np.zeros(600, int), first, first + 1], axis=1)
    panel = Panel("linear", points @ [2.0, -1.0], True, "viridis")
    values, at = pixels_drawn(plot_maps(Mesh(points, cells), [panel])[0])
    radius = np.linalg.norm(at, axis=-1)
    assert np.isfinite(values[radius < 1.0 - 1e-5]).all()
    assert np.isnan(values[radius > 1.0]).all()
    is_drawn = np.isfinite(values)
    np.testing.assert_allclose(values[is_drawn], at[is_drawn] @ [2.0, -1.0], atol=1e-7)


@pytest.mark.parametrize("mesh", [square, box])
def test_each_pixel_has_the_value_of_the_field_there(mesh):
    """However thin the triangles of a slice are; of the other two panels the values differ."""
    posterior = make_posterior(mesh=mesh)
    points = posterior.mesh.points.copy()
    points[:, 0] += 0.1 * np.sin(3.0 * points[:, 1])  # cuts of all shapes
    posterior = replace(posterior, mesh=posterior.mesh._replace(points=points))
    gradient = np.array([1.0, -2.0, 3.0])[: points.shape[1]]
    linear = points @ gradient
    flat = flatten(posterior.mesh.points, posterior.mesh.cells)
    panel = Panel("linear", linear, True, "viridis")
    ax = plot_maps(posterior.mesh, [panel])[0]
    values, at = pixels_drawn(ax)
    is_drawn = np.isfinite(values)
    assert 0.8 < is_drawn.mean() < 1.0
    expected = at @ gradient[list(flat.axes)]
    if flat.place:
        expected += linear[0] - points[0, list(flat.axes)] @ gradient[list(flat.axes)]
        expected += (values - expected)[is_drawn].mean()  # what the third coordinate adds
    np.testing.assert_allclose(values[is_drawn], expected[is_drawn], atol=1e-9)
    in_cells = Panel("cells", np.arange(len(posterior.mesh.cells)), False, "viridis")
    values, _ = pixels_drawn(plot_maps(posterior.mesh, [in_cells])[0])
    assert np.isin(values[np.isfinite(values)], flat.cells).all()


def test_overview_has_four_titled_panels(tmp_path):
    settings = dict(matplotlib.rcParams)
    figure = (
        make_posterior("cells", box)
        .plot.fields(
            tmp_path / "a.png", length_unit="m", solution_name="Temperature", solution_unit="K"
        )
        .figure
    )
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == [
        "Log-conductivity, posterior mean", "Log-conductivity, posterior sd",
        "Temperature, posterior mean", "Variance reduction",
    ]  # fmt: skip
    assert figure.axes[2].get_xlabel() == "x [m]"
    assert all(ax.get_aspect() == 1.0 for ax in figure.axes)
    image = imread(tmp_path / "a.png")
    assert image.shape[0] > 500
    assert len(np.unique(np.round(255 * image[..., 0]))) > 50
    assert dict(matplotlib.rcParams) == settings


def test_sensors_are_filled_with_readings_on_the_scale_of_the_solution():
    """Variance reduction is drawn between nothing and all."""
    posterior = make_posterior()
    _, _, panel, reduction = posterior.plot.fields().figure.axes[:4]
    marks = panel.collections[-1]
    np.testing.assert_array_equal(marks.get_array(), posterior.sensors.values)
    assert marks.norm is panel.images[0].norm
    np.testing.assert_array_equal(marks.get_offsets(), posterior.sensors.points)
    norm = reduction.images[0].norm
    assert (norm.vmin, norm.vmax) == (0.0, 1.0)


def test_constant_field_can_be_drawn():
    chains = [Chain({"log_conductivity": np.full((10, 25), 2.0)}) for _ in range(2)]
    make_posterior(chains=chains, sensors=None).plot.fields().figure._repr_png_()


def test_leave_one_out_is_drawn_with_what_is_not_reliable_hollow(tmp_path):
    rng = np.random.default_rng(9)
    loo = LeaveOneOut(
        elpd=rng.normal(size=20),
        num_effective=np.full(20, 0.1),
        pareto_k=np.where(np.arange(20) < 3, 0.9, 0.2),
        pit=rng.random(20),
    )
    probabilities, shapes = plot_leave_one_out(loo)
    _, good, bad = probabilities.collections
    assert [len(each.get_offsets()) for each in (good, bad)] == [17, 3]
    np.testing.assert_allclose(np.sort(bad.get_offsets()[:, 1]), np.sort(loo.pit[:3]))
    np.testing.assert_allclose(good.get_facecolor()[0][:3], to_rgb(CHAIN_COLOURS[0]))
    np.testing.assert_allclose(bad.get_facecolor()[0][:3], 1.0)
    assert [len(each.get_offsets()) for each in shapes.collections] == [17, 3]
    assert len(plot_leave_one_out(replace(loo, pit=None))) == 1
    make_posterior().plot.leave_one_out(tmp_path / "loo.png")
    assert (tmp_path / "loo.png").stat().st_size > 5000


def test_ranks_of_each_chain_are_drawn_at_their_heights(tmp_path):
    posterior = make_posterior()
    figure = posterior.plot.chains(tmp_path / "chains.png").figure
    trace, rank = figure.axes[:2]
    assert [len(line.get_ydata()) for line in trace.lines] == [400] * 4
    np.testing.assert_array_equal(trace.lines[1].get_ydata(), posterior.draws("sigma")[1])
    for row, steps in zip((3, 2, 1, 0), rank.patches, strict=True):
        tops, _, base = steps.get_data()
        assert base == row
        np.testing.assert_allclose(np.sum(tops - base), 20 * 0.6)


def test_chains_of_chosen_scalars_are_drawn():
    weights = np.random.default_rng(1).normal(size=(2, 50, 12))
    draws = [{"parameters": each[:, :1], "weights": each, "nu": each[:, 0]} for each in weights]
    posterior = Posterior([Chain(each) for each in draws])

    def drawn(**options):
        figure = posterior.plot.chains(**options).figure
        return [ax.get_title(loc="left") for ax in figure.axes[::2]]

    first = [f"weights[{i}]" for i in range(8)]
    assert drawn() == ["nu", "parameters[0]", *first[:6]]
    assert drawn(names=["weights"]) == first
    assert drawn(names=["weights[11]", "nu"]) == ["nu", "weights[11]"]
    with pytest.raises(InputError, match="'weight'"):
        posterior.plot.chains(names=["weight"])


def test_bars_span_prediction_and_noise():
    rng = np.random.default_rng(7)
    predicted = [3.0 * rng.normal(size=(400, 2)) for _ in range(2)]
    known = normal_posterior(predicted, np.zeros(2), 4.0)
    unknown = Posterior([Chain({"predicted": p}) for p in predicted], sensors=known.sensors)
    for posterior, expected in ((known, 5.0), (unknown, 3.0)):
        figure = posterior.plot.sensors().figure
        (bars,) = figure.axes[0].containers[0].lines[2]
        length = np.ptp([segment[:, 1] for segment in bars.get_segments()], axis=1)
        np.testing.assert_allclose(length, 4 * expected, rtol=0.05)


def test_a_far_reading_is_marked():
    predicted = [np.random.default_rng(i).normal(size=(100, 3)) for i in range(2)]
    posterior = normal_posterior(predicted, np.array([0.0, 1.0, 9.0]), 1.0)
    figure = posterior.plot.sensors(quantity="head [m]").figure
    assert figure.axes[0].get_xlabel() == "observed head [m]"
    near, far = figure.axes[1].collections[-2:]
    assert len(near.get_offsets()) == 2
    assert far.get_offsets()[0][0] == 2


def test_marks_on_a_map_in_time_are_the_readings_of_its_time():
    known = {"time": [1.0, 2.0, 2.0], "kind": ["point", "point", "flux"]}
    assert _is_of_map(Readings(np.zeros(3), coordinates=known)).tolist() == [False, True, False]
    assert _is_of_map(Readings(np.zeros(2))).all()
