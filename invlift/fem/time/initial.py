"""A uniform initial field, as the steady state of the conditions before time 0.

Without sources, and with all boundary and ambient values equal to a number, the steady field is
this number.  So a uniform initial state is the steady state before all conditions begin, at time 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from invlift.errors import InputError, KeyPath
from invlift.fem.equations.conditions import changed
from invlift.fem.time.functions import FunctionOfTime
from invlift.fem.time.schedules import ChangingField, Oscillation, Steps, steps


def begun_at_zero(conditions: Mapping[str, Any], initial: float) -> dict[str, Any]:
    """Return conditions that hold a field at a number until time 0, and are as given afterwards.

    Raises
    ------
    InputError
        If a condition is an unknown or periodic, if steps begin before time 0, or if the initial
        state is not a finite number.
    """
    if not (np.isscalar(initial) and np.isreal(initial) and np.isfinite(initial)):
        raise InputError("initial", "a number", f"{initial!r}"[:80], "give one, or leave it out")

    def begun(where, value):
        if where[2:] == ("coefficient",):
            return value
        return _begun(value, initial if where[0] in ("dirichlet", "robin") else 0.0, where)

    return changed(conditions, begun)


def _begun(
    value: Any, before: float, where: KeyPath
) -> Steps | FunctionOfTime | ChangingField | float:
    """Return a value that is ``before`` until time 0; unchanged if it equals ``before``."""
    if isinstance(value, Steps):
        if value.times[0] < 0.0:
            expected, found = "steps from time 0 on, as there is an initial state", "earlier ones"
            raise InputError(
                where, expected, found, f"give their value at 0 (from {value.times[0]:g})"
            )
        first = [0.0] if value.times[0] > 0.0 else []
        times, values = (
            np.append(first, value.times),
            np.append([value.before] * len(first), value.values),
        )
        return Steps(times, values, float(before))
    if isinstance(value, FunctionOfTime):
        return value._replace(before=float(before))
    if isinstance(value, Oscillation):
        expected, remedy = "steps, as there is an initial state", "leave out the initial state"
        raise InputError(where, expected, "a periodic number, which has no beginning", remedy)
    if isinstance(value, np.ndarray):
        value = ChangingField(value, ())
    if isinstance(value, ChangingField):
        terms = [(field, _begun(schedule, 0.0, where)) for field, schedule in value.terms]
        terms += [
            (value.steady, steps([[0.0, 1.0]])),
            (np.ones_like(value.steady), steps([[0.0, 0.0]], before)),
        ]
        return ChangingField(np.zeros_like(value.steady), tuple(terms))
    if not (np.isscalar(value) and np.isreal(value)):
        expected = "a number, a field or steps, as there is an initial state"
        raise InputError(where, expected, "an unknown", "give a number, or no initial state")
    return Steps(np.zeros(1), np.array([float(value)]), before) if value != before else before
