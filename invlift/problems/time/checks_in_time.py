"""Checks of functions and readings of models in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from invlift.errors import InputError, as_input_error, as_numbers, names_in
from invlift.unknowns.priors.named import Shapes

#: Ratio of the longest to the shortest step of dates above which they have a gap.
GAP = 1.5


def call(name: str, function: Callable, unknowns: Mapping[str, Any], *leading: Any) -> Any:
    """Call a user's function; its errors are reported as bad input."""
    arguments = ", ".join([*["time", "state"][2 - len(leading) :], *unknowns])
    remedy = "take each unknown by its name or as **others, and call time and state otherwise"
    with as_input_error(name, f"a JAX function of {arguments}", remedy):
        return function(*leading, **unknowns)


def check_finite(where: str, values: Any) -> None:
    """Check that what a function returns by name is finite."""
    where = f"{where} at the prior's medians"
    for name, value in values.items() if isinstance(values, Mapping) else ():
        expected, remedy = f"a finite {name}", "correct the function or the prior"
        flat = np.ravel(as_numbers(where, value, expected, remedy))
        if not np.all(np.isfinite(flat)):
            raise InputError(where, expected, f"{flat[~np.isfinite(flat)][0]}", remedy)


def check_named(where: str, given: Any) -> None:
    """Check that a function returns something by name."""
    if not isinstance(given, Mapping) or not given:
        expected, remedy = "a dict of numbers or arrays by name", 'return one, {"level": ...} say'
        raise InputError(where, expected, names_in(given), remedy)


def shapes_of(where: str, named: Any) -> Shapes:
    """Return names and shapes of the values that a function returns."""
    check_named(where, named)
    return tuple((str(name), np.shape(value)) for name, value in named.items())


def check_same(where: str, what: str, given: Shapes, expected: Shapes) -> None:
    """Check that names and shapes are as expected, in any order."""
    if dict(given) != dict(expected):
        wanted, has = (
            ", ".join(f"{name} {shape}" if shape else name for name, shape in shapes)
            for shapes in (expected, given)
        )
        raise InputError(where, f"{what}: {wanted}", has, "return these names and sizes")


def check_names(state: Shapes, rows: Shapes, unknowns: Shapes, *, is_part: bool) -> None:
    """Check that names of state, readings and unknowns do not clash in the draws.

    With ``is_part`` the readings are parts of the state and share its names.
    """
    for name in dict(state) | dict(rows):
        taken = {f"{name}_path": "an unknown"} if f"{name}_path" in dict(unknowns) else {}
        if not is_part and name in dict(rows) and name in dict(state):
            taken = {name: "a reading"}
        for each, what in taken.items():
            expected = f"other names than {what} has"
            kind = "state" if name in dict(state) else "readings"
            raise InputError(f"{kind} {name}", expected, each, "rename one of them")


def check_increasing(times: np.ndarray) -> None:
    """Check that times, (T,), are finite and increase."""
    wrong = np.flatnonzero(~(np.diff(times, prepend=-np.inf) > 0) | ~np.isfinite(times))
    if wrong.size:
        found = f"{times[wrong[0]]:g} at index {wrong[0]}"
        raise InputError("times", "finite numbers that increase", found, "sort the rows by time")


def checked_start(times: np.ndarray, start: Any) -> float:
    """Time of the initial state: the first of the times (T,) if none is given."""
    if start is None:
        return float(times[0])
    begin = as_numbers("start", start, "a number")
    if begin.shape or not begin <= times[0]:
        expected = f"a time not after the first of the readings, {times[0]:g}"
        raise InputError("start", expected, f"{start!r}"[:80], "correct it")
    return float(begin)


