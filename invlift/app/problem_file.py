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

from invlift.app import problem_errors
from invlift.app.sections import OutputTable, SamplerTable, Sections
from invlift.errors import InputError
from invlift.input_files import read_text
from invlift.tables import Table

#: Largest problem file that is read.
MAX_BYTES = 2**20


class ProblemSpec(Sections):
    """A problem file's content, checked, with defaults filled in and absolute paths.

    Make one with `read_problem` or `parse_problem`.
    """

    _file: str = PrivateAttr(default="problem")

    def where(self, section: str, *keys: str) -> str:
        """Return how error messages call a key, for example "problem.toml, [prior] range"."""
        return problem_errors.where(self._file, (section, *keys))

    def with_overrides(
        self,
        *,
        out: str | os.PathLike | None = None,
        method: str | None = None,
        chains: int | str | None = None,
        draws: int | str | None = None,
        warmup: int | str | None = None,
        seed: int | str | None = None,
        budget: float | str | None = None,
    ) -> ProblemSpec:
        """Return the problem with command-line options in place of the file's values.

        Parameters
        ----------
        out : str or path-like, optional
            Output directory, relative to the working directory.
        method : str, optional
        chains, draws, warmup, seed : int or str, optional
            Integers, also as the text that was typed; of ``draws`` "converged" as well.
        budget : float or str, optional
            Seconds.

        Raises
        ------
        InputError
            Naming the option, for example ``--draws``.
        """
        numbers = {"chains": chains, "draws": draws, "warmup": warmup, "seed": seed}
        numbers |= {"budget": budget}
        options = {"method": method, **{key: _as_typed(value) for key, value in numbers.items()}}
        given = {key: value for key, value in options.items() if value is not None}
        update: dict[str, Any] = {}
        if given:
            data = {**self.sampler.model_dump(exclude_none=True), **given}
            update["sampler"] = self._validated(SamplerTable, "sampler", data)
        if out is not None:
            data = {**self.output.model_dump(), "dir": os.fspath(out)}
            update["output"] = self._validated(OutputTable, "output", data)
        return self.model_copy(update=update)

    def _validated(self, table: type[Table], section: str, data: dict[str, Any]) -> Table:
        """Validate a section into which options went, blaming the option for an error."""
        try:
            return table.model_validate(data, context={"base": Path.cwd()})
        except ValidationError as error:
            found, _ = problem_errors.first_error(error)
            key, *rest = map(str, found["loc"])
            where = "--out" if key == "dir" else f"--{key}"
            if key == "options":  # those in the file do not fit the method that was asked for
                where = self.where(section, key, *rest)
            raise InputError(where, **found["ctx"]) from None

    def prepare_output(self, where: str | None = None) -> Path:
        """Create the output directory and return it.

        Parameters
        ----------
        where : str, optional
            What an error message should blame, if not the key of the problem file.

        Raises
        ------
        InputError
            If a file is in the way or the directory cannot be created or written to.
        """
        directory = self.output.dir
        try:
            directory.mkdir(parents=True, exist_ok=True)
            found = None if os.access(directory, os.W_OK) else "a directory without permission"
        except FileExistsError:
            found = f"a file at {directory}"
        except OSError as reason:
            found = f"an error on creating {directory} ({reason.strerror or reason})"
        if found is None:
            return directory
        raise InputError(
            where or self.where("output", "dir"),
            "a directory that can be written to",
            found,
            "choose another directory (here or with --out)",
        )

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
    data = dict(data)
    output = data.setdefault("output", {})
    if isinstance(output, Mapping):
        data["output"] = {"dir": f"results/{path.stem}", **output}
    try:
        spec = ProblemSpec.model_validate(data, context={"base": path.parent.resolve()})
    except ValidationError as error:
        raise problem_errors.from_validation_error(error, name) from None
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


def _as_typed(value: Any) -> Any:
    """Return the number that a text holds; anything else is left for the check of types."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,30}\s*", value):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,30}\.\d{0,30}\s*", value):
        return float(value)
    return value


def _plain(value: Any) -> Any:
    """Return models as nested dictionaries, paths as text, and leave out empty tables and lists."""
    if isinstance(value, BaseModel):
        value = {key: getattr(value, key) for key in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items() if entry not in (None, {}, [])}
    return str(value) if isinstance(value, Path) else value
