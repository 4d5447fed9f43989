"""Pelts of hare and lynx by a predator-prey model: a posterior with modes without mass."""

from functools import cache
from pathlib import Path

from invlift.app.problems import load, read_python_problem

FILE = Path(__file__).parents[1] / "examples" / "hare_lynx" / "hare_lynx.py"


@cache
def hare_lynx_problem():
    """The problem of the example."""
    return load(read_python_problem(str(FILE)))
