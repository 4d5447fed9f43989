"""Checks of the arguments of noise scales: positive numbers and groups of readings."""

from __future__ import annotations

import jax
import numpy as np

from invlift.errors import InputError, KeyPath, as_numbers


def all_positive(where: KeyPath, values) -> np.ndarray:
    """Return a checked copy of positive numbers, () or (d,).

    JAX may share memory with an array that the caller changes later, hence the copy.
    """
    expected = "a positive number, or one for each reading"
    values = np.array(as_numbers(where, values, expected))
    if values.ndim > 1:
        raise InputError(where, expected, f"{values!r}", "correct it")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        raise InputError(
            (*where, *(("index", int(bad[0])) if values.ndim else ())),
            "a positive number",
            f"{values.flat[bad[0]]:g}",
            "give the standard deviation of the measurement error",
        )
    return values


def grouping(groups) -> dict:
    """Return the arguments of an unknown scale for groups; every index must occur."""
    if groups is None:
        return {}
    groups = np.asarray(groups)
    names: tuple[str, ...] = ()
    if groups.dtype == object and all(isinstance(each, str) for each in groups.flat):  # of pandas
        groups = groups.astype(str)
    if groups.dtype.kind == "U" and groups.ndim == 1:
        names = tuple(dict.fromkeys(groups.tolist()))
        groups = np.array([names.index(each) for each in groups.tolist()], dtype=int)
    is_whole = groups.ndim == 1 and groups.size > 0 and np.issubdtype(groups.dtype, np.integer)
    if not is_whole:
        raise InputError(
            ("noise", "groups"),
            "an integer or a name for each reading",
            f"{groups.dtype} of shape {groups.shape}",
            "give the index of each reading's scale, from 0, or the name of its group",
        )
    found = np.unique(groups)
    if not np.array_equal(found, np.arange(found.size)):
        wrong = found[found != np.arange(found.size)][0]
        raise InputError(
            ("noise", "groups"),
            f"every index from 0 to {found.size - 1}",
            f"{wrong}",
            "number the groups from 0 without gaps",
        )
    groups = jax.device_put(groups.astype(int))
    return {"groups": groups, "num_white": int(found.size), "names": names}
