"""Make the posterior of a run from its chains, or load it from its folder."""

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
from invlift.fem.readings.sensors import LOGARITHM, OF_SOLUTION
from invlift.models.named_readings import coordinates_of
from invlift.posterior import Posterior, Readings
from invlift.posterior.names import FIELD, KIND, MESH_ERROR, PREDICTED, SECOND_PLACE, UNITS
from invlift.posterior.output.folder_files import is_finished, problem_file
from invlift.posterior.output.run_folder import read_posterior
from invlift.problems.problem import InverseProblem
from invlift.programs.digest import digest
from invlift.samplers.chains.results import Run
from invlift.samplers.chains.workers import single_threaded_blas
from invlift.samplers.kernels import KERNELS
from invlift.targets import ConstrainedTarget


def load(directory: str | os.PathLike) -> Posterior:
    """Load the posterior of a run, finished or not, from the folder of its results.

    Parameters
    ----------
    directory : path-like
        The folder given to ``invlift run --out``. If it has no ``posterior.nc`` yet, the problem is
        made from the problem file in the folder (a ``problem.py`` is executed), and the draws are
        those saved so far.

    Returns
    -------
    Posterior
        For a finished run it is made only from the files. If not all draws of a field are stored,
        its statistics are computed from the stored draws.

    Raises
    ------
    InputError
        If the folder has no run with draws, or a file in it is damaged or has changed.
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
    name, flux = "without groups, as no problem file says what file it is from", None
    saved_mesh, problem = posterior.mesh, problem_file(directory)

    def no_flux(*_):
        found, remedy = "none, or another", "put it back, or take problem.posterior(run)"
        raise InputError(f"{spec.mesh.file}", "the mesh file of the run", found, remedy)

    with suppress(InputError):
        spec = read_problem(problem)
        name, flux = f"without groups, as {spec.mesh.file} is gone or has changed", no_flux
        mesh = read_mesh_of(spec)  # with groups, unlike the saved mesh
        if mesh.is_same(saved_mesh):
            return replace(posterior, mesh=mesh, boundary_flux=_flux_of(problem))
    mesh = mesh_from_arrays(saved_mesh.points, saved_mesh.cells, name=name)
    mesh = replace(mesh, unit=saved_mesh.unit)
    return replace(posterior, mesh=mesh, boundary_flux=flux)


def _flux_of(problem: Path) -> Callable:
    """Return the flux function of the equation of a problem file, assembled at first use."""
    equation = cache(lambda: build(open_problem(str(problem))).model)
    return lambda *group: equation().on_mesh.boundary_flux(*group)


def posterior_of(
    problem: InverseProblem | ConstrainedTarget,
    run: Run,
    *,
    exceedance: Sequence[float] = (),
    objections: Sequence[str] = (),
) -> Posterior:
    """Return the posterior of a run of a problem; ``problem.posterior(run)`` is the short form.

    Parameters
    ----------
    problem : InverseProblem or Target
    run : Run
        A run of this problem, from :func:`invlift.sample`.
    exceedance : sequence of float
        Values of the conductivity, in its unit. The probability of exceeding each is a field.
    objections : sequence of str
        Doubts about the problem from the check before the run; part of the verdict.

    Returns
    -------
    Posterior
        The posterior with the mesh, the sensors, the noise and the prior of the problem.

    Raises
    ------
    InputError
        If the run has no draws or belongs to another problem, or a threshold is not positive.
    """
    if run.problem and run.problem != digest(problem):
        found = "one of a problem with another model, prior or noise, or other readings"
        remedy = "sample this problem, or ask the problem that was sampled"
        raise InputError("argument run", "a run of this problem", found, remedy)
    parts = {name: value for name, value in vars(run).items() if name != "problem"}
    parts |= {"exceedance": exceedance, "objections": objections}
    if not isinstance(problem, InverseProblem):
        return Posterior(quantities=quantities_of_target(problem), **parts)
    with single_threaded_blas():
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
        columns |= {KIND: sensors.kinds, "over": sensors.over, "radius": sensors.radius}
        if sensors.minus is not None:
            columns |= dict(zip(SECOND_PLACE, sensors.minus.T, strict=False))
        columns |= {"group": sensors.groups}
        columns |= {"time": sensors.times, "averaged_over": sensors.averaged_over}
        columns |= {"moment": sensors.moment}
        columns |= dict(sensors.further)
        if sensors.electrodes is not None:
            points = points if np.isfinite(points).all() else None
            columns |= dict(zip(ROLES, sensors.electrodes.T, strict=True))
        columns |= {MESH_ERROR: None if errors is None else errors.readings}
        coordinates = {name: each.tolist() for name, each in columns.items() if each is not None}
        coordinates |= _units_of_kinds(problem)
    elif problem.model.readings:
        coordinates = coordinates_of(problem.model.readings)
        if problem.units:
            units = [problem.units.get(name, "") for name in coordinates["name"]]
            coordinates = {UNITS: units} | coordinates
    scale, sigma, arrays = problem.noise.scale, None, problem.arrays()
    is_known = not problem.noise.is_exact and not scale.num_white
    if is_known and not arrays:  # named arrays have their own scales
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


def _units_of_kinds(problem: InverseProblem) -> dict[str, list[str]]:
    """Return the unit of each reading of a table of several kinds, if any unit is known."""
    known, kinds = problem.units or {}, problem.sensors.kinds
    if kinds is None or PREDICTED in known:  # one unit
        return {}
    of_solution = next((known[name] for name in problem.model.solutions if name in known), "")
    of_kinds = dict.fromkeys(OF_SOLUTION, of_solution) | {LOGARITHM: known.get(FIELD, "")}
    units = [of_kinds.get(kind, "") for kind in kinds.tolist()]
    return {UNITS: units} if any(units) else {}
