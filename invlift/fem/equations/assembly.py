"""Assembly of the forward map of one experiment, from log-conductivity to sensor readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from invlift.errors import InputError
from invlift.fem.equations.conditions import PointSources, Source
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.experiments import Experiment, assemble_experiments
from invlift.fem.mesh.finer_mesh import Extrapolated, OnFinerMesh
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.locate import Observation
from invlift.fem.time.assembly import assemble_transient
from invlift.models.joined import Combinations
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
    thickness: float | str | Mapping[str, float] | np.ndarray | None = None,
    anisotropy: Mapping[str, float | Distribution] | None = None,
    lines: Mapping[str, float | Distribution] | None = None,
    barriers: Mapping[str, float | Distribution] | None = None,
    location: str = "nodes",
    refine_solution: int = 0,
) -> LinearEquation | OnFinerMesh | Extrapolated | Combinations:
    """Assemble the forward map from log-conductivity to readings.

    In source and boundary conditions a distribution may replace a number; the number is then an
    additional unknown.  A text may replace an array: the name of a field of the mesh, or an
    expression such as ``"12.5 - 0.002 * y"``, which a refined mesh evaluates at its own nodes.

    Parameters
    ----------
    mesh : Mesh
        Triangles or tetrahedra, with lengths in the mesh's unit, for example m.
    observation : Observation
        The located readings, from :func:`invlift.locate`.
    source : float, str, dict or array
        f: a number, a value for each named subdomain (zero elsewhere; values add up where
        subdomains overlap), or values at the nodes or cells; or a text.  An array is refused if the
        mesh has as many cells as nodes.
    dirichlet : dict
        Named boundary -> value of u, a number, a text, an array over the nodes, or a
        :func:`invlift.random_field`.
    neumann : dict
        Named boundary -> inward flux, conductivity * du/dn, a number, a text or an array over the
        nodes.  Boundaries without a condition are insulated.
    robin : dict
        Named boundary -> (coefficient, ambient): conductivity * du/dn = coefficient
        * (ambient - u), coefficient > 0; numbers, texts or arrays over the nodes.
    point_sources : sequence of ((dim,) coordinates, strength)
        Sources at points, such as wells or heaters.  The unit of the strength is that of
        conductivity times solution times L^(dim - 2); it is negative for a sink.
    storage : float, dict, distribution or prior, optional
        S in the transient equation S du/dt - div(exp(phi) grad u) = f.  Readings then have times,
        and numbers in the conditions may be :func:`invlift.steps`.  See
        :func:`~invlift.fem.time.assembly.assemble_transient`.
    initial : float, optional
        The uniform initial value of u at time 0, for the transient equation.  Without it, u is
        steady before the first change of a condition.
    solution_times : sequence of float, optional
        Further times at which a transient u is stored with the draws, as ``solution_at_60``.  They
        may be after the last reading, at which u is always stored.
    known : dict
        Named subdomain -> its known conductivity.
    thickness : float, str, dict or array, optional
        Thickness of a 2-D body, in the unit of length: a number, one for each subdomain, a text, or
        values at the nodes or cells; 1 by default.  Source, storage, fluxes and transfer
        coefficients then have their units in 3-D.  The strength of a point source is that of the
        whole line through the thickness, and readings of fluxes are through the whole thickness.
    anisotropy : dict, optional
        ``{"ratio": 3.0, "angle": 30.0}``: the conductivity is exp(phi) along the direction at this
        angle to the x axis, in degrees, and exp(phi) / ratio across it.  In 3-D there is no angle:
        exp(phi) is the horizontal conductivity, and exp(phi) / ratio the vertical one.
        Distributions if unknown: they are ``anisotropy_ratio`` and ``anisotropy_angle``.
    lines : dict, optional
        For a 2-D body: boundary group, possibly inside the body -> conductivity times width, T, of
        a line along it.  The line has the flow T du/ds in addition to the flow in the body.
    barriers : dict, optional
        Boundary group inside the body -> its resistance R, width over conductivity.  The flux
        through it is the jump of u divided by R.  The stored solution is at the nodes of the mesh;
        on a barrier it is that of one side.
    location : {"nodes", "cells"}
        Location of the coefficients of phi.
    refine_solution : int, optional
        Number of uniform refinements of the mesh for the solution, 0 to 3.  The coefficients and
        the results remain on the given mesh.  Readings and solutions are extrapolated from the
        refined mesh and the one before: for a smooth solution this removes the error in the square
        of the cell size (:class:`~invlift.fem.mesh.finer_mesh.Extrapolated`).

    Returns
    -------
    LinearEquation, OnFinerMesh, Extrapolated or Combinations
        The forward model: Combinations for the transient equation, Extrapolated with a refined
        solution, OnFinerMesh with barriers.  Its ``further`` are the distributions, by name, of the
        coefficients after those of phi.  :func:`invlift.inverse_problem` joins them with the prior.

    Raises
    ------
    InputError
        If a group is unknown, two groups overlap, a source or a value is not finite, a point source
        is outside the mesh, neither a Dirichlet nor a Robin boundary is given (u is then determined
        only up to a constant), a connected part of the mesh has none of them, a flux cannot be
        read on a group, or JAX is not in double precision.

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
