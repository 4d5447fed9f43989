"""Files in the folder of a run from which its problem and sampler can be built again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from invlift.app.problem.problem_file import ProblemSpec, read_problem
from invlift.app.problems import SOURCE, PythonSpec, python_spec, read_python
from invlift.errors import InputError, first_line
from invlift.files.atomic import write_bytes
from invlift.files.input_files import read_text
from invlift.posterior.output.folder_files import REMEDY, problem_file

#: Objections to the problem found before its chains began.
OBJECTIONS = "chains/objections.json"


def save_problem(spec: ProblemSpec | PythonSpec) -> None:
    """Write the files of a problem into the output folder."""
    for name, text in spec.files.items():
        write_bytes(spec.output.dir / name, text.encode())


def keep_objections(directory: Path, objections: Sequence[str]) -> None:
    """Write the objections to a problem, so that a resumed run need not check it again."""
    write_bytes(directory / OBJECTIONS, json.dumps(objections).encode())


def kept_objections(directory: Path) -> list[str] | None:
    """Read the objections of :func:`keep_objections`; None if there is no file or it is damaged."""
    try:
        kept = json.loads((directory / OBJECTIONS).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    is_kept = isinstance(kept, list) and all(isinstance(each, str) for each in kept)
    return kept if is_kept else None


def open_saved(directory: Path) -> ProblemSpec | PythonSpec:
    """Read the problem that :func:`save_problem` has written.

    The source of a Python problem is its original path, so it finds the files beside it.

    Raises
    ------
    InputError
        If a file is missing or damaged.
    """
    file = problem_file(directory)
    if file.suffix != ".py":
        return read_problem(file)
    where, what = f"{directory / SOURCE}", "the source and the sampler of a run"
    text = read_text(directory / SOURCE, where, what, remedy=REMEDY)
    try:
        kept = json.loads(text)
        spec = python_spec(kept["source"], read_python(f"{file}"))
        return spec.with_overrides(**kept["sampler"])
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(where, what, first_line(error), REMEDY) from None
