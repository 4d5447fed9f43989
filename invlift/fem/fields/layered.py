"""Independent Matern fields for the layers of the body, with jumps at interfaces.

A layer is a subdomain of the mesh with separate nodes, so that its field is independent of the
fields across its interfaces.  Coefficients are in the cells: that of a cell is the mean of its
layer's field over its corners.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, KeyPath, errors_at
from invlift.fem.fields.base import Nominal, partition
from invlift.fem.fields.matern_prior import matern_prior
from invlift.fem.linalg import sparse
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.fem.mesh.mesh import Mesh
from invlift.keywords import with_names_of_today
from invlift.programs.precision import require_float64
from invlift.programs.pytrees import aside, static
from invlift.unknowns.priors.mapped import MappedPrior
from invlift.unknowns.priors.named import NamedPrior

#: Names of the arguments of a layer's prior.
_SETTINGS = "range", "std", "smoothness", "mean", "boundary"


class LayeredPrior(MappedPrior):
    """Prior of phi in the cells: the mean of the Matern field of a layer over a cell's corners.

    Build it with :func:`layered_prior`.  ``prior``, a :class:`NamedPrior`, is the prior of all
    fields by layer, each at the nodes of its layer; there are N nodes in total.

    Attributes
    ----------
    corners : (num_cells, dim + 1) int32
        Corners of each cell among the N nodes.
    pattern : sparse.Pattern
        Pattern of the matrix (num_cells, N) with entries at the corners.
    location : str
        ``"cells"``.
    mesh : Mesh or None
        Mesh of the field, for results of the posterior.
    nominal : tuple of Nominal
        Requested properties of each layer's field.
    """

    is_map_affine: ClassVar[bool] = True

    corners: jax.Array
    pattern: sparse.Pattern
    location: str = static(default="cells")
    mesh: Mesh | None = aside()
    nominal: tuple[Nominal, ...] | None = aside()

    def map(self, inner: jax.Array) -> jax.Array:
        """Return means over the corners of cells, (num_cells,), of the layers' fields, (N,)."""
        return self.push_map(inner, inner)

    def push_map(self, inner: jax.Array, directions: jax.Array) -> jax.Array:
        """Apply the linear map to directions, (N,) or (N, k)."""
        return self._times(self.pattern.product, directions)

    def pull_map(self, inner: jax.Array, values: jax.Array) -> jax.Array:
        """Apply the transposed map to values, (num_cells,) or (num_cells, k)."""
        return self._times(self.pattern.transposed_product, values)

    def _times(self, product, columns):
        share = jnp.full(self.corners.size, 1.0 / self.corners.shape[1])
        products = product(share, columns.reshape(len(columns), -1))
        return products.reshape(-1, *columns.shape[1:])

    def pointwise_std(self) -> np.ndarray:
        """Return the prior standard deviation in each cell, (num_cells,)."""
        corners, std, begin = np.asarray(self.corners), np.zeros(len(self.corners)), 0
        for name, (size,) in self.prior.shapes:
            corners_of_layer = corners - begin
            is_own = (corners_of_layer[:, 0] >= 0) & (corners_of_layer[:, 0] < size)
            std[is_own] = self.prior.parts[name].pointwise_std(corners_of_layer[is_own])
            begin += size
        return std


def layered_prior(mesh: Mesh, layers: Mapping[str, Mapping[str, Any]]) -> LayeredPrior:
    """Build a prior with an independent Matern field in each layer.

    Parameters
    ----------
    mesh : Mesh
    layers : mapping of str to mapping
        For each subdomain of the mesh, the arguments of :func:`invlift.matern_prior`.  A ``mean``
        that varies is given at the nodes of ``mesh``.

    Returns
    -------
    LayeredPrior
        Names of unknown parameters begin with the name of the layer, as in ``clay_prior_range``.

    Raises
    ------
    InputError
        If a subdomain does not exist, layers overlap or leave cells out, or an argument is wrong
        (the place is "prior layer, NAME, KEY"); or if JAX is not in double precision.
    """
    require_float64(points=mesh.points)
    for name in layers:
        mesh.cells_of(name, ("prior", "layer", name))
    remedy = "give each subdomain of the body a layer of its own, and no cell two"
    of_cell = partition(mesh, list(layers), "layer", remedy)
    parts, shapes, corners, begin = {}, [], np.zeros_like(mesh.cells), 0
    nominal = []
    for number, (name, settings) in enumerate(layers.items()):
        is_own = of_cell == number
        nodes, own_cells = np.unique(mesh.cells[is_own], return_inverse=True)
        own_cells = own_cells.reshape(-1, mesh.dim + 1)
        corners[is_own] = begin + own_cells
        begin += len(nodes)
        layer = mesh_from_arrays(mesh.points[nodes], own_cells, name=f"{mesh.name}, {name}")
        mean = settings.get("mean", 0.0)
        mean = mean[nodes] if np.shape(mean) == (mesh.num_nodes,) else mean
        where = ("prior", "layer", name)
        settings = with_names_of_today(where, settings, {"correlation_range": "range"})
        if unknown := settings.keys() - {*_SETTINGS}:
            expected, found = f"the arguments {', '.join(_SETTINGS)}", f"{min(unknown)!r}"
            raise InputError(where, expected, found, "rename it")
        with errors_at(partial(_in_layer, name)):
            part = matern_prior(layer, **{**settings, "mean": mean})
        label = re.sub(r"\W", "_", name)  # prefix of its unknowns in results
        if label in parts:
            remedy = "rename one in the mesh: results know letters and digits"
            raise InputError(("prior", "layer", name), "another name", f"{label} again", remedy)
        parts[label] = part
        shapes.append((label, (len(nodes),)))
        nominal += [each._replace(layer=name, cells=is_own) for each in part.nominal]
    fields = NamedPrior(parts, tuple(shapes), ("",) * len(parts), ((),) * len(parts))
    cells = np.arange(mesh.num_cells)[:, None]
    pattern, _ = sparse.pattern(cells, corners, mesh.num_cells, begin)
    corners = sparse.as_index(corners)
    return LayeredPrior(fields, corners, pattern, mesh=mesh, nominal=tuple(nominal))


def _in_layer(name: str, path: KeyPath) -> KeyPath:
    """Return the path of a key of the prior with the layer inserted."""
    return ("prior", "layer", name, *path[1:]) if path[0] == "prior" else path
