"""Reading of mesh files in other formats than gmsh's, by meshio in a separate process.

meshio reads forty formats.  On damaged files some of its readers never end, or allocate as much
memory as a wrong number asks for.  A separate process can be stopped, and has a memory limit.

    python -I foreign_formats.py PLACES MESH RESULT

writes the mesh, or the reason of a failure, to RESULT.  PLACES is the module search path, as a
Python list.  The process imports only meshio, and h5py to explain a failure of a MED file.
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

#: Limits of time, s, and memory, bytes, of a reading, and their increase per byte of the file.
SECONDS, SECONDS_PER_BYTE = 8.0, 1e-6
MEMORY, MEMORY_PER_BYTE = 2**31, 100


#: Reason of the failure for a MED file without groups.
NO_GROUPS = "no groups of nodes or elements"


class ReadingFailed(Exception):
    """Reading exceeded its time or memory, or meshio failed; the message gives the reason."""


def read_foreign(path: Path) -> meshio.Mesh:
    """Read a mesh file by meshio in a separate process.

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
        # Isolated (-I): the working folder holds a user's data, and its modules must not be run.
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
    """Return the module search path of this process, without the working folder."""
    here = os.path.realpath(os.getcwd())
    places = [os.path.abspath(place) for place in sys.path if isinstance(place, str)]
    return [place for place in places if os.path.realpath(place) != here]


def _main(path: str, result: str) -> None:
    import meshio

    _limit_memory(MEMORY + MEMORY_PER_BYTE * Path(path).stat().st_size)
    try:
        answer = meshio.read(path)
    except KeyError as reason:  # meshio raises it for a MED file that lacks a part
        answer = NO_GROUPS if _lacks_groups(path) else f"KeyError: {reason}"
    # meshio calls sys.exit when no reader accepts the file; its readers raise any exception.
    except (Exception, SystemExit) as reason:
        is_telling = str(reason) and not isinstance(reason, SystemExit)
        answer = f"{type(reason).__name__}: {reason}" if is_telling else ""
    Path(result).write_bytes(pickle.dumps(answer))


def _lacks_groups(path: str) -> bool:
    """Return whether a MED file has a mesh, but no groups or only families without names."""
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
    """Limit the memory of this process, if the system can, unless a lower limit exists."""
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
