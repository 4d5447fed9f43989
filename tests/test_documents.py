"""Reference pages are complete: each public name, each command and each of its options."""

import importlib.util
import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

import invlift
from invlift.app.cli import main
from invlift.samplers.kernels import KERNELS, METHODS, REFERENCE

DOCS = Path(__file__).parents[1] / "docs"


def help_of(capsys, *arguments):
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    return capsys.readouterr().out


def test_each_public_name_is_on_one_page_of_the_reference():
    pages = {page.stem: page.read_text() for page in (DOCS / "api").glob("*.md")}
    index = pages.pop("README")
    shown = {
        name: re.findall(r"^::: invlift\.(\w+)$", text, re.MULTILINE)
        for name, text in pages.items()
    }
    assert Counter(chain(*shown.values())) == Counter(invlift.__all__)
    for page, names in re.findall(r"^\| \[.*\]\((\w+)\.md\) \| (.*) \|$", index, re.MULTILINE):
        assert re.findall(r"`(\w+)`", names) == shown.pop(page)
    assert not shown


def test_each_kernel_is_shown():
    page = (DOCS / "api/kernels.md").read_text()
    shown = re.findall(
        r"^::: invlift\.samplers\.kernels\.(?:reference\.)?(\w+\.\w+)$", page, re.MULTILINE
    )
    kernels = {
        f"{kernel.__module__.rpartition('.')[2]}.{kernel.__name__}"
        for kernel in invlift.KERNELS.values()
        if kernel.__module__.startswith("invlift.")
    }
    assert sorted(shown) == sorted([*kernels, "constrained.ConstrainedKernel"])


def test_methods_to_compare_with_stand_apart():
    assert not METHODS.keys() & REFERENCE.keys()
    places = {name: ".reference." in kernel.__module__ for name, kernel in KERNELS.items()}
    assert {name for name, is_apart in places.items() if is_apart} == {*REFERENCE}
    text = (DOCS / "which_sampler.md").read_text()
    first, _, rest = text.partition("## Why the default")
    _, _, last = rest.partition("## Methods to compare with")
    assert {*re.findall(r"^\| (.*) \|.*\|$", first, re.MULTILINE)} >= {"`chmc`", "`chmc-nuts`"}
    for known, part in (METHODS, first), (REFERENCE, last):
        rows = re.findall(r"^\| .*`.*\|$", part, re.MULTILINE)
        assert {*re.findall(r"`([\w-]+)`", " ".join(rows))} == {*known}


def test_each_command_has_a_page_that_names_its_options(capsys):
    commands = set(re.findall(r"^    ([\w-]+)(?:\s|$)", help_of(capsys), re.MULTILINE)) - {
        "COMMAND"
    }
    pages = {page.stem: page.read_text() for page in (DOCS / "commands").glob("*.md")}
    index = (DOCS / "outputs.md").read_text()
    assert commands == set(pages)
    assert len(commands) >= 8
    for command, text in pages.items():
        assert f"[`invlift {command}`](commands/{command}.md)" in index
        options = set(re.findall(r"--[a-z-]+", help_of(capsys, command))) - {"--help"}
        missing = {option for option in options if not re.search(rf"{option}(?![\w-])", text)}
        assert not missing, command


def test_modules_that_the_design_names_exist():
    root = DOCS.parent
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", (DOCS / "design.md").read_text()))
    assert len(named) > 50
    assert not [
        name for name in named if not any((root / at / name).exists() for at in ("invlift", "."))
    ]


def test_gallery_has_every_example_with_its_line_and_picture():
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    written = gallery.PAGE.read_text(encoding="utf-8").partition(gallery.START)[2].lstrip("\n")
    assert written == gallery.gallery(), "python docs/gallery.py"
    folders = {path.name for path in gallery.PAGE.parent.iterdir() if path.is_dir()}
    examples = [gallery.read_example(page) for page in gallery.PAGE.parent.glob("*/README.md")]
    assert {example.page.split("/")[0] for example in examples} == folders - {"results"}
    for example in examples:
        assert 20 < len(example.line) < 130, example.title
        assert example.picture is None or (gallery.PAGE.parent / example.picture).exists()
    assert [each.page for each in examples if each.picture is None] == ["own_models/README.md"]
