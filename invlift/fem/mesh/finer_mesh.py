"""Models whose equation is solved on a refined mesh, and whose coefficients stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.sparse import block_diag, csr_array, eye_array

from invlift.errors import InputError, is_integer
from invlift.fem.linalg import sparse
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement, refined
from invlift.models.base import AroundModel, ForwardModel
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import PyTree, aside, static

#: How often edges may be halved for the solution: cells become 64 in the plane and 512 in space.
MAX_TIMES = 3


class FinerExpansion(NamedTuple):
    """Where the model on the refined mesh was evaluated.

    Attributes
    ----------
    finer : pytree
        Its expansion.
    jacobian : (d, N) or None
        By the coefficients as they are, if it was computed.
    byproducts : dict of str to Array
        Those of the nodes of the given mesh.
    """

    finer: PyTree
    jacobian: jax.Array | None
    byproducts: dict[str, jax.Array]


class OnFinerMesh(AroundModel):
    """The readings of a model on a refined mesh as a function of coefficients on the given one.

    The field is interpolated, exactly as the given mesh has it; further coefficients are passed on.

    Attributes
    ----------
    model : ForwardModel
        On the refined mesh, of N_fine coefficients.
    pattern : sparse.Pattern
        Of the matrix (N_fine, N) from coefficients to those of the model.
    weights : (num_entries,)
        Its entries.
    num_nodes : int
        Nodes of the given mesh, the first of the refined one.
    on_mesh : OnMesh
        As of the model on the given mesh; ``boundary_flux`` is of the equation on the refined one.
    """

    model: ForwardModel
    pattern: sparse.Pattern
    weights: jax.Array
    num_nodes: int = static()
    on_mesh: OnMesh = aside(OnMesh())

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free readings, (d,)."""
        return self.model(self._finer(coefficients))

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N)."""
        return self.linearise(coefficients)[0]

    def linearise(
        self, coefficients: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], FinerExpansion]:
        """As :meth:`ForwardModel.linearise`."""
        (value, by_finer), finer = self.model.linearise(self._finer(coefficients))
        jacobian = self.pattern.transposed_product(self.weights, by_finer.T).T
        return (value, jacobian), FinerExpansion(finer, jacobian, self._byproducts(finer))

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, FinerExpansion]:
        """As :meth:`ForwardModel.expand`."""
        value, finer = self.model.expand(self._finer(coefficients))
        return value, FinerExpansion(finer, None, self._byproducts(finer))

    def push_forward(
        self, expansion: FinerExpansion, directions: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The Jacobian times directions, (N, k) to (d, k), and these for :meth:`pull_back`."""
        return expansion.jacobian @ directions, directions

    def pull_back(
        self,
        expansion: FinerExpansion,
        pushed: jax.Array,
        weigh: Callable[[jax.Array], jax.Array],
    ) -> jax.Array:
        """As :meth:`ForwardModel.pull_back`."""
        directions = self.pattern.product(self.weights, pushed)
        _, finer = self.model.push_forward(expansion.finer, directions)

        def weigh_finer(columns):
            # A model that pulls back from directions as they are gives these to be weighed, and
            # joined models hand over weighed ones of the given mesh.
            if columns is directions:
                return self.pattern.product(self.weights, weigh(pushed))
            return weigh(columns)

        gradient = self.model.pull_back(expansion.finer, finer, weigh_finer)
        return self.pattern.transposed_product(self.weights, gradient[:, None])[:, 0]

    def derivative(self, expansion: FinerExpansion, direction: jax.Array) -> jax.Array:
        """As :meth:`ForwardModel.derivative`."""
        if expansion.jacobian is not None:
            return expansion.jacobian @ direction
        return self.model.derivative(expansion.finer, self._finer(direction))

    def higher_derivative(
        self, expansion: FinerExpansion, path: tuple[jax.Array, ...], lower: PyTree = ()
    ) -> tuple[jax.Array, PyTree]:
        """As :meth:`ForwardModel.higher_derivative`."""
        path = tuple(self._finer(each) for each in path)
        return self.model.higher_derivative(expansion.finer, path, lower)

    def alike(self) -> np.ndarray | None:
        """As of the model."""
        return self.model.alike()

    def of_readings(self, rows: np.ndarray) -> OnFinerMesh:
        """As of the model."""
        known = self.on_mesh._replace(sensors=None)
        return replace(self, model=self.model.of_readings(rows), on_mesh=known)

    def _finer(self, coefficients):
        """Coefficients on the refined mesh, (N_fine,)."""
        return self.pattern.product(self.weights, coefficients[:, None])[:, 0]

    def _byproducts(self, finer):
        """Of the first nodes."""
        names = self.solutions
        return {name: finer.byproducts[name][: self.num_nodes] for name in names}


