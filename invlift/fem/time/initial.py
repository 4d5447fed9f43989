"""A uniform initial field, as the steady state of the conditions before time 0.

Without sources, and with all boundary and ambient values equal to a number, the steady field is
this number.  So a uniform initial state is the steady state before all conditions begin, at time 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from invlift.errors import InputError, as_number
from invlift.fem.equations.conditions import changed, is_array
from invlift.fem.time.schedules import SCHEDULES, ChangingField, Steps


def begun_at_zero(conditions: Mapping[str, Any], initial: float) -> dict[str, Any]:
    """Return conditions that hold a field at a number until time 0, and are as given afterwards.

    Raises
    ------
    InputError
        If a condition is an unknown or periodic, if steps begin before time 0, or if the initial
        state is not a finite number.
    """
    if not np.isfinite(as_number(initial)):
        raise InputError("initial", "a number", f"{initial!r}"[:80], "give one, or leave it out")

    def begun(where, value):
        if where[2:] == ("coefficient",):
            return value
        before = initial if where[0] in ("dirichlet", "robin") else 0.0
        value = ChangingField(np.asarray(value), ()) if is_array(value) else value
        if isinstance(value, SCHEDULES):
            return value.begun(before, where)
        if np.isnan(number := as_number(value)):
            expected = "a number, a field or steps, as there is an initial state"
            raise InputError(where, expected, "an unknown", "give a number, or no initial state")
        return Steps(np.zeros(1), np.array([number]), before) if number != before else before

    return changed(conditions, begun)
