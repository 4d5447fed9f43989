"""Distributions: of scales of the noise, of hyperparameters and of a model's parameters."""

from invlift.unknowns.distributions.base import Distribution, Positive
from invlift.unknowns.distributions.families import (
    Exponential,
    HalfCauchy,
    HalfNormal,
    Lognormal,
    Normal,
    Uniform,
    exponential,
    half_cauchy,
    half_normal,
    lognormal,
    normal,
    uniform,
)
from invlift.unknowns.distributions.of_numpyro import (
    as_distribution,
    is_distribution,
    one_number,
    repeated,
)

__all__ = [
    "Distribution",
    "Exponential",
    "HalfCauchy",
    "HalfNormal",
    "Lognormal",
    "Normal",
    "Positive",
    "Uniform",
    "as_distribution",
    "exponential",
    "half_cauchy",
    "half_normal",
    "is_distribution",
    "lognormal",
    "normal",
    "one_number",
    "repeated",
    "uniform",
]
