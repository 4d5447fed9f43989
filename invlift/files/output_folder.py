"""Whether files may be written, or a folder begun or gone on in: one answer for all commands."""

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
    """A folder in which one piece of work is kept, that can be interrupted and gone on with.

    Attributes
    ----------
    directory : Path
    kind : str
        What the work is called: "run".
    record : str
        The file, relative to the folder, by which it has begun.
    others : tuple of str
        Further files of it, as patterns: none may be there before it begins.
    leftovers : tuple of str or None
        For work that needs a folder of its own, what may be there of work that was stopped before
        it had a record.  Without them any other file may be there.
    """

    directory: Path
    kind: str
    record: str
    others: tuple[str, ...] = ()
    leftovers: tuple[str, ...] | None = None

    def check(self, *, is_resuming: bool) -> None:
        """Check that the work can begin here, or go on.

        Raises
        ------
        InputError
            If it is to go on and has not begun, or is to begin and its files, or in a folder of its
            own any others, are there.
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
        """Keep others from the record's folder: see :func:`invlift.files.atomic.only_writer`."""
        return only_writer((self.directory / self.record).parent)

    def check_identity(self, recorded: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
        """Check that the work here is this one; else an InputError about what first differs."""
        for key, value in identity.items():
            if recorded.get(key) != value:
                expected, found = f"{value}", f"{recorded.get(key)}"
                if key == "problem":  # of which both are hashes
                    expected, found = "this problem", "another one"
                remedy = "resume with the same problem and options, or choose another directory"
                where = f"{self.directory / self.record}, {key}"
                raise InputError(where, expected, found, remedy)

    def _taken(self) -> list[str]:
        """What is in the way of beginning, by name; hidden files are not."""
        paths = (each for name in (self.record, *self.others) for each in self.directory.glob(name))
        taken = [each.relative_to(self.directory).as_posix() for each in paths]
        if taken or self.leftovers is None or not self.directory.is_dir():
            return taken
        names = (entry.name for entry in self.directory.iterdir())
        return sorted(n for n in names if not n.startswith(".") and n not in self.leftovers)


def check_is_new(option: str, *files: Path) -> None:
    """Refuse new files for which there is no folder, or of whose names there is anything."""
    for file in files:
        if os.path.lexists(file):
            found = f"{file}, which is there already"
            raise InputError(option, "a new file to write", found, "choose another name")
    if not (folder := files[0].parent).is_dir():
        what = "a file in an existing directory"
        raise InputError(option, what, f"{folder}", "make the directory first")
