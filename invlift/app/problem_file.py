"""The problem file: TOML in, a checked `ProblemSpec` out, and back.

Only the file itself is looked at here. What it names (mesh, groups, fields, sensor table) is
checked where it is read, with `ProblemSpec.where` to say which key is to blame.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, PrivateAttr, ValidationError

from invlift.app.run_options import RunOptions, from_validation_error
from invlift.app.sections import ExperimentTable, Sections
from invlift.errors import InputError
from invlift.input_files import read_text

#: Largest problem file that is read.
MAX_BYTES = 2**20


class ProblemSpec(RunOptions, Sections):
    """A problem file's content, checked, with defaults filled in and absolute paths.

    Make one with `read_problem` or `parse_problem`.
    """

    _file: str = PrivateAttr(default="problem")

    def to_toml(self) -> str:
        """Write the problem as a TOML file that `read_problem` reads from any directory."""
        return tomli_w.dumps(_plain(self))


def read_problem(path: str | os.PathLike) -> ProblemSpec:
    """Read a problem file.

    Parameters
    ----------
    path : str or path-like
        Relative paths in the file start at its own directory.

    Raises
    ------
    InputError
        If the file cannot be read, is not TOML, or has an unknown key, a missing key, a value of
        the wrong type or out of range, or two conditions on one boundary group.
    """
    file = os.fspath(path)
    text = read_text(
        Path(path),
        file,
        "a problem file",
        remedy="give the path of a problem file in TOML",
        max_bytes=MAX_BYTES,
    )
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as reason:
        raise _syntax_error(file, text, str(reason)) from None
    return parse_problem(data, path)


def parse_problem(data: Mapping[str, Any], file: str | os.PathLike) -> ProblemSpec:
    """Check a problem given as nested dictionaries, as TOML would give them.

    Parameters
    ----------
    data : mapping
        The tables by name.
    file : str or path-like
        Stands for the problem file: relative paths start at its directory, errors name it and the
        default output directory is results/<its name> beside it.

    Raises
    ------
    InputError
        As `read_problem`, except for the reading.
    """
    name, path = os.fspath(file), Path(file)
    context = {"base": path.parent.resolve(), "name": path.stem}
    try:
        spec = ProblemSpec.model_validate(data, context=context)
    except ValidationError as error:
        raise from_validation_error(error, data, name) from None
    spec._file = name
    return spec


def _syntax_error(file: str, text: str, message: str) -> InputError:
    """Return the error for text that is not TOML, with the number and content of the line."""
    match = re.search(r" \(at line (\d+), column \d+\)", message)
    lines = text.splitlines() or [""]
    number = int(match[1]) if match else len(lines)
    reason = message[: match.start()] if match else message.removesuffix(" (at end of document)")
    line = lines[number - 1].strip() if number <= len(lines) else ""
    return InputError(
        f"{file}, line {number}",
        "valid TOML",
        f"{reason[:80]!r} in: {line[:60]}" if line else f"{reason[:80]!r}",
        "write key = value, with text in quotes and each key once",
    )


def _plain(value: Any) -> Any:
    """Return models as nested dictionaries, paths as text, and leave out empty tables and lists."""
    if isinstance(value, ExperimentTable):  # of which keys left out mean those of [pde]
        return {key: _plain(getattr(value, key)) for key in value.model_fields_set}
    if isinstance(value, BaseModel):
        value = {key: getattr(value, key) for key in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items() if entry not in (None, {}, [])}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value
