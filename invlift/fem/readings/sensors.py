"""Tables of sensor readings, with their kinds, positions and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from invlift.errors import InputError, as_numbers

MAX_SIZE = 1e50  # of coordinates and readings; their squares must also be finite
#: Codes of missing readings: of loggers, netCDF's fill values, and the limits of 16-bit integers.
#: A code counts as missing if it is far from all other readings: see :func:`check_missing`.
#: Those from 999 on are rarely readings: they are far sooner where they alone have their sign.
MISSING = np.array(
    [-99.0, -999.0, -999.25, -999.9, -9999.0, -9999.9, -99999.0, -999999.0, 9999.0, 99999.0,
     999999.0, 1e20, 1e30, 1e31, -1e30, 9.969209968386869e36, 1.70141e38, -32768.0, 32767.0]
)  # fmt: skip
FAR_FROM_OTHERS = 3.0
#: The kind of readings of the logarithm of the conductivity.
LOGARITHM = "log_conductivity"
#: Kinds of readings in the unit of the solution.
OF_SOLUTION = {"point", "difference", "average"}
#: Names of text columns in a file, and of their attributes in a table.
TEXTS = {
    "group": "groups",
    "name": "labels",
    "experiment": "experiments",
    "survey": "surveys",
    "kind": "kinds",
    "over": "over",
}
#: Attributes of a table with texts.
_TEXT_ARRAYS = *TEXTS.values(), "limits"
#: Attributes of a table with numbers.
_ARRAYS = (
    "points", "values", "sigma", "radius", "times", "averaged_over", "moment", "minus", "reference",
)  # fmt: skip

#: Attributes that say what a reading measures, and when.
_OF_PLACE = (
    "points", "minus", "radius", "kinds", "over", "electrodes", "experiments", "surveys", "times",
    "averaged_over", "moment",
)  # fmt: skip
#: Largest order of a temporal moment.
MAX_ORDER = 4


@dataclass(frozen=True, eq=False)
class Sensors:
    """A table of d readings.

    Attributes
    ----------
    points : ndarray of float64, shape (d, dim)
        Positions of the sensors, in the length unit of the mesh; NaN for readings without one.
    values : ndarray of float64, shape (d,)
        Readings, in the unit of the measured quantity.
    sigma : ndarray of float64, shape (d,), or None
        Standard deviation of each reading's noise, in its unit, if the table has the column.
    rows : ndarray of int or str, shape (d,)
        Line of each reading in the file; the header is line 1.  With several files, "3 of b.csv".
    name : str
        The file as the user gave it, for error messages.
    groups : ndarray of str, shape (d,), or None
        Name of the group with a common noise scale or offset, if the table has the column; "" for
        readings without a group.
    labels : ndarray of str, shape (d,), or None
        Name of each sensor, if the table has a column ``name``.
    experiments : ndarray of str, shape (d,), or None
        Name of the experiment of each reading, if the table has a column ``experiment``; "" for
        readings without one.
    surveys : ndarray of str, shape (d,), or None
        Survey of each reading, if the table has a column ``survey``.
    kinds : ndarray of str, shape (d,), or None
        Kind of each reading, if the table has a column ``kind``: see
        :data:`invlift.fem.readings.kinds.KINDS`. Without it, readings are points or differences.
    over : ndarray of str, shape (d,), or None
        Group of the mesh over which a reading is taken, if the table has the column; "" for other
        readings.
    radius : ndarray of float64, shape (d,), or None
        Radius of the disc or ball of a mean, in the length unit, if the table has the column; NaN
        for other readings.
    limits : ndarray of str, shape (d,), or None
        Censoring of the readings: "<" if the reading is below its value, ">" if it is above, "" if
        it is the value; None if no reading is censored.
    times : ndarray of float64, shape (d,), or None
        Time of each reading, if the field changes in time and the table has the column ``time``.
    averaged_over : ndarray of float64, shape (d,), or None
        Length of the interval that ends at the time and whose mean a reading is, in the unit of the
        times, if the table has the column; NaN where a reading is of the time itself.
    moment : ndarray of float64, shape (d,), or None
        Order k of the temporal moment over this interval that a reading is, if the table has the
        column: the mean of (s / length)^k times the field, where s is the time since the interval
        began.  It has the unit of the field.  0 is the mean, as is NaN.
    minus : ndarray of float64, shape (d, dim), or None
        Second points, from columns ``x2``, ``y2`` and ``z2``: such a reading is the solution at the
        first point minus the solution at the second point. NaN for other readings.
    electrodes : ndarray of str, shape (d, 4), or None
        For voltages between electrodes, which have no position: the names or numbers, from 1, of
        the electrodes where current enters and leaves, and of the two for the voltage. See
        :func:`invlift.tables.voltages.read_voltages`.
    positions : ndarray of float64, shape (K, 2 or 3), or None
        Positions of the electrodes, if the table has them.
    currents, weights : ndarray of float64, shape (d, K), or None
        Current into each electrode, in ampere, and weight of each electrode's potential in the
        reading, if it is not a unit current or not a voltage between two electrodes.
    reference : ndarray of float64, shape (d,), or None
        Readings of a reference body, if the values are differences from them.
    electrode_groups : tuple of K str
        Boundary groups of the electrodes, once they are known.
    further : mapping of str to ndarray of str, shape (d,)
        Other columns by name, as written in the table; they are kept with the results.
    is_sigma_absolute : bool
        Whether the table says that sigma has the unit of the readings, so that it is no share of
        them.
    outside : str
        Number and treatment of the sensors outside the mesh, as text; empty if there are none.
    notes : tuple of str
        Notes on the parts of the table that are left out or not used.
    """

    points: np.ndarray
    values: np.ndarray
    sigma: np.ndarray | None
    rows: np.ndarray
    name: str
    groups: np.ndarray | None = None
    labels: np.ndarray | None = None
    experiments: np.ndarray | None = None
    surveys: np.ndarray | None = None
    kinds: np.ndarray | None = None
    over: np.ndarray | None = None
    radius: np.ndarray | None = None
    limits: np.ndarray | None = None
    times: np.ndarray | None = None
    averaged_over: np.ndarray | None = None
    moment: np.ndarray | None = None
    minus: np.ndarray | None = None
    electrodes: np.ndarray | None = None
    positions: np.ndarray | None = None
    currents: np.ndarray | None = None
    weights: np.ndarray | None = None
    reference: np.ndarray | None = None
    electrode_groups: tuple[str, ...] = ()
    further: Mapping[str, np.ndarray] = field(default_factory=dict)
    is_sigma_absolute: bool = False
    outside: str = ""
    notes: tuple[str, ...] = ()

    @property
    def has_logarithms(self) -> bool:
        """Whether some readings are logarithms of the conductivity."""
        return self.kinds is not None and LOGARITHM in self.kinds

    def first_of_same(self, *further: str) -> np.ndarray:
        """Return for each reading the index of the first one that measures the same, (d,) int.

        Same are place, kind, group, radius, electrodes, experiment, survey, time, interval and
        moment.

        Parameters
        ----------
        further : str
            Attributes that must be the same as well, such as ``"labels"``.
        """
        arrays = [getattr(self, each) for each in (*_OF_PLACE, *further)]
        size = len(self.values)
        parts = [np.reshape(each, (size, -1)).T for each in arrays if each is not None]
        frame = pd.DataFrame(dict(enumerate(column for part in parts for column in part)))
        numbers = frame.groupby([*frame], dropna=False, sort=False).ngroup().to_numpy()
        return np.unique(numbers, return_index=True)[1][numbers]

    def take(self, kept: np.ndarray) -> Sensors:
        """Return the table reduced to the readings with the indices `kept`."""
        columns = *_ARRAYS, "rows", *_TEXT_ARRAYS, "electrodes", "currents", "weights"
        given = {name: getattr(self, name) for name in columns}
        taken = {name: column[kept] for name, column in given.items() if column is not None}
        further = {name: column[kept] for name, column in self.further.items()}
        return replace(self, further=further, **taken)


def concatenated(tables: Mapping[str, Sensors]) -> Sensors:
    """Concatenate the tables of experiments, by name, to one table.

    If a table lacks a column of another one, its entries are NaN or "".
    """
    every = list(tables.values())
    first, sizes = every[0], [len(each.values) for each in every]
    if len(every) == 1:
        return first

    def column(parts: list[np.ndarray | None]) -> np.ndarray | None:
        known = next((part for part in parts if part is not None), None)
        if known is None:
            return None
        empty = "" if known.dtype.kind == "U" else np.nan
        parts = [
            np.full((size, *known.shape[1:]), empty) if part is None else part
            for part, size in zip(parts, sizes, strict=True)
        ]
        return np.concatenate(parts)

    whole = {
        name: column([getattr(each, name) for each in every])
        for name in (*_ARRAYS, "rows", *_TEXT_ARRAYS, "electrodes", "currents", "weights")
    }
    if whole["experiments"] is None:
        whole["experiments"] = np.repeat(list(tables), sizes)
    names = dict.fromkeys(name for each in every for name in each.further)
    further = {name: column([each.further.get(name) for each in every]) for name in names}
    outside = "; ".join(dict.fromkeys(each.outside for each in every if each.outside))
    notes = tuple(dict.fromkeys(note for each in every for note in each.notes))
    whole["is_sigma_absolute"] = any(each.is_sigma_absolute for each in every)
    return replace(first, further=further, outside=outside, notes=notes, **whole)


def sensors_from_arrays(points, values, sigma=None, name: str = "sensors", **columns) -> Sensors:
    """Make a sensor table from arrays, with every check that a file gets.

    Parameters
    ----------
    points : array_like of float, shape (d, dim)
        NaN for readings of a kind without a position.
    values : array_like of float, shape (d,)
    sigma : float or array_like of float, shape (d,), optional
        One number holds for all readings.
    name : str
        Name of the table in error messages; its rows count from 2, as in a file.
    **columns : array_like, shape (d,)
        Further attributes of :class:`Sensors`, such as ``kinds`` and ``over``; ``minus`` is
        (d, dim).  Missing text, None or NaN as in a data frame, becomes "".

    Returns
    -------
    Sensors
        A table of d readings.

    Raises
    ------
    InputError
        For shapes that do not fit, no rows, values that are masked or not finite, and sigma <= 0.
    """
    columns = {"points": points, "values": values, "sigma": sigma, **columns}
    arrays = {}
    for key, given in columns.items():
        if given is None:
            continue
        if key not in (*_ARRAYS, *_TEXT_ARRAYS):
            expected = f"columns among {', '.join([*_ARRAYS, *_TEXT_ARRAYS])}"
            raise InputError(f"{name}, {key}", expected, "another", "rename it, or leave it out")
        if key in _ARRAYS:
            where, remedy = f"{name}, {key}", "give numbers only"
            arrays[key] = np.array(as_numbers(where, given, "an array of numbers", remedy))
        else:
            arrays[key] = _texts(f"{name}, {key}", given)
    shape = arrays["points"].shape
    if sigma is not None and np.ndim(sigma) == 0:
        arrays["sigma"] = np.full(shape[:1], arrays["sigma"])
    for key, array in arrays.items():
        expected = shape if key in ("points", "minus") else shape[:1]
        if len(shape) != 2 or shape[1] not in (2, 3) or array.shape != expected:
            raise InputError(
                f"{name}, {key}",
                "points of shape (d, 2) or (d, 3), all else of shape (d,)",
                f"shape {array.shape}",
                "give one row of coordinates and one number per sensor",
            )
    required = [arrays.pop(key, None) for key in ("points", "values", "sigma")]
    return checked(*required, np.arange(2, shape[0] + 2), name, **arrays)


def _texts(where: str, given) -> np.ndarray:
    """Return an array of text, with "" for missing entries: None, NaN, pandas' NA, or masked."""
    try:
        is_missing = pd.isna(np.asarray(given, dtype=object)) | np.ma.getmask(given)
        return np.where(is_missing, "", np.array(given, dtype=str))
    except (ValueError, TypeError) as reason:
        raise InputError(where, "an array of text", str(reason), "give one per sensor") from None


