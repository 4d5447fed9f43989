"""Conditions given as texts: the names of fields of the mesh, and expressions.

A text keeps its meaning on a refined mesh: an expression is evaluated at the nodes there, and a
field of the mesh is interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from invlift.errors import InputError, KeyPath
from invlift.fem.equations.conditions import changed
from invlift.fem.fields.random_field import RandomField
from invlift.fem.mesh.expressions import AXES, names_in
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.time.functions import function_of_time
from invlift.fem.time.schedules import changing_field


def without_texts(mesh: Mesh, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Return conditions of :func:`invlift.assemble_poisson` with values in the place of texts.

    Raises
    ------
    InputError
        If a text is neither a field of the mesh nor an expression, or a transfer coefficient or
        the mean of a random field changes in time.
    """

    def value_of(where: KeyPath, given: Any) -> Any:
        if isinstance(given, RandomField):
            return replace(given, mean=value_of((*where, "mean"), given.mean))
        return _value_of(mesh, where, given) if isinstance(given, str) else given

    return changed(conditions, value_of)


def _value_of(mesh: Mesh, where: KeyPath, text: str) -> Any:
    is_source = where == ("source",)
    is_field = text in mesh.point_fields or (is_source and text in mesh.cell_fields)
    has_no_place = where[0] == "point_source" or (where[0] == "source" and not is_source)
    names = names_in(text) or set()
    if has_no_place or ("t" in names and not is_field):
        if where[-1] in ("coefficient", "mean"):
            remedy = "give a number, or an expression in x, y and z"
            raise InputError(where, "what does not change in time", text, remedy)
        if names & {*AXES} and not has_no_place:
            return changing_field(mesh, text, where)
        return function_of_time(text, where)
    return mesh.field(text, where) if is_source else mesh.point_field(text, where, where[1])
