"""Are ranks uniform? Simultaneous bands of their distribution function, and exact p-values.

Of M ranks among 0 ... L the empirical distribution function is looked at where it can jump,
at z_i = i / (L + 1): there it counts X_i ~ Binomial(M, z_i) ranks below i if they are uniform.  The
statistic is the smallest two-sided tail probability of the X_i, and its distribution is computed
exactly (Sailynoja, Burkner & Vehtari 2022, "Graphical test for discrete uniformity and its
applications in goodness-of-fit evaluation and multiple sample comparison", Stat. Comput. 32:32,
section 2): the band around a distribution function and the p-value are two sides of one test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import binom, poisson

#: Relative difference below which two tail probabilities are one that was rounded.
_ROUNDING = 1e-9
#: Halvings of the interval in which a band's tail probability is searched for.
_NUM_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class UniformRanks:
    """What M ranks (`num_ranks`) of truths among L draws (`num_draws`) do if they are uniform."""

    num_ranks: int
    num_draws: int

    @property
    def points(self) -> np.ndarray:
        """z_i = i / (L + 1) for i = 1 ... L, (L,)."""
        return np.arange(1, self.num_draws + 1) / (self.num_draws + 1)

    def counts(self, ranks: np.ndarray) -> np.ndarray:
        """Number of ranks (M,) below i, for i = 1 ... L, (L,)."""
        each = np.bincount(np.asarray(ranks, dtype=int), minlength=self.num_draws + 1)
        return np.cumsum(each)[:-1]

    def p_value(self, ranks: np.ndarray) -> float:
        """Probability that uniform ranks lie at least as far out as these (M,)."""
        tails = self._tails()
        observed = tails[np.arange(self.num_draws), self.counts(ranks)].min()
        return max(0.0, 1.0 - self._probability_within(tails > observed * (1.0 + _ROUNDING)))

    def band(self, probability: float) -> tuple[np.ndarray, np.ndarray]:
        """Bounds (L,) of the distribution function that hold everywhere at once.

        Smallest and largest allowed share of ranks below i, for i = 1 ... L. Uniform ranks stay
        within with the probability given, or a little more, as close as counts allow; ranks have a
        p-value above 1 - probability if and only if they do.
        """
        tails, low, high = self._tails(), 0.0, 1.0
        for _ in range(_NUM_HALVINGS):
            middle = 0.5 * (low + high)
            is_wide = self._probability_within(tails > middle) >= probability
            low, high = (middle, high) if is_wide else (low, middle)
        is_within = tails > low
        lower = is_within.argmax(axis=1)
        upper = self.num_ranks - is_within[:, ::-1].argmax(axis=1)
        return lower / self.num_ranks, upper / self.num_ranks

    def _tails(self) -> np.ndarray:
        """Two-sided tail probability of every count at every point, (L, M + 1)."""
        counts, points = np.arange(self.num_ranks + 1), self.points[:, None]
        below = binom.cdf(counts, self.num_ranks, points)
        above = binom.sf(counts - 1, self.num_ranks, points)
        return np.minimum(2.0 * np.minimum(below, above), 1.0)

    def _probability_within(self, is_within: np.ndarray) -> float:
        """Probability that all counts of uniform ranks are among those allowed, (L, M + 1).

        The counts are partial sums of independent Poisson variables of mean M / (L + 1), given
        that all L + 1 of them add to M: a recursion from point to point with one kernel.
        """
        num = self.num_ranks
        kernel = poisson.pmf(np.arange(num + 1), num / (self.num_draws + 1))
        density = np.eye(1, num + 1)[0]
        for allowed in is_within:
            density = fftconvolve(density, kernel)[: num + 1] * allowed
        return float(density @ kernel[::-1] / poisson.pmf(num, num))
