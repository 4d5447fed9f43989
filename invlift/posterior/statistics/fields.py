"""Pointwise posterior statistics of fields; all chains are treated as one sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import chdtri

from invlift.chains import Chain
from invlift.errors import InputError
from invlift.moments import BatchMeans, Moments, merged
from invlift.posterior.draws import PosteriorDraws
from invlift.posterior.names import FIELD
from invlift.posterior.statistics.blocks import check_draws, coefficient_blocks
from invlift.posterior.statistics.diagnostics import diagnose_field
from invlift.posterior.statistics.parts import every_of
from invlift.posterior.statistics.quantity import PLACES

PROBABILITIES = {"q05": 0.05, "q50": 0.50, "q95": 0.95}
#: Fewest batches whose variance is a useful estimate.
MIN_BATCHES = 8
#: Confidence level of the test that the means of chains agree.
CONFIDENCE = 0.99


def fields_of(posterior: PosteriorDraws) -> dict[str, dict[str, np.ndarray]]:
    """Return `Posterior.fields` by "node" and "cell"."""
    by_place = {place: {} for place in PLACES}
    chains, described = posterior.chains, posterior.described
    further = {each.name: each for each in posterior.quantities}  # with moments, but no draws
    for name, quantity in (described | further).items():
        moments = [chain.moments[name] for chain in chains if name in chain.moments]
        draws = [chain.draws[name] for chain in chains] if name in described else None
        if quantity.place is None or (draws is None and not moments):
            continue
        here = by_place[quantity.place]
        if quantity.is_derived:
            here |= derived_statistics(name, moments, draws)
            continue
        here |= field_statistics(draws, name)
        here |= {f"{name}_{key}": value for key, value in diagnose_field(draws, name).items()}
        here |= {f"{name}_{key}": value for key, value in of_all_draws(chains, name).items()}
        if name == FIELD:
            here |= conductivity_statistics(draws, here, posterior.exceedance)
            here |= material_probabilities(chains, posterior.materials)
        if quantity.prior_sd is not None:
            reduction = variance_reduction(here[f"{name}_sd"], quantity.prior_sd)
            prefix = "" if name == FIELD else f"{name}_"
            here[f"{prefix}variance_reduction"] = reduction
            prior_sd = np.asarray(quantity.prior_sd, float)
            here[f"{name}_prior_sd"] = np.broadcast_to(prior_sd, reduction.shape)
    return by_place


def of_all_draws(chains: Sequence[Chain], name: str) -> dict[str, np.ndarray]:
    """Return statistics of all draws of a vector if not all are stored; otherwise empty.

    They come from running sums: `mean` and `sd`, and with enough batches `r_hat`, `ess_bulk` and
    `mcse_mean`, (N,) each. The stored draws may be too few to judge whether the chains agree.
    """
    moments = [chain.moments[name] for chain in chains if name in chain.moments]
    if every_of(chains, name) == 1 or len(moments) < len(chains):
        return {}
    both = merged(moments)
    statistics = {"mean": both.mean, "sd": both.sd}
    batches = [chain.batches[name] for chain in chains if name in chain.batches]
    if len(batches) == len(chains):  # chains with few draws have no batches
        ess = ess_of_batches(both, batches)
        statistics |= {"ess_bulk": ess, "mcse_mean": both.sd / np.sqrt(ess)}
        if min(len(each.means) for each in batches) > 1:
            statistics["r_hat"] = r_hat_of_batches(moments, batches)
    return statistics


def r_hat_of_batches(moments: Sequence[Moments], batches: Sequence[BatchMeans]) -> np.ndarray:
    """Return R-hat of the halves of chains, (N,), from batch means (Vehtari et al. 2021, eqs 1-4).

    It uses the values, not their ranks. NaN where nothing varies.
    """
    halves = [
        half.mean(axis=0)
        for each in batches
        for half in (each.means[: len(each.means) // 2], each.means[-(len(each.means) // 2) :])
    ]
    within = np.mean([each.m2 / (each.count - 1) for each in moments], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1.0 + np.var(halves, axis=0, ddof=1) / within)


def field_statistics(draws: Sequence[np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Return pointwise statistics of a field from its draws, (num_draws, N) for each chain.

    `{name}_mean`, `_sd` (divisor S - 1 for S draws in all; NaN for one draw), `_q05`, `_q50` and
    `_q95` (linear interpolation between order statistics); each (N,), in the field's unit.
    """
    _, _, shape = check_draws(draws, name)
    result = {f"{name}_{key}": np.full(shape, np.nan) for key in ("mean", "sd", *PROBABILITIES)}
    for block, values in coefficient_blocks(draws, name):
        flat = values.reshape(values.shape[0], -1)
        result[f"{name}_mean"][block] = flat.mean(axis=1)
        if flat.shape[1] > 1:
            with np.errstate(invalid="ignore"):  # infinite draws have no deviation
                result[f"{name}_sd"][block] = flat.std(axis=1, ddof=1)
        quantiles = np.quantile(flat, list(PROBABILITIES.values()), axis=1, overwrite_input=True)
        for key, quantile in zip(PROBABILITIES, quantiles, strict=True):
            result[f"{name}_{key}"][block] = quantile
    return result


