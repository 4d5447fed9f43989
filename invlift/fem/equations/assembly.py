"""The forward map of a field and one experiment: log-conductivity to the readings of sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from invlift.errors import InputError
from invlift.fem.equations.conditions import PointSources, Source
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.experiments import Experiment, assemble_experiments
from invlift.fem.mesh.finer_mesh import OnFinerMesh
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.locate import Observation
from invlift.fem.time.assembly import assemble_transient
from invlift.models.combinations import Combinations
from invlift.programs.precision import require_float64
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.priors.base import Prior


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
    thickness: float | Mapping[str, float] | np.ndarray | None = None,
    anisotropy: Mapping[str, float] | None = None,
    lines: Mapping[str, float | Distribution] | None = None,
    barriers: Mapping[str, float | Distribution] | None = None,
    location: str = "nodes",
    refine_solution: int = 0,
) -> LinearEquation | OnFinerMesh | Combinations:
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
    thickness : float, dict or array, optional
        Of a plane body, in the unit of length: a number, one for each subdomain, or values at the
        nodes or cells; 1 without it.  Source, storage, fluxes and transfer coefficients are then
        what they are in space, the strength of a point source is that of its whole line, and fluxes
        that are read are through the whole thickness.
    anisotropy : dict, optional
        ``{"ratio": 3.0, "angle": 30.0}``: the conductivity across the direction that makes this
        angle with the x axis, in degrees, is exp(phi) / ratio, and exp(phi) along it.  In space
        without an angle: exp(phi) is the horizontal one, and exp(phi) / ratio the vertical one.
    lines : dict, optional
        Of a plane body: boundary group, which may be inside the body -> conductivity times width of
        a line along it, in which flows T du/ds beside what flows in the body.
    barriers : dict, optional
        Boundary group inside the body -> its resistance R, width by conductivity: what flows
        through it is the jump of u by R.  The solution is kept at the nodes of the mesh, on a
        barrier of one of its sides.
    location : {"nodes", "cells"}
        Where the coefficients of phi live.
    refine_solution : int, optional
        How often each edge of the mesh is halved for the solution, 0 to 3.  The coefficients stay
        those of the given mesh, on which results are shown: what goes is the error of the equation,
        to a fourth each time where the solution is smooth.

    Returns
    -------
    LinearEquation, OnFinerMesh or Combinations
        The last of a field that changes in time, the last but one with a refined solution.  Their
        ``further`` are distributions, by name, of what the coefficients hold behind those of phi.
        :func:`invlift.inverse_problem` joins them with the prior.

    Raises
    ------
    InputError
        If a group is unknown, two groups overlap, a source or a value is not finite, a point source
        is outside the mesh, neither a Dirichlet nor a Robin boundary is given (the equation then
        fixes u only up to a constant), a part of the mesh touches none of them, a flux is read
        where none can be found, or JAX is not in double precision.

    Examples
    --------
    >>> mesh = invlift.read_mesh("meshes/disc.msh")
    >>> observation = invlift.locate(mesh, invlift.read_sensors("examples/disc/sensors.csv", 2))
    >>> forward = invlift.assemble_poisson(mesh, observation, source=100.0, dirichlet={"rim": 0.0})
    >>> forward(np.zeros(469)).shape  # log-conductivity at the nodes to the readings
    (10,)
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
    options = {"known": known, "thickness": thickness, "anisotropy": anisotropy}
    options |= {"lines": lines, "barriers": barriers}
    options |= {"location": location, "refine_solution": refine_solution}
    if storage is not None:
        options |= {"initial": initial, "solution_times": solution_times}
        return assemble_transient(mesh, experiments, storage=storage, **options)
    if initial is not None or len(solution_times):
        why = "an initial state" if initial is not None else "times of the solution"
        expected, remedy = f"the storage, as there is {why}", "give it, or leave it out"
        raise InputError("storage", expected, "none", remedy)
    return assemble_experiments(mesh, experiments, **options)
