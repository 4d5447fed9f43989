"""From the chains of a run to the posterior of the field they were about."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from invlift.app.build import FieldProblem
from invlift.app.problem_file import read_problem
from invlift.app.problems import OwnProblem, build, open_problem
from invlift.app.quantities import mesh_of, quantities_of, quantities_of_target
from invlift.app.sampling import read_chains
from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh, mesh_from_arrays, read_mesh
from invlift.fem.readings.locate import locate
from invlift.fem.sensors import Sensors
from invlift.fem.voltages import ROLES
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
    own = posterior.mesh
    with suppress(InputError):
        mesh = read_mesh(read_problem(problem).mesh.file)  # which has groups
        if np.array_equal(mesh.points, own.points) and np.array_equal(mesh.cells, own.cells):
            return replace(posterior, mesh=mesh, boundary_flux=_flux_of(problem))
    return replace(posterior, mesh=mesh_from_arrays(own.points, own.cells))


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

    ``num_draws_requested`` and ``objections`` are as for :class:`~invlift.posterior.Posterior`.

    Raises
    ------
    InputError
        If the run has no draws.
    """
    own = getattr(problem, "problem", problem)
    names = "chains", "standards", "compile_seconds", "is_interrupted"
    parts = {name: getattr(run, name) for name in names}
    parts |= {"num_draws_requested": num_draws_requested, "objections": objections}
    if not isinstance(own, InverseProblem):
        return Posterior(quantities=quantities_of_target(own), **parts)
    labels, coordinates, points = None, {}, None
    if isinstance(problem, FieldProblem):
        sensors = problem.sensors
        labels, points = sensors.labels, sensors.points
        if sensors.electrodes is not None:
            points = None
        elif not np.isfinite(points).all():  # of kinds that have no place
            points = locate(problem.mesh, sensors, "project").points
        columns = {"experiment": sensors.experiments, KIND: sensors.kinds}
        if sensors.electrodes is not None:
            columns |= dict(zip(ROLES, sensors.electrodes.T, strict=True))
        coordinates = {name: each.tolist() for name, each in columns.items() if each is not None}
        parts |= {"mesh": problem.mesh, "exceedance": problem.exceedance}
    else:
        parts["mesh"] = mesh_of(own.prior)
        if readings := getattr(own.model, "readings", ()):
            labels, coordinates = labels_of(readings) or None, coordinates_of(readings)
            if own.units:
                units = [own.units.get(name, "") for name in coordinates["name"]]
                coordinates = {UNITS: units} | coordinates
    noise, scale, sigma = own.reading_noise(), own.noise.scale, None
    is_of_arrays = hasattr(noise, "arrays")  # which have their own scales
    if noise is not None and not scale.num_parameters and not is_of_arrays:
        sigma = np.asarray(scale.value(np.zeros(0)))
    return Posterior(
        quantities=quantities_of(own, labels, with_prior=True),
        sensors=Readings(np.asarray(own.observed), sigma, points, labels, coordinates),
        noise=noise,
        boundary_flux=getattr(own.model, "boundary_flux", None),
        **parts,
    )


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
    field = FieldProblem(mesh, sensors, None, problem, tuple(exceedance))
    return build_posterior(field, run, num_draws_requested, objections=objections)