def checked(points, values, sigma, rows, name: str, **others) -> Sensors:
    """Return a table after checks: it has rows, all finite, and positive sigma."""
    if len(values) == 0:
        raise InputError(name, "at least one sensor", "none", "add one row per sensor")
    radius = others.get("radius")
    may_lack_place = others.get("kinds") is not None or others.get("electrodes") is not None
    places = np.where(np.isnan(points), 0.0, points) if may_lack_place else points
    columns = dict(zip("xyz", places.T, strict=False)) | {"value": values}
    if radius is not None:
        columns["radius"] = np.where(np.isnan(radius), 0.0, radius)
    minus = others.get("minus")
    if minus is not None:
        is_partial = np.isnan(minus).any(axis=1) & ~np.isnan(minus).all(axis=1)
        if is_partial.any():
            raise InputError(
                f"{name}, row {rows[np.flatnonzero(is_partial)[0]]}, second place",
                f"{minus.shape[1]} coordinates, or none",
                f"{np.count_nonzero(~np.isnan(minus[np.flatnonzero(is_partial)[0]]))}",
                "give all of them, or leave all empty",
            )
        seconds = np.where(np.isnan(minus), 0.0, minus)
        columns |= {f"{axis}2": each for axis, each in zip("xyz", seconds.T, strict=False)}
    if sigma is not None:
        columns["sigma"] = sigma
    if others.get("times") is not None:
        columns["time"] = others["times"]
    for column, entries in columns.items():
        bad = np.flatnonzero(~(np.abs(entries) <= MAX_SIZE))
        if len(bad):
            is_finite = np.isfinite(entries[bad[0]])
            raise InputError(
                f"{name}, row {rows[bad[0]]}, column {column}",
                f"a number up to {MAX_SIZE:g} in size" if is_finite else "a finite number",
                f"{entries[bad[0]]:g}",
                "correct it, or remove the row if there is no reading",
            )
    check_missing(values, rows, name)
    _check_averaged(others.get("averaged_over"), others.get("times"), rows, name)
    _check_moment(others.get("moment"), others.get("averaged_over"), rows, name)
    limits = others.get("limits")
    if limits is not None and (bad := np.flatnonzero(~np.isin(limits, ["", "<", ">"]))).size:
        where, found = f"{name}, row {rows[bad[0]]}, limits", f"{limits[bad[0]]}"
        raise InputError(where, '"<", ">" or ""', found, "leave it empty for a plain reading")
    if sigma is not None and (sigma < 1.0 / MAX_SIZE).any():
        bad = np.flatnonzero(sigma < 1.0 / MAX_SIZE)[0]
        raise InputError(
            f"{name}, row {rows[bad]}, column sigma",
            "a positive standard deviation",
            f"{sigma[bad]:g}",
            "give the accuracy of the sensor, or remove the column and give one scale for all",
        )
    return Sensors(points, values, sigma, rows, name, **others)


