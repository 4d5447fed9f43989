"""From the chains of a run to the posterior of the field they were about."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import jax
import numpy as np

from invlift.app.build import FieldProblem
from invlift.app.problem_file import ProblemSpec, read_problem
from invlift.app.problems import OwnProblem, build, open_problem
from invlift.app.quantities import mesh_of, quantities_of, quantities_of_target
from invlift.app.sampling import read_chains
from invlift.compilation import Program
from invlift.errors import InputError
from invlift.fem.mesh.files import MAX_BYTES
from invlift.fem.mesh.mesh import Mesh, mesh_from_arrays, read_mesh
from invlift.fem.sensors import Sensors
from invlift.input_files import read_input
from invlift.inverse.noise import Noise, Scale
from invlift.inverse.problem import InverseProblem
from invlift.inverse.readings import coordinates_of, labels_of
from invlift.posterior import Posterior, Readings
from invlift.posterior.readings import Draws, shared_scale
from invlift.posterior.run_folder import DRAWS, problem_file, read_posterior, read_record
from invlift.samplers.chains.results import Run
from invlift.samplers.kernels import KERNELS
from invlift.samplers.kernels.base import Standards
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
    problem = problem_file(directory)
    if (directory / DRAWS).exists() or not (directory / "chains").is_dir():
        posterior = read_posterior(directory, _standards_of)
        if posterior.mesh is None:
            return posterior
        points, cells = posterior.mesh.points, posterior.mesh.cells
        expected = read_record(directory).mesh_sha256
        try:
            mesh = mesh_of_run(read_problem(problem), points, cells, expected)
        except InputError:
            mesh = None
        if mesh is None:
            return replace(posterior, mesh=mesh_from_arrays(points, cells))
        return replace(posterior, mesh=mesh, boundary_flux=_flux_of(problem))
    spec = open_problem(str(problem))
    field, sampler = build(spec), spec.sampler
    folder = directory / "chains"
    run = read_chains(field.problem, sampler.kernel(), sampler.warmup, sampler.seed, folder)
    return build_posterior(field, run)


def mesh_of_run(
    spec: ProblemSpec, points: np.ndarray, cells: np.ndarray, sha256: str | None = None
) -> Mesh | None:
    """The mesh that a run was made on, with its groups, from the file that its problem names.

    Parameters
    ----------
    spec : ProblemSpec
    points, cells : array
        Nodes and cells of the run's mesh.
    sha256 : str, optional
        What the run has recorded of the file.

    Returns
    -------
    Mesh or None
        None if the file has changed since.

    Raises
    ------
    InputError
        If there is no such file, or it cannot be read.
    """
    file = spec.mesh.file
    content = read_input(file, str(file), "a mesh file", remedy="", max_bytes=MAX_BYTES)
    if sha256 not in (None, hashlib.sha256(content).hexdigest()):
        return None
    mesh = read_mesh(file)
    is_same = np.array_equal(mesh.points, points) and np.array_equal(mesh.cells, cells)
    return mesh if is_same else None


def _flux_of(problem: Path) -> Callable[..., np.ndarray]:
    """The flux of a problem file's equation, which is assembled when it is first asked for."""

    @cache
    def equation():
        return build(open_problem(str(problem))).problem.model

    return lambda *arguments: equation().boundary_flux(*arguments)


def _standards_of(method: str) -> Standards | None:
    return KERNELS[method].standards if method in KERNELS else None


def build_posterior(
    problem: FieldProblem | OwnProblem | InverseProblem | ConstrainedTarget,
    run: Run,
    num_draws_requested: int | None = None,
    *,
    objections: Sequence[str] = (),
) -> Posterior:
    """Posterior of a run of a problem, built from a file or of a model of one's own.

    Parameters
    ----------
    problem : FieldProblem, OwnProblem, InverseProblem or target
    run : Run
    num_draws_requested, objections
        As for :func:`field_posterior`.

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
    if not isinstance(problem, InverseProblem):
        return Posterior(quantities=quantities_of_target(problem), **_of_run(run), **options)
    readings = getattr(problem.model, "readings", ())
    labels = labels_of(readings) or None
    return Posterior(
        mesh=mesh_of(problem.prior),
        quantities=quantities_of(problem, labels, with_prior=True),
        **_of_problem(problem, labels=labels, coordinates=coordinates_of(readings)),
        **_of_run(run),
        **options,
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
    mesh : Mesh
    sensors : Sensors
        The d sensors of the problem.
    problem : InverseProblem
        With a field prior.
    run : Run
    num_draws_requested : int, optional
        Draws per chain asked for, to notice a run that was cut short.
    exceedance : sequence of float
        Thresholds of the conductivity, in its unit: see `Posterior`.
    objections : sequence of str
        What makes the problem a doubtful one: see `Posterior`.

    Returns
    -------
    Posterior

    Raises
    ------
    InputError
        If the parts do not belong together, or the run has no draws.
    """
    _check_readings(sensors, problem)
    return Posterior(
        mesh=mesh,
        quantities=quantities_of(problem, sensors.labels, with_prior=True),
        num_draws_requested=num_draws_requested,
        exceedance=exceedance,
        objections=objections,
        **_of_problem(problem, sensors.points, sensors.labels),
        **_of_run(run),
    )


def _of_run(run: Run) -> dict:
    """What a posterior takes from a run."""
    return {
        "chains": run.chains,
        "standards": run.standards,
        "compile_seconds": run.compile_seconds,
        "is_interrupted": run.is_interrupted,
    }


