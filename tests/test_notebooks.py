"""The notebooks run, and what they show is of draws that have converged."""

from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from crafted import run_from_prior

import invlift

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NAMES = "field", "numpyro", "time"


def read(name):
    """Sources of the cells of code, texts that are kept, and how many pictures."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    texts = [output.text for output in outputs if output.output_type == "stream"]
    num_pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    return [cell.source for cell in cells], "".join(texts), num_pictures


def test_notebooks_are_of_a_field_of_numpyro_and_of_time():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_kept_outputs_are_those_of_a_run_without_errors(name):
    _, text, num_pictures = read(name)
    assert "Converged, as far as can be told" in text
    assert "Traceback" not in text
    assert "Warning" not in text
    assert num_pictures >= 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("name", NAMES)
def test_notebooks_run(name, monkeypatch, capsys):
    """With draws from the prior; `python docs/notebooks.py` runs them as they are."""
    sources, before, num_pictures = read(name)
    monkeypatch.setattr(invlift, "sample", lambda problem, **options: run_from_prior(problem, 60))
    monkeypatch.chdir(FOLDER)
    names = {}
    for source in sources:
        exec(source, names)
    assert len(plt.get_fignums()) == num_pictures
    plt.close("all")
    # The verdict has more lines here.
    assert capsys.readouterr().out.count("\n") >= before.count("\n")
