"""Series of fields on one mesh for ParaView: a PVD file and a VTU file for each step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from invlift.atomic import replace_on_success
from invlift.errors import InputError
from invlift.posterior.files import write_fields


@dataclass(frozen=True, eq=False)
class Step:
    """What one step of a series shows.

    Attributes
    ----------
    on_nodes, on_cells : mapping of str to (num_nodes,) or (num_cells,) array
        Fields by name.
    numbers : mapping of str to number or (k,) array
        What belongs to no place, such as a noise scale.
    """

    on_nodes: Mapping[str, np.ndarray] = field(default_factory=dict)
    on_cells: Mapping[str, np.ndarray] = field(default_factory=dict)
    numbers: Mapping[str, np.ndarray | float] = field(default_factory=dict)


def write_series(
    path: str | os.PathLike, points: np.ndarray, cells: np.ndarray, steps: Sequence[Step]
) -> list[Path]:
    """Write steps that ParaView plays as an animation.

    Parameters
    ----------
    path : path-like
        Ending in .pvd. The files of the steps go to the folder of that name without the ending.
    points, cells, steps
        As for `write_fields`.

    Returns
    -------
    list of pathlib.Path
        The PVD file, which is written last, and then the others.

    Raises
    ------
    InputError
        If a field does not fit the mesh, or the folder cannot be made or is a link: what it leads
        to may be anybody's.
    """
    path = Path(path)
    folder = path.with_suffix("")
    if folder.is_symlink():
        raise InputError(f"{folder}", "a folder of its own", "a link to another", "remove the link")
    files = [folder / f"{path.stem}_{index:04d}.vtu" for index in range(len(steps))]
    for file, step in zip(files, steps, strict=True):
        write_fields(file, points, cells, step.on_nodes, step.on_cells, step.numbers)
    entries = "".join(
        f'<DataSet timestep="{index}" part="0" file={quoteattr(f"{path.stem}/{file.name}")}/>\n'
        for index, file in enumerate(files)
    )
    with replace_on_success(path) as temporary:
        temporary.write_text(
            '<?xml version="1.0" encoding="utf-8"?>\n'
            f'<VTKFile type="Collection" version="0.1">\n<Collection>\n{entries}</Collection>\n'
            "</VTKFile>\n",
            encoding="utf-8",
        )
    return [path, *files]
