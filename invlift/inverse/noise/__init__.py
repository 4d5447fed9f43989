"""Observation noise, one module a family, and the names they have in a problem file."""

from invlift.inverse.noise.base import Noise
from invlift.inverse.noise.gaussian import (
    GaussianNoise,
    gaussian_noise,
    half_normal_noise,
    known_noise,
    lognormal_noise,
)
from invlift.inverse.noise.laplace import LaplaceNoise, laplace_noise
from invlift.inverse.noise.potential import PotentialNoise, potential_noise
from invlift.inverse.noise.scales import (
    ExponentialScale,
    HalfCauchyScale,
    HalfNormalScale,
    KnownScale,
    LognormalScale,
    Scale,
    exponential_scale,
    half_cauchy_scale,
    half_normal_scale,
    lognormal_scale,
)
from invlift.inverse.noise.student_t import StudentTNoise, student_t_noise
from invlift.inverse.noise.tables import (
    SCALES,
    GaussianTable,
    LaplaceTable,
    NoiseTable,
    StudentTTable,
)

#: What [noise] can be, by its key ``kind``: looked up whenever a problem file is read.
NOISES: dict[str, type[NoiseTable]] = {
    "gaussian": GaussianTable,
    "laplace": LaplaceTable,
    "student-t": StudentTTable,
}

__all__ = [
    "NOISES",
    "SCALES",
    "ExponentialScale",
    "GaussianNoise",
    "HalfCauchyScale",
    "HalfNormalScale",
    "KnownScale",
    "LaplaceNoise",
    "LognormalScale",
    "Noise",
    "PotentialNoise",
    "Scale",
    "StudentTNoise",
    "exponential_scale",
    "gaussian_noise",
    "half_cauchy_scale",
    "half_normal_noise",
    "half_normal_scale",
    "known_noise",
    "laplace_noise",
    "lognormal_noise",
    "lognormal_scale",
    "potential_noise",
    "student_t_noise",
]
