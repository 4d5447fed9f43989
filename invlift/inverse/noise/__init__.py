"""Observation noise, one module a family."""

from invlift.inverse.noise.gaussian import (
    HalfNormalNoise,
    KnownNoise,
    LognormalNoise,
    Noise,
    half_normal_noise,
    known_noise,
    lognormal_noise,
)

__all__ = [
    "HalfNormalNoise",
    "KnownNoise",
    "LognormalNoise",
    "Noise",
    "half_normal_noise",
    "known_noise",
    "lognormal_noise",
]
