"""The page of a run in a real browser: what a person sees, at the widths of a phone and a desk."""

import pytest
from browser import Browser
from run_folders import write_run

from invlift.app.cli import main

pytestmark = pytest.mark.browser

WIDTHS = {"phone": {"width": 390, "mobile": True}, "desk": {"width": 1280}}
#: Images that are not drawn.
BROKEN = "[...document.images].filter((each) => !each.naturalWidth).map((each) => each.alt)"
TOO_WIDE = """[...document.querySelectorAll("body *")]
    .filter((each) => !each.closest(".scroll, pre, figure"))
    .filter((each) => {
        const box = each.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
    })
    .map((each) => each.outerHTML.slice(0, 80))"""
#: Smallest contrast of text against the page, by WCAG 2.1.
CONTRAST = """(() => {
    const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((value) => {
            const share = value / 255;
            return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (each) => {
        const colour = getComputedStyle(each).backgroundColor;
        return colour === "rgba(0, 0, 0, 0)" && each.parentElement
            ? behind(each.parentElement) : colour;
    };
    return Math.min(...[...document.querySelectorAll("p, li, td, th, a, h1, h2, pre")]
        .filter((each) => each.textContent.trim())
        .map((each) => [light(getComputedStyle(each).color), light(behind(each))])
        .map(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)));
})()"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module", params=[2, 3], ids=["plane", "space"])
def page(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "out"
    write_run(folder, request.param, hostile=True)
    with pytest.raises(SystemExit):
        main(["report", str(folder)])
    return folder / "report.html"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_drawn_without_errors_and_fits(browser, page, width, scheme):
    browser.problems.clear()
    browser.open(page, **WIDTHS[width], dark=scheme == "dark")
    assert browser.problems == []
    assert browser.run("innerWidth") == WIDTHS[width]["width"]
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(TOO_WIDE) == []
    assert browser.run("document.images.length") >= 8
    assert browser.run(BROKEN) == []
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert browser.run(CONTRAST) >= 4.5
    # names from files have run nothing
    assert browser.run("document.title") == "out: invlift report"


def test_a_page_with_a_mistake_is_noticed(browser, page, tmp_path):
    """Negative control: a script, text that is too wide, a link to elsewhere."""
    broken = tmp_path / "broken.html"
    broken.write_text(
        page.read_text().replace(
            "<main>",
            "<main><script>missing()</script><p style='width:2000px'>a</p>"
            "<img src='http://127.0.0.1:9/a.png'>",
        )
    )
    browser.problems.clear()
    browser.open(broken, width=390, mobile=True)
    assert "Content Security Policy" in str(browser.problems)
    assert browser.run(TOO_WIDE) != []
    assert browser.run(BROKEN) != []
    browser.problems.clear()
