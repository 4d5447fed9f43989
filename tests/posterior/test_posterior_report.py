"""The page of a run: what is gathered from its files, and what the page says of it."""

import base64
import hashlib
import io
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import LogNorm
from PIL import Image
from posterior_cases import Chain
from run_folders import write_run

from invlift.errors import InputError
from invlift.posterior import Posterior, Quantity
from invlift.posterior.report import Group, charts, gather, render
from invlift.posterior.report.content import NUM_DRAWS
from invlift.posterior.report.maps import Maps, scale_of

ANCHORS = {
    "verdict", "mesh", "maps", "draws", "sensors", "chains", "summary", "cost", "versions",
    "problem",
}  # fmt: skip
FILES = {  # what a page leaves out without each file
    "posterior.vtu": {"mesh", "maps", "draws"},
    "sensor_fit.csv": {"sensors"},
    "summary.csv": {"summary"},
    "problem.toml": {"problem"},
}


class Page(HTMLParser):
    """Elements of a page with their attributes, its text by section, and what it leaves out."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.sections, self.left_out, self.scripts = [], {}, set(), []
        self._section = self._is_script = None
        self.text = text
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


def image_of(picture):
    """Red, green and blue of a picture's pixels, (height, width, 3)."""
    content = base64.b64decode(picture.source.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)


# --- gathering ------------------------------------------------------------------------------------


def test_content_is_what_the_posterior_holds(run, content):
    _, posterior = run
    assert dict(content.missing) == {}
    np.testing.assert_array_equal(content.body.points, posterior.mesh.points)
    np.testing.assert_array_equal(content.body.cells, posterior.mesh.cells)
    for name, values in posterior.fields().items():
        np.testing.assert_array_equal(content.body.find(name), values)
    np.testing.assert_array_equal(content.sensors[["x", "y"]], posterior.sensors.points)
    fit, loo = posterior.sensor_fit(), posterior.leave_one_out()
    for name in content.sensors.columns[2:]:
        of, attribute = (loo, name[4:]) if name.startswith("loo_") else (fit, name)
        expected = getattr(of, attribute)
        np.testing.assert_allclose(content.sensors[name], expected, rtol=1e-15, err_msg=name)
    assert list(content.posterior.scalars) == list(posterior.scalars)
    for name, chains in posterior.scalars.items():
        np.testing.assert_array_equal(content.posterior.scalars[name], chains)
    assert content.posterior.described["log_conductivity"].place == "node"
    table = posterior.summary()
    totals = ["elpd_loo", "p_loo", "num_loo_unreliable"]
    assert list(content.summary.index) == [*table.index, *totals]
    np.testing.assert_allclose(content.summary.loc[table.index], table, rtol=1e-15)
    assert content.record.verdict.headline == posterior.verdict().headline
    assert content.record.num_factorisations == 2 * 60 * 30


