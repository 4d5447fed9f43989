"""A field that is the same everywhere at time 0, said by the conditions that held it there before.

Without sources, and held at a number everywhere, a field is this number.  So an initial state that
is a number is the steady state before all conditions begin, at time 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from invlift.errors import InputError, KeyPath
from invlift.fem.equations.conditions import changed
from invlift.fem.time.functions import FunctionOfTime
from invlift.fem.time.schedules import Oscillation, Steps


def begun_at_zero(conditions: Mapping[str, Any], initial: float) -> dict[str, Any]:
    """Conditions that hold a field at a number until time 0, and are as given from then on.

    Raises
    ------
    InputError
        For what is no number and no steps: a field of the mesh, or an unknown; for steps before
        time 0; if the initial state is no finite number.
    """
    if not (np.isscalar(initial) and np.isreal(initial) and np.isfinite(initial)):
        raise InputError("initial", "a number", f"{initial!r}"[:80], "give one, or leave it out")

    def begun(where, value):
        if where[2:] == ("coefficient",):
            return value
        return _begun(value, initial if where[0] in ("dirichlet", "robin") else 0.0, where)

    return changed(conditions, begun)


def _begun(value: Any, before: float, where: KeyPath) -> Steps | FunctionOfTime | float:
    """A number that is ``before`` until time 0; itself if it does not change then."""
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
    if not (np.isscalar(value) and np.isreal(value)):
        expected = "a number or steps, as there is an initial state"
        raise InputError(
            where, expected, "a field or an unknown", "give a number, or no initial state"
        )
    return Steps(np.zeros(1), np.array([float(value)]), before) if value != before else before
