"""Checks, shared by all commands, that output files and folders may be written or resumed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invlift.errors import InputError
from invlift.files.atomic import only_writer


@dataclass(frozen=True)
class OutputFolder:
    """Folder of a task that can be interrupted and resumed.

    Attributes
    ----------
    directory : Path
    kind : str
        Name of the task, for example "run".
    record : str
        File, relative to the folder, that exists if the task has begun.
    others : tuple of str
        Patterns of further files of the task. None of them may exist before it begins.
    leftovers : tuple of str or None
        For a task that needs an empty folder: files that may remain from a task that was stopped
        before it had a record.  If None, the folder may contain any other files.
    """

    directory: Path
    kind: str
    record: str
    others: tuple[str, ...] = ()
    leftovers: tuple[str, ...] | None = None

    def check(self, *, is_resuming: bool) -> None:
        """Check that the task can begin here, or be resumed.

        Raises
        ------
        InputError
            If the task is to be resumed and has not begun; or if it is to begin and its files
            exist, or the folder must be empty and is not.
        """
        taken = self._taken()
        if is_resuming and not (self.directory / self.record).exists():
            found = f"no {self.record} in it" if self.directory.is_dir() else "no such directory"
            expected = f"a directory with a {self.kind} to go on with"
            remedy = (
                f"name the directory of the {self.kind} by --out, or begin one without --resume"
            )
            raise InputError(f"{self.directory}", expected, found, remedy)
        if not is_resuming and taken:
            is_own = self.leftovers is not None
            expected = "an empty directory" if is_own else f"a directory without a {self.kind}"
            found = f"{taken[0]}, which is there already"
            found += f", and {len(taken) - 1} more" if taken[1:] else ""
            remedy = f"choose another by --out, or go on with a {self.kind} by --resume"
            raise InputError(f"{self.directory}", expected, found, remedy)

    def lock(self) -> AbstractContextManager[None]:
        """Lock the folder of the record: see :func:`invlift.files.atomic.only_writer`."""
        return only_writer((self.directory / self.record).parent)

    def check_identity(self, recorded: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
        """Raise an InputError at the first difference between recorded and given identity."""
        for key, value in identity.items():
            if recorded.get(key) != value:
                expected, found = f"{value}", f"{recorded.get(key)}"
                if key == "problem":  # both are hashes
                    expected, found = "this problem", "another one"
                remedy = "resume with the same problem and options, or choose another directory"
                where = f"{self.directory / self.record}, {key}"
                raise InputError(where, expected, found, remedy)

    def _taken(self) -> list[str]:
        """Return the names of files that prevent the task from beginning, without hidden files."""
        paths = (each for name in (self.record, *self.others) for each in self.directory.glob(name))
        taken = [each.relative_to(self.directory).as_posix() for each in paths]
        if taken or self.leftovers is None or not self.directory.is_dir():
            return taken
        names = (entry.name for entry in self.directory.iterdir())
        return sorted(n for n in names if not n.startswith(".") and n not in self.leftovers)


def check_is_new(option: str, *files: Path) -> None:
    """Refuse names of new files that exist already or have no folder."""
    for file in files:
        if os.path.lexists(file):
            found = f"{file}, which is there already"
            raise InputError(option, "a new file to write", found, "choose another name")
    if not (folder := files[0].parent).is_dir():
        what = "a file in an existing directory"
        raise InputError(option, what, f"{folder}", "make the directory first")
