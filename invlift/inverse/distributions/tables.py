"""{distribution = ...}: a distribution of a positive number in a problem file."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from invlift.inverse.distributions.base import Distribution
from invlift.inverse.distributions.families import (
    exponential,
    half_cauchy,
    half_normal,
    lognormal,
    uniform,
)
from invlift.inverse.distributions.of_numpyro import as_distribution
from invlift.tables import Table, number, problem


class DistributionTable(Table):
    """A distribution of a positive number. A subclass adds its own keys."""

    distribution: str = Field(description="The distribution, by its name.")

    def build(self) -> Distribution:
        """Build the distribution."""
        raise NotImplementedError


def _positive(description: str):
    return number(1e-50, 1e50, description=description)


class LognormalTable(DistributionTable):
    """The logarithm is Normal(location, scale^2); or median and factor in place of these two."""

    location: number(-300.0, 300.0, description="The mean of the logarithm.") = None
    scale: number(1e-9, 20.0, description="The standard deviation of the logarithm.") = None
    median: _positive("The median, in the unit of the number.") = None
    factor: number(
        above=1.0,
        high=1e8,
        description="The factor it is off by, 2 for example: two in three values are between "
        "median / factor and median * factor.",
    ) = None

    @model_validator(mode="after")
    def _check_is_complete(self) -> Self:
        keys = ("location", "scale", "median", "factor")
        given = [key for key in keys if getattr(self, key) is not None]
        if given not in (["location", "scale"], ["median", "factor"]):
            raise problem(
                "the keys location and scale, or median and factor",
                " and ".join(given) or "none of them",
                "give one of the two pairs",
            )
        return self

    def build(self) -> Distribution:
        """Build the distribution."""
        return lognormal(self.location, self.scale, median=self.median, factor=self.factor)


class HalfNormalTable(DistributionTable):
    """scale |Normal(0, 1)|."""

    scale: _positive("The spread, in the unit of the number.")

    def build(self) -> Distribution:
        """Build the distribution."""
        return half_normal(self.scale)


class HalfCauchyTable(DistributionTable):
    """scale |Cauchy|."""

    scale: _positive("The median, in the unit of the number.")

    def build(self) -> Distribution:
        """Build the distribution."""
        return half_cauchy(self.scale)


class ExponentialTable(DistributionTable):
    """Exponentially distributed."""

    mean: _positive("The mean, in the unit of the number.")

    def build(self) -> Distribution:
        """Build the distribution."""
        return exponential(self.mean)


class UniformTable(DistributionTable):
    """Uniform between two bounds."""

    low: number(0.0, 1e50, description="The lower bound, in the unit of the number.")
    high: _positive("The upper bound, in the unit of the number.")

    @model_validator(mode="after")
    def _check_is_above(self) -> Self:
        if not self.high > self.low:
            raise problem(f"high above low, {self.low:g}", f"{self.high:g}", "correct it")
        return self

    def build(self) -> Distribution:
        """Build the distribution."""
        return uniform(self.low, self.high)


class GammaTable(DistributionTable):
    """Density proportional to x^(concentration - 1) exp(-rate x)."""

    concentration: number(1e-2, 1e6, description="The shape: 1 for an exponential distribution.")
    rate: _positive("The rate, in one over the unit of the number.")

    def build(self) -> Distribution:
        """Build the distribution."""
        from numpyro.distributions import Gamma

        return as_distribution(Gamma(self.concentration, self.rate))


class InverseGammaTable(DistributionTable):
    """Density proportional to x^(-concentration - 1) exp(-scale / x)."""

    concentration: number(1e-2, 1e6, description="The shape: the mean is finite above 1.")
    scale: _positive("The scale, in the unit of the number.")

    def build(self) -> Distribution:
        """Build the distribution."""
        from numpyro.distributions import InverseGamma

        return as_distribution(InverseGamma(self.concentration, self.scale))


#: Distributions by the key ``distribution``: looked up whenever a file is read.
DISTRIBUTIONS: dict[str, type[DistributionTable]] = {
    "lognormal": LognormalTable,
    "half-normal": HalfNormalTable,
    "half-cauchy": HalfCauchyTable,
    "exponential": ExponentialTable,
    "gamma": GammaTable,
    "inverse-gamma": InverseGammaTable,
    "uniform": UniformTable,
}
