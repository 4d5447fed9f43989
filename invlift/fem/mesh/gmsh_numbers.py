"""Checks of the counts and node numbers in a gmsh file, before meshio allocates arrays for them.

Without them, one wrong digit could allocate gigabytes before an error is found.
Format: https://gmsh.info/doc/texinfo/gmsh.html#MSH-file-format.
"""

from __future__ import annotations

import re

import numpy as np

from invlift.errors import InputError

#: Largest node number: gmsh leaves gaps in the numbers, but not of this size.
MAX_NODE_NUMBER = 10_000_000
#: Number of nodes of an element by gmsh's element type: vertex, line, triangle, quadrangle,
#: tetrahedron, hexahedron, prism, pyramid, and second-order elements.
_NUM_NODES = {15: 1, 1: 2, 2: 3, 3: 4, 4: 4, 5: 8, 6: 6, 7: 5, 8: 3, 9: 6, 10: 9, 11: 10}


def check_gmsh_numbers(content: bytes, name: str) -> None:
    """Check that the file has as many entries as it announces, and no too large node numbers.

    Parameters
    ----------
    content : bytes
        Content of the file, which begins with ``$MeshFormat``.
    name : str
        Name of the file in error messages.

    Raises
    ------
    InputError
        If a check fails; the message names the section.
    """
    if b"$ParametricNodes" in content:
        _refuse_parametric(f"{name}, $ParametricNodes")
    if b"$PartitionedEntities" in content:
        raise InputError(
            f"{name}, $PartitionedEntities",
            "a mesh in one part",
            "one that is partitioned",
            "save it before it is partitioned (in gmsh: Mesh > Unpartition)",
        )
    # meshio may read a truncated line as a whole line.
    if not (b"$EndNodes" in content and b"$EndElements" in content):
        raise InputError(
            name,
            "a complete gmsh file",
            "no $EndNodes or no $EndElements",
            "the file is cut short: write it again",
        )
    if re.search(rb"^\$[ -~]{200}", content, re.MULTILINE):
        # meshio would print such a name in colours, for minutes.
        raise InputError(
            name,
            "sections of known names",
            "a name of over 200 characters",
            "the file is damaged: write it again",
        )
    version, is_binary = _format(content, name)
    if version == b"2.2" and is_binary:
        return  # meshio assumes consecutive node numbers here
    walk = _walk_22 if version == b"2.2" else _walk_41
    for section in ("Nodes", "Elements"):
        where = f"{name}, ${section}"
        try:
            largest = walk(_Numbers(content, section, is_binary), section)
        except _Parametric:
            _refuse_parametric(where)
        except (ValueError, IndexError, KeyError, OverflowError):
            raise InputError(
                where,
                "as many entries as it announces",
                "fewer, or something else",
                "the file is damaged: write it again",
            ) from None
        if largest > MAX_NODE_NUMBER:
            raise InputError(
                where,
                f"node numbers up to {MAX_NODE_NUMBER:,}",
                f"{largest}",
                "number the nodes anew (in gmsh: Mesh > Renumber), or write the file again",
            )


def _refuse_parametric(where: str) -> None:
    found = "coordinates on curves and surfaces beside them"
    remedy = "save it with Mesh.SaveParametric = 0"
    raise InputError(where, "coordinates x, y, z of nodes", found, remedy) from None


def _format(content: bytes, name: str) -> tuple[bytes, bool]:
    """Return the version of the format, and whether the file is binary."""
    words = content[:100].split()
    if len(words) < 4 or words[1] not in (b"2.2", b"4.1") or words[2] not in (b"0", b"1"):
        found = b" ".join(words[1:4]).decode("ascii", errors="replace")
        raise InputError(
            f"{name}, $MeshFormat",
            "version 2.2 or 4.1, as text or binary",
            f"{found!r}",
            "save the mesh in one of these (in gmsh: Mesh.MshFileVersion = 4.1)",
        )
    is_binary = words[2] == b"1"
    if is_binary and words[3] != b"8":
        found = words[3].decode("ascii", errors="replace")
        raise InputError(
            f"{name}, $MeshFormat", "numbers of 8 bytes", f"{found!r}", "save the mesh as text"
        )
    return words[1], is_binary


class _Parametric(Exception):
    """Nodes have parametric coordinates, which meshio does not read."""


class _Numbers:
    """Reader of the numbers in a section, text or binary, one after another."""

    def __init__(self, content: bytes, section: str, is_binary: bool) -> None:
        start = content.index(b"$" + section.encode())
        start = content.index(b"\n", start) + 1
        self._is_binary, self._place = is_binary, 0
        end = len(content) if is_binary else content.index(b"$End" + section.encode(), start)
        self._content = content[start:end]
        self._words = None if is_binary else self._content.split()

    def take(self, count: int, kind: str = "u8") -> np.ndarray:
        """Return the next ``count`` numbers; ``kind`` is their type in a binary file."""
        size = np.dtype(kind).itemsize if self._is_binary else 1
        whole = self._content if self._is_binary else self._words
        if not 0 <= count <= (len(whole) - self._place) // size:
            raise ValueError("more numbers than there are")
        part = whole[self._place : self._place + count * size]
        self._place += count * size
        if self._is_binary:
            return np.frombuffer(part, kind)
        return np.array(part, dtype=float)


def _walk_22(numbers: _Numbers, section: str) -> int:
    """Return the largest node number of a section of version 2.2."""
    count = int(numbers.take(1)[0])
    if section == "Elements":
        return 0  # meshio reads elements line by line, and so finds a wrong number
    return int(numbers.take(4 * count)[::4].max(initial=0))


def _walk_41(numbers: _Numbers, section: str) -> int:
    """Return the largest node number of a section of version 4.1."""
    num_blocks, total = map(int, numbers.take(4)[:2])
    largest = num_found = 0
    for _ in range(num_blocks):
        kind = int(numbers.take(3, "i4")[2])
        count = int(numbers.take(1)[0])
        num_found += count
        if section == "Nodes":
            if kind == 1:  # in this section it is the flag "parametric"
                raise _Parametric
            largest = max(largest, int(numbers.take(count).max(initial=0)))
            numbers.take(3 * count, "f8")
        else:
            numbers.take(count * (1 + _NUM_NODES.get(kind, 1)), "u8")
            if kind not in _NUM_NODES:
                return largest  # meshio names the unknown type in its error
    if num_found != total:
        raise ValueError("blocks of another number of entries than announced")
    return largest
