"""A problem that a Python file makes: ``model.py:problem``."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from invlift.app.run_options import RunOptions
from invlift.app.sections import OutputTable, SamplerTable
from invlift.errors import InputError, printable
from invlift.input_files import read_text
from invlift.inverse.problem import InverseProblem
from invlift.tables import Table

#: What the problem is called in the file, if nothing is said.
NAME = "problem"
#: Largest file that is read.
MAX_BYTES = 2**20


class PythonSpec(RunOptions, Table):
    """A Python file, the name in it of a problem or of a function that makes one, and options.

    Attributes
    ----------
    source : Path
    content : str
        Of the file, as it is run and kept.
    name : str
    sampler : SamplerTable
    output : OutputTable
    """

    source: Path
    content: str
    name: str
    sampler: SamplerTable
    output: OutputTable

    _file: str = PrivateAttr(default="model.py")


def is_python(text: str) -> bool:
    """Whether the text names a Python file, perhaps with a name in it."""
    return _split(text) is not None


def read_python_problem(text: str) -> PythonSpec:
    """What ``model.py:problem`` names, with the usual sampler; nothing in it is run.

    Parameters
    ----------
    text : str
        A path, and behind a colon the name of a problem or of a function of no arguments;
        ``problem``, if there is none.

    An InputError if the file cannot be read.
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
    """Run the file and return the problem of that name in it.

    Returns
    -------
    InverseProblem, or what else has one as its ``problem``

    Raises
    ------
    InputError
        If the file fails, or what it calls so is not a problem.
    """
    module = _run(spec)
    if not hasattr(module, spec.name):
        names = [
            name
            for name, thing in vars(module).items()
            if isinstance(thing, InverseProblem) or getattr(thing, "__module__", "") == _MODULE
        ]
        raise InputError(
            spec._file,
            f"a problem called {spec.name}",
            f"the names {', '.join(names)}" if names else "no such name",
            f"give the name of the problem behind a colon: {spec._file}:NAME",
        )
    made, where = getattr(module, spec.name), f"{spec._file}:{spec.name}"
    if callable(made) and not _is_problem(made):
        with _failures_named(spec, where):
            made = made()
    if not _is_problem(made):
        expected = "a problem, or a function without arguments that makes one"
        remedy = "make one with invlift.inverse_problem"
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
        raise InputError(
            f"{spec._file}, line {line}" if line else spec._file,
            "Python code that runs",
            printable(f"{type(reason).__name__}: {reason}")[:200],
            "correct it; python itself shows more",
        ) from reason


def _is_problem(thing: Any) -> bool:
    return isinstance(getattr(thing, "problem", thing), InverseProblem)


def _split(text: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"(.+\.py)(?::(\w+))?", text)
    return None if match is None else (match[1], match[2] or NAME)
