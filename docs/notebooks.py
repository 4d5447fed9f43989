"""Runs the notebooks and keeps what they show: python docs/notebooks.py."""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent / "notebooks"


def executed(path: Path) -> nbformat.NotebookNode:
    """Return the notebook with new outputs; an error in a cell is raised.

    Times of execution are left out, so that outputs change only if results do.
    """
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # of tqdm, without ipywidgets
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=600, resources=resources, record_timing=False)
    return client.execute()


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(path)