def _of_problem(
    problem: InverseProblem,
    points: np.ndarray | None = None,
    labels: Sequence[str] | None = None,
    coordinates: Mapping[str, Sequence] | None = None,
) -> dict:
    """What a posterior takes from a problem, whose readings may have places and names."""
    scale, observed = problem.noise.scale, np.asarray(problem.observed)
    is_known = not scale.num_parameters and not problem.noise.is_exact
    sigma = np.asarray(scale.value(np.zeros(0))) if is_known else None
    return {
        "boundary_flux": getattr(problem.model, "boundary_flux", None),
        "sensors": Readings(observed, sigma, points, labels, coordinates or {}),
        "noise": None
        if problem.noise.is_exact
        else problem.reading_noise() or NoiseOfReadings(problem.noise, observed),
    }


@dataclass(frozen=True, eq=False)
class NoiseOfReadings:
    """The noise of a problem, given draws of what is unknown about it.

    Attributes
    ----------
    noise : Noise
    observed : (d,) array
    """

    noise: Noise
    observed: np.ndarray

    def new_readings(self, rng: np.random.Generator, chains: Draws) -> list[np.ndarray]:
        """See :func:`draw_readings`."""
        return [draw_readings(self.noise, rng, draws) for draws in chains]

    def new_along(
        self, rng: np.random.Generator, chains: Draws, name: str, rows: np.ndarray
    ) -> list[np.ndarray] | None:
        """See :meth:`~invlift.posterior.readings.ReadingNoise.new_along`."""
        scales = [shared_scale(_sigma_of(self.noise, draws), rows) for draws in chains]
        if any(scale is None for scale in scales):
            return None
        pairs = zip(chains, scales, strict=True)
        return [_noisy(self.noise, rng, draws[name], scale, draws) for draws, scale in pairs]

    def log_likelihood(self, chains: Draws) -> list[np.ndarray]:
        """See :func:`log_likelihood`."""
        return [log_likelihood(self.noise, self.observed, draws) for draws in chains]


def draw_readings(
    noise: Noise, rng: np.random.Generator, draws: Mapping[str, np.ndarray]
) -> np.ndarray:
    """New readings, exactly as noisy as the model has it.

    Parameters
    ----------
    noise : Noise
    rng : numpy.random.Generator
    draws : mapping of str to (num_draws, ...) array
        Of one chain: ``predicted`` (num_draws, d), and what is unknown about the noise.

    Returns
    -------
    (num_draws, d)
    """
    return _noisy(noise, rng, draws["predicted"], _sigma_of(noise, draws), draws)


def _noisy(noise, rng, predicted, sigma, draws):
    """Values with noise of this scale, (num_draws, k), of these without, (num_draws, k)."""
    parts = [(name, getattr(noise, name)) for name in noise.shape_parameters]
    shape = [_values_of(name, part, draws) for name, part in parts]
    if any(part.num_parameters for _, part in parts):
        each = zip(*(np.broadcast_to(values, len(predicted)) for values in shape), strict=True)
        drawn = np.stack([noise.draw(rng, predicted.shape[1], *values) for values in each])
    else:
        drawn = noise.draw(rng, predicted.size, *shape).reshape(predicted.shape)
    return predicted * np.exp(sigma * drawn) if noise.relative else predicted + sigma * drawn


def log_likelihood(
    noise: Noise, observed: np.ndarray, draws: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Log density of each reading, given each draw.

    Parameters
    ----------
    noise : Noise
    observed : (d,)
    draws : mapping of str to (num_draws, ...) array
        Of one chain, as for :func:`draw_readings`.

    Returns
    -------
    (num_draws, d)
        With all constants, in the logarithm of one over the unit of the readings.
    """
    predicted = np.asarray(draws["predicted"], dtype=float)
    sigma = np.broadcast_to(_sigma_of(noise, draws), predicted.shape)
    shape = tuple(
        np.broadcast_to(_values_of(name, getattr(noise, name), draws), len(predicted))
        for name in noise.shape_parameters
    )
    return np.asarray(_log_densities(noise, predicted, np.asarray(observed, float), sigma, shape))


def _each_log_density(noise, predicted, observed, sigma, shape):
    def of_draw(predicted, sigma, shape):
        return noise.log_densities(predicted, observed, sigma, *shape)

    return jax.vmap(of_draw)(predicted, sigma, shape)


_log_densities = Program(_each_log_density, "none")


def _sigma_of(noise: Noise, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """The noise's scale: drawn, (num_draws, d) or (num_draws, 1), or known, (d,) or ()."""
    sigma = _values_of("sigma", noise.scale, draws)
    is_shared = getattr(noise.scale, "is_shared", False)
    if is_shared and sigma.shape[1] == noise.scale.num_parameters:
        return sigma[:, np.asarray(noise.scale.groups)]
    return sigma[:, None] if noise.scale.num_parameters and sigma.ndim == 1 else sigma


def _values_of(name: str, part: Scale, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """A positive parameter of the noise: its draws, or what it is known to be."""
    return draws[name] if part.num_parameters else np.asarray(part.value(np.zeros(0)))


def _check_readings(sensors: Sensors, problem: InverseProblem) -> None:
    """Check that the readings are those that the problem was made of."""
    observed = np.asarray(problem.observed)
    if sensors.values.shape != observed.shape:
        raise InputError(
            f"{sensors.name}",
            f"the {observed.size} readings of the problem",
            f"{sensors.values.size}",
            "pass the sensors that the problem was made of (those in use, if some were left out)",
        )
    other = np.flatnonzero(sensors.values != observed)
    if other.size:
        first = other[0]
        raise InputError(
            f"{sensors.name}, row {sensors.rows[first]}",
            f"the reading that the problem was made of, {observed[first]:g}",
            f"{sensors.values[first]:g}; {other.size} of {observed.size} differ",
            "pass the sensors that the problem was made of",
        )
