"""Readings between electrodes: currents, voltages, and the injections that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from invlift.errors import InputError
from invlift.fem.readings.sensors import Sensors

#: A current below this fraction of the largest one counts as zero.
_SAME = 1e-9


class Patterns(NamedTuple):
    """Currents and voltages of d readings.

    Attributes
    ----------
    currents : (d, K) array
        Currents into the body at each electrode; rows add up to zero.
    weights : (d, K) array
        Weights of the electrodes' potentials in each reading; rows add up to zero.
    """

    currents: np.ndarray
    weights: np.ndarray


class Injections(NamedTuple):
    """Distinct injections and the voltages read at each: see :func:`injections_of`.

    Attributes
    ----------
    order : (d,) array of int
        Indices of the readings, sorted by injection.
    currents : (L, K) array
    voltages : list of L (M, K) arrays
    matrix : (d, r) array or None
        Readings as linear combinations of the voltages, if there are fewer pairs of electrodes than
        readings.  There is then one voltage for each pair.
    """

    order: np.ndarray
    currents: np.ndarray
    voltages: list[np.ndarray]
    matrix: np.ndarray | None = None


def patterns_of_pairs(numbers: np.ndarray, size: int) -> Patterns:
    """Return the patterns of readings between electrodes a, b, m and n, (d, 4), counted from 0.

    The current from a to b is 1, and ``size`` is the number K of electrodes.
    """
    unit = np.eye(size)
    a, b, m, n = numbers.T
    return Patterns(unit[a] - unit[b], unit[m] - unit[n])


def injections_of(patterns: Patterns) -> Injections:
    """Group readings by distinct currents, and list the voltages read at each.

    With more readings than pairs of electrodes, one injection goes from each other electrode to the
    first.  The voltages are then the entries of the matrix of resistances, which is symmetric.
    """
    currents, weights = patterns
    size = currents.shape[1]
    if len(currents) > size * (size - 1) // 2:
        return _by_resistances(currents, weights)
    unique, number, signs = distinct(currents)
    voltages = [(signs * weights)[number == each] for each in range(len(unique))]
    return Injections(np.argsort(number, kind="stable"), unique, voltages)


def distinct(currents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct currents up to sign, and each reading's index, (d,), and sign, (d, 1)."""
    largest = np.abs(currents).max()
    first = np.argmax(np.abs(currents) > _SAME * largest, axis=1)
    signs = np.sign(np.take_along_axis(currents, first[:, None], axis=1))
    # The keys in front sort the rows that do not use the last electrodes first.
    rows = np.round(signs * currents / largest, 12)
    unique, number = np.unique(np.hstack([-np.abs(rows), rows]), axis=0, return_inverse=True)
    return largest * unique[:, currents.shape[1] :], number.ravel(), signs


def _by_resistances(currents: np.ndarray, weights: np.ndarray) -> Injections:
    """Write readings as combinations of resistances R_ij, for currents from i to electrode 0."""
    size = currents.shape[1]
    unit = np.eye(size)
    lower = unit[1:] - unit[0]
    rows, columns = np.triu_indices(size - 1)
    driven, read = currents[:, 1:], weights[:, 1:]
    matrix = read[:, rows] * driven[:, columns]
    matrix += np.where(rows == columns, 0.0, read[:, columns] * driven[:, rows])
    voltages = [lower[row:] for row in range(size - 1)]
    return Injections(np.arange(len(currents)), lower, voltages, matrix)


#: Electrodes of a reading: the current enters at a and leaves at b; the voltage is m less n.
ROLES = "a", "b", "m", "n"
#: Entries for an electrode that is infinitely far away.
FAR = "", "0", "-1"


