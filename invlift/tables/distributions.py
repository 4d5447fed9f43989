"""{distribution = ...}: a distribution of a number in a problem file."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping
from typing import Any, ClassVar, Self

from pydantic import model_validator

from invlift.files.tables import Table, number, problem
from invlift.unknowns.distributions.base import Distribution
from invlift.unknowns.distributions.families import (
    exponential,
    half_cauchy,
    half_normal,
    lognormal,
    normal,
    uniform,
)
from invlift.unknowns.distributions.of_numpyro import from_numpyro


class DistributionTable(Table):
    """A distribution of a number. A subclass adds its own keys."""

    #: Function that makes the distribution, with the keys as arguments.
    family: ClassVar[Callable[..., Distribution]]

    distribution: str
    """The distribution, by its name."""

    def build(self) -> Distribution:
        """Build the distribution."""
        return type(self).family(**self.model_dump(exclude={"distribution"}, exclude_none=True))


def value_of(entry: Any) -> Any:
    """Build the distribution of a table; a number or None is unchanged."""
    return entry.build() if isinstance(entry, DistributionTable) else entry


_SIZE = 1e50
_Number, _Positive = number(-_SIZE, _SIZE), number(1 / _SIZE, _SIZE)


class LognormalTable(DistributionTable):
    """The logarithm is Normal(location, scale^2); or median and factor in place of these two."""

    family = lognormal

    location: number(-300.0, 300.0) = None
    """The mean of the logarithm."""
    scale: number(1e-9, 20.0) = None
    """The standard deviation of the logarithm."""
    median: _Positive = None
    """The median, in the unit of the number."""
    factor: number(above=1.0, high=1e8) = None
    """Two in three values are between median / factor and median times factor, for example 2."""

    @model_validator(mode="after")
    def _check_is_complete(self) -> Self:
        given = self.given_of("location", "scale", "median", "factor")
        if given not in (["location", "scale"], ["median", "factor"]):
            raise problem(
                "the keys location and scale, or median and factor",
                " and ".join(given) or "none of them",
                "give one of the two pairs",
            )
        return self


class HalfNormalTable(DistributionTable):
    """The modulus of a Normal(0, scale^2) variable."""

    family = half_normal

    scale: _Positive
    """The spread, in the unit of the number."""


class HalfCauchyTable(DistributionTable):
    """The modulus of a Cauchy variable."""

    family = half_cauchy

    scale: _Positive
    """The median, in the unit of the number."""


class ExponentialTable(DistributionTable):
    """Exponentially distributed."""

    family = exponential

    mean: _Positive
    """The mean, in the unit of the number."""


class UniformTable(DistributionTable):
    """Uniform between two bounds."""

    family = uniform

    low: number(0.0, 1e50)
    """The lower bound, in the unit of the number."""
    high: _Positive
    """The upper bound, in the unit of the number."""

    @model_validator(mode="after")
    def _check_is_above(self) -> Self:
        if not self.high > self.low:
            raise problem(f"high above low, {self.low:g}", f"{self.high:g}", "correct it")
        return self


class GammaTable(DistributionTable):
    """Density proportional to x^(concentration - 1) exp(-rate x)."""

    family = from_numpyro("Gamma")

    concentration: number(1e-2, 1e6)
    """The shape: 1 for an exponential distribution."""
    rate: _Positive
    """The rate, in one over the unit of the number."""


class InverseGammaTable(DistributionTable):
    """Density proportional to x^(-concentration - 1) exp(-scale / x)."""

    family = from_numpyro("InverseGamma", scale="rate")

    concentration: number(1e-2, 1e6)
    """The shape: the mean is finite above 1."""
    scale: _Positive
    """The scale, in the unit of the number."""


class NormalTable(DistributionTable):
    """Normally distributed."""

    family = normal

    mean: _Number
    """The mean, in the unit of the number."""
    sd: _Positive
    """The standard deviation, in the unit of the number."""


class RealUniformTable(UniformTable):
    """Uniform between two bounds."""

    low: _Number
    """The lower bound, in the unit of the number."""
    high: _Number
    """The upper bound, in the unit of the number."""


class TruncatedNormalTable(RealUniformTable):
    """Normal(location, scale^2) between two bounds."""

    family = from_numpyro("TruncatedNormal", location="loc")

    location: _Number
    """The mean of the normal distribution that is truncated, in the unit of the number."""
    scale: _Positive
    """The standard deviation of the same, in the unit of the number."""


class StudentTTable(DistributionTable):
    """Student's t, with longer tails than a normal distribution."""

    family = from_numpyro("StudentT", degrees_of_freedom="df", location="loc")

    degrees_of_freedom: number(0.5, 1e6)
    """The degrees of freedom: the fewer, the longer the tails; above 2 the variance is finite."""
    location: _Number
    """The median, in the unit of the number."""
    scale: _Positive
    """The spread, in the unit of the number."""


class BetaTable(DistributionTable):
    """Density proportional to x^(alpha - 1) (1 - x)^(beta - 1), of a share from 0 to 1."""

    family = from_numpyro("Beta", alpha="concentration1", beta="concentration0")

    alpha: number(1e-2, 1e6)
    """The first shape: the mean is alpha / (alpha + beta)."""
    beta: number(1e-2, 1e6)
    """The second shape."""


#: Key ``distribution`` -> table of a distribution of positive numbers; used when a file is read.
DISTRIBUTIONS: dict[str, type[DistributionTable]] = {
    "lognormal": LognormalTable,
    "half-normal": HalfNormalTable,
    "half-cauchy": HalfCauchyTable,
    "exponential": ExponentialTable,
    "gamma": GammaTable,
    "inverse-gamma": InverseGammaTable,
    "uniform": UniformTable,
}
#: Distributions of any number.
REAL_DISTRIBUTIONS: MutableMapping[str, type[DistributionTable]] = ChainMap(
    {
        "normal": NormalTable,
        "uniform": RealUniformTable,
        "truncated-normal": TruncatedNormalTable,
        "student-t": StudentTTable,
        "beta": BetaTable,
    },
    DISTRIBUTIONS,
)
