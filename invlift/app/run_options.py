"""What any problem that a command works on has beside the problem: sampler, output, options."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from invlift.app import problem_errors
from invlift.app.sections import OutputTable, SamplerTable
from invlift.errors import InputError
from invlift.table_errors import mistakes
from invlift.tables import Table


class RunOptions:
    """Methods of a table that has sections ``sampler`` and ``output``, and a name, ``_file``."""

    def where(self, section: str, *keys: str) -> str:
        """Return how error messages call a key, for example "problem.toml, [prior] range"."""
        return problem_errors.where(self._file, (section, *keys))

    def with_overrides(self, *, out: str | os.PathLike | None = None, **sampler: Any) -> Self:
        """Return the problem with command-line options in place of the file's values.

        Parameters
        ----------
        out : str or path-like, optional
            Output directory, relative to the working directory.
        **sampler
            Keys of the sampler, ``draws`` for example: numbers also as the text that was typed;
            None where an option was not given.

        Raises
        ------
        InputError
            Naming the option, for example ``--draws``.
        """
        given = {key: _as_typed(value) for key, value in sampler.items() if value is not None}
        update: dict[str, Any] = {}
        if given:
            data = {**self.sampler.model_dump(exclude_none=True), **given}
            update["sampler"] = self._validated(SamplerTable, "sampler", data)
        if out is not None:
            data = {**self.output.model_dump(), "dir": os.fspath(out)}
            update["output"] = self._validated(OutputTable, "output", data)
        return self.model_copy(update=update)

    def with_output(self, out: str | None, suffix: str) -> Self:
        """Return the problem with another output directory, or the file's with a suffix."""
        directory = self.output.dir
        return self.with_overrides(
            out=directory.with_name(f"{directory.name}{suffix}") if out is None else out
        )

    def _validated(self, table: type[Table], section: str, data: dict[str, Any]) -> Table:
        """Validate a section into which options went, blaming the option for an error."""
        try:
            return table.model_validate(data, context={"base": Path.cwd()})
        except ValidationError as error:
            path, _, *parts = mistakes(error, table, data)[0]
            where = "--out" if path[0] == "dir" else f"--{path[0]}"
            if path[0] == "options":  # those in the file do not fit the method that was asked for
                where = self.where(section, *path)
            raise InputError(where, *parts) from None

    def prepare_output(self, option: str | None = None) -> None:
        """Create the output directory, which an option names if not the problem file.

        An InputError if a file is in the way or the directory cannot be created or written to.
        """
        directory = self.output.dir
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if os.access(directory, os.W_OK):
                return
            found = "a directory without permission"
        except FileExistsError:
            found = f"a file at {directory}"
        except OSError as reason:
            found = f"an error on creating {directory} ({reason.strerror or reason})"
        raise InputError(
            option or self.where("output", "dir"),
            "a directory that can be written to",
            found,
            "choose another directory (here or with --out)",
        )


def _as_typed(value: Any) -> Any:
    """Return the number that a text holds; anything else is left for the check of types."""
    for number in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            return number(value)
    return value
