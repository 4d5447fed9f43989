"""Names of the columns of a table: known ones found, whatever their case and unit."""

from __future__ import annotations

from collections.abc import Sequence

from invlift.errors import InputError, closest
from invlift.tables.numbers import is_number
from invlift.tables.table import Table
from invlift.units import without_unit

CLOSE = 0.75  # how alike the names of two columns are that may have been confused
#: Columns of results, which others of a table would hide.
_TAKEN = "sensor", "points", "units"


def with_known_columns(
    table: Table, needed: Sequence[str], further: Sequence[str], others: Sequence[str]
) -> Table:
    """The table if it has the columns needed, and no column is nearly one that may be.

    Units behind these names become the table's, "x [m]" or "x (m)" is x, and so is X.

    Raises
    ------
    InputError
        If a column is missing, repeated, nearly one of these, or has a name that results need.
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
