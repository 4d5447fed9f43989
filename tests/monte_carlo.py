"""Statistical assertions: first enough information, then a bound in standard errors."""

import arviz as az
import numpy as np


def effective_size(draws):
    """Effective number of draws (chains, draws) for estimating their mean."""
    return float(np.asarray(az.ess(np.asarray(draws), method="mean")))


def standard_error(draws):
    """Monte Carlo standard error of the mean of draws (chains, draws)."""
    return float(np.std(draws) / np.sqrt(effective_size(draws)))


def num_standard_errors(draws, exact):
    """How far the mean of draws (chains, draws) is from its exact value, in standard errors."""
    return abs(float(np.mean(draws)) - exact) / standard_error(draws)


def assert_mean_within(draws, exact, num_se=4.0, min_ess=400):
    """The mean over (chains, draws, ...) agrees with ``exact`` (...), entry by entry."""
    draws, exact = np.asarray(draws), np.asarray(exact)
    assert draws.shape[2:] == exact.shape, f"{draws.shape[2:]} against {exact.shape}"
    assert np.all(np.isfinite(draws))
    for index in np.ndindex(exact.shape):
        entry = draws[(slice(None), slice(None), *index)]
        ess = effective_size(entry)
        assert ess > min_ess, f"entry {index}: only {ess:.0f} effective draws"
        distance = num_standard_errors(entry, float(exact[index]))
        assert distance < num_se, f"entry {index}: off by {distance:.1f} standard errors"


def assert_same_mean(first, second, num_se=4.0, min_ess=400):
    """Two independent samples (chains, draws) of one quantity have the same mean."""
    for draws in (first, second):
        ess = effective_size(draws)
        assert ess > min_ess, f"only {ess:.0f} effective draws"
    error = np.hypot(standard_error(first), standard_error(second))
    distance = abs(np.mean(first) - np.mean(second)) / error
    assert distance < num_se, f"off by {distance:.1f} standard errors"


def stacked(run, name):
    """Draws of one name from all chains of a run, (chains, draws, ...)."""
    return np.stack([chain.draws[name] for chain in run.chains])
