"""Tables of the section [noise] of a problem file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import shared_names, shares
from invlift.fem.readings.sensors import Sensors
from invlift.files.tables import Table, number, one_of
from invlift.noise.base import Noise
from invlift.noise.families import gaussian_noise, laplace_noise, student_t_noise
from invlift.noise.scales import Scale, unknown_scale
from invlift.tables.distributions import DISTRIBUTIONS, DistributionTable, value_of


class SensorTable(Protocol):
    """Attributes of :class:`invlift.fem.readings.sensors.Sensors` that the noise needs."""

    name: str
    values: np.ndarray
    sigma: np.ndarray | None
    is_sigma_absolute: bool
    groups: np.ndarray | None
    labels: np.ndarray | None
    electrodes: np.ndarray | None
    electrode_groups: tuple[str, ...]
    rows: np.ndarray


class NoiseTable(Table):
    """[noise]: the noise of the readings. A subclass adds its own keys."""

    #: Function that makes the noise.
    family: ClassVar[Callable[..., Noise]]

    kind: str
    """The kind of noise."""
    sigma: number(1e-50, 1e50) | Literal["column"] | one_of(DISTRIBUTIONS, "distribution") = (
        "column"
    )
    """The standard deviation of a reading, in its unit: a positive number, however small. Or
    "column", for the column sigma of the sensor table. Or a distribution, if it is unknown."""
    per: Literal["all", "sensor", "group", "pair", "injection"] = "all"
    """Which readings share an unknown scale: all of them, those of one sensor, or those of one
    group; with [electrodes] also those of one pair of electrodes, or of one driven current."""
    relative: bool = False
    """Whether the noise multiplies the reading: sigma 0.05 then means about 5 %."""

    def build(self, sensors: SensorTable, where: Callable[..., str]) -> Noise:
        """Build the noise of the readings, with the further keys as arguments of its function.

        Parameters
        ----------
        sensors : invlift.Sensors
            Sensors in use.
        where : callable
            Name of a key -> its name in error messages: ``where("sigma")`` is
            "problem.toml, [noise] sigma".

        Raises
        ------
        InputError
            If the keys do not fit the sensors. The caller translates the place "noise KEY" of the
            library's errors to that key.
        """
        keys = type(self).model_fields.keys() - NoiseTable.model_fields.keys()
        further = {key: value_of(getattr(self, key)) for key in keys}
        return type(self).family(self.scale(sensors, where), relative=self.relative, **further)

    def scale(self, sensors: SensorTable, where: Callable[..., str]) -> Scale | float | np.ndarray:
        """Build the scale of the noise: a number, (d,) numbers, or a `Scale`."""
        if isinstance(self.sigma, DistributionTable):
            return unknown_scale(self.sigma.build(), self._groups(sensors, where))
        if self.per != "all":
            raise InputError(
                where("per"),
                '"all", as sigma is known',
                f'"{self.per}"',
                "give [noise] sigma a distribution, or leave per out",
            )
        if self.sigma != "column":
            return self.sigma
        if sensors.sigma is None:
            raise InputError(
                where("sigma"),
                f"a column sigma in {sensors.name}",
                "none",
                "add the column, or give [noise] sigma a number or a distribution",
            )
        if self.relative and sensors.is_sigma_absolute:
            expected = f"false, as sigma of {sensors.name} is in the unit of the readings"
            remedy = "leave relative out, or give sigma a number or a distribution"
            raise InputError(where("relative"), expected, "true", remedy)
        return sensors.sigma

    def _groups(self, sensors: SensorTable, where: Callable[..., str]) -> np.ndarray | None:
        """Return the group with which each reading shares its scale, (d,); None for one scale."""
        if self.per == "all":
            return None
        if self.per == "sensor":
            self._check_named(sensors, sensors.labels, "name")
            return _sensor_of_each(sensors)
        if self.per in ("pair", "injection"):
            if sensors.electrodes is None:
                expected = "readings between electrodes"
                remedy = 'choose "all", "sensor" or "group"'
                raise InputError(where("per"), expected, "others", remedy)
            names = np.array(shared_names(sensors, self.per))
            return names[np.abs(shares(sensors, self.per, names)).argmax(axis=1)]
        if sensors.groups is None:
            raise InputError(
                where("per"),
                f"a column group in {sensors.name}",
                "none",
                'add the column, or choose "all" or "sensor"',
            )
        self._check_named(sensors, sensors.groups, "group")
        return sensors.groups

    def _check_named(self, sensors: SensorTable, names: np.ndarray | None, column: str) -> None:
        """Refuse rows without a name in a column that says which readings share a scale."""
        empty = np.flatnonzero(() if names is None else np.asarray(names) == "")
        if empty.size:
            where = f"{sensors.name}, row {sensors.rows[empty[0]]}, column {column}"
            remedy = f"name the {'sensor' if column == 'name' else column} whose scale it shares"
            raise InputError(where, "a name", "an empty entry", remedy)


def _sensor_of_each(sensors: Sensors) -> np.ndarray:
    """Return the sensor of each reading, (d,): its name, else its place; an index if all differ."""
    names = sensors.labels
    if names is None:
        parts = ("times", "averaged_over", "moment", "experiments", "surveys")
        first = replace(sensors, **dict.fromkeys(parts)).first_of_same()
        names = np.array([f"row {sensors.rows[each]}" for each in first])
    return np.arange(len(names)) if np.unique(names).size == len(names) else names


class GaussianTable(NoiseTable):
    """[noise] kind = "gaussian": independent Normal noise, the default."""

    family = gaussian_noise


class LaplaceTable(NoiseTable):
    """[noise] kind = "laplace": independent Laplace noise."""

    family = laplace_noise


class StudentTTable(NoiseTable):
    """[noise] kind = "student-t": independent Student-t noise, for readings with outliers."""

    family = student_t_noise

    degrees_of_freedom: number(1.0, 1e6) | one_of(DISTRIBUTIONS, "distribution") = 4.0
    """The degrees of freedom: few, 4 for example, for noise with outliers."""


#: Key ``kind`` of [noise] -> its table; used whenever a problem file is read.
NOISES: dict[str, type[NoiseTable]] = {
    "gaussian": GaussianTable,
    "laplace": LaplaceTable,
    "student-t": StudentTTable,
}
