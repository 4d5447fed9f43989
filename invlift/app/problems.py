"""Open a problem from a problem file, or from a Python file, ``model.py:problem``."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import cloudpickle
from pydantic import PrivateAttr

from invlift.app.problem.build import build_noise, build_problem
from invlift.app.problem.problem_file import ProblemSpec, RunOptions, read_problem
from invlift.app.problem.run_tables import OutputTable, SamplerTable
from invlift.errors import InputError, printable
from invlift.files.input_files import read_text
from invlift.files.tables import Table
from invlift.noise import Noise
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem

#: Problems that commands and their functions accept.
AnyProblem = InverseProblem | ManifoldProblem
#: Default name of the problem in a Python file.
NAME = "problem"
#: File in the folder of a run: file and name of its problem in Python, and the sampler.
SOURCE = "chains/source.json"


class PythonSpec(RunOptions, Table):
    """A Python file: path, content, name of a problem or of its function; and options."""

    source: Path
    content: str
    name: str
    sampler: SamplerTable
    output: OutputTable

    _file: str = PrivateAttr(default="model.py")

    @property
    def files(self) -> dict[str, str]:
        """The Python file, and its original place with the sampler."""
        kept = self.record() | {"sampler": self.sampler.model_dump(exclude_none=True)}
        return {"problem.py": self.content, SOURCE: json.dumps(kept)}

    def record(self) -> dict[str, str]:
        """Return what the record of a run has of the Python file."""
        return {"source": f"{self.source}:{self.name}"}


def open_problem(text: str) -> ProblemSpec | PythonSpec:
    """Read the problem argument of a command, ``problem.toml`` or ``model.py:problem``."""
    return read_problem(text) if _split(text) is None else read_python_problem(text)


def build(spec: ProblemSpec | PythonSpec, *, needs_values: bool = True) -> AnyProblem:
    """Build the problem of a specification; a Python file is executed.

    ``needs_values`` is as for :func:`~invlift.app.problem.build.build_problem`. Raises an
    InputError if the problem cannot be built.
    """
    if isinstance(spec, PythonSpec):
        return load(spec)
    return build_problem(spec, needs_values=needs_values)


def noise_of(spec: ProblemSpec | PythonSpec, problem: InverseProblem) -> Noise:
    """Return the noise of a problem, which may have been built without readings."""
    if isinstance(spec, PythonSpec):
        return problem.noise
    return build_noise(spec, problem.sensors)


def with_readings(problem: AnyProblem, where: str, command: str) -> InverseProblem:
    """Return the problem if it has readings; an InputError for a density on a manifold."""
    if not problem.has_readings:
        remedy = f"{command} is for problems with readings; check, run and report take any"
        raise InputError(where, "a problem with readings", "a density on a manifold", remedy)
    return problem


def read_python_problem(text: str) -> PythonSpec:
    """Read a Python file given as ``model.py:problem``, with the default sampler.

    The file is not executed. The text is a path, followed by a colon and the name of a problem or
    of a function without arguments, by default ``problem``. Raises an InputError if the file cannot
    be read.
    """
    return python_spec(text, read_python(_split(text)[0]))


def read_python(file: str) -> str:
    """Return the content of a Python file; an InputError if it cannot be read."""
    remedy = "give the path of a Python file, model.py:problem"
    return read_text(Path(file), file, "a Python file", remedy=remedy)


def python_spec(text: str, content: str) -> PythonSpec:
    """Return the specification of ``model.py:problem`` from its content; default sampler."""
    file, name = _split(text)
    path = Path(file)
    spec = PythonSpec(
        source=path.resolve(),
        content=content,
        name=name,
        sampler=SamplerTable(),
        output=OutputTable(dir=path.resolve().parent / "results" / path.stem),
    )
    spec._file = file
    return spec


def load(spec: PythonSpec) -> AnyProblem:
    """Execute the file and return its problem.

    Raises an InputError if the file fails, or the name is not that of a problem.
    """
    module = _run(spec)
    if not hasattr(module, spec.name):
        names = ", ".join(
            name
            for name, thing in vars(module).items()
            if isinstance(thing, AnyProblem) or getattr(thing, "__module__", "") == _MODULE
        )
        found = f"the names {names}" if names else "no such name"
        remedy = f"give the name of the problem behind a colon: {spec._file}:NAME"
        raise InputError(spec._file, f"a problem called {spec.name}", found, remedy)
    made, where = getattr(module, spec.name), f"{spec._file}:{spec.name}"
    if callable(made) and not isinstance(made, AnyProblem):
        with _failures_named(spec, where):
            made = made()
    if not isinstance(made, AnyProblem):
        expected = "a problem, or a function without arguments that makes one"
        remedy = "make one with invlift.inverse_problem or invlift.manifold_problem"
        raise InputError(where, expected, f"a {type(made).__name__}", remedy)
    return made


#: Module name of the file while it is executed.
_MODULE = "invlift_model"


def _run(spec: PythonSpec) -> ModuleType:
    """Execute the file as a module; as a script, it can import the files beside it."""
    sys.path.insert(0, str(spec.source.parent))
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_file_location(_MODULE, spec.source)
    )
    sys.modules[_MODULE] = module
    # Workers do not have the file, so its functions are sent by value.
    cloudpickle.register_pickle_by_value(module)
    with _failures_named(spec, spec._file):
        exec(compile(spec.content, str(spec.source), "exec"), vars(module))
    return module


@contextmanager
def _failures_named(spec: PythonSpec, where: str) -> Iterator[None]:
    """Convert a failure of the file to an InputError with the line of the file."""
    try:
        yield
    except InputError as error:
        raise error.at((where, *error.path)) from None
    except Exception as reason:
        frames = traceback.extract_tb(reason.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(spec.source)]
        line = reason.lineno if isinstance(reason, SyntaxError) else (lines or [None])[-1]
        where = f"{spec._file}, line {line}" if line else spec._file
        found, remedy = f"{type(reason).__name__}: {reason}", "correct it; python itself shows more"
        expected = "Python code that runs"
        raise InputError(where, expected, printable(found)[:200], remedy) from reason


def _split(text: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"(.+\.py)(?::(\w+))?", text)
    return None if match is None else (match[1], match[2] or NAME)
