"""The notebooks run, show pictures and end with draws that have converged."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def shown(notebook):
    """Texts and kinds of pictures of all outputs."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    texts = [output.text for output in outputs if output.output_type == "stream"]
    return "".join(texts), sum("image/png" in output.get("data", {}) for output in outputs)


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_notebooks_of_a_field_of_time_and_of_numpyro():
    assert [path.stem for path in NOTEBOOKS] == ["field", "numpyro", "time"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_outputs_are_those_of_a_run_without_errors(path):
    text, num_pictures = shown(nbformat.read(path, as_version=4))
    assert "Converged, as far as can be told" in text
    assert "Traceback" not in text
    assert "Warning" not in text
    assert num_pictures >= 2


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path):
    before, num_pictures = shown(nbformat.read(path, as_version=4))
    text, num_now = shown(module(DOCS / "notebooks.py").executed(path))
    assert "Converged, as far as can be told" in text
    assert num_now == num_pictures
    assert text.count("\n") == before.count("\n")
