"""Independent normal noise of readings, for posteriors that are put together by hand."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from invlift.noise.given_draws import shared_scale


@dataclass(frozen=True, eq=False)
class NormalNoise:
    """Independent normal noise, for draws that come from elsewhere.

    Attributes
    ----------
    values : (d,) array
        Readings.
    sigma : (d,) array, number or None
        Standard deviation of the noise, in the unit of the readings; None for the draws of "sigma".
    """

    values: np.ndarray
    sigma: np.ndarray | float | None = None

    def every(self, chains) -> int:
        """All draws are stored."""
        return 1

    def new_readings(self, rng, chains, paths) -> dict[str, list[np.ndarray]]:
        """New readings, "observed", (num_draws, d) for each chain, and of paths by name."""
        found = {"observed": [self._noisy(rng, x["predicted"], self._scale(x)) for x in chains]}
        for name, rows in paths.items():
            scales = [shared_scale(self._scale(draws), rows) for draws in chains]
            if not any(scale is None for scale in scales):
                pairs = zip(chains, scales, strict=True)
                found[name] = [self._noisy(rng, draws[name], scale) for draws, scale in pairs]
        return found

    def _noisy(self, rng, values, scale):
        return values + scale * rng.standard_normal(values.shape)

    def log_likelihoods(self, chains) -> dict[str, list[np.ndarray]]:
        """Log density of each reading given each draw, (num_draws, d), by name for each chain."""
        found = [norm.logpdf(self.values, x["predicted"], self._scale(x)) for x in chains]
        return {"observed": found}

    def _scale(self, draws):
        if self.sigma is not None:
            return np.asarray(self.sigma, dtype=float)
        return np.reshape(np.asarray(draws["sigma"], dtype=float), (len(draws["sigma"]), -1))
