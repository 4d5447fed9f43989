"""The page of a run: what it says and shows, and that it needs no other file."""

import base64
import io
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from posterior_cases import Chain
from run_folders import HOSTILE, make_posterior

from invlift.posterior import Posterior, Quantity
from invlift.posterior.output.report import write_report

SECTIONS = ["verdict", "maps", "draws", "sensors", "chains", "summary", "record", "problem"]


class Page(HTMLParser):
    """Elements of a page with their attributes, and its text by section."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.sections, self.text = [], {}, text
        self._section = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag == "section":
            self._section = attrs["id"]

    def handle_data(self, text):
        self.sections[self._section] = self.sections.get(self._section, "") + text

    @property
    def words(self):
        """What is said of the images, in their order."""
        return [attrs["alt"] for tag, attrs in self.elements if tag == "img"]


def page_of(posterior, folder, record=(), problem="kind = 'matern'"):
    content = posterior.record() | dict(record)
    path = write_report(posterior, content, folder / "page.html", "a run", problem)
    return Page(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def posterior():
    return replace(make_posterior()[0], exceedance=[2.0])


@pytest.fixture(scope="module")
def page(posterior, tmp_path_factory):
    record = {"versions": {"invlift": "0.1.0"}, "seed": 7, "method": "chmc"}
    return page_of(posterior, tmp_path_factory.mktemp("page"), record)


def test_every_section_is_there_once_and_linked(page):
    ids = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
    assert ids == SECTIONS
    assert [attrs["href"] for tag, attrs in page.elements if tag == "a"] == [f"#{i}" for i in ids]


def test_the_page_needs_nothing_else(page):
    for tag, attrs in page.elements:
        assert tag not in ("link", "script", "iframe", "object", "embed"), tag
        assert attrs.get("src", "data:image/webp;base64,").startswith("data:image/webp;base64,")
    assert "url(" not in page.text
    assert len(page.text) < 1.1e6
    (policy,) = (a["content"] for t, a in page.elements if a.get("http-equiv"))
    assert "default-src 'none'" in policy


def test_every_image_is_drawn_and_said(page):
    for tag, attrs in page.elements:
        if tag == "img":
            content = base64.b64decode(attrs["src"].removeprefix("data:image/webp;base64,"))
            image = np.asarray(Image.open(io.BytesIO(content)).convert("L"))
            assert min(image.shape) > 100
            assert np.ptp(image.astype(int)) > 100
            assert len(attrs["alt"]) > 10
            assert int(attrs["width"]) > 100
    assert len(page.words) >= 10


def test_the_page_says_what_the_run_found(posterior, page):
    verdict = posterior.verdict()
    for text in (verdict.headline, *verdict.reasons, *verdict.advice):
        assert text in page.sections["verdict"]
    assert "invlift 0.1.0" in page.sections["record"]
    assert "num_factorisations" in page.sections["record"]
    mean = posterior.summary().loc["sigma", "mean"]
    assert f"{mean:.4g}" in page.sections["summary"]
    fit = posterior.fit.sensors()
    for value in fit.predicted_mean:
        assert f"{value:.4g}" in page.sections["sensors"]
    assert "kind = 'matern'" in page.sections["problem"]


def test_all_fields_are_on_maps(page):
    words = " ".join(page.words)
    maps = "conductivity, median", "solution, 5 % quantile", "solution, sd", "P(k > 2)", "R-hat"
    for text in (*maps, "Residuals where the sensors are"):
        assert text in words
    assert "12 draws of log_conductivity" in words


def test_text_from_files_stays_text(tmp_path):
    draws = np.random.default_rng(0).normal(size=(2, 60))
    posterior = Posterior([Chain({HOSTILE: each}) for each in draws])
    verdict = {"is_converged": False, "headline": HOSTILE, "reasons": [HOSTILE],
               "warnings": [HOSTILE], "advice": [HOSTILE]}  # fmt: skip
    record = {"verdict": verdict, "method": HOSTILE, "versions": {HOSTILE: HOSTILE}}
    page = page_of(posterior, tmp_path, record, f"# </pre>{HOSTILE}")
    tags = [tag for tag, _ in page.elements]
    assert "script" not in tags
    assert not [attrs for _, attrs in page.elements if any(n.startswith("on") for n in attrs)]
    for section in ("verdict", "summary", "record", "problem"):
        assert HOSTILE in page.sections[section]
    # negative control: the parser would see what is not escaped
    assert [tag for tag, _ in Page("<p><script>1</script><img src=x>").elements] == [
        "p", "script", "img"
    ]  # fmt: skip


def test_a_model_without_a_mesh_has_a_page(tmp_path):
    rng = np.random.default_rng(0)
    chains = [Chain({"parameters": rng.normal(size=(60, 2))}) for _ in range(2)]
    quantity = Quantity("parameters", {"parameter": ["decay <rate>", "b"]})
    page = page_of(Posterior(chains, [quantity]), tmp_path, problem="")
    assert list(page.sections)[-1] == "record"
    assert not {"maps", "draws", "sensors", "problem"} & set(page.sections)
    assert "decay <rate>" in page.sections["summary"]
