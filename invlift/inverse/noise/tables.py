"""What [noise] and its keys can be in a problem file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from invlift.errors import InputError
from invlift.inverse.noise.base import Noise
from invlift.inverse.noise.gaussian import gaussian_noise
from invlift.inverse.noise.laplace import laplace_noise
from invlift.inverse.noise.scales import (
    Scale,
    exponential_scale,
    half_cauchy_scale,
    half_normal_scale,
    lognormal_scale,
)
from invlift.inverse.noise.student_t import student_t_noise
from invlift.tables import Table, by_form, choice, number, one_of


class ScaleTable(Table):
    """{distribution = ...}: the prior of an unknown scale. A subclass adds its own keys.

    Attributes
    ----------
    distribution : str
        The prior's name in `SCALES`.
    """

    distribution: str

    def build(self, groups: np.ndarray | None = None) -> Scale:
        """Build the scale: one for all readings, or one for each of the groups, (d,) int."""
        raise NotImplementedError


class LognormalTable(ScaleTable):
    """exp(location + scale zeta), zeta ~ Normal(0, 1)."""

    location: number(-100.0, 100.0, remedy="give the mean of the logarithm")
    scale: number(1e-9, 20.0, remedy="give the spread of the logarithm")

    def build(self, groups: np.ndarray | None = None) -> Scale:
        """Build the scale: see :class:`ScaleTable`."""
        return lognormal_scale(self.location, self.scale, groups)


class HalfNormalTable(ScaleTable):
    """scale |Normal(0, 1)|."""

    scale: number(1e-50, 1e50, remedy="give the spread, in the unit of the readings")

    def build(self, groups: np.ndarray | None = None) -> Scale:
        """Build the scale: see :class:`ScaleTable`."""
        return half_normal_scale(self.scale, groups)


class HalfCauchyTable(ScaleTable):
    """scale |Cauchy|."""

    scale: number(1e-50, 1e50, remedy="give the median, in the unit of the readings")

    def build(self, groups: np.ndarray | None = None) -> Scale:
        """Build the scale: see :class:`ScaleTable`."""
        return half_cauchy_scale(self.scale, groups)


class ExponentialTable(ScaleTable):
    """Exponentially distributed."""

    mean: number(1e-50, 1e50, remedy="give the mean, in the unit of the readings")

    def build(self, groups: np.ndarray | None = None) -> Scale:
        """Build the scale: see :class:`ScaleTable`."""
        return exponential_scale(self.mean, groups)


#: Priors of an unknown scale, by the key ``distribution``: looked up whenever a file is read.
SCALES: dict[str, type[ScaleTable]] = {
    "lognormal": LognormalTable,
    "half-normal": HalfNormalTable,
    "half-cauchy": HalfCauchyTable,
    "exponential": ExponentialTable,
}

_SIGMA_REMEDY = "give the standard deviation of a reading: as small as it is, but not 0"


class SensorTable(Protocol):
    """What noise needs to know of the sensors: see :class:`invlift.fem.sensors.Sensors`."""

    name: str
    values: np.ndarray
    sigma: np.ndarray | None
    groups: np.ndarray | None


class NoiseTable(Table):
    """[noise]: what the readings are off by. A subclass adds its own keys.

    Attributes
    ----------
    kind : str
        The noise's name in `NOISES`.
    sigma : float, "column" or ScaleTable
        Scale of the noise: one number, the sensor table's column, or unknown with a prior.
    per : "all", "sensor" or "group"
        What has an unknown scale of its own.
    relative : bool
        Whether the noise multiplies the reading.
    """

    kind: str
    sigma: by_form(
        number=number(1e-50, 1e50, remedy=_SIGMA_REMEDY),
        name=choice("column", remedy=_SIGMA_REMEDY),
        table=one_of(SCALES, "distribution"),
        remedy=_SIGMA_REMEDY,
    ) = "column"
    per: choice("all", "sensor", "group", remedy="choose what has an unknown scale of its own") = (
        "all"
    )
    relative: bool = False

    def build(self, sensors: SensorTable, where: Callable[..., str]) -> Noise:
        """Build the noise of the readings.

        Parameters
        ----------
        sensors : invlift.Sensors
            Those in use.
        where : callable
            Names of keys -> how an error message calls them: ``where("sigma")`` is
            "problem.toml, [noise] sigma".

        Returns
        -------
        Noise

        Raises
        ------
        InputError
            If the keys do not fit the sensors. One of the library that blames "noise KEY" is told
            as an error of that key.
        """
        raise NotImplementedError

    def scale(self, sensors: SensorTable, where: Callable[..., str]) -> Any:
        """Build the scale of the noise: a number, (d,) numbers, or a `Scale`."""
        if isinstance(self.sigma, ScaleTable):
            return self.sigma.build(self._groups(sensors, where))
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
        return sensors.sigma

    def _groups(self, sensors: SensorTable, where: Callable[..., str]) -> np.ndarray | None:
        """Return the index of each reading's scale, or None if there is one for all."""
        if self.per == "all":
            return None
        if self.per == "sensor":
            return np.arange(len(sensors.values))
        if sensors.groups is None:
            raise InputError(
                where("per"),
                f"a column group in {sensors.name}",
                "none",
                'add the column, or choose "all" or "sensor"',
            )
        return np.unique(sensors.groups, return_inverse=True)[1]


class GaussianTable(NoiseTable):
    """[noise] kind = "gaussian": independent Normal noise, the default."""

    def build(self, sensors: SensorTable, where: Callable[..., str]) -> Noise:
        """Build the noise of the readings: see :class:`NoiseTable`."""
        return gaussian_noise(self.scale(sensors, where), relative=self.relative)


class LaplaceTable(NoiseTable):
    """[noise] kind = "laplace": independent Laplace noise."""

    def build(self, sensors: SensorTable, where: Callable[..., str]) -> Noise:
        """Build the noise of the readings: see :class:`NoiseTable`."""
        return laplace_noise(self.scale(sensors, where), relative=self.relative)


_DEGREES_REMEDY = "give a small number, 4 for example, for noise with outliers"


class StudentTTable(NoiseTable):
    """[noise] kind = "student-t": independent Student-t noise, for readings with outliers."""

    degrees_of_freedom: by_form(
        number=number(1.0, 1e6, remedy=_DEGREES_REMEDY),
        table=one_of(SCALES, "distribution"),
        remedy=_DEGREES_REMEDY,
    ) = 4.0

    def build(self, sensors: SensorTable, where: Callable[..., str]) -> Noise:
        """Build the noise of the readings: see :class:`NoiseTable`."""
        degrees = self.degrees_of_freedom
        degrees = degrees.build() if isinstance(degrees, ScaleTable) else degrees
        return student_t_noise(self.scale(sensors, where), degrees, relative=self.relative)
