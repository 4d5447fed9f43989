"""Files in the folder of a run: their names, and the digest of its problem."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

DRAWS, RECORD = "posterior.nc", "run.json"
#: Files that store the problem: the complete problem file, or the Python file that made it.
PROBLEM_FILES = "problem.toml", "problem.py"
#: Remedy for a file of the folder that is damaged.
REMEDY = "take the file from a copy of the run, or run again"


def problem_file(directory: Path) -> Path:
    """Return the file in which a run stores its problem; ``problem.toml`` if there is none."""
    files = [directory / name for name in PROBLEM_FILES]
    return next((file for file in files if file.exists()), files[0])


def is_finished(directory: Path) -> bool:
    """Return whether a run has written its results; before, it has only written chains."""
    return (directory / DRAWS).exists()


def problem_sha256(name: str, text: str) -> str:
    """Return the SHA-256 of the text of a problem file, independent of its line breaks.

    For TOML the paths of files are left out, so that a run may be moved to another machine and its
    paths changed.
    """
    content = "\n".join(text.splitlines())
    if name.endswith(".toml"):
        with suppress(tomllib.TOMLDecodeError):  # the digest of a damaged file differs
            content = json.dumps(_without_places(tomllib.loads(text)), sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def _without_places(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_places(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if key not in ("file", "dir")
    }
