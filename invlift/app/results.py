"""From the chains of a run to the posterior of the field they were about."""

from __future__ import annotations

import numpy as np

from invlift.app.build import FieldProblem
from invlift.errors import InputError
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.sensors import Sensors
from invlift.inverse.problem import InverseProblem
from invlift.posterior import Posterior, Readings
from invlift.samplers.chains.parallel import Run


def build_posterior(field: FieldProblem, run: Run, num_draws_requested: int | None = None):
    """Posterior of a run of a problem built from a file: see :func:`field_posterior`."""
    return field_posterior(
        field.mesh, field.sensors, field.problem, run, num_draws_requested=num_draws_requested
    )


def field_posterior(
    mesh: Mesh,
    sensors: Sensors,
    problem: InverseProblem,
    run: Run,
    *,
    num_draws_requested: int | None = None,
) -> Posterior:
    """Bundle the draws of a run with the mesh, sensors and prior they belong to.

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

    Returns
    -------
    Posterior

    Raises
    ------
    InputError
        If the parts do not belong together, or the run has no draws.
    """
    _check_readings(sensors, problem)
    sigma = None
    if not problem.noise.num_parameters:
        sigma = np.asarray(problem.sigma(np.zeros(0)))
    return Posterior(
        run.chains,
        points=mesh.points,
        cells=mesh.cells,
        location=problem.prior.location,
        sensors=Readings(sensors.values, sigma, sensors.points),
        prior_sd=problem.prior.pointwise_std(),
        num_draws_requested=num_draws_requested,
        compile_seconds=run.compile_seconds,
        is_interrupted=run.is_interrupted,
    )


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
