"""From the chains of a run to the posterior of the field they were about."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from invlift.app.checks.electrodes import electrode_doubts
from invlift.app.checks.mesh_error import mesh_doubts, mesh_errors
from invlift.app.checks.time_step import time_step_doubts
from invlift.app.problem.build import read_mesh_of
from invlift.app.problem.problem_file import read_problem
from invlift.app.problem.saved_problem import open_saved
from invlift.app.problems import build, open_problem
from invlift.app.runs.quantities import (
    names_of_readings,
    quantities_of,
    quantities_of_target,
)
from invlift.app.runs.sampling import read_chains
from invlift.errors import InputError
from invlift.fem.electrodes.quadrupoles import ROLES
from invlift.fem.mesh.construction import mesh_from_arrays
from invlift.models.named_readings import coordinates_of
from invlift.posterior import Posterior, Readings
from invlift.posterior.names import KIND, MESH_ERROR, UNITS
from invlift.posterior.output.run_folder import is_finished, problem_file, read_posterior
from invlift.problems.problem import InverseProblem
from invlift.programs.digest import digest
from invlift.samplers.chains.results import Run
from invlift.samplers.kernels import KERNELS
from invlift.targets import ConstrainedTarget


def load(directory: str | os.PathLike) -> Posterior:
    """Posterior of a run from the folder of its results, finished or not.

    Parameters
    ----------
    directory : path-like
        As ``invlift run --out`` names it. While there is no ``posterior.nc`` in it, the problem is
        made from the folder's problem file, and the draws are those saved so far; a ``problem.py``
        is run for that.

    Returns
    -------
    Posterior
        Of a finished run made from the files alone. Where not all draws of a field are stored,
        all statistics are those of the stored draws.

    Raises
    ------
    InputError
        If the folder is not that of a run with draws, or a file in it is damaged or has changed.
    """
    directory = Path(directory)
    folder = directory / "chains"
    if not is_finished(directory) and folder.is_dir():
        spec = open_saved(directory)
        problem, sampler = build(spec), spec.sampler
        run = read_chains(problem, sampler.kernel(), sampler.warmup, sampler.seed, folder)
        return posterior_of(problem, run, exceedance=spec.output.exceedance)
    posterior = read_posterior(directory, {name: KERNELS[name].standards for name in KERNELS})
    if posterior.mesh is None:
        return posterior
    saved_mesh, problem, file = posterior.mesh, problem_file(directory), None
    with suppress(InputError):
        spec = read_problem(problem)
        file = spec.mesh.file
        mesh = read_mesh_of(spec)  # which has groups
        if mesh.is_same(saved_mesh):
            return replace(posterior, mesh=mesh, boundary_flux=_flux_of(problem))
    if file is None:
        name = "without groups, as no problem file says what file it is from"
        return replace(
            posterior, mesh=mesh_from_arrays(saved_mesh.points, saved_mesh.cells, name=name)
        )

    def no_flux(*_):
        found, remedy = "none, or another", "put it back, or take problem.posterior(run)"
        raise InputError(f"{file}", "the mesh file of the run", found, remedy)

    name = f"without groups, as {file} is gone or has changed"
    mesh = mesh_from_arrays(saved_mesh.points, saved_mesh.cells, name=name)
    return replace(posterior, mesh=mesh, boundary_flux=no_flux)


def _flux_of(problem: Path) -> Callable:
    """Fluxes of a problem file's equation, which is assembled when one is first asked for."""
    equation = cache(lambda: build(open_problem(str(problem))).model)
    return lambda *group: equation().on_mesh.boundary_flux(*group)


def posterior_of(
    problem: InverseProblem | ConstrainedTarget,
    run: Run,
    *,
    exceedance: Sequence[float] = (),
    objections: Sequence[str] = (),
) -> Posterior:
    """Posterior of a run of a problem; ``problem.posterior(run)`` is short for it.

    Parameters
    ----------
    problem : InverseProblem or Target
    run : Run
        As :func:`invlift.sample` returns it, of this problem.
    exceedance : sequence of float
        Values of the conductivity, in its unit: the probability of being above each is a field.
    objections : sequence of str
        What was found about the problem that makes it a doubtful one; part of the verdict.

    Returns
    -------
    Posterior
        With the mesh, the sensors, the noise and the prior that the problem knows.

    Raises
    ------
    InputError
        If the run has no draws, or is of another problem, or a value is not positive.
    """
    if run.problem and run.problem != digest(problem):
        found = "one of a problem with another model, prior or noise, or other readings"
        remedy = "sample this problem, or ask the problem that was sampled"
        raise InputError("argument run", "a run of this problem", found, remedy)
    names = "chains", "standards", "compile_seconds", "is_interrupted", "num_draws_requested"
    parts = {name: getattr(run, name) for name in names}
    parts |= {"exceedance": exceedance, "objections": objections}
    if not isinstance(problem, InverseProblem):
        return Posterior(quantities=quantities_of_target(problem), **parts)
    errors = mesh_errors(problem, run)
    parts["doubts"] = [
        *electrode_doubts(problem),
        *mesh_doubts(problem, errors),
        *time_step_doubts(problem, run),
    ]
    labels, coordinates, points = names_of_readings(problem), {}, None
    if (sensors := problem.sensors) is not None:
        points = sensors.points
        columns = {"experiment": sensors.experiments, "survey": sensors.surveys}
        columns |= {KIND: sensors.kinds, "group": sensors.groups}
        columns |= {"time": sensors.times} | dict(sensors.further)
        if sensors.electrodes is not None:
            points = points if np.isfinite(points).all() else None
            columns |= dict(zip(ROLES, sensors.electrodes.T, strict=True))
        columns |= {MESH_ERROR: None if errors is None else errors.readings}
        coordinates = {name: each.tolist() for name, each in columns.items() if each is not None}
    elif problem.model.readings:
        coordinates = coordinates_of(problem.model.readings)
        if problem.units:
            units = [problem.units.get(name, "") for name in coordinates["name"]]
            coordinates = {UNITS: units} | coordinates
    scale, sigma, arrays = problem.noise.scale, None, problem.arrays()
    is_known = not problem.noise.is_exact and not scale.num_white
    if is_known and not arrays:  # which have their own
        sigma = np.asarray(scale.transform(np.zeros(0)))
    return Posterior(
        quantities=quantities_of(problem, with_prior=True),
        materials=problem.prior.materials,
        mesh=problem.mesh,
        mesh_error=None if errors is None else errors.at_nodes,
        sensors=Readings(
            np.asarray(problem.observed),
            sigma,
            points,
            labels,
            coordinates,
            arrays,
            None if problem.noise.censored is None else problem.noise.limits,
        ),
        noise=problem.reading_noise(),
        boundary_flux=problem.model.on_mesh.boundary_flux,
        **parts,
    )
