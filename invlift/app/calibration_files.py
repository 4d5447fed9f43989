"""The directory of a calibration: what it is of, and the simulations that are done."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from invlift.errors import InputError
from invlift.posterior.calibration import (
    Calibration,
    Simulation,
    read_simulations,
    write_simulations,
)
from invlift.posterior.files import write_json

TABLE, RECORD, FIGURE = "calibration.csv", "calibration.json", "calibration.png"
_PACKAGES = ("invlift", "jax", "jaxlib", "blackjax", "scikit-fem", "numpy", "scipy")


def check_is_ready(directory: Path, *, is_resuming: bool) -> None:
    """Check that a calibration can begin in a directory, or go on there.

    Raises
    ------
    InputError
        If it is to begin and there is one already, or to go on and there is none.
    """
    if is_resuming:
        if not (directory / RECORD).exists():
            raise InputError(
                f"{directory}",
                "a directory with a calibration to go on with",
                f"no {RECORD} in it" if directory.is_dir() else "no such directory",
                "give the directory of that calibration, or begin without resume",
            )
        return
    for name in (TABLE, RECORD, FIGURE):
        if (directory / name).exists():
            raise InputError(
                f"{directory}",
                "a directory without a calibration",
                f"{name}, which is there already",
                "choose another directory, or go on with that calibration (--resume)",
            )


class CalibrationFiles:
    """A directory that holds one calibration; the caller keeps others from it.

    Parameters
    ----------
    directory : path
    identity : mapping of str to str, int or list
        All that decides the ranks, except how many simulations there are; with the names of the
        quantities, ``names``, and the draws, ``num_draws``.
    """

    def __init__(self, directory: str | Path, identity: Mapping[str, Any]) -> None:
        self.directory = Path(directory)
        self._identity = dict(identity)

    def begin(self) -> list[Simulation]:
        """Make the directory this calibration's.

        Raises
        ------
        InputError
            If there is one in it already.
        """
        check_is_ready(self.directory, is_resuming=False)
        write_json(self.directory / RECORD, {"identity": self._identity})
        return []

    def resume(self) -> list[Simulation]:
        """The simulations that are done.

        Raises
        ------
        InputError
            If there is no calibration in the directory, it is another one, or a file is damaged.
        """
        check_is_ready(self.directory, is_resuming=True)
        path = self.directory / RECORD
        try:
            found = dict(json.loads(path.read_text(encoding="utf-8"))["identity"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path}", "the record of a calibration", str(error), "begin anew elsewhere"
            ) from None
        for key, value in self._identity.items():
            if found.get(key) != value:
                raise InputError(
                    f"{path}, {key}",
                    f"{value}",
                    f"{found.get(key)}: the calibration there is another one",
                    "resume with the same problem and options, or choose another directory",
                )
        table = self.directory / TABLE
        if not table.exists():
            return []
        return read_simulations(table, self._identity["names"], self._identity["num_draws"])

    def write_simulations(self, simulations: Sequence[Simulation]) -> None:
        """Write the table anew."""
        write_simulations(self.directory / TABLE, simulations, self._identity["names"])

    def write_record(self, calibration: Calibration, *, is_interrupted: bool) -> None:
        """Write all there is to tell."""
        versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
        record = {
            "identity": self._identity,
            "versions": versions | {"python": platform.python_version()},
            "is_interrupted": is_interrupted,
        }
        write_json(self.directory / RECORD, record | calibration.record())
