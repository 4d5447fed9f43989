"""Leave-one-out cross-validation over the readings without further runs (PSIS-LOO).

The prediction of reading i by a run without it is estimated from the draws of the run with all
readings, weighted by 1 / p(y_i | draw). The largest weights are smoothed by a generalised Pareto
distribution, whose shape k shows whether the estimate is reliable: Vehtari, Gelman & Gabry (2017),
"Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC", Statistics and
Computing 27(5); Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance
sampling", JMLR 25(72).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from scipy.special import log_ndtr, logsumexp

from invlift.posterior.statistics.blocks import check_draws, pooled
from invlift.posterior.statistics.diagnostics import diagnose
from invlift.posterior.statistics.labelled import pareto_smoothed_weights

#: Pareto k above which an estimate is not reliable (Vehtari et al. 2024, section 3.2.4).
MAX_PARETO_K = 0.7
#: Relative spread up to which a log likelihood is equal for all draws, but for rounding.
ROUNDING = 1e-12
#: Fewest draws of all chains together: with fewer, the tail has not the five weights for a fit.
MIN_DRAWS = 25


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Leave-one-out predictions at d sensors, (d,); NaN where a log likelihood is not finite.

    `elpd` is the log density log p(y_i | y_-i) of each reading given all others, in the logarithm
    of one over the unit of the readings. `num_effective` is log p(y_i | y) less `elpd`: the share
    of the reading in the effective number of parameters. `pareto_k` is the Pareto shape of the tail
    of the weights: above `MAX_PARETO_K` the other values of this sensor are not reliable. It is
    infinite where nearly all draws are equal, and 0 where all are. `pit` is P(new reading <= y_i |
    y_-i), None if the noise variables are unknown.
    """

    elpd: np.ndarray
    num_effective: np.ndarray
    pareto_k: np.ndarray
    pit: np.ndarray | None

    @property
    def is_reliable(self) -> np.ndarray:
        """Whether Pareto k is at most `MAX_PARETO_K`, (d,)."""
        return self.pareto_k <= MAX_PARETO_K

    def refitted(self, elpd: Mapping[int, float]) -> LeaveOneOut:
        """Return the predictions with `elpd` of some sensors from refitted runs; k is then 0."""
        rows, values = list(elpd), np.array(list(elpd.values()), dtype=float)
        whole, num_effective, pareto_k = self.elpd.copy(), self.num_effective.copy(), self.pareto_k
        num_effective[rows] += whole[rows] - values
        whole[rows], pareto_k = values, pareto_k.copy()
        pareto_k[rows] = 0.0
        return LeaveOneOut(whole, num_effective, pareto_k, self.pit)

    def totals(self) -> dict[str, tuple[float, float]]:
        """Return sums over the sensors, with standard errors, of `elpd_loo` and `p_loo`.

        The standard error (Vehtari et al. 2017, eq. 23) describes the choice of the readings, not
        Monte Carlo error. With few readings it is itself uncertain.
        """
        values = {"elpd_loo": self.elpd, "p_loo": self.num_effective}
        return {name: (float(each.sum()), standard_error(each)) for name, each in values.items()}


def leave_one_out(
    log_likelihood: Sequence[np.ndarray], scores: Sequence[np.ndarray] | None = None
) -> LeaveOneOut | None:
    """Compute leave-one-out predictions by Pareto smoothed importance sampling.

    Returns None if there are too few draws, or if nearly all draws are equal at each reading; then
    no estimate has a meaning.

    `log_likelihood` is log p(y_i | draw), (num_draws, d) for each chain. `scores` have the same
    shape: the noise variables eta that explain the readings, if known. New readings are below y
    with probability Phi(eta).
    """
    num_chains, num_draws, shape = check_draws(log_likelihood, "log_likelihood")
    if num_chains * num_draws < MIN_DRAWS:
        return None
    elpd, num_effective, pareto_k = np.full((3, *shape), np.nan)
    pit = None if scores is None else np.full(shape, np.nan)
    efficiency = _relative_efficiency(log_likelihood)
    etas = repeat(None) if scores is None else pooled(scores)
    # One reading at a time, as each needs many times the memory of its draws.
    for i, (values, eta) in enumerate(zip(pooled(log_likelihood), etas, strict=False)):
        if not np.isfinite(values).all():
            continue
        # On a Dirichlet boundary, or far inside a limit with a log probability of 0.
        if np.ptp(values) <= ROUNDING * max(1.0, np.abs(values).max()):
            log_weights, pareto_k[i] = np.full(values.size, -np.log(values.size)), 0.0
        else:
            log_weights, pareto_k[i] = pareto_smoothed_weights(values, efficiency)
        elpd[i] = logsumexp(log_weights + values)
        num_effective[i] = logsumexp(values) - np.log(values.size) - elpd[i]
        if eta is not None:
            pit[i] = np.exp(logsumexp(log_weights + log_ndtr(eta)))
    if np.isposinf(pareto_k).all():
        return None
    return LeaveOneOut(elpd, num_effective, pareto_k, pit)


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the sum of (d,) values; NaN for one value.

    Vehtari et al. (2017), eqs 23 and 24.
    """
    return float(np.sqrt(values.size * values.var(ddof=1)) if values.size > 1 else np.nan)


def _relative_efficiency(chains: Sequence[np.ndarray]) -> float:
    """Return the mean ratio of effective draws of the likelihoods to draws.

    It determines the length of the tail that is fitted.
    """
    largest = np.max([chain.max(axis=0) for chain in chains], axis=0)
    with np.errstate(invalid="ignore"):  # the likelihood may not be finite
        likelihoods = [np.exp(chain - largest) for chain in chains]
    ess = diagnose(likelihoods, "log_likelihood").ess_mean
    known = ess[np.isfinite(ess)]
    return float(known.mean()) / (len(chains) * len(chains[0])) if known.size else 1.0
