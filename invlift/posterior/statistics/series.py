"""Quantities along an axis of numbers, such as time, with their readings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from invlift.errors import InputError
from invlift.posterior.names import OBSERVED, PREDICTED, UNITS, WHAT_IS_READ, path_name
from invlift.posterior.statistics.parts import Readings
from invlift.posterior.statistics.quantity import Quantity

#: Levels of the quantiles of a series: the 90 and 50 % bands around the median.
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Levels of the 90 % band of new readings.
OUTER = (0.05, 0.95)
#: Smallest ratio of last to first coordinate for a logarithmic axis.
DECADES = 50.0


@dataclass(frozen=True, eq=False)
class Series:
    """Quantiles of a quantity along an axis, and its r readings."""

    name: str  # name of the readings, or of the quantity if there are none
    axis: str
    unit: str
    axis_unit: str
    at: np.ndarray  # (k,) coordinates, increasing or equal
    quantiles: np.ndarray  # (5, k) of the draws without noise, at the LEVELS
    new_readings: np.ndarray | None = None  # (2, k) at the OUTER levels; None if noise is unknown
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))  # (r,) among all d
    read_at: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (r,) coordinates
    observed: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (r,)

    @property
    def spans_decades(self) -> bool:
        """Whether coordinates are positive and span decades, as times of a pumping test do."""
        return bool(self.at[0] > 0.0 and self.at[-1] >= DECADES * self.at[0])

    @property
    def last_read(self) -> float | None:
        """Coordinate of the last reading, if the series continues after it."""
        last = self.read_at.max(initial=-math.inf)
        return float(last) if math.isfinite(last) and last < self.at[-1] else None


def in_time(readings: Readings, unit: str = "") -> dict[str, Sequence]:
    """Return coordinates of readings of a field in time, in which each sensor is a series.

    Empty for other readings. Readings with the same place, kind, group, radius, second place and
    experiment belong to one sensor; or to one for each label, if every label there has several
    readings. Its name is its label, if no other has it, or else its position. `unit` is that of
    the readings, if they have one unit.
    """
    known, points = readings.coordinates, readings.points
    if "time" not in known or "name" in known or points is None:
        return {}
    num = len(readings.values)
    labels = [""] * num if readings.labels is None else list(readings.labels)
    columns = [known[key] for key in WHAT_IS_READ if key in known]
    what = [_text(row) for row in zip(*columns, strict=True)] if columns else [""] * num
    which = known.get("experiment", [""] * num), what
    keys = list(zip(*which, map(tuple, np.nan_to_num(points).tolist()), strict=True))
    at_key: dict[tuple, Counter] = {}
    places: dict[tuple, set] = {}
    kinds: dict[tuple, set] = {}
    for key, label in zip(keys, labels, strict=True):
        experiment, kind, place = key
        at_key.setdefault(key, Counter())[label] += 1
        places.setdefault((experiment, label), set()).add(place)
        kinds.setdefault((experiment, label, place), set()).add(kind)
    names = []
    for key, label in zip(keys, labels, strict=True):
        experiment, kind, place = key
        # Names that differ from row to row are numbers of rows, not of sensors.
        is_one = len(at_key[key]) == 1 or min(at_key[key].values()) > 1
        parts = [experiment, label if is_one else ""]
        # The name of a well with several depths is that of several sensors.
        if not label or not is_one or len(places[experiment, label]) > 1:
            parts.append(", ".join(f"{x:.6g}" for x in place))
        parts += [kind] if len(kinds[experiment, label, place]) > 1 else []
        names.append(", ".join(filter(None, parts)))
    return {"name": names, "time": known["time"], UNITS: known.get(UNITS, [unit] * num)}


def _text(entries: Sequence[str | float]) -> str:
    """Return the entries that are not empty or NaN in one text."""
    found = [f"{each:.6g}" if isinstance(each, float) else each for each in entries if each == each]
    return " ".join(filter(None, found))


def readings_along(coordinates: Mapping[str, Sequence]) -> dict[str, tuple[str, np.ndarray]]:
    """Return, by name of readings, their only axis of numbers and their rows, (r,).

    `coordinates` are d numbers or str for each axis, including "name"; NaN or "" where a reading
    has no coordinate.
    """
    names = np.asarray(coordinates.get("name", ()))
    along = {}
    for name in dict.fromkeys(names.tolist()):
        rows = np.flatnonzero(names == name)
        varying = {
            axis: [values[row] for row in rows]
            for axis, values in coordinates.items()
            if axis not in ("name", UNITS)
            and values[rows[0]] != ""
            and values[rows[0]] == values[rows[0]]
        }
        if len(varying) == 1 and _are_numbers(*varying.values()):
            along[name] = (next(iter(varying)), rows)
    return along


def series_of(
    draws: Mapping[str, Sequence[np.ndarray]],
    quantities: Mapping[str, Quantity],
    coordinates: Mapping[str, Sequence],
    observed: np.ndarray | None,
    new_readings: Mapping[str, Sequence[np.ndarray]],
) -> list[Series]:
    """Return the series along axes of numbers, without fields; those with readings come first.

    Readings ``hare`` belong to the quantity ``hare_path``, or else to their predictions. Draws are
    (num_draws, ...) for each chain by name. New readings, with noise, have the same form: by name
    of a path, by name of readings, or of all d ("observed").
    """
    series, used = [], set()
    along = {} if observed is None else readings_along(coordinates)
    for name, (axis, rows) in along.items():
        read_at = np.array([coordinates[axis][row] for row in rows], dtype=float)
        path = quantities.get(path_name(name))
        of = {"rows": rows, "read_at": read_at, "observed": np.asarray(observed)[rows]}
        if path is not None and axis_of(path) and path.name in draws:
            used.add(path.name)
            series.append(_series(name, path, draws[path.name], new_readings.get(path.name), **of))
        elif PREDICTED in draws and len(set(read_at)) > 1:
            unit = coordinates.get(UNITS, {rows[0]: ""})[rows[0]]
            of_axes = quantities[PREDICTED].axis_units if PREDICTED in quantities else {}
            quantity = Quantity(name, {axis: read_at}, unit, axis_units=of_axes)
            new = new_readings.get(name)
            if OBSERVED in new_readings:
                new = [chain[:, rows] for chain in new_readings[OBSERVED]]
            predicted = [chain[:, rows] for chain in draws[PREDICTED]]
            series.append(_series(name, quantity, predicted, new, **of))
    alone = [each for name, each in quantities.items() if name in draws and name not in used]
    return series + [_series(q.name, q, draws[q.name]) for q in alone if axis_of(q)]


def _series(name, quantity: Quantity, chains, new=None, **of_readings) -> Series:
    ((axis, at),) = quantity.axes.items()
    order = np.argsort(at, kind="stable")

    def quantiles(draws, levels):
        return np.quantile(np.concatenate(draws).astype(float)[:, order], levels, axis=0)

    band = None if new is None else quantiles(new, OUTER)
    at, bands = np.asarray(at, dtype=float)[order], quantiles(chains, LEVELS)
    units = quantity.unit, quantity.axis_units.get(axis, "")
    return Series(name, axis, *units, at, bands, band, **of_readings)


def axis_of(quantity: Quantity) -> str | None:
    """Return the axis of a quantity with a single axis of different numbers, not of a mesh."""
    if len(quantity.axes) != 1 or quantity.place or quantity.is_derived:
        return None
    ((axis, labels),) = quantity.axes.items()
    is_axis = labels is not None and _are_numbers(labels) and len(set(labels)) > 1
    return axis if is_axis else None


def _are_numbers(labels: Sequence) -> bool:
    return all(isinstance(x, int | float | np.number) and math.isfinite(x) for x in labels)


def chosen_series(series: Sequence[Series], names: Sequence[str] | None) -> list[Series]:
    """Select series by name, or all; an InputError if there are no series or a name is unknown."""
    known = {each.name: each for each in series}
    for name in (names or ()) if known else [""]:
        if name not in known:
            expected = f"some of {', '.join(known)}" if known else "draws along numbers"
            found = repr(name) if known else "none that have such an axis"
            remedy = "name axes and coordinates: argument axes of inverse_problem"
            raise InputError("plot of series", expected, found, remedy)
    return [known[name] for name in names or known]
