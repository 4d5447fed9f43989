"""Conditions given as texts: the names of fields of the mesh, and expressions.

A text keeps its meaning on a refined mesh: an expression is evaluated at the nodes there, and a
field of the mesh is interpolated.  The array of a source gets one value at each corner of each
cell, as a mesh may have as many cells as nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from invlift.errors import InputError, KeyPath
from invlift.fem.equations.conditions import at_corners, changed, is_array
from invlift.fem.fields.random_field import RandomField
from invlift.fem.mesh.expressions import AXES, names_in
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.time.functions import function_of_time
from invlift.fem.time.schedules import SCHEDULES, ChangingField, changing_field

#: Values that do not change in time: of Robin conditions and of random fields.
_STEADY = "coefficient", "mean"
_REMEDY = "give a number, or an expression in x, y and z"


def without_texts(mesh: Mesh, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Return conditions of :func:`invlift.assemble_poisson` with values in the place of texts.

    Fields of the source are those of :func:`at_corners`, the others at the nodes.

    Raises
    ------
    InputError
        As :func:`at_corners`; if a text is neither a field of the mesh nor an expression, or a
        transfer coefficient or the mean of a random field changes in time.
    """

    def value_of(where: KeyPath, given: Any) -> Any:
        if isinstance(given, RandomField):
            return replace(given, mean=value_of((*where, "mean"), given.mean))
        if isinstance(given, str):
            return _value_of(mesh, where, given)
        if isinstance(given, SCHEDULES) and where[-1] in _STEADY:
            raise InputError(where, "what does not change in time", "what does", _REMEDY)
        return _at_corners(mesh, where, given) if where == ("source",) else given

    return changed(conditions, value_of)


def _value_of(mesh: Mesh, where: KeyPath, text: str) -> Any:
    is_source = where == ("source",)
    is_field = text in mesh.point_fields or (is_source and text in mesh.cell_fields)
    has_no_place = where[0] == "point_source" or (where[0] == "source" and not is_source)
    names = names_in(text) or set()
    if has_no_place or ("t" in names and not is_field):
        if where[-1] in _STEADY:
            raise InputError(where, "what does not change in time", text, _REMEDY)
        if names & {*AXES} and not has_no_place:
            field = changing_field(mesh, text, where)
            return _at_corners(mesh, where, field, "nodes") if is_source else field
        return function_of_time(text, where)
    if not is_source:
        return mesh.point_field(text, where, where[1])
    is_in_cells = text in mesh.cell_fields and text not in mesh.point_fields
    return at_corners(mesh, where, mesh.field(text, where), "cells" if is_in_cells else "nodes")


def _at_corners(mesh: Mesh, where: KeyPath, given: Any, location: str | None = None) -> Any:
    """Return the fields of a source at the corners of cells, and any other value unchanged."""
    if isinstance(given, ChangingField):
        return given.mapped(lambda field: at_corners(mesh, where, field, location))
    return at_corners(mesh, where, given, location) if is_array(given) else given