def refinable(
    model: ForwardModel,
    mesh: Mesh,
    fields: Mapping[int, str],
    assemble: Callable[[Refinement], ForwardModel],
    times: int = 0,
) -> ForwardModel:
    """The same model, told by ``on_mesh.refined`` how it is with its equation on a refined mesh.

    Parameters
    ----------
    model : ForwardModel
        Assembled on the mesh.
    mesh : Mesh
    fields : mapping of int to {"nodes", "cells"}
        Where each field among its coefficients is, by the first of them, in their order.
    assemble : callable
        A refinement of the mesh to the model on that.
    times : int
        How often the mesh is refined in the model that is returned, 0 to MAX_TIMES.

    Raises
    ------
    InputError
        If it is another number.
    """
    if not is_integer(times) or not 0 <= times <= MAX_TIMES:
        expected = f"a whole number from 0 to {MAX_TIMES}"
        raise InputError(
            "refine_solution", expected, f"{times!r}", "say how often edges are halved"
        )
    again = partial(_on_finer_mesh, model, mesh, fields, assemble)
    return again(times) if times else replace(model, on_mesh=model.on_mesh._replace(refined=again))


def _on_finer_mesh(model, mesh, fields, assemble, times: int = 1) -> OnFinerMesh:
    refinement = refined(mesh, times)
    finer = assemble(refinement)
    parts, end = [], 0
    for first, location in fields.items():
        of_field = refinement.of_field(location)
        parts += [eye_array(first - end), of_field]
        end = first + of_field.shape[1]
    parts.append(eye_array(finer.num_coefficients - sum(each.shape[0] for each in parts)))
    matrix = csr_array(block_diag(parts)).tocoo()
    pattern, entries = sparse.pattern(matrix.row, matrix.col, *matrix.shape)
    weights = np.zeros(matrix.nnz)
    weights[entries] = matrix.data
    flux = finer.on_mesh.boundary_flux
    known = model.on_mesh._replace(
        boundary_flux=None if flux is None else partial(_boundary_flux, flux, matrix.tocsr()),
        refined=lambda more=1: _on_finer_mesh(model, mesh, fields, assemble, times + more),
        num_refined=times,
    )
    return OnFinerMesh(
        model=finer,
        pattern=pattern,
        weights=jax.device_put(weights),
        num_nodes=mesh.num_nodes,
        on_mesh=known,
    )


def _boundary_flux(flux: Callable, matrix: csr_array, *group: str) -> tuple[Any, Callable]:
    """As on the refined mesh, of draws on the given one."""
    further, solution, flux_of = flux(*group)

    def of_draws(draws, solutions=None):
        del solutions  # which are known at the given nodes alone
        return flux_of((matrix @ np.asarray(draws).T).T)

    return further, solution, of_draws


def extrapolated(change, times: int):
    """The error of linear elements, from what a mesh with edges halved ``times`` changes.

    Where the solution is smooth each halving leaves a fourth of it (Richardson's extrapolation).
    """
    return change / (1.0 - 0.25**times)
