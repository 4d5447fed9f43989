"""Models that solve their equation on refined meshes, with coefficients on the given mesh."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from scipy.sparse import block_diag, csr_array, eye_array

from invlift.errors import checked_integer
from invlift.fem.equations.linearly_mapped import LinearlyMapped
from invlift.fem.linalg.sparse import sparse_matrix
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement, refined
from invlift.fem.mesh.splitting import split
from invlift.models.base import AroundModel, ForwardModel, first_of_same
from invlift.models.joined import Expansions, Joined
from invlift.models.on_mesh import BoundaryFlux, OnMesh
from invlift.programs.pytrees import aside, static

#: Largest number of refinements for the solution: a cell becomes 64 cells in 2-D and 512 in 3-D.
MAX_TIMES = 3


class OnFinerMesh(LinearlyMapped):
    """A model on a refined mesh as a function of the coefficients on the given mesh.

    Fields are interpolated exactly to the refined mesh, and further coefficients are passed on.

    Attributes
    ----------
    num_nodes : int
        Number of nodes of the given mesh, which are the first nodes of the refined mesh.
    """

    num_nodes: int = static(kw_only=True)

    def _byproducts(self, inner):
        """Return the byproducts at the nodes of the given mesh."""
        names = self.solutions
        return {name: inner.byproducts[name][: self.num_nodes] for name in names}


class Extrapolated(AroundModel, Joined):
    """Readings and solutions extrapolated from two meshes, (4 F_h - F_2h) / 3.

    The error of linear elements is proportional to the square of the cell size h where the solution
    is smooth.  The difference removes it (Richardson extrapolation: Blum, Lin & Rannacher 1986,
    "Asymptotic error expansion and Richardson extrapolation for linear finite elements", Numerische
    Mathematik 49).  So one refinement is worth two, and the second mesh costs a fourth of the first
    in the plane, an eighth in space.

    Attributes
    ----------
    model : OnFinerMesh
        F_h, with readings that are completed for this purpose: see
        :func:`invlift.fem.readings.base.at_halved`.
    coarse : ForwardModel
        F_2h, on the mesh before its edges were halved last.
    on_mesh : OnMesh
        ``solved_on`` is the finer mesh.
    """

    model: ForwardModel
    coarse: ForwardModel
    on_mesh: OnMesh = aside(OnMesh())

    def alike(self) -> np.ndarray | None:
        """As :meth:`ForwardModel.alike`: readings that are alike on both meshes."""
        numbers = [each.alike() for each in self._models]
        return None if any(each is None for each in numbers) else first_of_same(*numbers)[1]

    def of_readings(self, rows: np.ndarray) -> Extrapolated:
        """As :meth:`ForwardModel.of_readings`, without the table of sensors."""
        return self._of(each.of_readings(rows) for each in self._models)

    def combined(self, matrix: jax.Array) -> Extrapolated:
        """As :meth:`ForwardModel.combined`, on each mesh."""
        return self._of(each.combined(matrix) for each in self._models)

    def readings_at(self, expansion: Expansions) -> jax.Array:
        """Return all readings, (d,), of a combined model at the point of linearisation."""
        pairs = zip(self._models, expansion.parts, strict=True)
        return self._join([model.readings_at(part) for model, part in pairs])

    def of_equations(self, fn, coefficients, weights, *parts):
        """As :meth:`ForwardModel.of_equations`, on the finer mesh."""
        return self.model.of_equations(fn, coefficients, weights, *parts)

    def _of(self, models) -> Extrapolated:
        model, coarse = models
        return Extrapolated(model, coarse, self.on_mesh._replace(sensors=None))

    @property
    def _models(self):
        return self.model, self.coarse

    def _join(self, parts):
        return extrapolated(*parts)

    def _weights(self, weighed):
        return 4.0 / 3.0 * weighed, -1.0 / 3.0 * weighed

    def _byproducts(self, parts):
        fine, coarse = (part.byproducts for part in parts)
        return {name: extrapolated(fine[name], coarse[name]) for name in self.solutions}


def extrapolated(fine: jax.Array, coarse: jax.Array) -> jax.Array:
    """Return the extrapolation of values on a mesh and on one with twice its cell size."""
    return (4.0 * fine - coarse) / 3.0


class _Refinable(NamedTuple):
    """An equation that is assembled on refinements of a mesh: see :func:`refinable`."""

    model: ForwardModel
    fields: Mapping[int, str]
    assemble: Callable[[Refinement], ForwardModel]
    barriers: tuple[str, ...]

    def solved(self, done: Refinement, times: int = 1) -> ForwardModel:
        """Return the model on the mesh of a refinement with each edge halved again."""
        if not times:
            return self._on(done)
        before = refined(done.mesh, times - 1).after(done)
        fine = self._on(refined(before.mesh).after(before))
        # Without a refinement or a cut it is the model that was given.
        is_given = not (before.times or self.barriers)
        coarse = self.model if is_given else self._on(before.as_given())
        known = fine.on_mesh
        if known.boundary_flux:
            fluxes = known.boundary_flux, coarse.on_mesh.boundary_flux
            known = known._replace(boundary_flux=partial(_extrapolated_flux, *fluxes))
        return Extrapolated(fine, coarse, known)

    def _on(self, refinement: Refinement) -> OnFinerMesh:
        solved_on = refinement
        if self.barriers:
            solved_on = split(refinement.mesh, self.barriers, "barriers").after(refinement)
        finer = self.assemble(solved_on)
        parts, end = [], 0
        for first, location in self.fields.items():
            of_field = solved_on.of_field(location)
            parts += [eye_array(first - end), of_field]
            end = first + of_field.shape[1]
        parts.append(eye_array(finer.num_coefficients - sum(each.shape[0] for each in parts)))
        flux, of_field = finer.on_mesh.boundary_flux, solved_on.of_field(self.fields[0])
        known = self.model.on_mesh._replace(
            boundary_flux=flux and partial(_boundary_flux, flux, of_field),
            refined=partial(self.solved, refinement),
            solved_on=solved_on,
        )
        return OnFinerMesh(
            model=finer,
            matrix=sparse_matrix(csr_array(block_diag(parts))),
            num_nodes=refinement.given.num_nodes,
            on_mesh=known,
        )


def refinable(
    model: ForwardModel,
    mesh: Mesh,
    fields: Mapping[int, str],
    assemble: Callable[[Refinement], ForwardModel],
    times: int = 0,
    barriers: Collection[str] = (),
) -> ForwardModel:
    """Return a model whose ``on_mesh.refined`` solves the equation on a refined mesh as well.

    A refined model is an :class:`Extrapolated`.

    Parameters
    ----------
    model : ForwardModel
        Model assembled on the mesh.
    mesh : Mesh
    fields : mapping of int to {"nodes", "cells"}
        Location of each field among the coefficients, by the index of its first coefficient, in
        order.
    assemble : callable
        Function of a refinement that assembles the model on the refined mesh.
    times : int
        Number of refinements in the returned model, 0 to MAX_TIMES.
    barriers : collection of str
        Groups across which the solution jumps; the mesh of the solution is cut along them.

    Raises
    ------
    InputError
        If ``times`` is not an integer from 0 to MAX_TIMES.
    """
    checked_integer("refine_solution", times, 0, MAX_TIMES, "say how often edges are halved")
    barriers = () if mesh.sides else tuple(barriers)  # a mesh that is cut already
    if barriers:  # nodes on them have the solution of one side
        model = replace(model, on_mesh=model.on_mesh._replace(is_linear=False))
    first, again = refined(mesh, 0), _Refinable(model, fields, assemble, barriers)
    if times or barriers:
        return again.solved(first, times)
    known = model.on_mesh._replace(refined=partial(again.solved, first), solved_on=first)
    return replace(model, on_mesh=known)


def _boundary_flux(flux: Callable, of_field: csr_array, *group: str) -> BoundaryFlux:
    """Return the boundary flux of the refined mesh, for draws on the given mesh.

    The draws are of the field and of those further coefficients on which this flux depends.
    """
    on_refined = flux(*group)

    def of_draws(draws, solutions=None):
        del solutions  # they are known only at the nodes of the given mesh
        field, rest = np.split(np.asarray(draws), [of_field.shape[1]], axis=1)
        return on_refined.of_draws(np.hstack([(of_field @ field.T).T, rest]))

    return on_refined._replace(of_draws=of_draws)


def _extrapolated_flux(fine: Callable, coarse: Callable, *group: str) -> BoundaryFlux:
    """Return the boundary flux extrapolated from two meshes, for draws on the given mesh."""
    fluxes = fine(*group), coarse(*group)

    def of_draws(draws, solutions=None):
        del solutions
        return extrapolated(*(each.of_draws(draws) for each in fluxes))

    return fluxes[0]._replace(of_draws=of_draws)
