"""The one door: a problem file, or a Python file that makes a problem."""

from __future__ import annotations

from dataclasses import dataclass

from invlift.app.build import FieldProblem, build_problem
from invlift.app.problem_file import ProblemSpec, read_problem
from invlift.app.python_problem import PythonSpec, is_python, load, read_python_problem
from invlift.errors import InputError
from invlift.inverse.problem import InverseProblem


@dataclass(frozen=True)
class OwnProblem:
    """A problem of a user's own model.

    Attributes
    ----------
    problem : InverseProblem
    """

    problem: InverseProblem


def open_problem(text: str) -> ProblemSpec | PythonSpec:
    """What a command is given: ``problem.toml``, or ``model.py:problem``.

    Raises
    ------
    InputError
        As :func:`~invlift.app.problem_file.read_problem`, or if the Python file cannot be read.
    """
    return read_python_problem(text) if is_python(text) else read_problem(text)


def build(spec: ProblemSpec | PythonSpec) -> FieldProblem | OwnProblem:
    """Put the problem together; a Python file is run.

    Raises
    ------
    InputError
        As :func:`~invlift.app.build.build_problem` and
        :func:`~invlift.app.python_problem.load`.
    """
    if isinstance(spec, ProblemSpec):
        return build_problem(spec)
    found = load(spec)
    return OwnProblem(found) if isinstance(found, InverseProblem) else found


def with_a_mesh(text: str, command: str) -> ProblemSpec:
    """The problem file of a command that is about fields alone.

    An InputError if it is a Python file, or as :func:`~invlift.app.problem_file.read_problem`.
    """
    if is_python(text):
        raise InputError(
            text,
            "a problem file in TOML",
            "a Python file",
            f"{command} is for fields on a mesh; in Python draw from the prior itself",
        )
    return read_problem(text)
