"""Mesh files of all formats but gmsh's, read by meshio in a process of its own.

meshio knows forty formats, and on damaged files some of its readers never end or ask for as much
memory as a wrong number says. A process of their own can be stopped and has a limit of memory.

    python -I foreign_formats.py PLACES MESH RESULT

writes what it has read, or why it could not, to RESULT; PLACES are those where it finds modules, as
a list in Python.  It needs meshio alone.
"""

from __future__ import annotations

import ast
import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import meshio

#: Time and memory that reading may take, s and bytes, and what each byte of the file adds.
SECONDS, SECONDS_PER_BYTE = 8.0, 1e-6
MEMORY, MEMORY_PER_BYTE = 2**31, 100


#: Why a MED file without groups is not read.
NO_GROUPS = "no groups of nodes or elements"


class ReadingFailed(Exception):
    """Reading took too long or too much memory, or meshio gave up; with the reason in words."""


def read_foreign(path: Path) -> meshio.Mesh:
    """What meshio makes of a file.

    Parameters
    ----------
    path : pathlib.Path

    Returns
    -------
    meshio.Mesh

    Raises
    ------
    ReadingFailed
    """
    limit = SECONDS + SECONDS_PER_BYTE * path.stat().st_size
    with tempfile.TemporaryDirectory(prefix="invlift-") as folder:
        result = Path(folder) / "mesh"
        # Isolated (-I), as the working folder holds a user's data: its modules are not to be run.
        places = repr(_search_path())
        command = [sys.executable, "-I", __file__, places, str(path), str(result)]
        try:
            subprocess.run(command, timeout=limit, capture_output=True, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise ReadingFailed(f"no end after {limit:.0f} s") from None
        if not result.exists():
            raise ReadingFailed("more than the memory it may take")
        mesh = pickle.loads(result.read_bytes())
    if isinstance(mesh, str):
        raise ReadingFailed(mesh)
    return mesh


def _search_path() -> list[str]:
    """Where this process finds modules, but for the working folder."""
    here = os.path.realpath(os.getcwd())
    places = [os.path.abspath(place) for place in sys.path if isinstance(place, str)]
    return [place for place in places if os.path.realpath(place) != here]


def _main(path: str, result: str) -> None:
    import meshio

    _limit_memory(MEMORY + MEMORY_PER_BYTE * Path(path).stat().st_size)
    try:
        answer = meshio.read(path)
    except KeyError as reason:  # which is how meshio says that a MED file lacks a part
        answer = NO_GROUPS if _lacks_groups(path) else f"KeyError: {reason}"
    # meshio calls sys.exit when no reader accepts the file; its readers raise anything at all.
    except (Exception, SystemExit) as reason:
        is_telling = str(reason) and not isinstance(reason, SystemExit)
        answer = f"{type(reason).__name__}: {reason}" if is_telling else ""
    Path(result).write_bytes(pickle.dumps(answer))


def _lacks_groups(path: str) -> bool:
    """Whether a MED file has a mesh, and no groups: no part for them, or families without names."""
    if Path(path).suffix.lower() != ".med":
        return False
    import h5py

    def families(part: h5py.Group) -> list[h5py.Group]:
        return [
            family
            for kind in ("ELEME", "NOEUD")
            for mesh in part.values()
            for family in mesh.get(kind, {}).values()
        ]

    with h5py.File(path, "r") as file:
        if "ENS_MAA" not in file:
            return False
        return "FAS" not in file or any("GRO" not in each for each in families(file["FAS"]))


def _limit_memory(size: int) -> None:
    """Limit this process's memory, where the system can and no lower limit stands."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = min(each for each in (size, soft, hard) if each != resource.RLIM_INFINITY)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    sys.path[:] = ast.literal_eval(sys.argv[1])
    _main(*sys.argv[2:])
