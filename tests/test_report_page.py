"""The page of a run in a real browser: what a person sees, at the widths of a phone and a desk."""

import pytest
from browser import Browser
from run_folders import write_run

from invlift.app.report import write_report

pytestmark = pytest.mark.browser

WIDTHS = {"phone": {"width": 390, "mobile": True}, "desk": {"width": 1280}}
#: Sum of a canvas's bytes: whatever is drawn changes it.
INK = """(selector) => [...document.querySelectorAll(selector)].map((canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    let sum = 0;
    for (let i = 0; i < data.length; i++) sum = (sum * 31 + data[i]) % 1000000007;
    return [sum, data.some((value) => value > 0)];
})"""
TOO_WIDE = """[...document.querySelectorAll("body *")]
    .filter((each) => !each.closest(".scroll, pre, .defs"))
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
    return Math.min(...[...document.querySelectorAll("p, li, td, th, span, dt, dd, a, h1, h2, pre")]
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
    return write_report(folder)[0], request.param


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_drawn_without_errors_and_fits(browser, page, width, scheme):
    browser.problems.clear()
    browser.open(page[0], **WIDTHS[width], dark=scheme == "dark")
    assert browser.problems == []
    assert browser.run("innerWidth") == WIDTHS[width]["width"]
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run(TOO_WIDE) == []
    drawn = browser.run(f"({INK})('canvas')")
    assert len(drawn) >= 9
    assert all(has_ink for _, has_ink in drawn)
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert browser.run(CONTRAST) >= 4.5
    # names from files have run nothing
    assert browser.run("document.title") == "out: invlift report"


def test_the_slider_shows_another_draw(browser, page):
    browser.problems.clear()
    browser.open(page[0], width=1280)
    before = browser.run(f"({INK})('canvas[data-draw]')")
    others = browser.run(f"({INK})('canvas[data-field]')")
    label = browser.run("document.getElementById('draw-label').textContent")
    browser.run("document.getElementById('draw').focus()")
    browser.press("ArrowRight", 39)
    assert browser.run("document.getElementById('draw').value") == "1"
    after = browser.run(f"({INK})('canvas[data-draw]')")
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert browser.run("document.getElementById('draw-label').textContent") != label
    assert browser.run(f"({INK})('canvas[data-field]')") == others
    browser.press("ArrowLeft", 37)
    assert browser.run(f"({INK})('canvas[data-draw]')") == before
    assert browser.problems == []


def test_play_goes_on_until_it_is_stopped(browser, page):
    browser.open(page[0], width=1280)
    value = "Number(document.getElementById('draw').value)"
    wait = "new Promise((done) => setTimeout(done, 1300))"
    browser.run("document.querySelector('[data-play]').click()")
    browser.run(wait)
    assert browser.run(value) >= 1
    browser.run("document.querySelector('[data-play]').click()")
    stopped = browser.run(value)
    browser.run(wait)
    assert browser.run(value) == stopped


def test_a_sensor_tells_its_numbers(browser, page):
    browser.open(page[0], width=390, mobile=True)
    browser.run("document.querySelectorAll('.residual')[2].focus()")
    text = browser.run("document.getElementById('residual-reading').textContent")
    for part in ("row 4 at (", "reading", "prediction", "standardised residual"):
        assert part in text
    browser.run("document.querySelectorAll('.residual')[0].dispatchEvent(new Event('click'))")
    assert "row 2 at (" in browser.run("document.getElementById('residual-reading').textContent")


def test_pointing_at_a_map_reads_its_value(browser, page):
    browser.open(page[0], width=1280)
    text = browser.run(
        """(() => {
            const canvas = document.querySelector("canvas[data-field=conductivity_mean]");
            const box = canvas.getBoundingClientRect();
            const at = (x, y) => {
                const clientX = box.left + x * box.width, clientY = box.top + y * box.height;
                canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
                return canvas.closest("figure").querySelector("output").textContent;
            };
            return [at(0.5, 0.5), at(0.001, 0.001)];
        })()"""
    )
    assert text[0].startswith("x = 0.5, y = 0.5: ")
    assert 0.3 < float(text[0].split(": ")[1]) < 6
    assert text[1] == ""  # outside the body


def test_the_surface_turns_and_changes_its_colours(browser, page):
    path, dim = page
    browser.problems.clear()
    browser.open(path, width=1280)
    canvas = f"({INK})('canvas[data-surface]')"
    if dim == 2:
        assert browser.run(canvas) == []
        return
    seen = [browser.run(canvas)]
    browser.run("document.querySelector('[data-surface]').focus()")
    browser.press("ArrowLeft", 37)
    seen.append(browser.run(canvas))
    for value in ("conductivity_mean", "draw", "solution_sd", "groups"):
        select = "document.querySelector('[data-surface-field]')"
        browser.run(f"{select}.value = '{value}'")
        browser.run(f"{select}.dispatchEvent(new Event('change'))")
        seen.append(browser.run(canvas))
        assert browser.run("document.querySelector('[data-surface-bar]').hidden") == (
            value == "groups"
        )
    assert seen[-1] == seen[1]
    assert len({str(each) for each in seen}) == len(seen) - 1
    assert browser.problems == []


def test_a_page_with_a_mistake_is_noticed(browser, page, tmp_path):
    """Negative control: a script that fails, text that is too wide, a link to elsewhere."""
    text = page[0].read_text()
    broken = tmp_path / "broken.html"
    broken.write_text(
        text.replace("paintAll();\n})();", "missing();\n})();").replace(
            "<main>", "<main><p style='width:2000px'>a</p><img src='http://127.0.0.1:9/a.png'>"
        )
    )
    browser.problems.clear()
    browser.open(broken, width=390, mobile=True)
    problems = str(browser.problems)
    assert "Content Security Policy" in problems  # which refuses the changed script, too
    assert "hash" in problems
    assert browser.run(TOO_WIDE) != []
    browser.problems.clear()
    browser.run("setTimeout(() => missing(), 0)")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    assert "missing is not defined" in str(browser.problems)
    browser.problems.clear()
