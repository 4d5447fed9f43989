"""What several commands use: exit status, lines and tables as they are printed, options."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from invlift.errors import InputError

#: Exit status where the work was done but the verdict on it is bad, or it was stopped before.
BAD_VERDICT = 3


def say(console: Console, text: str) -> None:
    """Print a line as it is: it may hold the names of files."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say_table(console: Console, headings: list[str], rows: list[list[str]]) -> None:
    """Print a table, the first column to the left and others to the right.

    Numbers cut short would be worse than lines that run over.
    """
    table = Table(box=None, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    wide = console.options.update(max_width=1000)
    table.width = Measurement.get(console, wide, table).maximum
    console.print(table, crop=False)


def number_option(option: str, text: str, kind: type) -> float:
    """The number that an option's text holds, of a type int or float.

    Raises
    ------
    InputError
        If it holds none.
    """
    try:
        return kind(text)
    except ValueError:
        what = "an integer" if kind is int else "a number"
        raise InputError(option, what, repr(text), "correct the option") from None


def check_is_new(
    files: Iterable[Path], expected: str, remedy: str, *, option: str = "--out"
) -> None:
    """Check that nothing is in the way of files that an option names.

    Raises
    ------
    InputError
        If there is anything by the name of one, be it a link that leads nowhere.
    """
    for file in files:
        if os.path.lexists(file):
            raise InputError(option, expected, f"{file}, which is there already", remedy)


def check_directory(file: Path, *, option: str = "--out") -> None:
    """Check that the directory is there to which a file is to go that an option names.

    Raises
    ------
    InputError
        If it is not.
    """
    if not file.parent.is_dir():
        raise InputError(
            option, "a file in an existing directory", f"{file.parent}", "make the directory first"
        )


def headline(field) -> str:
    """The sizes of what :func:`~invlift.app.problems.build` has made, in a line."""
    problem, mesh = field.problem, getattr(field, "mesh", None)
    if mesh is None:
        return f"{problem.num_observations} readings; {problem.num_unknowns} unknowns"
    kind = "triangles" if mesh.dim == 2 else "tetrahedra"
    left_out = len(field.observation.distances) - problem.num_observations
    distances = field.observation.distances
    note = ""
    if left_out:
        note = f" ({left_out} outside the mesh left out)"
    elif distances.any():
        moved, furthest = (distances > 0).sum(), distances.max()
        note = f" ({moved} outside the mesh moved onto it, by up to {furthest:.3g})"
    return (
        f"{mesh.num_nodes} nodes, {mesh.num_cells} {kind}; {problem.num_observations} sensors"
        f"{note}; {problem.num_unknowns} unknowns"
    )
