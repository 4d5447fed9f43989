"""The page of a run: what is gathered from its files, and what the page says of it."""

import base64
import gc
import hashlib
import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from posterior_cases import Chain, box
from run_folders import write_run

from invlift.errors import InputError
from invlift.posterior import Posterior, Quantity
from invlift.posterior.report import charts, gather, render, views
from invlift.posterior.report.gather import NUM_DRAWS
from invlift.posterior.report.scales import NO_VALUE, NUM_LEVELS, Scale, log_ticks, scale_of
from invlift.posterior.report.views import flat_views, groups_on_surface, surface_view

ANCHORS = {
    "verdict", "mesh", "maps", "draws", "sensors", "chains", "summary", "cost", "versions",
    "problem",
}  # fmt: skip
FILES = {  # what a page leaves out without each file
    "run.json": {"verdict", "cost", "versions"},
    "posterior.vtu": {"mesh", "maps", "draws"},
    "sensors.vtu": {"sensors"},
    "posterior.nc": {"draws", "chains"},
    "summary.csv": {"summary"},
    "problem.toml": {"problem"},
}


class Page(HTMLParser):
    """Elements of a page with their attributes, its text by section, and what it leaves out."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.sections, self.left_out, self.scripts = [], {}, set(), []
        self._section = self._is_script = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        self._is_script = tag == "script"
        if tag == "section":
            self._section = attrs["id"]
        if attrs.get("class") == "left-out" and self._section:
            self.left_out.add(self._section)

    def handle_endtag(self, tag):
        self._is_script = False

    def handle_data(self, text):
        if self._is_script:
            self.scripts.append(text)
        else:
            self.sections[self._section] = self.sections.get(self._section, "") + text


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "out"
    return folder, write_run(folder)


@pytest.fixture(scope="module")
def content(run):
    return gather(run[0])


@pytest.fixture(scope="module")
def page(content):
    return Page(render(content))


def unpacked(text, kind=np.uint8):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


# --- gathering ------------------------------------------------------------------------------------


def test_content_is_what_the_posterior_holds(run, content):
    _, posterior = run
    assert dict(content.missing) == {}
    np.testing.assert_array_equal(content.body.points, posterior.mesh.points)
    np.testing.assert_array_equal(content.body.cells, posterior.mesh.cells)
    for name, values in posterior.fields().items():
        np.testing.assert_array_equal(content.body.find(name), values)
    np.testing.assert_array_equal(content.sensors.points[:, :2], posterior.sensors.points)
    fit, loo = posterior.sensor_fit(), posterior.leave_one_out()
    for name, values in content.sensors.columns.items():
        of, attribute = (loo, name[4:]) if name.startswith("loo_") else (fit, name)
        np.testing.assert_array_equal(values, getattr(of, attribute), err_msg=name)
    assert list(content.scalars) == list(posterior.scalars)
    for name, chains in posterior.scalars.items():
        np.testing.assert_array_equal(content.scalars[name], chains)
    np.testing.assert_array_equal(content.energy, [c.stats["energy"] for c in posterior.chains])
    steps = [chain.warmup_stats["step_size"] for chain in posterior.chains]
    np.testing.assert_array_equal(content.warmup_step_size, steps)
    table = posterior.summary()
    totals = ["elpd_loo", "p_loo", "num_loo_unreliable"]
    assert list(content.summary) == [*table.index, *totals]
    for name, row in content.summary.items():
        if name in totals:
            continue
        np.testing.assert_allclose(list(row.values()), table.loc[name], rtol=1e-15)
    assert content.record.verdict.headline == posterior.verdict().headline
    assert content.record.num_factorisations == 2 * 60 * 30


def test_draws_are_spread_over_all_chains(run, content):
    _, posterior = run
    draws = content.draws
    assert draws.values.shape == (NUM_DRAWS, len(posterior.mesh.points))
    assert len(set(zip(draws.chains, draws.numbers, strict=True))) == NUM_DRAWS
    assert np.bincount(draws.chains).tolist() == [NUM_DRAWS // 2] * 2
    assert draws.numbers.min() < 5
    assert draws.numbers.max() >= 55
    for values, chain, number in zip(draws.values, draws.chains, draws.numbers, strict=True):
        expected = posterior.chains[chain].draws["log_conductivity"][number]
        np.testing.assert_array_equal(values, expected)


def test_few_draws_are_all_shown(tmp_path):
    write_run(tmp_path / "out", num_draws=3)
    draws = gather(tmp_path / "out").draws
    found = set(zip(draws.chains.tolist(), draws.numbers.tolist(), strict=True))
    assert found == {(chain, number) for chain in range(2) for number in range(3)}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_file_leaves_its_sections_out(run, tmp_path, name):
    folder = tmp_path / "copy"
    shutil.copytree(run[0], folder)
    (folder / name).unlink()
    page = Page(render(gather(folder)))
    for section in FILES[name]:
        assert f"no {name} in the folder" in page.sections[section]
    # the groups are not in the folder itself
    assert page.left_out - {"mesh"} == FILES[name] - {"mesh"}


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (name, damage)
        for name in sorted(FILES)
        for damage in ("cut", "noise", "empty", "other")
        if name != "problem.toml" or damage == "noise"  # text is shown as it is
    ],
)
def test_a_damaged_file_is_named(run, tmp_path, name, damage):
    folder = tmp_path / "copy"
    shutil.copytree(run[0], folder)
    file = folder / name
    whole = file.read_bytes()
    file.write_bytes(
        {
            "cut": whole[: len(whole) // 2],
            "noise": bytes(np.random.default_rng(0).integers(128, 256, 500, dtype=np.uint8)),
            "empty": b"",
            "other": b'<?xml version="1.0"?><VTKFile type="PolyData"></VTKFile>',
        }[damage]
    )
    with pytest.raises(InputError, match=name):
        gather(folder)
    gc.collect()  # no reader complains on its way out


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"verdict": None}, "verdict"),
        ({"num_chains": "two"}, "num_chains"),
        ({"step_size": [0.1, "x"]}, "step_size.1"),
    ],
)
def test_an_entry_of_the_wrong_kind_is_named(run, tmp_path, change, part):
    folder = tmp_path / "copy"
    shutil.copytree(run[0], folder)
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | change))
    with pytest.raises(InputError, match=rf"run\.json, {part}"):
        gather(folder)


def test_files_of_different_runs_are_refused(run, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run[0], folder)
    write_run(tmp_path / "other", num=5)
    shutil.copy(tmp_path / "other" / "posterior.vtu", folder)
    with pytest.raises(InputError, match="files of one run"):
        gather(folder)


@pytest.mark.parametrize("kind", ["nothing", "file", "problem", "empty"])
def test_a_folder_of_no_run_is_refused(run, tmp_path, kind):
    folder = tmp_path / "here"
    if kind == "file":
        folder.write_text("a")
    elif kind != "nothing":
        folder.mkdir()
    if kind == "problem":
        shutil.copy(run[0] / "problem.toml", folder)
    with pytest.raises(InputError, match="the folder of a run"):
        gather(folder)


def test_a_run_that_was_stopped_in_warm_up_has_a_page(tmp_path):
    (tmp_path / "chains").mkdir()
    (tmp_path / "chains" / "run.json").write_text("{}")
    page = Page(render(gather(tmp_path)))
    assert page.left_out == ANCHORS
    assert "--resume" in page.sections["verdict"]


# --- the page -------------------------------------------------------------------------------------


def test_every_section_is_there_once_and_linked(page):
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert len(ids) == len(set(ids))
    assert set(ids) == ANCHORS
    links = {attrs["href"] for tag, attrs in page.elements if tag == "a"}
    assert links == {f"#{anchor}" for anchor in ANCHORS}
    assert page.left_out == {"mesh"}  # the groups, which are not in the folder


def test_the_page_needs_nothing_else(content, page):
    for tag, attrs in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "img"), tag
        assert attrs.get("href", "#").startswith("#")
        assert "src" not in attrs
    assert "url(" not in render(content)
    (policy,) = (a["content"] for t, a in page.elements if a.get("http-equiv"))
    data, script = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    json.loads(data)


def test_everything_drawn_is_also_said(page):
    for tag, attrs in page.elements:
        if tag == "canvas" or attrs.get("role") == "img":
            assert len(attrs["aria-label"]) > 10
        if tag == "th":
            assert attrs["scope"] in ("row", "col")
        if tag == "svg":
            assert "aria-label" in attrs or attrs.get("aria-hidden") == "true"
    labels = {attrs["for"] for tag, attrs in page.elements if tag == "label" and "for" in attrs}
    assert labels == {"draw"}


def test_the_page_says_what_the_run_found(run, page):
    _, posterior = run
    verdict = posterior.verdict()
    for text in (verdict.headline, *verdict.reasons, *verdict.advice):
        assert text in page.sections["verdict"]
    assert "0.1.0" in page.sections["versions"]
    assert "3,600" in page.sections["cost"]
    ess = posterior.summary()["ess_bulk"].min()
    assert f"{4.0 / ess:.3g}" in page.sections["cost"]
    assert "sigma" in page.sections["summary"]
    assert 'kind = "matern"' in page.sections["problem"]
    assert page.sections["sensors"].count("sensor ") >= 5


def test_bytes_of_the_page_are_the_fields(content, page):
    """What the script draws, decoded, is each field to half a level of its scale."""
    data = json.loads(page.scripts[0])
    (view,) = data["views"]
    points = unpacked(view["points"], "<f4").reshape(-1, 2) + np.array(view["low"])
    np.testing.assert_allclose(points, content.body.points, atol=1e-6)
    triangles = unpacked(view["triangles"], "<u2").reshape(-1, 3)
    np.testing.assert_array_equal(triangles, content.body.cells)
    for index, name in enumerate(("conductivity", "solution")):
        family = [f"{name}_{kind}" for kind in ("mean", "q05", "q50", "q95")]
        assert {data["fields"][each]["scale"] for each in family} == {index}
    spreads = [field["scale"] for field in data["fields"].values() if field["scale"] > 1]
    assert sorted(spreads) == [2, 3, 4]

    def decoded(text, scale):
        share = unpacked(text) / (NUM_LEVELS - 1)
        if scale["isLog"]:
            return scale["low"] * (scale["high"] / scale["low"]) ** share
        return scale["low"] + share * (scale["high"] - scale["low"])

    for name, field in data["fields"].items():
        scale = data["scales"][field["scale"]]
        found, expected = decoded(field["levels"][0], scale), content.body.find(name)
        if scale["isLog"]:
            half = (scale["high"] / scale["low"]) ** (0.51 / (NUM_LEVELS - 1))
            assert (np.abs(np.log(found / expected)) <= np.log(half)).all(), name
        else:
            expected = np.clip(expected, scale["low"], scale["high"])
            half = 0.51 * (scale["high"] - scale["low"]) / (NUM_LEVELS - 1)
            assert (np.abs(found - expected) <= half).all(), name
    scale = data["scales"][0]
    for text, values in zip(data["draws"]["levels"], content.draws.values, strict=True):
        inside = np.clip(np.exp(values), scale["low"], scale["high"])
        np.testing.assert_allclose(decoded(text[0], scale), inside, rtol=0.02)
    # negative control: another draw is not that one
    assert data["draws"]["levels"][0] != data["draws"]["levels"][1]


def test_text_from_files_stays_text(tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)>&\"'"
    write_run(folder, hostile=True)
    page = Page(render(gather(folder)))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert not [attrs for _, attrs in page.elements if any(n.startswith("on") for n in attrs)]
    for section in ("verdict", "chains", "summary", "versions", "problem"):
        assert "<script>document.title=" in page.sections[section].replace("script>/", "")
    assert "</pre>" in page.sections["problem"]
    # negative control: the parser would see what is not escaped
    assert [tag for tag, _ in Page("<p><script>1</script><img src=x>").elements] == [
        "p", "script", "img"
    ]  # fmt: skip


@pytest.mark.parametrize("location", ["nodes", "cells"])
def test_a_body_in_space_has_slices_and_a_surface(tmp_path, location):
    write_run(tmp_path / "out", 3, location=location, num=2)
    content = gather(tmp_path / "out")
    page = Page(render(content))
    data = json.loads(page.scripts[0])
    assert [view["dim"] for view in data["views"]] == [2, 2, 2, 3]
    field = data["fields"]["conductivity_mean"]
    assert field["isNodal"] == (location == "nodes")
    for view, levels in zip(data["views"], field["levels"], strict=True):
        num_points = len(unpacked(view["points"], "<f4")) // view["dim"]
        num_triangles = len(unpacked(view["triangles"], "<u2")) // 3
        size = num_points if location == "nodes" else num_triangles
        assert len(unpacked(levels)) == size
    for place in ("z = 0.5", "y = 0.5", "x = 0.5"):
        assert f"slice {place}" in page.sections["maps"]
    assert [tag for tag, _ in page.elements].count("select") == 1


def test_a_page_of_a_fine_mesh_stays_small(tmp_path, monkeypatch):
    write_run(tmp_path / "out", num=60, num_draws=20)
    content = gather(tmp_path / "out")
    whole = len(render(content))
    monkeypatch.setattr(views, "MAX_TRIANGLES", 1000)
    assert len(render(content)) < 0.4 * whole
    assert whole < 5e5


def test_a_model_without_a_mesh_has_a_page(tmp_path):
    rng = np.random.default_rng(0)
    chains = [Chain({"parameters": rng.normal(size=(60, 2))}) for _ in range(2)]
    quantity = Quantity("parameters", {"parameter": ["decay <rate>", "b"]})
    Posterior(chains, [quantity]).write(tmp_path)
    content = gather(tmp_path)
    names = ["parameters[decay <rate>]", "parameters[b]"]
    assert list(content.scalars) == list(content.summary) == names
    np.testing.assert_array_equal(content.scalars[names[1]][1], chains[1].draws["parameters"][:, 1])
    page = Page(render(content))
    assert page.left_out == {"mesh", "maps", "draws", "sensors", "versions", "problem"}
    assert "decay <rate>" in page.sections["chains"]


def test_a_page_of_sensors_without_predictions(content):
    columns = {"observed": content.sensors.columns["observed"]}
    bare = replace(
        content,
        sensors=replace(content.sensors, columns=columns),
        body=replace(content.body, on_nodes={}),
        scalars={}, energy=None, warmup_step_size=None, draws=None, record=None,
    )  # fmt: skip
    page = Page(render(bare))
    assert page.left_out >= {"chains", "draws", "cost"}
    assert "Table of the sensors" in page.sections["sensors"]


# --- scales, views, charts ------------------------------------------------------------------------


@pytest.mark.parametrize("is_log", [False, True])
def test_levels_keep_the_order_and_the_ends(is_log):
    values = np.exp(np.random.default_rng(0).normal(size=500))
    scale = scale_of([values], "k", "viridis", is_log=is_log)
    levels = scale.levels(np.sort(values)).astype(int)
    assert (np.diff(levels) >= 0).all()
    assert (levels[0], levels[-1]) == (0, NUM_LEVELS - 1)
    odd = scale.levels(np.array([np.nan, -1.0, 0.0, np.inf]))
    assert odd[0] == NO_VALUE
    assert odd[3] == NUM_LEVELS - 1
    assert (odd[1] == NO_VALUE) == is_log  # no logarithm
    assert odd[2] == 0
    places = [place for place, _ in scale.ticks()]
    assert len(places) >= 3
    assert 0 <= min(places) <= max(places) <= 1


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-12, np.nan])
def test_a_constant_field_has_a_scale(value):
    scale = scale_of([np.full(5, value)], "k", "viridis")
    assert scale.low < scale.high
    assert scale.ticks()


def test_ticks_of_ratios_are_round_numbers():
    assert log_ticks(0.2, 30) == [0.3, 1.0, 3.0, 10.0, 30.0]
    assert log_ticks(4.2, 45) == [5.0, 10.0, 20.0]
    assert log_ticks(1e-3, 1e9)[0] == 1e-3
    assert len(log_ticks(1e-30, 1e30)) <= 8
    assert all(1.01 <= value <= 1.05 for value in log_ticks(1.01, 1.05))


def test_residuals_are_red_above_and_blue_below():
    scale = Scale("residual", -3.0, 3.0, "RdBu_r")
    red, blue = ([int(scale.colour_of(x)[i : i + 2], 16) for i in (1, 3, 5)] for x in (2.5, -2.5))
    assert red[0] > red[2]
    assert blue[2] > blue[0]
    assert scale.colour_of(np.nan) == "#888888"


def areas(points, triangles):
    corners = points[triangles]
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return np.linalg.norm(np.cross(first, second), axis=1) / 2


def test_the_surface_of_a_box_is_closed():
    points, cells = box(4, height=0.5)
    view = surface_view(points, cells)
    edges = np.sort(view.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    np.testing.assert_allclose(areas(view.points, view.triangles).sum(), 2 + 4 * 0.5)
    values = points @ [1.0, 2.0, 3.0]
    np.testing.assert_allclose(view.values_of(values, True), view.points @ [1.0, 2.0, 3.0])
    for cell, triangle in zip(view.cells, view.nodes[view.triangles, 0], strict=True):
        assert set(triangle) <= set(cells[cell])


def test_groups_are_found_on_the_surface():
    points, cells = box(3)
    view = surface_view(points, cells)
    nodes = view.nodes[view.triangles, 0]
    is_left = (points[nodes][:, :, 0] == 0).all(axis=1)
    is_top = (points[nodes][:, :, 2] == points[:, 2].max()).all(axis=1)
    found = groups_on_surface(view, [nodes[is_left][:, ::-1], nodes[is_top]])
    np.testing.assert_array_equal(found == 0, is_left)
    np.testing.assert_array_equal(found == 1, is_top)
    assert (found == -1).any()


def test_a_fine_mesh_is_drawn_with_fewer_triangles(run, monkeypatch):
    points, cells = run[1].mesh.points, run[1].mesh.cells
    whole = flat_views(points, cells)[0]
    np.testing.assert_array_equal(whole.triangles, cells)
    monkeypatch.setattr(views, "MAX_TRIANGLES", 20)
    (view,) = flat_views(points, cells)
    assert 0 < len(view.triangles) <= 20
    assert (np.diff(np.sort(view.triangles, axis=1), axis=1) > 0).all()
    np.testing.assert_array_equal(view.points, points[view.nodes[:, 0]])
    np.testing.assert_array_equal(view.outline, whole.outline)


def test_a_long_trace_keeps_its_extremes():
    values = np.random.default_rng(0).normal(size=(1, 20_000))
    values[0, 7_777], values[0, 12_345] = 40.0, -40.0
    (line,) = charts.trace("x", values, None).lines
    assert line.path.count("L") <= charts.MAX_POINTS
    heights = [float(part.split()[1]) for part in line.path[1:].split("L")]
    assert min(heights) == min(heights[: len(heights) // 2])
    assert max(heights) == max(heights[len(heights) // 2 :])
    assert max(heights) - min(heights) > 900


def test_a_trace_is_broken_where_it_is_not_finite():
    values = np.array([[0.0, 1.0, np.nan, 2.0, 3.0]])
    (line,) = charts.trace("x", values, None).lines
    assert line.path.count("M") == 2


def test_charts_of_next_to_nothing():
    for chains in (np.ones((2, 1)), np.ones((1, 5)), np.full((2, 5), np.nan)):
        charts.trace("x", chains, None)
        charts.step_sizes(chains)
    charts.ranks("x", np.ones((2, 3)))
    charts.energy(np.ones((2, 3)))