def patterns_of(sensors: Sensors, names: Sequence[str]) -> Patterns:
    """Return currents and weights of K electrodes, from their names or their numbers from 1.

    Raises
    ------
    InputError
        As :func:`electrode_numbers`; if currents or weights have another number of electrodes.
    """
    for what, given in (("currents", sensors.currents), ("weights", sensors.weights)):
        if given is not None and given.shape[1] != len(names):
            expected = f"{what} of {len(names)} electrodes, as [electrodes] has"
            found, remedy = f"{given.shape[1]}", "name the group of each electrode"
            raise InputError(sensors.name, expected, found, remedy)
    if sensors.weights is not None:
        return Patterns(sensors.currents, sensors.weights)
    if sensors.currents is None:
        return patterns_of_pairs(electrode_numbers(sensors, names), len(names))
    read = numbered(
        sensors.electrodes[:, 2:], names, sensors.rows, sensors.name, are_points=False, roles="mn"
    )
    unit = np.eye(len(names))
    return Patterns(sensors.currents, unit[read[:, 0]] - unit[read[:, 1]])


def electrode_numbers(
    sensors: Sensors, names: Sequence[str], *, are_points: bool = False
) -> np.ndarray:
    """Return the electrodes of each reading, (d, 4), counted from 0.

    The table has their names or their numbers from 1.  A point of the ground may be infinitely far
    away: the table then has 0, -1 or an empty entry, and the result -1.

    Raises
    ------
    InputError
        If an entry is not an electrode; the message contains its row and column.  Also if the
        potential is read at a point that drives the current.
    """
    parts = sensors.electrodes, names, sensors.rows, sensors.name
    return numbered(*parts, are_points=are_points)


def numbered(electrodes, names, rows, table: str, *, are_points: bool, roles=ROLES) -> np.ndarray:
    """As :func:`electrode_numbers`, for entries (d, 4) of a table, or for fewer roles."""
    numbers = {str(number): number - 1 for number in range(1, len(names) + 1)}
    by_name = {str(name): number for number, name in enumerate(names)}
    two_sided = [name for name, number in by_name.items() if numbers.get(name, number) != number]
    for row, role in np.argwhere(np.isin(electrodes, two_sided)):
        entry = str(electrodes[row, role])
        where = f"{table}, row {rows[row]}, column {roles[role]}"
        found = f"{entry!r}, the name of electrode {by_name[entry] + 1} and the number of another"
        raise InputError(where, "the name or number of one electrode", found, "rename the groups")
    numbers |= by_name
    numbers |= dict.fromkeys(FAR, -1) if are_points else {}
    found = np.array([[numbers.get(each, -2) for each in row] for row in electrodes])
    missing = np.argwhere(found == -2)
    if missing.size:
        row, role = missing[0]
        entry = str(electrodes[row, role])
        where = f"{table}, row {rows[row]}, column {roles[role]}"
        expected = f"a number from 1 to {len(names)}, or one of {', '.join(map(str, names[:4]))}"
        if entry in FAR:
            found = f"{entry or 'an empty entry'}, an electrode infinitely far away"
            remedy = "electrodes count from 1, and a reading is between two of them: correct it, "
            remedy += "remove the row, or give this one a place at the edge of a larger mesh"
        else:
            found, remedy = repr(entry), "correct it"
        raise InputError(where, f"{expected}, ...", found, remedy)
    _check_count_from_one(electrodes, found, len(names), rows, table, roles)
    drives, reads = found[:, :2, None], found[:, None, 2:]
    both = np.argwhere((drives == reads) & (drives >= 0))
    if are_points and both.size:
        row, _, role = both[0]
        where = f"{table}, row {rows[row]}, column {ROLES[2 + role]}"
        expected = "an electrode that drives no current"
        remedy = "remove the row: next to a point that does the potential grows without bound"
        raise InputError(where, expected, repr(str(electrodes[row, 2 + role])), remedy)
    return found


