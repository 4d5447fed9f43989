"""Ticks of maps are round numbers whose labels are apart and differ."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from posterior_cases import Chain, Mesh, square

from invlift.posterior import Posterior, Readings
from invlift.posterior.figures.field_plots import Panel, plot_maps
from invlift.posterior.figures.ticks import log_ticks


@pytest.mark.parametrize("most", [2, 3, 5])
@pytest.mark.parametrize(
    ("low", "high"),
    [(6e-6, 2e5), (0.05, 20.0), (0.8, 1.23), (2.0, 60.0), (9.8e-5, 1.02e-4), (0.011, 0.099)],
)
def test_ticks_of_a_logarithm_are_few_and_inside(low, high, most):
    ticks = log_ticks(low, high, most)
    assert 1 <= ticks.size <= most
    assert low <= ticks.min()
    assert ticks.max() <= high
    if high / low > 100.0:  # and not all at one end
        assert ticks[-1] / ticks[0] > (high / low) ** 0.4


def of_labels(axis):
    """Texts of the labels that are shown, and their boxes along the axis, in order."""
    renderer = FigureCanvasAgg(axis.figure).get_renderer()
    labels = [tick.label1 if tick.label1.get_visible() else tick.label2
              for tick in axis.get_major_ticks()]  # fmt: skip
    low, high = sorted(axis.get_view_interval())
    places = axis.get_majorticklocs()
    shown = [label for label, place in zip(labels, places, strict=True) if low <= place <= high]
    along = "intervalx" if axis.axis_name == "x" else "intervaly"
    boxes = [getattr(label.get_window_extent(renderer), along) for label in shown]
    return [label.get_text() for label in shown], sorted(map(tuple, boxes))


def test_labels_of_numbers_are_apart():
    rng = np.random.default_rng(0)
    draws = {
        "small": 3e-4 * np.exp(0.2 * rng.normal(size=200)),
        "far": 4512345.0 + 300.0 * rng.normal(size=200),
        "large": 3e7 * (2.0 + 0.3 * rng.normal(size=200)),
    }
    draws["predicted"] = 4.5e6 + 100.0 * rng.normal(size=(200, 5))
    sensors = Readings(4.5e6 + 50.0 * rng.normal(size=5), sigma=30.0)
    posterior = Posterior([Chain(draws)] * 2, sensors=sensors)
    names = ["small", "far", "large"]
    pictures = posterior.plot.parameters(names=names), posterior.plot.sensors()
    figures = [each.figure for each in pictures]
    for figure in figures:
        FigureCanvasAgg(figure).draw()
    tried = 0
    for ax in (ax for figure in figures for ax in figure.axes):
        for axis in (ax.xaxis, ax.yaxis):
            if not axis.get_visible():
                continue
            texts, boxes = of_labels(axis)
            assert len(set(texts)) == len(texts) > 0
            for (_, end), (begin, _) in pairwise(boxes):
                tried += 1
                assert end < begin
    assert tried > 3


@pytest.mark.parametrize(
    ("extent", "is_log"), [((1e-4, 3e-4), False), ((3.0, 0.4), True), ((900.0, 700.0), True)]
)
def test_labels_are_apart_and_differ(extent, is_log):
    """At numbers like 1e-4, in high and low maps, and far from 0."""
    points, cells = square(9)
    wave = np.sin(6.0 * points[:, 0]) * np.cos(5.0 * points[:, 1])
    far = np.array([4512345.0, 5512345.0]) if extent[0] == 900.0 else 0.0
    mesh = Mesh(points * np.array(extent) + far, cells)
    values = 1e-4 * np.exp(wave), 1.23456e-4 + 1e-8 * wave, 1e5 * np.exp(3.0 * wave)
    panels = [Panel("values", each, True, "viridis", is_log=is_log) for each in values]
    figure = plot_maps(mesh, panels).figure
    FigureCanvasAgg(figure).draw()
    tried = 0
    maps = [ax for ax in figure.axes if ax.get_title(loc="left")]
    bars = [bar.yaxis for ax in maps for bar in ax.child_axes]
    for axis in (maps[-1].xaxis, maps[0].yaxis, *bars):
        texts, boxes = of_labels(axis)
        assert texts
        assert len(set(texts)) == len(texts)
        for (_, end), (begin, _) in pairwise(boxes):
            tried += 1
            assert end < begin
    assert tried > 5
