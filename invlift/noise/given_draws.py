"""Noise of the readings, given draws of its unknown parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from invlift.chains import Chain
from invlift.noise.base import Noise
from invlift.noise.scales import Scale
from invlift.programs.compilation import program

#: Draws of one chain by name, (num_draws, ...) each: ``predicted``, (num_draws, d), and the unknown
#: parameters of the noise.
Draws = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class NoiseGivenDraws:
    """Noise of the readings given draws, for a posterior.

    Attributes
    ----------
    noise : Noise
    observed : (d,) array
    """

    noise: Noise
    observed: np.ndarray

    def every(self, chains: Sequence[Chain]) -> int:
        """Return the thinning of the draws that are needed: 1, as all of them are stored."""
        return 1

    def new_readings(
        self, rng: np.random.Generator, chains: Sequence[Draws], paths: Mapping[str, np.ndarray]
    ) -> dict[str, list[np.ndarray]]:
        """Draw new readings, "observed", (num_draws, d) for each chain, with the model's noise.

        Also draw paths by name, (num_draws, k), with the noise of the readings whose rows, (r,),
        are given.  A path is left out if these readings differ in the scale of the noise.
        """
        readings = {
            "observed": [self._noisy(rng, x["predicted"], self._sigma(x), x) for x in chains]
        }
        for name, rows in paths.items():
            scales = [shared_scale(self._sigma(draws), rows) for draws in chains]
            if not any(scale is None for scale in scales):
                pairs = zip(chains, scales, strict=True)
                readings[name] = [
                    self._noisy(rng, draws[name], scale, draws) for draws, scale in pairs
                ]
        return readings

    def log_likelihoods(self, chains: Sequence[Draws]) -> dict[str, list[np.ndarray]]:
        """Log density of each reading, "observed", given each draw, (num_draws, d) for each chain.

        With all constants, in the logarithm of one over the unit of the readings.
        """
        likelihoods = []
        for draws in chains:
            predicted = np.asarray(draws["predicted"], dtype=float)
            sigma = np.broadcast_to(self._sigma(draws), predicted.shape)
            shape = [np.broadcast_to(each, len(predicted)) for each in self._shape(draws)]
            observed = np.asarray(self.observed, dtype=float)
            likelihoods.append(
                np.asarray(_log_densities(self.noise, predicted, observed, sigma, shape))
            )
        return {"observed": likelihoods}

    def _noisy(self, rng, predicted, sigma, draws):
        """Return values with noise of this scale, (num_draws, k), from noise-free ones."""
        noise, shape = self.noise, self._shape(draws)
        if any(np.ndim(values) for values in shape):
            each = zip(*(np.broadcast_to(values, len(predicted)) for values in shape), strict=True)
            drawn = np.stack([noise.draw(rng, predicted.shape[1], *values) for values in each])
        else:
            drawn = noise.draw(rng, predicted.size, *shape).reshape(predicted.shape)
        return predicted * np.exp(sigma * drawn) if noise.relative else predicted + sigma * drawn

    def _sigma(self, draws: Draws) -> np.ndarray:
        """The scale: drawn, (num_draws, d) or (num_draws, 1), or known, (d,) or ()."""
        scale = self.noise.scale
        sigma = _values_of("sigma", scale, draws)
        return scale.of_readings(sigma) if scale.num_white else sigma

    def _shape(self, draws: Draws) -> list[np.ndarray]:
        """Values of the shape parameters: drawn, (num_draws,), or known, ()."""
        names = self.noise.shape_parameters
        return [_values_of(name, getattr(self.noise, name), draws) for name in names]


def shared_scale(sigma: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
    """Return the scale that some readings share, with one column or (); None if it differs.

    ``sigma`` is (), (1,), (d,), (num_draws, 1) or (num_draws, d), and ``rows`` (r,) are the indices
    of the readings.
    """
    if sigma.ndim == 0 or sigma.shape[-1] == 1:
        return sigma
    of_rows = sigma[..., rows]
    return of_rows[..., :1] if (of_rows == of_rows[..., :1]).all() else None


def _values_of(name: str, part: Scale, draws: Draws) -> np.ndarray:
    """Return a positive parameter of the noise: its draws, or its known value."""
    return draws[name] if part.num_white else np.asarray(part.transform(np.zeros(0)))


@program
def _log_densities(noise, predicted, observed, sigma, shape):
    def of_draw(predicted, sigma, shape):
        return noise.log_densities(predicted, observed, sigma, *shape)

    return jax.vmap(of_draw)(predicted, sigma, shape)