def checked_columns(readings: Any, times: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return checked readings by name, NaN where missing: (T,) each with times, else (T, ...)."""
    if not hasattr(readings, "items") or not len(readings):  # as a dict and a data frame have
        found = "none" if hasattr(readings, "items") else type(readings).__name__
        raise InputError("readings", "a dict of arrays by name", found, "name what was read")
    columns = {str(name): as_numbers(f"readings {name}", given) for name, given in readings.items()}
    if times is not None and (times.ndim != 1 or not times.size):
        raise InputError("times", "one or more in a row", f"shape {times.shape}", "give them flat")
    first = next(iter(columns.values()))
    size = (first.shape or (1,))[0] if times is None else times.size
    for name, column in columns.items():
        where, shape = f"readings {name}", column.shape
        if shape[:1] != (size,) or not column.size or (times is not None and column.ndim > 1):
            expected = f"{size} values, one for each time, NaN where nothing was read"
            raise InputError(where, expected, f"shape {shape}", "correct it")
        is_missing = np.isnan(column.reshape(size, -1))
        bad = np.argwhere(np.isinf(column))
        if len(bad) or is_missing.all():
            at = ", ".join(map(str, bad[0])) if len(bad) else ""
            found = f"{column[tuple(bad[0])]} at index {at}" if len(bad) else "none"
            remedy = "correct it, or leave the name out"
            raise InputError(where, "finite values, some of them at least", found, remedy)
        partly = np.flatnonzero(is_missing.any(axis=1) & ~is_missing.all(axis=1))
        if partly.size:
            found = f"{is_missing[partly[0]].sum()} NaN of {is_missing.shape[1]}"
            expected, remedy = "all entries of one time, or NaN for all", "name them one by one"
            raise InputError(where, expected, f"{found} at index {partly[0]}", remedy)
    return columns


def check_labels(readings: Mapping[str, Any], noise: Any, times: np.ndarray | None) -> None:
    """Refuse readings and noise of pandas or xarray with labels in another order than the times.

    All readings must have the same labels.  Those that are not times, such as row numbers, are
    ignored.  Without times (T,) each row is one step, so that numbers, periods and dates must be
    equally spaced.
    """
    # The rows of a noise may be those alone that were read.
    every = ("readings", readings, times is None), ("noise", noise, False)
    named = [
        (f"{what} {name}", given, are_steps)
        for what, columns, are_steps in every
        if isinstance(columns, Mapping) or columns is readings
        for name, given in columns.items()
    ]
    if isinstance(readings, Mapping):  # a data frame has one index
        _check_are_alike(readings)
    for what, given, are_steps in named:
        labels = _labels_of_rows(given)
        if labels is None or labels.dtype.kind not in "iufM":
            continue
        steps, where = np.diff(labels), f"{what}, labels of its rows"
        expected, remedy = "those of times, in their order", "sort the rows as the times, or "
        if labels.dtype.kind == "M" or times is None:
            is_wrong = steps.size and not (steps > steps[0] * 0).any()  # the latest first
            if not is_wrong and are_steps:
                is_wrong = not _are_equal_steps(labels)
                expected, remedy = "equal steps, of which each moves the state once", "give times, "
                remedy += "or rows of NaN for steps without a reading, or "
            if not is_wrong and times is not None and len(labels) == len(times):
                # Else times that count the rows hide a gap.
                is_wrong = _are_equal_steps(times) and not _are_equal_steps(labels, GAP)
                expected, remedy = "dates in equal steps, as the times are", "correct these, or "
        else:
            is_wrong = np.array_equal(np.sort(labels), times) and not np.array_equal(labels, times)
        if is_wrong:
            remedy += "leave labels out that are no times, by reset_index(drop=True)"
            found = labels.astype(str) if labels.dtype.kind == "M" else labels
            raise InputError(where, expected, f"{found[:6].tolist()}"[:80], remedy)
    for name in (each for each in readings if isinstance(noise, Mapping) and each in noise):
        pair = [_labels_of_rows(each[name]) for each in (noise, readings)]
        if all(each is not None for each in pair) and _are_shuffled(*pair):
            where, expected = f"noise {name}, labels of its rows", "those of its readings, in order"
            found, remedy = f"{pair[0][:6].tolist()}"[:80], "take reindex(readings.index)"
            raise InputError(where, expected, found, remedy)


def _are_shuffled(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two arrays of labels are equal, but for their order."""
    is_pair = first.dtype.kind == second.dtype.kind and len(first) == len(second)
    is_same = is_pair and sorted(map(str, first)) == sorted(map(str, second))
    return is_same and not np.array_equal(first, second)


def _check_are_alike(readings: Mapping[str, Any]) -> None:
    """Refuse readings with labels that differ, unless they are numbers of rows, 0, 1, ..."""
    first = None
    for name, given in readings.items():
        labels = _labels_of_rows(given)
        if labels is None or (
            labels.dtype.kind in "iu" and (labels == np.arange(len(labels))).all()
        ):
            continue
        first = first or (name, labels)
        if not np.array_equal(first[1], labels):
            where, expected = f"readings {name}, labels of its rows", f"those of {first[0]}"
            remedy = "join both in one data frame, or leave labels out by reset_index(drop=True)"
            raise InputError(where, expected, "others", remedy)


def _are_equal_steps(labels: np.ndarray, gap: float = 1.0) -> bool:
    """Return whether labels, (T,), are equally spaced; dates also by the calendar.

    Dates may be one for each day, working day or month, or for each n of these. Their longest step
    is at most `gap` times the shortest.
    """
    if labels.dtype.kind != "M":
        return np.allclose(np.diff(labels), np.diff(labels)[:1])
    days = labels.astype("M8[D]")
    steps = np.diff(labels), np.diff(days), np.busday_count(days[:-1], days[1:])
    steps = *steps, np.diff(days.astype("M8[M]"))
    steps = (each.astype(float) for each in steps)
    return any(np.all((each > 0.0) & (each <= gap * each.min(initial=np.inf))) for each in steps)


def _labels_of_rows(given: Any) -> np.ndarray | None:
    """Return labels along the first axis of an array of pandas or xarray; None for any other.

    Periods are numbered, and dates of a time zone are those of UTC.
    """
    index = getattr(given, "index", None)
    if not hasattr(index, "equals"):  # lists have a method of that name
        first = next(iter(getattr(given, "dims", ())), None)
        index = getattr(given, "indexes", {}).get(first)
    if hasattr(index, "to_timestamp"):
        return np.asarray(index.asi8)
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert(None)
    return None if index is None else np.asarray(index)


def noise_where_read(noise: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """Drop rows without readings from noise by name that has one value for each row."""
    if not isinstance(noise, Mapping):
        return noise
    kept = dict(noise)
    for name, column in columns.items():
        is_read = ~np.isnan(column.reshape(len(column), -1)).all(axis=1)
        if np.ndim(kept.get(name)) == 1 and len(kept[name]) == len(column):
            kept[name] = np.asarray(kept[name])[is_read]
    return kept


def with_forecast(
    times: np.ndarray, columns: Mapping[str, np.ndarray], forecast: Any
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Append forecast times to the times, and NaN to the columns (T, ...)."""
    later = np.ravel(as_numbers("forecast", forecast))
    wrong = np.flatnonzero(~(np.diff(later, prepend=times[-1]) > 0) | ~np.isfinite(later))
    if wrong.size:
        raise InputError(
            "forecast",
            f"times that increase, after the last of the readings, {times[-1]:g}",
            f"{later[wrong[0]]:g} at index {wrong[0]}",
            "leave out or correct it",
        )
    longer = {
        name: np.concatenate([column, np.full((later.size, *column.shape[1:]), np.nan)])
        for name, column in columns.items()
    }
    return np.concatenate([times, later]), longer
