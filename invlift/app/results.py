"""From the chains of a run to the posterior of the field they were about."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from invlift.app.build import FieldProblem
from invlift.app.problem_file import ProblemSpec, read_problem
from invlift.app.problems import OwnProblem, build, open_problem
from invlift.app.quantities import mesh_of, quantities_of, quantities_of_target
from invlift.app.sampling import read_chains
from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh, mesh_from_arrays, read_mesh
from invlift.fem.readings.locate import locate
from invlift.fem.sensors import Sensors
from invlift.inverse.problem import InverseProblem
from invlift.inverse.readings import coordinates_of, labels_of
from invlift.posterior import Posterior, Readings
from invlift.posterior.names import KIND, UNITS
from invlift.posterior.run_folder import DRAWS, problem_file, read_posterior
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
    problem, folder = problem_file(directory), directory / "chains"
    if not (directory / DRAWS).exists() and folder.is_dir():
        spec = open_problem(str(problem))
        field, sampler = build(spec), spec.sampler
        run = read_chains(field.problem, sampler.kernel(), sampler.warmup, sampler.seed, folder)
        return build_posterior(field, run)
    posterior = read_posterior(directory, {name: KERNELS[name].standards for name in KERNELS})
    if posterior.mesh is None:
        return posterior
    mesh = None
    with suppress(InputError):
        mesh = mesh_of_run(read_problem(problem), posterior.mesh)
    if mesh is None:
        return replace(posterior, mesh=mesh_from_arrays(*posterior.mesh))
    return replace(posterior, mesh=mesh, boundary_flux=_flux_of(problem))


def mesh_of_run(spec: ProblemSpec, own: Any) -> Mesh | None:
    """The mesh, with its groups, that a problem names; None if it is not the run's ``own``."""
    try:
        mesh = read_mesh(spec.mesh.file)
    except InputError:
        return None
    is_same = np.array_equal(mesh.points, own.points) and np.array_equal(mesh.cells, own.cells)
    return mesh if is_same else None


def _flux_of(problem: Path) -> Callable[..., np.ndarray]:
    """The flux of a problem file's equation, which is assembled when it is first asked for."""
    equation = cache(lambda: build(open_problem(str(problem))).problem.model)
    return lambda *arguments: equation().boundary_flux(*arguments)


def build_posterior(
    problem: FieldProblem | OwnProblem | InverseProblem | ConstrainedTarget,
    run: Run,
    num_draws_requested: int | None = None,
    *,
    objections: Sequence[str] = (),
) -> Posterior:
    """Posterior of a run of a problem, built from a file or of a model of one's own.

    ``num_draws_requested`` and ``objections`` are as for :func:`field_posterior`.

    Raises
    ------
    InputError
        If the run has no draws.
    """
    options = {"num_draws_requested": num_draws_requested, "objections": objections}
    if isinstance(problem, FieldProblem):
        parts = problem.mesh, problem.sensors, problem.problem, run
        return field_posterior(*parts, exceedance=problem.exceedance, **options)
    problem = problem.problem if isinstance(problem, OwnProblem) else problem
    if isinstance(problem, InverseProblem):
        readings = getattr(problem.model, "readings", ())
        options["mesh"] = mesh_of(problem.prior)
        coordinates = coordinates_of(readings)
        if problem.units and readings:
            units = [problem.units.get(name, "") for name in coordinates["name"]]
            coordinates = {UNITS: units} | coordinates
        options |= _of_problem(problem, None, labels_of(readings) or None, coordinates)
    else:
        options["quantities"] = quantities_of_target(problem)
    return Posterior(**_of_run(run), **options)


def field_posterior(
    mesh: Mesh,
    sensors: Sensors,
    problem: InverseProblem,
    run: Run,
    *,
    num_draws_requested: int | None = None,
    exceedance: Sequence[float] = (),
    objections: Sequence[str] = (),
) -> Posterior:
    """Bundle the draws of a run with the mesh, sensors, noise and prior they belong to.

    Parameters
    ----------
    mesh, run
    sensors : Sensors
        The d sensors of the problem.
    problem : InverseProblem
        With a field prior.
    num_draws_requested, exceedance, objections
        See `Posterior`.

    Raises
    ------
    InputError
        If the parts do not belong together, or the run has no draws.
    """
    if not np.array_equal(sensors.values, problem.observed):
        num, size = problem.num_observations, len(sensors.values)
        found = "other values" if size == num else f"{size}"
        remedy = "pass the sensors in use of which the problem was made"
        raise InputError(sensors.name, f"the {num} readings of the problem", found, remedy)
    points = sensors.points
    if not np.isfinite(points).all():  # of kinds that have no place
        points = locate(mesh, sensors, "project").points
    return Posterior(
        mesh=mesh,
        num_draws_requested=num_draws_requested,
        exceedance=exceedance,
        objections=objections,
        **_of_problem(
            problem,
            points,
            sensors.labels,
            {
                name: column.tolist()
                for name, column in (("experiment", sensors.experiments), (KIND, sensors.kinds))
                if column is not None
            },
        ),
        **_of_run(run),
    )


def _of_run(run: Run) -> dict[str, Any]:
    """What a posterior takes from a run."""
    names = "chains", "standards", "compile_seconds", "is_interrupted"
    return {name: getattr(run, name) for name in names}


def _of_problem(
    problem: InverseProblem,
    points: np.ndarray | None,
    labels: Sequence[str] | None,
    coordinates: Mapping[str, Sequence] | None = None,
) -> dict[str, Any]:
    """What a posterior takes from a problem, whose readings may have places and names."""
    noise, scale, sigma = problem.reading_noise(), problem.noise.scale, None
    is_of_arrays = hasattr(noise, "arrays")  # which have their own scales
    if noise is not None and not scale.num_parameters and not is_of_arrays:
        sigma = np.asarray(scale.value(np.zeros(0)))
    return {
        "quantities": quantities_of(problem, labels, with_prior=True),
        "boundary_flux": getattr(problem.model, "boundary_flux", None),
        "sensors": Readings(np.asarray(problem.observed), sigma, points, labels, coordinates or {}),
        "noise": noise,
    }
