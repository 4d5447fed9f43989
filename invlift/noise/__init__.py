"""Observation noise, one module a family."""

from invlift.noise.base import Noise
from invlift.noise.gaussian import GaussianNoise, gaussian_noise, known_noise
from invlift.noise.laplace import LaplaceNoise, laplace_noise
from invlift.noise.potential import PotentialNoise, potential_noise
from invlift.noise.scales import KnownScale, Scale, UnknownScale, known_scale, unknown_scale
from invlift.noise.student_t import StudentTNoise, student_t_noise

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
