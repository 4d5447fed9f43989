"""Assembly of the forward map with scikit-fem: everything that does not depend on phi, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import jax
import numpy as np
from scipy.sparse import csr_array

from invlift.errors import InputError
from invlift.fem import linalg, sparse
from invlift.fem.conditions import PointSources, Source, exchange_load, facet_mass
from invlift.fem.conductivity import Conductivity
from invlift.fem.discretisation import cell_basis
from invlift.fem.equation import LinearEquation
from invlift.fem.experiments import (
    Experiment,
    assemble_experiments,
    boundary_flux,
    check_readings,
)
from invlift.fem.finer_mesh import OnFinerMesh, refinable
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.mesh.refinement import Refinement
from invlift.fem.on_refinement import conditions_on, observation_on
from invlift.fem.poisson import PoissonMap
from invlift.fem.readings.base import SOLUTION
from invlift.fem.readings.locate import Observation
from invlift.fem.time.assembly import assemble_transient
from invlift.fem.unknown_conditions import has_unknowns, parts_of
from invlift.inverse.distributions import Distribution
from invlift.inverse.models.base import Place
from invlift.inverse.models.combinations import Combinations
from invlift.inverse.priors.base import Prior
from invlift.programs.precision import require_float64


def assemble_poisson(
    mesh: Mesh,
    observation: Observation,
    *,
    source: Source,
    dirichlet: dict[str, float | np.ndarray] | None = None,
    neumann: dict[str, float | np.ndarray] | None = None,
    robin: dict[str, tuple[float | np.ndarray, float | np.ndarray]] | None = None,
    point_sources: PointSources = (),
    storage: float | Mapping[str, float] | Distribution | Prior | None = None,
    initial: float | None = None,
    solution_times: Sequence[float] = (),
    known: Mapping[str, float] | None = None,
    location: str = "nodes",
    refine_solution: int = 0,
) -> PoissonMap | LinearEquation | OnFinerMesh | Combinations:
    """Assemble the forward map.

    A distribution may stand in place of a number of source and boundary conditions: it is then one
    more unknown.

    Parameters
    ----------
    mesh : Mesh
        Triangles or tetrahedra; lengths in the mesh's own unit, m say.
    observation : Observation
        What is read, from :func:`invlift.locate`.
    source : float, dict or array
        f: a number, a value per named subdomain (zero elsewhere), or values at the nodes or cells.
    dirichlet : dict
        Named boundary -> value of u, a number, an array over the nodes, or a
        :func:`invlift.random_field`.
    neumann : dict
        Named boundary -> inward flux, conductivity * du/dn, a number or an array over the nodes.
        Boundaries not named are insulated.
    robin : dict
        Named boundary -> (coefficient, ambient): conductivity * du/dn = coefficient
        * (ambient - u), coefficient > 0; numbers or arrays over the nodes.
    point_sources : sequence of ((dim,) coordinates, strength)
        What enters at single places, wells or heaters: conductivity times solution times
        L^(dim - 2); negative where it is taken out.
    storage : float, dict, distribution or prior, optional
        S of S du/dt - div(exp(phi) grad u) = f, where the field changes in time: readings then have
        times, and numbers among the conditions may be :func:`invlift.steps`.  See
        :func:`~invlift.fem.time.assembly.assemble_transient`.
    initial : float, optional
        The field everywhere at time 0, where it changes in time; else it is steady before its first
        change.
    solution_times : sequence of float, optional
        Times at which such a field is kept among the draws, as ``solution_at_60``, beside that of
        the last reading; also later ones.
    known : dict
        Named subdomain -> conductivity, where it is known.
    location : {"nodes", "cells"}
        Where the coefficients of phi live.
    refine_solution : int, optional
        How often each edge of the mesh is halved for the solution, 0 to 3.  The coefficients stay
        those of the given mesh, on which results are shown: what goes is the error of the equation,
        to a fourth each time where the solution is smooth.

    Returns
    -------
    PoissonMap, LinearEquation, OnFinerMesh or Combinations
        The last of a field that changes in time, the last but one with a refined solution; the
        second where anything is unknown or read beside the field and the solution, or known of the
        field.  Their ``further`` are distributions, by name, of what the coefficients hold behind
        those of phi.  :func:`invlift.inverse_problem` joins them with the prior.

    Raises
    ------
    InputError
        If a group is unknown, two groups overlap, a source or a value is not finite, a point source
        is outside the mesh, neither a Dirichlet nor a Robin boundary is given (the equation then
        fixes u only up to a constant), a part of the mesh touches none of them, a flux is read
        where none can be found, or JAX is not in double precision.
    """
    require_float64(points=mesh.points)
    conditions = {
        "source": source,
        "dirichlet": dirichlet,
        "neumann": neumann,
        "robin": robin,
        "point_sources": point_sources,
    }
    experiments = [Experiment("", observation, conditions)]
    options = {"known": known, "location": location, "refine_solution": refine_solution}
    if storage is not None:
        options |= {"initial": initial, "solution_times": solution_times}
        return assemble_transient(mesh, experiments, storage=storage, **options)
    if initial is not None or len(solution_times):
        why = "an initial state" if initial is not None else "times of the solution"
        expected, remedy = f"the storage, as there is {why}", "give it, or leave it out"
        raise InputError("storage", expected, "none", remedy)
    if known or has_unknowns(conditions) or set(observation.parts) - {SOLUTION}:
        return assemble_experiments(mesh, experiments, **options)
    check_readings(mesh, experiments[0])
    basis = cell_basis(mesh)
    cells = basis.mesh.t
    corners = mesh.dim + 1
    gradients = np.stack([basis.basis[i][0].grad[:, :, 0] for i in range(corners)])
    volumes = basis.dx.sum(axis=1)

    parts = parts_of(mesh, basis, conditions)
    load, values = parts.load, parts.values
    robin_matrix = csr_array((mesh.num_nodes, mesh.num_nodes))
    for group, (coefficient, ambient) in parts.robin.items():
        load += exchange_load(basis, mesh, group, coefficient, ambient)
        robin_matrix = robin_matrix + facet_mass(basis, mesh, group, coefficient)
    free = np.setdiff1d(np.arange(mesh.num_nodes), parts.held)
    number = np.full(mesh.num_nodes, free.size)
    number[free] = np.arange(free.size)
    unknowns = number[cells]
    first, second = np.tril_indices(corners)
    rows, cols = unknowns[first].ravel(), unknowns[second].ravel()
    kept = np.flatnonzero((rows < free.size) & (cols < free.size))
    products = np.sum(gradients[first] * gradients[second], axis=1)
    robin_rows, robin_cols, robin_values = sparse.lower_half(robin_matrix, number, free.size)
    structure = linalg.analyse(
        np.concatenate([rows[kept], robin_rows]),
        np.concatenate([cols[kept], robin_cols]),
        free.size,
        mesh.points[free],
    )
    observation_unknowns = number[observation.nodes]
    conductivity, num_coefficients = _conductivity(basis, mesh, location)
    nodes = np.asarray(conductivity.nodes)
    sensitivity, sensitivity_entries = sparse.pattern(
        nodes[:, None], unknowns[None], num_coefficients, free.size
    )
    couplings, coupling_entries = sparse.pattern(
        unknowns[:, None], unknowns[None], free.size, free.size
    )
    model = PoissonMap(
        conductivity=conductivity,
        gradients=jax.device_put(gradients),
        volumes=jax.device_put(volumes),
        cells=sparse.as_index(cells),
        sensitivity=sensitivity,
        sensitivity_entries=sparse.as_index(sensitivity_entries),
        couplings=couplings,
        coupling_entries=sparse.as_index(coupling_entries),
        free=sparse.as_index(free),
        unknowns=sparse.as_index(unknowns),
        kept_cells=sparse.as_index(kept % mesh.num_cells),
        kept_products=jax.device_put(products.ravel()[kept]),
        robin_values=jax.device_put(robin_values),
        structure=structure,
        load=jax.device_put((load - robin_matrix @ values)[free]),
        dirichlet=jax.device_put(values),
        held_cells=sparse.as_index(np.flatnonzero(np.any(values[cells] != 0, axis=0))),
        observation_nodes=sparse.as_index(observation.nodes),
        observation_unknowns=sparse.as_index(observation_unknowns),
        observation_weights=jax.device_put(observation.weights),
        boundary_flux=partial(boundary_flux, mesh, experiments, location=location),
        sensors=observation.sensors,
        fields=(Place(0, mesh.places_of(location)),),
    )
    again = partial(_on_refinement, experiments[0], location)
    return refinable(model, mesh, location, again, refine_solution)


def _on_refinement(experiment: Experiment, location: str, refinement: Refinement) -> PoissonMap:
    """The same on a refined mesh."""
    observation = observation_on(refinement, experiment.observation)
    conditions = conditions_on(refinement, experiment.conditions)
    return assemble_poisson(refinement.mesh, observation, location=location, **conditions)


def _conductivity(basis, mesh: Mesh, location: str) -> tuple[Conductivity, int]:
    """The map phi -> element conductivities for phi at the nodes or in the cells, and its size."""
    cells = basis.mesh.t
    if location == "nodes":
        points, weights = basis.X, basis.W
        shape = np.stack([basis.elem.lbasis(points, i)[0] for i in range(cells.shape[0])], axis=1)
        conductivity = Conductivity(
            sparse.as_index(cells),
            jax.device_put(shape),
            jax.device_put(weights / weights.sum()),
        )
        return conductivity, mesh.num_nodes
    if location == "cells":
        own = sparse.as_index(np.arange(mesh.num_cells)[None, :])
        one = jax.device_put(np.ones((1, 1)))
        return Conductivity(own, one, jax.device_put(np.ones(1))), mesh.num_cells
    raise InputError(
        "argument location", '"nodes" or "cells"', f"{location!r}", "say where phi lives"
    )
