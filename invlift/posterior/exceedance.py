"""How probable it is that the conductivity exceeds a threshold, place by place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invlift.errors import InputError
from invlift.posterior.blocks import coefficient_blocks


def check_thresholds(thresholds: Sequence[float], *, has_field: bool = True) -> None:
    """Check that thresholds of the conductivity are such.

    Raises
    ------
    InputError
        If one is not positive and finite, two are equal, or there is no field to exceed them.
    """
    values = np.asarray(thresholds)
    is_good = values.ndim == 1 and (not values.size or values.dtype.kind in "iuf")
    if not is_good or not (np.isfinite(values) & (values > 0)).all():
        raise InputError(
            "posterior, exceedance",
            "positive numbers",
            f"{thresholds}",
            "give conductivities, in their unit",
        )
    if len(set(values.tolist())) < values.size:
        raise InputError(
            "posterior, exceedance", "different numbers", f"{thresholds}", "give each once"
        )
    if values.size and not has_field:
        raise InputError(
            "posterior, exceedance",
            "draws of log_conductivity",
            "none",
            "leave exceedance out for a model of your own",
        )


def exceedance_name(threshold: float) -> str:
    """Name of the field for a threshold: `conductivity_above_2`, with every digit it takes."""
    return f"conductivity_above_{repr(float(threshold)).removesuffix('.0')}"


def exceedance_fields(
    draws: Sequence[np.ndarray], thresholds: Sequence[float]
) -> dict[str, np.ndarray]:
    """Posterior probabilities P(k > threshold | y) of the conductivity k = exp(phi).

    Parameters
    ----------
    draws : sequence of (num_draws, N) arrays
        Log-conductivity phi, one array per chain.
    thresholds : sequence of float
        Positive, in the unit of the conductivity.

    Returns
    -------
    dict
        `conductivity_above_{threshold}`, (N,): shares of the draws; NaN where a draw is NaN.
    """
    if not len(thresholds):
        return {}
    logs = np.log(np.asarray(thresholds, dtype=float))
    shares = [
        np.where(
            np.isnan(values).any(axis=(1, 2)),
            np.nan,
            [(values > level).mean(axis=(1, 2)) for level in logs],
        )
        for _, values in coefficient_blocks(draws, "log_conductivity")
    ]
    return {
        exceedance_name(threshold): share
        for threshold, share in zip(thresholds, np.concatenate(shares, axis=1), strict=True)
    }