def _check_count_from_one(electrodes, found, num: int, rows, table: str, roles) -> None:
    """Refuse electrodes that seem to count from 0: 0 is in several columns and K in none.

    A 0 that means infinitely far away fills whole columns.
    """
    is_zero = electrodes == "0"
    is_mixed = is_zero.any(axis=0) & ~is_zero.all(axis=0)
    if np.count_nonzero(is_mixed) < 2 or (found == num - 1).any():
        return
    row, role = np.argwhere(is_zero)[0]
    where = f"{table}, row {rows[row]}, column {roles[role]}"
    remedy = f"do they count from 0? add 1 to all; or leave out electrode {num}, which nothing uses"
    raise InputError(where, "electrodes that count from 1", "electrode 0", remedy)


def geometric_factors(positions: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the factors k, (d,), from resistances to apparent resistivities on flat ground.

    On uniform ground of resistivity rho a reading is rho / k; k is infinite where the reading is 0.

    Parameters
    ----------
    positions : (K, 2 or 3) array
    numbers : (d, 4) array of int
        Electrodes a, b, m and n of each reading, counted from 0; -1 is infinitely far away.

    Returns
    -------
    (d,) array
        In the unit of length of the positions; infinite where a reading is 0 on uniform ground.
    """

    def inverse(reads: int, drives: int) -> np.ndarray:
        pair = numbers[:, [reads, drives]]
        distance = np.linalg.norm(np.diff(positions[pair], axis=1)[:, 0], axis=1)
        return 1.0 / np.where((pair < 0).any(axis=1), np.inf, distance)

    with np.errstate(divide="ignore"):
        return 2.0 * np.pi / (inverse(2, 0) - inverse(3, 0) - inverse(2, 1) + inverse(3, 1))


def pseudo_places(positions: np.ndarray, numbers: np.ndarray, depth: float = 0.2) -> np.ndarray:
    """Return the places of readings in a pseudo-section of the ground, (d, dim).

    A place is below the middle of the electrodes, by a fifth of their extent.  This is about the
    depth above which half of the sensitivity of a reading lies (Edwards 1977, "A modified
    pseudosection for resistivity and IP", Geophysics 42, table 1).  Positions and numbers are as
    for :func:`geometric_factors`.  Give a negative ``depth`` where the last coordinate points down.
    """
    places = np.where((numbers < 0)[..., None], np.nan, positions[numbers])
    low, high = np.nanmin(places, axis=1), np.nanmax(places, axis=1)
    middles = np.nanmean(places, axis=1)
    middles[:, -1] -= depth * np.linalg.norm(high - low, axis=1)
    return middles


def shared_names(sensors: Sensors, what: str) -> list[str]:
    """Return the distinct pairs or injections of readings, such as "3-4", by electrode number.

    Parameters
    ----------
    sensors : Sensors
        A table of readings; its ``electrode_groups`` are the electrodes, if these have names.
    what : {"pair", "injection"}
        Electrodes m and n, in either order; or a and b, in the order given.
    """
    first, second = _ends(sensors, what)
    names: dict[str, None] = {}
    for one, other in zip(first, second, strict=True):
        if what == "injection" or _joined(other, one) not in names:
            names[_joined(one, other)] = None
    return list(names)


def shares(sensors: Sensors, what: str, names: Sequence[str]) -> np.ndarray:
    """Return the sign with which each reading has each name, (d, m): 1, -1 if swapped, else 0."""
    number = {name: column for column, name in enumerate(names)}
    matrix = np.zeros((len(sensors.values), len(names)))
    for row, (one, other) in enumerate(zip(*_ends(sensors, what), strict=True)):
        is_own = _joined(one, other) in number
        matrix[row, number[_joined(one, other) if is_own else _joined(other, one)]] = (
            1.0 if is_own else -1.0
        )
    return matrix


def _ends(sensors: Sensors, what: str) -> np.ndarray:
    """Return the numbers of two electrodes of each reading, (2, d); other entries are unchanged."""
    columns = sensors.electrodes[:, 2:] if what == "pair" else sensors.electrodes[:, :2]
    number = {name: str(k) for k, name in enumerate(sensors.electrode_groups, start=1)}
    return np.array([[number.get(each, each) for each in row] for row in columns.tolist()]).T


def _joined(one: str, other: str) -> str:
    return f"{one}-{other}" if other else one
