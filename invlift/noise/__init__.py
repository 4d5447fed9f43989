"""Observation noise."""

from invlift.noise.base import Noise
from invlift.noise.families import (
    GaussianNoise,
    LaplaceNoise,
    StudentTNoise,
    gaussian_noise,
    known_noise,
    laplace_noise,
    student_t_noise,
)
from invlift.noise.potential import PotentialNoise, potential_noise
from invlift.noise.scales import KnownScale, Scale, UnknownScale, known_scale, unknown_scale

__all__ = [
    "GaussianNoise",
    "KnownScale",
    "LaplaceNoise",
    "Noise",
    "PotentialNoise",
    "Scale",
    "StudentTNoise",
    "UnknownScale",
    "gaussian_noise",
    "known_noise",
    "known_scale",
    "laplace_noise",
    "potential_noise",
    "student_t_noise",
    "unknown_scale",
]