def test_draws_are_spread_over_all_chains(run, content):
    _, posterior = run
    draws = content.draws
    assert draws.values.shape == (NUM_DRAWS, len(posterior.mesh.points))
    assert len(set(zip(draws.chains, draws.numbers, strict=True))) == NUM_DRAWS
    assert np.bincount(draws.chains).tolist() == [NUM_DRAWS // 2] * 2
    assert draws.numbers.min() < 10
    assert draws.numbers.max() >= 50
    for values, chain, number in zip(draws.values, draws.chains, draws.numbers, strict=True):
        expected = posterior.chains[chain].draws["log_conductivity"][number]
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("name", ["run.json", "posterior.nc"])
def test_a_folder_without_draws_or_record_is_refused(run, tmp_path, name):
    shutil.copytree(run[0], tmp_path / "copy")
    (tmp_path / "copy" / name).unlink()
    with pytest.raises(InputError, match=name):
        gather(tmp_path / "copy")


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


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (name, damage)
        for name in (*sorted(FILES), "run.json", "posterior.nc")
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
    with pytest.raises(InputError, match="results folder of a run"):
        gather(folder)


# --- the page -------------------------------------------------------------------------------------


def test_every_section_is_there_once_and_linked(page):
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert len(ids) == len(set(ids))
    assert set(ids) == ANCHORS
    links = {attrs["href"] for tag, attrs in page.elements if tag == "a"}
    assert links == {f"#{anchor}" for anchor in ANCHORS}
    assert page.left_out == {"mesh"}  # the groups, which are not in the folder


def test_the_page_needs_nothing_else(page):
    for tag, attrs in page.elements:
        assert tag not in ("link", "iframe", "object", "embed"), tag
        assert attrs.get("href", "#").startswith("#")
        assert attrs.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")
    assert "url(" not in page.text
    assert len(page.text) < 1.1e6
    (policy,) = (a["content"] for t, a in page.elements if a.get("http-equiv"))
    (script,) = page.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_everything_drawn_is_also_said(page):
    num = 0
    for tag, attrs in page.elements:
        if tag == "img":
            assert len(attrs["alt"]) > 10
            assert int(attrs["width"]) > 100
            num += 1
        if tag == "th":
            assert attrs["scope"] in ("row", "col")
    assert num == page.text.count("<figcaption>") >= 25
    assert page.text.count("<table") == page.text.count("<caption>") >= 5
    assert page.text.count('<figure class="draw">') == NUM_DRAWS


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
    rows = re.findall(r"<th scope=\"row\">(\d)</th>", page.text)
    assert rows == ["0", "1", "2", "3", "4"]
    assert "E-BFMI" in page.sections["cost"]


def test_maps_of_a_family_share_their_colours(content):
    """The colour of a pixel is, to a step of the scale, the value that the field has there."""
    body = content.body
    values = {"q05": 1.5, "q50": 1.0, "q95": 2.0}
    fields = {
        f"conductivity_{key}": np.full(len(body.points), each) for key, each in values.items()
    }
    fields["conductivity_mean"] = 1.0 + body.points[:, 0]
    maps = Maps(replace(body, on_nodes=fields), np.zeros((0, 2)), {})
    (family, *_) = maps.families()
    scale = scale_of(fields.values(), "viridis", "log")
    assert isinstance(scale.norm, LogNorm)
    assert (scale.norm.vmin, scale.norm.vmax) == pytest.approx((1, 2))
    colours = matplotlib.colormaps["viridis"](scale.norm([1.5, 1.0, 2.0]))[:, :3]
    for picture, colour in zip(family.pictures[1:], colours, strict=True):
        image = image_of(picture)
        middle = image[image.shape[0] // 2, image.shape[1] // 3]
        np.testing.assert_allclose(middle, 255 * colour, atol=6)
    image = image_of(family.pictures[0])
    row = image[image.shape[0] // 2]
    inside = row[: int(0.75 * len(row))]  # without the colour bar
    inside = inside[(inside < 250).any(axis=1) & (inside.sum(axis=1) > 200)][3:-3]  # nor outline
    assert (np.diff(inside[:, 1]) >= 0).all()  # green rises along viridis
    assert inside[-1, 1] - inside[0, 1] > 150


def test_a_page_has_the_maps_that_there_are(content, page):
    fields = {
        **content.body.on_nodes, "conductivity_above_2": np.zeros(25), "porosity_mean": np.ones(25)
    }  # fmt: skip
    assert "Above 2" not in page.sections["maps"]
    page = Page(render(replace(content, body=replace(content.body, on_nodes=fields))))
    for text in ("Conductivity", "Solution", "Variance reduction", "R-hat", "Above 2", "Porosity"):
        assert text in page.sections["maps"]


def test_text_from_files_stays_text(tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)>&\"'"
    write_run(folder, hostile=True)
    page = Page(render(gather(folder)))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 1
    assert all("alt" in attrs for tag, attrs in page.elements if tag == "img")
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
    write_run(tmp_path / "out", 3, location=location, num=2, num_draws=10)
    content = gather(tmp_path / "out")
    maps = Maps(content.body, content.sensors[["x", "y", "z"]].to_numpy(), {})
    places = [flat.place for flat in maps.flats]
    assert places == ["slice z = 0.5", "slice y = 0.5", "slice x = 0.5"]
    assert len(next(iter(maps.families())).pictures) == 4
    # a group of the face at the front is seen from there alone
    points = content.body.points
    facets = content.body.cells[:, [(1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1)]].reshape(-1, 3)
    group = Group("front", facets[(points[facets][:, :, 1] == 0).all(axis=1)], "")
    front, behind = (image_of(picture) for picture in maps.mesh((group,)))

    def is_blue(image):
        return (image[..., 2] > image[..., 0] + 60).mean()

    assert is_blue(front) > 0.1
    assert is_blue(behind) == 0


def test_a_model_without_a_mesh_has_a_page(tmp_path):
    rng = np.random.default_rng(0)
    chains = [Chain({"parameters": rng.normal(size=(60, 2))}) for _ in range(2)]
    quantity = Quantity("parameters", {"parameter": ["decay <rate>", "b"]})
    Posterior(chains, [quantity]).write(tmp_path)
    content = gather(tmp_path)
    names = ["parameters[decay <rate>]", "parameters[b]"]
    scalars = content.posterior.scalars
    assert list(scalars) == list(content.summary.index) == names
    np.testing.assert_array_equal(scalars[names[1]][1], chains[1].draws["parameters"][:, 1])
    page = Page(render(content))
    assert page.left_out == {"sensors", "versions", "problem"}
    assert "decay <rate>" in page.sections["chains"]


def test_a_page_of_sensors_without_predictions(content):
    bare = replace(
        content,
        sensors=content.sensors[["observed"]],
        body=replace(content.body, on_nodes={}),
        draws=None,
        summary=None,
    )
    page = Page(render(bare))
    assert page.left_out >= {"draws", "maps", "summary"}
    assert "Readings and predictions" in page.sections["sensors"]


@pytest.mark.parametrize("value", [0.0, 3.0, -1e-12, np.nan])
@pytest.mark.parametrize("kind", ["", "log", "share"])
def test_a_constant_field_has_a_scale(value, kind):
    scale = scale_of([np.full(5, value)], "viridis", kind)
    assert scale.norm.vmin < scale.norm.vmax


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_charts_of_next_to_nothing(value):
    for shape in ((2, 1), (1, 5)):
        picture = charts.trace("x", np.full(shape, value), None)
        assert f"{shape[1]} draws of {shape[0]} chains" in picture.alternative
    assert "each of 2 chains" in charts.ranks("x", np.full((2, 3), value)).alternative
    assert "0 beyond 2" in charts.residuals(np.full(3, value)).alternative
