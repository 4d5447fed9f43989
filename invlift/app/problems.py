"""The one door: a problem file, or a Python file that makes a problem, ``model.py:problem``."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from invlift.app.build import FieldProblem, build_problem
from invlift.app.problem_file import ProblemSpec, RunOptions, read_problem
from invlift.app.sections import OutputTable, SamplerTable
from invlift.errors import InputError, printable
from invlift.files.input_files import read_text
from invlift.files.tables import Table
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.given_manifold import ManifoldProblem

#: What a problem can be.
_KINDS = InverseProblem, ManifoldProblem
#: What the problem is called in the file, if nothing is said.
NAME = "problem"
#: Largest file that is read.
MAX_BYTES = 2**20


@dataclass(frozen=True)
class OwnProblem:
    """A problem of a user's own model, or a density on a manifold."""

    problem: InverseProblem | ManifoldProblem


class PythonSpec(RunOptions, Table):
    """A Python file, its content, the name in it of a problem or of what makes one, and options."""

    source: Path
    content: str
    name: str
    sampler: SamplerTable
    output: OutputTable

    _file: str = PrivateAttr(default="model.py")


def open_problem(text: str) -> ProblemSpec | PythonSpec:
    """What a command is given, ``problem.toml`` or ``model.py:problem``, read or refused."""
    return read_problem(text) if _split(text) is None else read_python_problem(text)


def build(spec: ProblemSpec | PythonSpec) -> FieldProblem | OwnProblem:
    """Put the problem together; a Python file is run. An InputError if it cannot be."""
    if isinstance(spec, ProblemSpec):
        return build_problem(spec)
    found = load(spec)
    return OwnProblem(found) if isinstance(found, _KINDS) else found


def build_with_readings(spec: ProblemSpec | PythonSpec, command: str) -> FieldProblem | OwnProblem:
    """The same for a command that is about readings; an InputError of a density on a manifold."""
    found = build(spec)
    if isinstance(found.problem, ManifoldProblem):
        remedy = f"{command} is for problems with readings; check, run and report take any"
        raise InputError(spec._file, "a problem with readings", "a density on a manifold", remedy)
    return found


def with_a_mesh(text: str, command: str) -> ProblemSpec:
    """The problem file of a command that is about fields alone; an InputError if it is Python."""
    if _split(text) is not None:
        remedy = f"{command} is for fields on a mesh; in Python draw from the prior itself"
        raise InputError(text, "a problem file in TOML", "a Python file", remedy)
    return read_problem(text)


def read_python_problem(text: str) -> PythonSpec:
    """What ``model.py:problem`` names, with the usual sampler; nothing in it is run.

    The text is a path, and behind a colon the name of a problem or of a function of no arguments;
    ``problem``, if there is none. An InputError if the file cannot be read.
    """
    file, name = _split(text)
    path = Path(file)
    remedy = "give the path of a Python file, model.py:problem"
    spec = PythonSpec(
        source=path.resolve(),
        content=read_text(path, file, "a Python file", remedy=remedy, max_bytes=MAX_BYTES),
        name=name,
        sampler=SamplerTable(),
        output=OutputTable(dir=path.resolve().parent / "results" / path.stem),
    )
    spec._file = file
    return spec


def load(spec: PythonSpec) -> Any:
    """Run the file and return the problem of that name in it, or what else has a ``problem``.

    An InputError if the file fails, or what it calls so is not a problem.
    """
    module = _run(spec)
    if not hasattr(module, spec.name):
        names = ", ".join(
            name
            for name, thing in vars(module).items()
            if isinstance(thing, _KINDS) or getattr(thing, "__module__", "") == _MODULE
        )
        found = f"the names {names}" if names else "no such name"
        remedy = f"give the name of the problem behind a colon: {spec._file}:NAME"
        raise InputError(spec._file, f"a problem called {spec.name}", found, remedy)
    made, where = getattr(module, spec.name), f"{spec._file}:{spec.name}"
    if callable(made) and not _is_problem(made):
        with _failures_named(spec, where):
            made = made()
    if not _is_problem(made):
        expected = "a problem, or a function without arguments that makes one"
        remedy = "make one with invlift.inverse_problem or invlift.manifold_problem"
        raise InputError(where, expected, f"a {type(made).__name__}", remedy)
    return made


#: Of the file, while it is run: the name under which its functions know it.
_MODULE = "invlift_model"


def _run(spec: PythonSpec) -> Any:
    """The file as a module; as with any script it finds the files beside it."""
    sys.path.insert(0, str(spec.source.parent))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_file_location(_MODULE, spec.source)
    )
    sys.modules[_MODULE] = module
    with suppress(ImportError):
        import cloudpickle

        # Workers have not got the file: its functions are sent as they are.
        cloudpickle.register_pickle_by_value(module)
    with _failures_named(spec, spec._file):
        exec(compile(spec.content, str(spec.source), "exec"), vars(module))
    return module


@contextmanager
def _failures_named(spec: PythonSpec, where: str) -> Iterator[None]:
    """Let a failure of the file name the last of its lines that was run."""
    try:
        yield
    except InputError as error:
        raise error.at(f"{where}, {error.where}") from None
    except Exception as reason:
        frames = traceback.extract_tb(reason.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(spec.source)]
        line = reason.lineno if isinstance(reason, SyntaxError) else (lines or [None])[-1]
        where = f"{spec._file}, line {line}" if line else spec._file
        found, remedy = f"{type(reason).__name__}: {reason}", "correct it; python itself shows more"
        expected = "Python code that runs"
        raise InputError(where, expected, printable(found)[:200], remedy) from reason


def _is_problem(thing: Any) -> bool:
    return isinstance(getattr(thing, "problem", thing), _KINDS)


def _split(text: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"(.+\.py)(?::(\w+))?", text)
    return None if match is None else (match[1], match[2] or NAME)
