"""Draws with names on their axes, in the layout of ArviZ.

ArviZ 0.x keeps groups of labelled arrays in its own `InferenceData`, ArviZ 1.x in an xarray
`DataTree`. This is the one module that knows of both. Files are written group by group through
xarray and are the same under either.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import h5netcdf
import h5py
import numpy as np
import pandas as pd
import xarray as xr

from invlift.atomic import replace_on_success
from invlift.errors import InputError, printable
from invlift.posterior.blocks import check_draws
from invlift.posterior.diagnostics import Diagnostics
from invlift.posterior.names import prior_density_name, prior_sd_name
from invlift.posterior.quantity import Quantity
from invlift.posterior.statistics import PROBABILITIES

SUMMARY_COLUMNS = (
    "mean", "sd", *PROBABILITIES, "mcse_mean", "ess_bulk", "ess_tail", "r_hat",
)  # fmt: skip


def build_groups(
    draws: Mapping[str, Sequence[np.ndarray]],
    quantities: Mapping[str, Quantity],
    *,
    stats: Mapping[str, Sequence[np.ndarray]] | None = None,
    warmup_stats: Mapping[str, Sequence[np.ndarray]] | None = None,
    observed: np.ndarray | None = None,
    replicated: Mapping[str, Sequence[np.ndarray]] | None = None,
    log_likelihood: Sequence[np.ndarray] | None = None,
    constants: Mapping[str, tuple[Sequence[str], np.ndarray]] | None = None,
    coords: Mapping[str, Sequence] | None = None,
    every: Mapping[str, int] | None = None,
) -> Iterator[tuple[str, xr.Dataset]]:
    """Label everything a run has produced, group by group.

    Parameters
    ----------
    draws : mapping of str to sequence of (num_draws, ...) arrays
        Draws of each quantity, one array per chain.
    quantities : mapping of str to Quantity
        Axes and unit of each.
    stats, warmup_stats : mapping of str to sequence of (num_draws,) arrays or None
        Statistics of the sampler.
    observed : (d,) array or None
        Readings of the sensors.
    replicated : mapping of str to sequence of (num_draws, ...) arrays or None
        New readings, one set for each draw: "observed", (num_draws, d), and along quantities by
        their names.
    log_likelihood : sequence of (num_draws, d) arrays or None
        Log density of each reading given each draw.
    constants : mapping of str to (dims, array) or None
        What does not change: mesh, positions of sensors, prior standard deviation.
    coords : mapping of str to sequence or None
        Labels along axes.
    every : mapping of str to int or None
        Quantities of which only every so-many-th draw is there: their axis is `stored_draw`, whose
        labels are the numbers of these draws; `stored_draw_of_...` of a second such quantity that
        has not as many.

    Yields
    ------
    str and xarray.Dataset
        Groups `posterior`, and where there is something to put in them `sample_stats`,
        `warmup_sample_stats`, `posterior_predictive` (the new readings, as variable `observed`, and
        along quantities by their names), `log_likelihood` (as variable `observed`), `observed_data`
        and `constant_data`. Axes are chain, draw and then those of the quantity. Each array of
        draws is copied once.
    """
    sensor = {"observed": ("sensor",)}
    dims = {name: tuple(quantity.axes) for name, quantity in quantities.items()}
    posterior = _label_chains(draws, dims, coords, every)
    for name, quantity in quantities.items():
        if quantity.unit:
            posterior[name].attrs["units"] = quantity.unit
        if quantity.is_derived:
            posterior[name].attrs["is_derived"] = 1
    yield _named("posterior", posterior)
    for name, chains in (("sample_stats", stats), ("warmup_sample_stats", warmup_stats)):
        if chains:
            yield _named(name, _label_chains(chains, {}, coords))
    if observed is not None:
        values = {"observed": (("sensor",), np.asarray(observed, dtype=float))}
        yield _named("observed_data", xr.Dataset(values, coords=_used_coords(("sensor",), coords)))
    if replicated:
        yield _named("posterior_predictive", _label_chains(replicated, dims | sensor, coords))
    if log_likelihood is not None:
        densities = {"observed": log_likelihood}
        yield _named("log_likelihood", _label_chains(densities, sensor, coords))
    if constants:
        values = {
            name: (tuple(axes), np.asarray(value)) for name, (axes, value) in constants.items()
        }
        names = {axis for axes, _ in constants.values() for axis in axes}
        yield _named("constant_data", xr.Dataset(values, coords=_used_coords(names, coords)))


def quantity_of(variable: xr.DataArray, constants: xr.Dataset) -> Quantity:
    """Describe a variable of the group `posterior`, as `build_groups` has labelled it.

    `constants` is the group `constant_data`, which has what is known of it before the data.
    """
    name = str(variable.name)
    axes = {
        str(axis): variable[axis].to_numpy().tolist() if axis in variable.coords else None
        for axis in variable.dims[2:]
    }
    is_derived = bool(variable.attrs.get("is_derived", False))
    known = (constants.get(key) for key in (prior_sd_name(name), prior_density_name(name)))
    known = (None if values is None else values.to_numpy() for values in known)
    return Quantity(name, axes, variable.attrs.get("units", ""), is_derived, *known)


def coordinates_of(constants: xr.Dataset) -> dict[str, list]:
    """What else is known of each reading, by name, from the group `constant_data`."""
    return {
        str(name).removeprefix("sensor_"): values.to_numpy().tolist()
        for name, values in constants.data_vars.items()
        if values.dims == ("sensor",) and name != "sensor_sigma"
    }


def _named(name: str, group: xr.Dataset) -> tuple[str, xr.Dataset]:
    return name, group.assign_attrs(inference_library="invlift")


def _label_chains(
    arrays: Mapping[str, Sequence[np.ndarray]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence] | None,
    every: Mapping[str, int] | None = None,
) -> xr.Dataset:
    variables, sizes = {}, {}
    for name, chains in arrays.items():
        num_chains, num_draws, shape = check_draws(chains, name)
        axes = tuple(dims.get(name, tuple(f"{name}_dim_{i}" for i in range(len(shape)))))
        if len(axes) != len(shape):
            raise InputError(
                f"draws of {name}",
                f"axes {axes} for one draw",
                f"shape {shape}",
                "store each draw in that layout",
            )
        step = (every or {}).get(name, 1)
        draw = "draw" if step == 1 else "stored_draw"
        if draw in sizes and len(sizes[draw]) != num_draws:  # of fields of two sizes
            draw = f"stored_draw_of_{name}"
        variables[name] = (("chain", draw, *axes), np.stack([np.asarray(c) for c in chains]))
        sizes |= {"chain": np.arange(num_chains), draw: step * np.arange(num_draws)}
    used = {axis for axes, _ in variables.values() for axis in axes}
    return xr.Dataset(variables, coords=sizes | _used_coords(used, coords))


def _used_coords(axes, coords: Mapping[str, Sequence] | None) -> dict[str, list]:
    return {axis: list(labels) for axis, labels in (coords or {}).items() if axis in axes}


def common_statistics(
    parts: Sequence[Mapping[str, np.ndarray]],
) -> dict[str, list[np.ndarray]]:
    """Statistics that all chains have, with one shape (chains may differ after an interruption).

    Parameters
    ----------
    parts : sequence of mappings of str to (num_draws,) array
        One per chain.

    Returns
    -------
    dict of str to list of (num_draws,) arrays
        One array per chain.
    """
    return {
        name: [np.asarray(part[name]) for part in parts]
        for name in parts[0]
        if all(name in part for part in parts)
        and len({np.shape(part[name]) for part in parts}) == 1
        and np.ndim(parts[0][name]) >= 1
        and np.size(parts[0][name])
    }


def to_arviz(groups: Mapping[str, xr.Dataset]) -> Any:
    """Hand labelled groups to the ArviZ that is installed.

    Parameters
    ----------
    groups : mapping of str to xarray.Dataset
        Those of `build_groups`.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        The former under ArviZ 0.x, the latter under 1.x; both serve as the first argument of
        ArviZ's functions.
    """
    if hasattr(_arviz(), "convert_to_datatree"):
        return xr.DataTree.from_dict(dict(groups))
    return _arviz().InferenceData(**groups)


def _arviz() -> Any:
    """The library, which is slow to import and needed for few things only."""
    with warnings.catch_warnings():
        # ArviZ 0.x announces its own refactoring on import
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def pareto_smoothed_weights(
    log_likelihood: np.ndarray, efficiency: float
) -> tuple[np.ndarray, float]:
    """Weights of draws for leaving a reading out, by ArviZ.

    Parameters
    ----------
    log_likelihood : (S,) array
        Of the reading, finite; S draws in all.
    efficiency : float
        Effective number of draws for each draw.

    Returns
    -------
    log_weights : (S,) array
        Logarithms of the smoothed weights, which sum to 1.
    pareto_k : float
        Infinite, with weights as they are, where those of the tail are all equal.
    """
    arviz = _arviz()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of large Pareto k: that is returned
        if hasattr(arviz, "psislw"):  # ArviZ 0.x
            log_weights, pareto_k = arviz.psislw(-log_likelihood, efficiency)
            return log_weights, float(pareto_k)
        draws = _label_chains({"observed": [log_likelihood]}, {}, None)
        data = to_arviz({"log_likelihood": draws})
        try:
            result = arviz.loo(data, pointwise=True, var_name="observed", reff=efficiency)
        except ValueError:  # on tails of equal weights
            return -log_likelihood - np.logaddexp.reduce(-log_likelihood), np.inf
    log_weights = result.log_weights.values.ravel()
    return log_weights - np.logaddexp.reduce(log_weights), float(result.pareto_k)


def save_netcdf(groups: Iterable[tuple[str, xr.Dataset]], path: str | os.PathLike) -> None:
    """Write labelled groups to a compressed netCDF-4 file that `arviz.from_netcdf` reads.

    Parameters
    ----------
    groups : iterable of pairs of str and xarray.Dataset
        From `build_groups`; one after the other, so that they need not be in memory all at once.
    path : path-like
        Destination; complete or absent, never half written.

    Notes
    -----
    HDF5 crashes where a disc is full.  Hence it writes to memory, as much as the file has bytes.
    """
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        for name, group in groups:
            encoding = {
                key: {"zlib": True, "complevel": 1, "shuffle": True}
                for key, variable in group.data_vars.items()
                if variable.ndim and variable.size
            }
            store = xr.backends.H5NetCDFStore(file.create_group(name))
            group.dump_to_store(store, encoding=encoding)
    with replace_on_success(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def read_group(path: str | os.PathLike, name: str) -> xr.Dataset | None:
    """Read one group of a file that `save_netcdf` has written.

    Parameters
    ----------
    path : path-like
    name : str

    Returns
    -------
    xarray.Dataset or None
        In memory; None if the file has no such group.

    Raises
    ------
    InputError
        If it cannot be read, or is no netCDF-4 file.
    """
    try:
        with h5py.File(path) as file:
            if name not in file:
                return None
        with xr.open_dataset(path, group=name, engine="h5netcdf") as group:
            return group.load()
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        discard_readers(error)
        reason = printable((str(error) or type(error).__name__).splitlines()[0])
        raise InputError(
            printable(os.fspath(path)),
            "a netCDF-4 file of draws",
            f"one that cannot be read ({reason[:80]})",
            "give the folder of a run as it was written, or run again",
        ) from None


def discard_readers(error: BaseException) -> None:
    """Let go of what has failed with an error, such as h5netcdf's file that is half made.

    It fails once more when it is let go of, which Python would print.
    """
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__context__
        gc.collect()
    finally:
        sys.unraisablehook = hook


def summarise(
    scalars: Mapping[str, Sequence[np.ndarray]], diagnostics: Mapping[str, Diagnostics]
) -> pd.DataFrame:
    """Tabulate scalars, with the same columns whatever the version of ArviZ.

    Parameters
    ----------
    scalars : mapping of str to sequence of (num_draws,) arrays
        Draws, one array per chain.
    diagnostics : mapping of str to Diagnostics
        Of the same scalars, each of size 1.

    Returns
    -------
    pandas.DataFrame
        One row per scalar, index `name`; columns `mean`, `sd`, quantiles `q05`, `q50`, `q95` (an
        equal-tailed 90 % interval), Monte Carlo standard error of the mean `mcse_mean`,
        `ess_bulk`, `ess_tail`, `r_hat`.
    """
    rows = {}
    for name, chains in scalars.items():
        values = np.concatenate([np.asarray(chain, dtype=float) for chain in chains])
        diagnostic = diagnostics[name]
        sd = values.std(ddof=1) if values.size > 1 else np.nan
        quantiles = np.quantile(values, list(PROBABILITIES.values()))
        rows[name] = (
            values.mean(),
            sd,
            *quantiles,
            sd / np.sqrt(diagnostic.ess_mean[0]),
            diagnostic.ess_bulk[0],
            diagnostic.ess_tail[0],
            diagnostic.r_hat[0],
        )
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(SUMMARY_COLUMNS), dtype=float)
    table.index.name = "name"
    return table