def _check_averaged(lengths, times, rows: np.ndarray, name: str) -> None:
    """Refuse intervals that are not positive, or have no end."""
    if lengths is None:
        return
    if times is None:
        remedy = "give the end of each interval"
        raise InputError(name, "times beside averaged_over", "none", remedy)
    bad = np.flatnonzero(~np.isnan(lengths) & ~((lengths > 0.0) & (lengths <= MAX_SIZE)))
    if bad.size:
        where = f"{name}, row {rows[bad[0]]}, column averaged_over"
        remedy = "leave it empty if the reading is of the time itself"
        raise InputError(where, "a positive length of time", f"{lengths[bad[0]]:g}", remedy)


def _check_moment(orders, lengths, rows: np.ndarray, name: str) -> None:
    """Refuse moments whose order is no small whole number, or that have no interval."""
    if orders is None:
        return
    is_order = np.isnan(orders) | np.isin(orders, np.arange(MAX_ORDER + 1))
    for is_right, expected, remedy in (
        (is_order, f"a whole number from 0 to {MAX_ORDER}", "leave it empty without a moment"),
        (
            ~(orders > 0.0) | ~np.isnan(np.nan if lengths is None else lengths),
            "an interval beside it, in the column averaged_over",
            "give its length",
        ),
    ):
        if not is_right.all():
            bad = np.argmin(is_right)
            where = f"{name}, row {rows[bad]}, column moment"
            raise InputError(where, expected, f"{orders[bad]:g}", remedy)


def check_missing(values: np.ndarray, rows: np.ndarray, name: str, column: str = "value") -> None:
    """Raise an InputError for numbers that are codes of missing ones, far from all others."""
    is_code = np.isin(values, MISSING)
    real = values[~is_code]
    if not is_code.any() or not real.size:
        return
    low, high = real.min(), real.max()
    is_alone = (np.abs(values) >= 999.0) & np.where(values < 0.0, low > 0.0, high < 0.0)
    size = np.where(is_alone, high - low, max(high - low, np.abs(real).max()))
    far = FAR_FROM_OTHERS * size
    bad = np.flatnonzero(is_code & (np.maximum(low - values, values - high) > far))
    if bad.size:
        raise InputError(
            f"{name}, row {rows[bad[0]]}, column {column}",
            f"a reading; all others are {low:g} to {high:g}",
            f"{values[bad[0]]:g}, which often stands for a missing one",
            "remove the row if there is no reading",
        )
