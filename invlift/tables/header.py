"""Known columns of a table, found by their names in any case and with any unit."""

from __future__ import annotations

from collections.abc import Sequence

from invlift.errors import InputError, closest
from invlift.tables.numbers import is_number
from invlift.tables.table import Table
from invlift.units import without_unit
from invlift.unknowns.axes import OF_READINGS

CLOSE = 0.75  # similarity from which on the name of a column may be a misspelt one
#: Columns of results, whose names a table must not use.
_TAKEN = (*OF_READINGS, "sensor", "mesh_error")


def with_known_columns(
    table: Table, needed: Sequence[str], further: Sequence[str], others: Sequence[str]
) -> Table:
    """Check the columns of a table, and separate their names from their units.

    The columns "x [m]", "x (m)" and X become x; units are kept in the table.

    Raises
    ------
    InputError
        If a needed column is missing, a column is repeated, its name is nearly that of a known
        column that is missing, or it is a name that results use.
    """
    allowed = list(dict.fromkeys([*needed, "value", *further, *others]))
    written = table.columns
    bare = [without_unit(column) for column in written]
    in_any_case = {each.casefold(): each for each in allowed}
    columns, units = [], []
    for column, (own, unit) in zip(written, bare, strict=True):
        known = own if own in allowed else in_any_case.get(own.casefold())
        columns.append(known or column.replace("/", "_"))  # names in results have no slash
        units.append(unit if known else "")
    may_be = f"{', '.join(further)} or {','.join(others)}"
    expected = f"the columns {','.join(needed)} and perhaps {may_be}"
    where = f"{table.name}, row {table.first}"
    found = ",".join(columns)
    if len(columns) == 1 and any(mark in found.strip() for mark in "; \t"):
        raise InputError(where, expected, repr(found), "separate the columns by commas")
    unknown = [column for column in columns if column not in allowed]
    missing = [column for column in needed if column not in columns]
    repeated = [column for column in columns if columns.count(column) > 1]
    if all(is_number(column) for column in columns):
        raise InputError(where, expected, f"numbers ({found})", "add the header as first line")
    if [each.casefold() for each in unknown] == ["z"]:
        remedy = "remove it: the mesh is two-dimensional"
        raise InputError(where, expected, "a column 'z'", remedy)
    for column in unknown:
        if column in _TAKEN:
            remedy = "rename it: results have one of it"
            raise InputError(where, expected, f"a column {column!r}", remedy)
        absent = [each for each in allowed if each not in columns]
        close = closest(column, absent, CLOSE)
        if close or not column:
            remedy = f"did you mean {close!r}?" if close else "name it"
            raise InputError(where, expected, f"a column {column!r}", remedy)
    if missing:
        what = "the mesh is three-dimensional: add it" if missing == ["z"] else "add it"
        if unknown:
            free = [own for own, each in zip(written, columns, strict=True) if each in unknown]
            what += f', or say which column has it: columns = {{ {missing[0]} = "NAME" }}, where '
            what += f"NAME is one of {', '.join(map(repr, free[:6]))}{', ...' * (len(free) > 6)}"
        if missing[0] in ("x", "y"):
            what += ', or give a second table with name,x,y: places = "places.csv"'
        raise InputError(where, expected, f"no column {missing[0]!r}", what)
    if repeated:
        raise InputError(where, expected, f"column {repeated[0]!r} twice", "remove one of them")
    return table.renamed(columns, units)
