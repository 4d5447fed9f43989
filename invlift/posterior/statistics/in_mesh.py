"""Draws of fields on a mesh: values at points, means over subdomains, fluxes."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.sparse import csr_array, diags_array

from invlift.errors import InputError
from invlift.posterior.draws import PosteriorDraws
from invlift.posterior.names import CONDUCTIVITY, FIELD
from invlift.posterior.statistics.labelled import label
from invlift.posterior.statistics.parts import Mesh, every_of
from invlift.posterior.statistics.quantity import Quantity


def values_at(posterior: PosteriorDraws, points: np.ndarray, name: str | None) -> xr.DataArray:
    """See `Posterior.at`."""
    is_conductivity = name == CONDUCTIVITY and name not in posterior.described
    quantity = _field_of(posterior, FIELD if is_conductivity else name)
    at_points = _apply(posterior, quantity, *_values_at(posterior.mesh, quantity, points), "point")
    if is_conductivity:
        at_points = np.exp(at_points).rename(CONDUCTIVITY)
    axes = zip("xyz", np.asarray(points).T, strict=False)
    return at_points.assign_coords({axis: ("point", values) for axis, values in axes})


def mean_over(posterior: PosteriorDraws, group: str | None, name: str | None) -> xr.DataArray:
    """See `Posterior.mean_over`."""
    quantity = _field_of(posterior, name)
    mesh, fixed = posterior.mesh, np.zeros(1)
    if quantity.known_cells is None:
        matrix = mesh.mean_over(group, quantity.place)
    else:  # the mean of a function that is linear in each part is its value at the middle
        middles, shares = mesh.middles_of(group)
        matrix, fixed = (shares @ each for each in _values_at(mesh, quantity, middles))
        matrix, fixed = csr_array(matrix[None]), fixed[None]
    return _apply(posterior, quantity, matrix, fixed, "part").squeeze("part")


def flux(posterior: PosteriorDraws, group: str, experiment: str) -> xr.DataArray:
    """See `Posterior.flux`."""
    field = posterior.field.name if posterior.field else FIELD
    if posterior.boundary_flux is None or field not in posterior.described:
        expected = "a problem of a field in Poisson's equation, with stored draws of it"
        found = "none" if posterior.boundary_flux is None else "no draws of it"
        remedy = "take problem.posterior(run) of one from a problem file or assemble_poisson"
        raise InputError("posterior, flux", expected, found, remedy)
    through = posterior.boundary_flux(group, experiment)
    solution = through.solution
    known = [solution] if solution in posterior.described else []
    every = {name: every_of(posterior.chains, name) for name in (field, *through.further, *known)}
    step = max(every.values())  # all are powers of two
    draws = []
    for chain in posterior.chains:
        parts = {name: chain.draws[name][:: step // axes] for name, axes in every.items()}
        solved = parts.pop(solution, None)
        parts = [np.reshape(each, (len(each), -1)) for each in parts.values()]
        draws.append(through.of_draws(np.hstack(parts).astype(float), solved))
    unit = f"C {(known and posterior.described[solution].unit) or 'U'}"
    unit += " L" if through.lengths else ""
    return label({"flux": draws}, {"flux": Quantity("flux", {}, unit)}, {"flux": step})["flux"]


def _field_of(posterior: PosteriorDraws, name: str | None) -> Quantity:
    """Return a field by name, by default the unknown field of the equation."""
    known = {each.name: each for each in posterior.described.values() if each.place}
    found = posterior.field if name is None else known.get(name)
    if found is None or posterior.mesh is None:
        names = ", ".join(known) if posterior.mesh else ""
        expected = f"a field, one of {names}" if names else "draws of a field, and its mesh"
        found = "none" if name is None else repr(name)
        raise InputError("posterior", expected, found, "ask for one that was stored")
    if not found.is_linear:
        expected, why = "a field that is linear between nodes", "which jumps at a barrier"
        why += " or has other elements"
        remedy = "make a reading of it, by kind point or average or by the basis of the equation"
        raise InputError("posterior", expected, f"{found.name}, {why}", remedy)
    return found


def _values_at(mesh: Mesh, quantity: Quantity, points: np.ndarray) -> tuple[csr_array, np.ndarray]:
    """Return a matrix (k, N) and numbers (k,) whose sum gives the values at points.

    At points in cells where the field is known, the numbers are its values and the rows are zero.
    """
    matrix = mesh.values_at(points, quantity.place)
    if quantity.known_cells is None:
        return matrix, np.zeros(matrix.shape[0])
    cells = mesh.values_at(points, "cell")
    is_known = cells @ ~np.isnan(quantity.known_cells)
    return diags_array(1.0 - is_known) @ matrix, cells @ np.nan_to_num(quantity.known_cells)


def _apply(
    posterior: PosteriorDraws, quantity: Quantity, matrix: csr_array, fixed: np.ndarray, axis: str
) -> xr.DataArray:
    """Return draws of linear functionals of a field, plus a constant for each."""
    name = quantity.name
    draws = [
        np.asarray(matrix @ np.transpose(values)).T + fixed for values in posterior.draws(name)
    ]
    applied = Quantity(name, {axis: None}, quantity.unit)
    return label({name: draws}, {name: applied}, {name: every_of(posterior.chains, name)})[name]