def conductivity_statistics(
    draws: Sequence[np.ndarray],
    log_statistics: Mapping[str, np.ndarray],
    thresholds: Sequence[float] = (),
) -> dict[str, np.ndarray]:
    """Return statistics of the conductivity k = exp(phi) from draws of phi.

    The draws are (num_draws, N) for each chain. The statistics are `conductivity_mean`, `_q05`,
    `_q50`, `_q95`, in the unit of conductivity, and for each threshold
    `conductivity_above_{threshold}`, the share of draws above it, NaN where a draw is NaN; each
    (N,). `log_statistics` are the `field_statistics` of phi.
    """
    names = [f"conductivity_above_{repr(float(each)).removesuffix('.0')}" for each in thresholds]
    _, _, shape = check_draws(draws, FIELD)
    result = {name: np.empty(shape) for name in ("conductivity_mean", *names)}
    for block, values in coefficient_blocks(draws, FIELD):
        result["conductivity_mean"][block] = np.exp(values).mean(axis=(1, 2))
        is_nan = np.isnan(values).any(axis=(1, 2))
        for name, threshold in zip(names, thresholds, strict=True):
            share = (values > np.log(threshold)).mean(axis=(1, 2))
            result[name][block] = np.where(is_nan, np.nan, share)
    # the exponential is increasing: quantiles are the exponentials of those of phi
    quantiles = {key: np.exp(log_statistics[f"{FIELD}_{key}"]) for key in PROBABILITIES}
    return result | {f"conductivity_{key}": values for key, values in quantiles.items()}


def material_probabilities(
    chains: Sequence[Chain], materials: Mapping[str, float | str]
) -> dict[str, np.ndarray]:
    """Return the share of draws with each material at a point: ``probability_{name}``, (N,) each.

    The material at a point is the one with the conductivity nearest to that of the field, on a
    logarithmic scale. A material is given by its conductivity, or by the name of the draws of its
    conductivity.
    """
    if not materials:
        return {}
    draws, every = [chain.draws[FIELD] for chain in chains], every_of(chains, FIELD)
    names = sorted(materials)

    def levels(chain, num):
        known = [chain.draws[each][::every] if isinstance(each, str) else np.full(num, each)
                 for each in (materials[name] for name in names)]  # fmt: skip
        return np.log([each[:num] for each in known])

    logs = np.stack(
        [levels(chain, len(of_chain)) for chain, of_chain in zip(chains, draws, strict=True)], 1
    )
    _, _, shape = check_draws(draws, FIELD)
    result = {f"probability_{name}": np.empty(shape) for name in names}
    for block, values in coefficient_blocks(draws, FIELD):
        nearest = np.argmin(np.abs(values - logs[:, None]), axis=0)
        for number, name in enumerate(names):
            result[f"probability_{name}"][block] = (nearest == number).mean(axis=(1, 2))
    return result


def variance_reduction(posterior_sd: np.ndarray, prior_sd: np.ndarray | float) -> np.ndarray:
    """Return the variance reduction by the data, 1 - sd_posterior^2 / sd_prior^2, (N,).

    It is 1 where the field is known exactly and 0 where the data have no information; it is not
    clipped. Slightly negative values are Monte Carlo error. Clearly negative values mean that the
    data widened the marginal distribution, which a nonlinear model may do. NaN where the prior
    standard deviation is 0, as the value is known. Raises an InputError if the prior standard
    deviation is negative or not finite, or has another size.
    """
    prior_sd = np.asarray(prior_sd, dtype=float)
    fits = prior_sd.shape in ((), np.shape(posterior_sd))
    if not fits or not (np.isfinite(prior_sd) & (prior_sd >= 0)).all() or not prior_sd.any():
        expected = f"one positive number, or {np.shape(posterior_sd)}"
        found = f"{prior_sd.min():g} to {prior_sd.max():g}, shape {prior_sd.shape}"
        raise InputError("prior standard deviation", expected, found, "check the prior")
    return 1.0 - (posterior_sd / np.where(prior_sd > 0, prior_sd, np.nan)) ** 2


def derived_statistics(
    name: str, moments: Sequence[Moments], draws: Sequence[np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Return statistics of a field from the moments of the chains, and from draws if stored.

    They are `{name}_mean` and `_sd` from the moments, and `_q05`, `_q50`, `_q95` from the draws.
    Without moments all come from the draws; without both the result is empty. Chains with empty
    moments are ignored.
    """
    result = {} if draws is None else field_statistics(draws, name)
    if filled := [part for part in moments if part.count > 0]:
        both = merged(filled)
        result |= {f"{name}_mean": both.mean, f"{name}_sd": both.sd}
    return result


def ess_of_batches(moments: Moments, batches: Sequence[BatchMeans]) -> np.ndarray:
    """Return the effective sample size for the mean, (N,), from batch means (Flegal & Jones 2010).

    If batches of b draws are much longer than the correlation, b Var(batch mean) is the asymptotic
    variance of sqrt(num) times the mean of num draws of a chain. Where the means of the chains
    differ more than this allows in 99 of 100 runs, the variance between chains replaces it. NaN
    where there are fewer than 8 batches or nothing varies. The moments are of all draws of all
    chains.
    """
    size = max(each.size for each in batches)
    joined = [_joined(each, size) for each in batches]
    num = sum(map(len, joined))
    if num < MIN_BATCHES or not all(map(len, joined)):
        return np.full(moments.mean.shape, np.nan)
    within = [np.sum((means - means.mean(axis=0)) ** 2, axis=0) for means in joined]
    variance_of_mean = sum(within) / (num - len(joined)) / num
    if len(joined) > 1:
        freedom = len(joined) - 1
        between = np.var([means.mean(axis=0) for means in joined], axis=0, ddof=1) / len(joined)
        variance_of_mean = np.maximum(
            variance_of_mean, between * freedom / chdtri(freedom, 1.0 - CONFIDENCE)
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = moments.sd**2 / variance_of_mean
    return np.where(np.isfinite(ess), ess, np.nan)


def _joined(batches: BatchMeans, size: int) -> np.ndarray:
    """Return means over batches of the given size, a multiple of the size of `batches`."""
    number = size // batches.size
    whole = len(batches.means) // number * number
    return batches.means[:whole].reshape(-1, number, *batches.means.shape[1:]).mean(axis=1)
