"""What is computed from the draws of a run: scalars to diagnose, fields to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from invlift.posterior.diagnostics import diagnose_field
from invlift.posterior.parts import FIELD, PARAMETERS, SIGMA
from invlift.posterior.statistics import (
    conductivity_statistics,
    field_statistics,
    merge_moments,
    variance_reduction,
)


def scalar_draws(
    draws: Mapping[str, Sequence[np.ndarray]], names: Sequence[str] | None = None
) -> dict[str, list[np.ndarray]]:
    """Scalars of a run: those stored, then those taken from its noise, field or parameters.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        Draws of each quantity, one array per chain.
    names : sequence of str or None
        Names of the parameters; without them `parameters[i]`. The noise's scale, if there is one
        for each sensor, becomes `sigma[i]`.

    Returns
    -------
    dict of str to list of (num_draws,) arrays
        One array per chain.
    """
    result = {
        name: [np.asarray(chain, dtype=float) for chain in chains]
        for name, chains in draws.items()
        if np.ndim(chains[0]) == 1
    }
    if SIGMA in draws and np.ndim(draws[SIGMA][0]) == 2:
        result |= _entries(draws[SIGMA], _numbered(SIGMA, draws[SIGMA]))
    if FIELD in draws:
        fields = draws[FIELD]
        result[f"{FIELD}_field_mean"] = [np.mean(field, axis=1) for field in fields]
        with np.errstate(invalid="ignore"):  # the verdict tells of draws that are not finite
            result[f"{FIELD}_field_std"] = [np.std(field, axis=1) for field in fields]
    if PARAMETERS in draws:
        result |= _entries(draws[PARAMETERS], names or _numbered(PARAMETERS, draws[PARAMETERS]))
    return result


def _numbered(name, chains):
    return [f"{name}[{i}]" for i in range(np.shape(chains[0])[1])]


def _entries(chains, names):
    return {name: [np.asarray(x[:, i]) for x in chains] for i, name in enumerate(names)}


def coefficient_fields(
    draws: Sequence[np.ndarray], name: str, prior_sd: np.ndarray | float | None = None
) -> dict[str, np.ndarray]:
    """Statistics and diagnostics of each coefficient.

    Parameters
    ----------
    draws : sequence of (num_draws, N) arrays
        One array per chain.
    name : str
        What they are of; "log_conductivity" brings the conductivity with it.
    prior_sd : (N,) array, number or None
        Prior standard deviation of the coefficients.

    Returns
    -------
    dict
        By name, (N,) each: see `Posterior.fields`.

    Raises
    ------
    InputError
        If the prior standard deviation is not positive or has another size.
    """
    result = field_statistics(draws, name)
    if name == FIELD:
        result |= conductivity_statistics(draws, result)
    r_hat, ess_bulk = diagnose_field(draws, name)
    result |= {f"{name}_r_hat": r_hat, f"{name}_ess_bulk": ess_bulk}
    if prior_sd is not None:
        result["variance_reduction"] = variance_reduction(result[f"{name}_sd"], prior_sd)
        prior_sd = np.asarray(prior_sd, dtype=float)
        result[f"{name}_prior_sd"] = np.broadcast_to(prior_sd, r_hat.shape)
    return result


def solution_fields(moments: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """`solution_mean` and `solution_sd`, (num_nodes,) each; nothing if no chain has seen any.

    Parameters
    ----------
    moments : sequence of mappings
        Running moments of each chain: see `merge_moments`.
    """
    parts = [part["solution"] for part in moments if "solution" in part]
    if not any(int(part.count) > 0 for part in parts):
        return {}
    merged = merge_moments(parts)
    return {"solution_mean": merged.mean, "solution_sd": merged.sd}
