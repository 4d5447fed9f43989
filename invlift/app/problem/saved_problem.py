"""Files in the folder of a run from which its problem and sampler can be built again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from invlift.app.problem.problem_file import ProblemSpec, read_problem
from invlift.app.problems import PythonSpec, python_spec, read_python
from invlift.errors import InputError, first_line
from invlift.files.atomic import replace_on_success
from invlift.files.input_files import read_text
from invlift.posterior.output.run_folder import PROBLEM_FILES, REMEDY, problem_file

#: File and name of the problem in Python from which the chains come, and the sampler.
SOURCE = "chains/source.json"
#: Objections to the problem found before its chains began.
OBJECTIONS = "chains/objections.json"


def save_problem(spec: ProblemSpec | PythonSpec) -> None:
    """Write the problem file, or the Python file and its place, into the output folder."""
    directory, is_python = spec.output.dir, isinstance(spec, PythonSpec)
    texts = {PROBLEM_FILES[is_python]: text_of(spec)}
    if is_python:
        sampler = spec.sampler.model_dump(exclude_none=True)
        texts[SOURCE] = json.dumps({"source": f"{spec.source}:{spec.name}", "sampler": sampler})
    for name, text in texts.items():
        with replace_on_success(directory / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def keep_objections(directory: Path, objections: Sequence[str]) -> None:
    """Write the objections to a problem, so that a resumed run need not check it again."""
    with replace_on_success(directory / OBJECTIONS) as temporary:
        temporary.write_text(json.dumps(objections), encoding="utf-8")


def kept_objections(directory: Path) -> list[str] | None:
    """Read the objections of :func:`keep_objections`; None if there is no file or it is damaged."""
    try:
        kept = json.loads((directory / OBJECTIONS).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    is_kept = isinstance(kept, list) and all(isinstance(each, str) for each in kept)
    return kept if is_kept else None


def text_of(spec: ProblemSpec | PythonSpec) -> str:
    """Return the text of the complete problem file, or of the Python file of a problem.

    In it the output directory is that of the file itself, so the folder can be moved.
    """
    if isinstance(spec, PythonSpec):
        return spec.content
    here = spec.output.model_copy(update={"dir": Path()})
    return spec.model_copy(update={"output": here}).to_toml()


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
