"""Labelled draws in the layout of ArviZ, and their files.

ArviZ 0.x stores groups of labelled arrays in its `InferenceData`, ArviZ 1.x in an xarray
`DataTree`. Only this module depends on the version. Files are written group by group by xarray and
are the same under both.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import h5netcdf
import numpy as np
import xarray as xr

from invlift.errors import InputError, first_line, printable
from invlift.files.atomic import write_bytes
from invlift.posterior.names import (
    LIMITS,
    OBSERVED,
    known_cells_name,
    prior_density_name,
    prior_sd_name,
)
from invlift.posterior.statistics.blocks import check_draws
from invlift.posterior.statistics.parts import Mesh
from invlift.posterior.statistics.quantity import Quantity, numbered_axes

if TYPE_CHECKING:
    from arviz import InferenceData


#: Coordinates along axes of a mesh: axis and values by name.
Places = Mapping[str, tuple[str, np.ndarray]]
#: Name of the file itself among its groups.
ROOT = "/"
#: Attribute of a group: names that had slashes, one in a line.
SLASHED = "names_with_slashes"


def label(
    draws: Mapping[str, Sequence[np.ndarray]],
    quantities: Mapping[str, Quantity],
    every: Mapping[str, int] | None = None,
    places: Places | None = None,
) -> xr.Dataset:
    """Put draws, (num_draws, ...) for each chain, into one dataset; each is copied once.

    `quantities` give axes, coordinates and units. `every` gives the thinning k of quantities of
    which only every k-th draw is stored. `places` is a result of `places_on`.

    Axes are chain, draw and then those of the quantity. If not all draws are stored, the axis is
    `stored_draw`, labelled by the numbers of these draws. A second such quantity with another
    number of draws has the axis `stored_draw_of_...`.
    """
    variables, sizes = {}, {}
    for name, chains in draws.items():
        num_chains, num_draws, shape = check_draws(chains, name)
        quantity = quantities.get(name) or Quantity(name, numbered_axes(name, len(shape)))
        step = (every or {}).get(name, 1)
        draw = "draw" if step == 1 else "stored_draw"
        if draw in sizes and len(sizes[draw]) != num_draws:  # fields of two sizes
            draw = f"stored_draw_of_{name}"
        attributes = {"units": quantity.unit} if quantity.unit else {}
        attributes |= {f"{axis}_units": unit for axis, unit in quantity.axis_units.items()}
        attributes |= {"is_derived": 1} if quantity.is_derived else {}
        attributes |= {} if quantity.is_linear else {"is_linear": 0}
        values = np.stack([np.asarray(chain) for chain in chains])
        variables[name] = (("chain", draw, *quantity.axes), values, attributes)
        sizes |= {"chain": np.arange(num_chains), draw: step * np.arange(num_draws)}
    return dataset(variables, coordinates_along(quantities), sizes, places)


def places_on(mesh: Mesh | None) -> Places:
    """Return coordinates along the axes node and cell, by name: of nodes and of cell centres."""
    if mesh is None:
        return {}
    points = np.asarray(mesh.points)
    middles = points[np.asarray(mesh.cells)].mean(axis=1)
    parts = ("node", "", points), ("cell", "cell_", middles)
    return {
        f"{prefix}{name}": (axis, values)
        for axis, prefix, places in parts
        for name, values in zip("xyz", places.T, strict=False)
    }


def coordinates_along(quantities: Mapping[str, Quantity]) -> dict[str, list]:
    """Return the labels along the axes of quantities that have labels."""
    axes = (pair for each in quantities.values() for pair in each.axes.items())
    return {axis: list(labels) for axis, labels in axes if labels is not None}


def dataset(
    variables: Mapping[str, tuple],
    coords: Mapping[str, Sequence],
    sizes: Mapping[str, np.ndarray] | None = None,
    places: Places | None = None,
) -> xr.Dataset:
    """Make a dataset of variables (axes, values, attributes) with the coordinates they use."""
    used = {axis for axes, *_ in variables.values() for axis in axes}
    coords = {axis: labels for axis, labels in coords.items() if axis in used}
    names = used | {*variables}  # names of the model take precedence over those of coordinates
    on_mesh = {
        name: (axis, values)
        for name, (axis, values) in (places or {}).items()
        if axis in used and name not in names
    }
    labelled = xr.Dataset(variables, coords=on_mesh | coords | dict(sizes or {}))
    return labelled.assign_attrs(inference_library="invlift")


def quantity_of(variable: xr.DataArray, constants: xr.Dataset) -> Quantity:
    """Describe a variable of the group `posterior`, with its prior from `constant_data`."""
    name = str(variable.name)
    is_derived = bool(variable.attrs.get("is_derived", False))
    names = prior_sd_name(name), prior_density_name(name), known_cells_name(name)
    known = (constants.get(key) for key in names)
    known = (None if values is None else values.to_numpy() for values in known)
    unit = variable.attrs.get("units", "")
    is_linear = bool(variable.attrs.get("is_linear", True))
    of_axes = {
        key.removesuffix("_units"): value
        for key, value in variable.attrs.items()
        if key.endswith("_units")
    }
    return Quantity(name, axes_of(variable[0, 0]), unit, is_derived, *known, is_linear, of_axes)


def axes_of(labelled: xr.DataArray | xr.Dataset) -> dict[str, list | None]:
    """Return the axes by name, with their coordinates or None."""
    return {
        str(axis): labelled[axis].to_numpy().tolist() if axis in labelled.coords else None
        for axis in labelled.dims
    }


def coordinates_of(constants: xr.Dataset) -> dict[str, list]:
    """Return the coordinates of the readings by name, from the group `constant_data`."""
    return {
        str(name).removeprefix("sensor_"): values.to_numpy().tolist()
        for name, values in constants.data_vars.items()
        if values.dims == ("sensor",) and name not in ("sensor_sigma", LIMITS)
    }


def to_arviz(groups: Mapping[str, xr.Dataset]) -> InferenceData | xr.DataTree:
    """Convert groups for the installed ArviZ: to `InferenceData` or to a `DataTree`."""
    if hasattr(_arviz(), "convert_to_datatree"):
        plain = {name: _without_slashes(each) for name, each in groups.items()}
        return xr.DataTree.from_dict(plain)
    return _arviz().InferenceData(**groups)


def _without_slashes(group: xr.Dataset) -> xr.Dataset:
    """Return a group with dots in place of slashes in names, which are kept as an attribute."""
    names = sorted({each for each in {*group.variables, *group.dims} if "/" in each})
    if not names:
        return group
    renamed = group.rename({each: each.replace("/", ".") for each in names})
    return renamed.assign_attrs({SLASHED: "\n".join(names)})


def _with_slashes(group: xr.Dataset) -> xr.Dataset:
    """Return the group that :func:`_without_slashes` had."""
    names = group.attrs.pop(SLASHED, "").splitlines()
    return group.rename({each.replace("/", "."): each for each in names})


def _arviz() -> ModuleType:
    """Import ArviZ, which is slow to import and rarely needed."""
    with warnings.catch_warnings():
        # ArviZ 0.x announces its own refactoring on import
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz
        except FileNotFoundError:  # two processes wrote its notice of this at the same time
            import arviz
    return arviz


def pareto_smoothed_weights(
    log_likelihood: np.ndarray, efficiency: float
) -> tuple[np.ndarray, float]:
    """Return the weights of S draws for leaving out a reading, computed by ArviZ.

    `log_likelihood` (S,) is that of the reading, and finite. `efficiency` is the effective sample
    size divided by the number of draws. Returns the logarithms of the smoothed weights, whose sum
    is 1, and the Pareto shape of their tail. If all weights of the tail are equal, the shape is
    infinite and the weights are not smoothed.
    """
    arviz = _arviz()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # on large Pareto k, which is returned
        if hasattr(arviz, "psislw"):  # ArviZ 0.x
            log_weights, pareto_k = arviz.psislw(-log_likelihood, efficiency)
            return log_weights, float(pareto_k)
        data = to_arviz({"log_likelihood": label({OBSERVED: [log_likelihood]}, {})})
        try:
            result = arviz.loo(data, pointwise=True, var_name=OBSERVED, reff=efficiency)
        except ValueError:  # a tail of equal weights
            return -log_likelihood - np.logaddexp.reduce(-log_likelihood), np.inf
    log_weights = result.log_weights.values.ravel()
    return log_weights - np.logaddexp.reduce(log_weights), float(result.pareto_k)


def save_netcdf(
    groups: Iterable[tuple[str, xr.Dataset]],
    path: str | os.PathLike,
    attributes: Mapping[str, str] | None = None,
) -> None:
    """Write groups to a compressed netCDF-4 file that `arviz.from_netcdf` reads.

    The file is complete or not written. The groups, from `groups_of`, are processed one after the
    other, so that they need not be in memory all at once. HDF5 crashes if the disc is full; hence
    the file is first written to memory. A slash in a name, as from NumPyro's ``scope``, becomes a
    dot, because netCDF would read it as a group; `read_groups` gives the name back.
    """
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        file.attrs.update(attributes or {})
        for name, group in groups:
            group = _without_slashes(group)
            encoding = {
                key: {"zlib": True, "complevel": 1, "shuffle": True}
                for key, variable in group.data_vars.items()
                if variable.ndim and variable.size
            }
            store = xr.backends.H5NetCDFStore(file.create_group(name))
            group.dump_to_store(store, encoding=encoding)
    write_bytes(path, content.getbuffer())


def read_groups(path: str | os.PathLike) -> Mapping[str, xr.Dataset]:
    """Read the groups of a file of draws by name; missing groups are empty.

    The attributes of the file are those of the group :data:`ROOT`. Raises an InputError if the file
    cannot be read.
    """
    try:
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            groups = {
                name: _with_slashes(group.load().to_dataset())
                for name, group in tree.children.items()
            }
            groups[ROOT] = xr.Dataset(attrs=tree.attrs)
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError) as error:
        raise InputError(
            printable(os.fspath(path)),
            "a netCDF-4 file of draws",
            f"one that cannot be read ({first_line(error)[:80]})",
            "take the file from a copy of the run, or run again",
        ) from None
    return defaultdict(xr.Dataset, groups)
