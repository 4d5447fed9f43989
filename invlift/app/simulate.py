"""Readings of unknowns drawn from the prior: data of which the truth is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import jax
import numpy as np

from invlift.app.field_problem import FieldProblem
from invlift.app.quantities import quantities_of
from invlift.errors import InputError
from invlift.fem.sensors import Sensors
from invlift.inverse.noise import Noise
from invlift.inverse.problem import InverseProblem
from invlift.inverse.readings import coordinates_of, labels_of
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.posterior.names import FIELD
from invlift.posterior.quantity import Quantity, described
from invlift.programs.compilation import Program


def simulate_problem(problem: InverseProblem, seed: int) -> tuple[InverseProblem, np.ndarray]:
    """A problem with readings simulated from it, of unknowns drawn from its prior.

    Parameters
    ----------
    problem : InverseProblem
        Of which the data are not looked at.
    seed : int

    Returns
    -------
    InverseProblem
        The same with other data.
    theta : (h + m,)
        The unknowns (zeta, w) behind them, in the coordinates of the problem's noise.

    Raises
    ------
    InputError
        If a reading is not finite, or one that the noise cannot have made.
    """
    rng = np.random.default_rng(seed)
    made, theta = problem.simulate(rng)
    values = np.asarray(made.observed)
    if not np.all(np.isfinite(values)):
        raise InputError(
            "simulated readings",
            "finite numbers",
            f"{values[~np.isfinite(values)][0]}",
            "correct the noise scale, or the prior (a smaller std), source and boundary values",
        )
    made.noise.check(values)
    return made, theta


def simulate_readings(
    field: FieldProblem, noise: Noise, seed: int
) -> tuple[Sensors, dict[str, np.ndarray]]:
    """Readings of a field drawn from the prior, with noise.

    Parameters
    ----------
    field : FieldProblem
        Of which readings and noise are not looked at.
    noise : Noise
        Of which unknown parameters are drawn from their prior.
    seed : int

    Returns
    -------
    Sensors
        The same sensors with new values; a column sigma, if there was one, holds the scale of the
        noise.
    dict of str to array
        The truth behind them, as :func:`prior_draws` has it.

    Raises
    ------
    InputError
        As :func:`simulate_problem`.
    """
    problem, theta = simulate_problem(replace(field.problem, noise=noise), seed)
    zeta, _ = problem.split(theta)
    values, sigma = np.asarray(problem.observed), field.sensors.sigma
    if sigma is not None:
        sigma = np.broadcast_to(np.asarray(noise.sigma(jax.device_put(zeta))), values.shape)
    return replace(field.sensors, values=values, sigma=sigma), _drawn(problem, theta)


def simulate_by_name(
    problem: InverseProblem, seed: int
) -> tuple[dict[str, list], dict[str, np.ndarray]]:
    """Readings of unknowns drawn from the prior, with noise, by name.

    Parameters
    ----------
    problem : InverseProblem
        Of which the data are not looked at.
    seed : int

    Returns
    -------
    dict of str to list
        A table with a row for each reading: ``reading``, its name or number, its coordinates if it
        has any, and ``value``.
    dict of str to float
        The truth behind them: unknowns, parameters of noise and prior, and what else is kept of a
        draw, entry by entry.

    Raises
    ------
    InputError
        As :func:`simulate_problem`.
    """
    made, theta = simulate_problem(problem, seed)
    truth, numbers = _drawn(made, theta), {}
    shapes = {name: x.shape for name, x in truth.items()}
    for name, quantity in described(shapes, quantities_of(made)).items():
        if not quantity.is_derived:
            values = truth[name].ravel().tolist()
            numbers |= dict(zip(quantity.entries(shapes[name]), values, strict=True))
    if arrays := made.arrays():
        labels = [each for name, (axes, x) in arrays.items()
                  for each in Quantity(name, axes).entries(x.shape)]  # fmt: skip
        values = np.concatenate([np.ravel(x) for _, x in arrays.values()])
        return {"reading": labels, "value": values}, numbers
    readings = made.model.readings
    labels = labels_of(readings) or range(made.num_observations)
    values = np.asarray(made.observed)
    return {"reading": labels, **coordinates_of(readings), "value": values}, numbers


def prior_draws(problem: InverseProblem, num: int, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Draw all that is unknown from the prior, again and again.

    Parameters
    ----------
    problem : InverseProblem
        Of which readings are not looked at.
    num : int
    seed : int
        The first draw is the truth behind what is simulated with the same seed.

    Yields
    ------
    dict of str to array
        All that is kept of a draw, and the solutions of an equation, by name.

    Raises
    ------
    InputError
        If conductivity or solution of a draw are not finite.
    """
    rng = np.random.default_rng(seed)
    for index in range(num):
        white = problem.prior.sample(rng)
        draw = _drawn(problem, np.concatenate([problem.noise.sample_parameters(rng), white]))
        with np.errstate(over="ignore"):
            looked_at = [np.exp(draw.get(FIELD, 0.0)), *map(draw.get, problem.model.solutions)]
        if not all(np.isfinite(each).all() for each in looked_at):
            raise InputError(
                f"draw {index} from the prior",
                "a finite conductivity and solution",
                "infinity or NaN",
                "correct the prior (a smaller std), source and boundary values",
            )
        yield draw


def _drawn(problem: InverseProblem, theta: np.ndarray) -> dict[str, np.ndarray]:
    return {name: np.asarray(each) for name, each in _describe(problem, theta).items()}


@partial(Program, effort="none")
def _describe(problem, theta):
    kept, solutions = OrdinaryPosterior(problem).describe(theta)
    return kept | solutions
