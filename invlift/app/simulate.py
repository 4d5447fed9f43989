"""Readings of unknowns drawn from the prior: data of which the truth is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np

from invlift.app.field_problem import FieldProblem
from invlift.app.quantities import quantities_of
from invlift.errors import InputError
from invlift.fem.sensors import Sensors
from invlift.inverse.noise import Noise
from invlift.inverse.priors.named import NamedPrior
from invlift.inverse.problem import InverseProblem
from invlift.inverse.readings import coordinates_of, labels_of
from invlift.inverse.unknowns import unpack
from invlift.posterior.names import FIELD, NOISE_SCORE, PREDICTED
from invlift.posterior.quantity import Quantity, described
from invlift.programs.compilation import Program


@dataclass(frozen=True, eq=False)
class PriorDraw:
    """A field drawn from the prior, and what follows from it."""

    #: (N,), at the nodes or in the cells.
    log_conductivity: np.ndarray
    #: Solutions of the equation by name, (num_nodes,) each, in units of the readings.
    solutions: dict[str, np.ndarray]
    #: (d,), readings without noise.
    predicted: np.ndarray
    #: What was drawn of other unknowns, and of parameters of noise and prior, by name.
    numbers: dict[str, np.ndarray]


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


def simulate_readings(field: FieldProblem, noise: Noise, seed: int) -> tuple[Sensors, PriorDraw]:
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
    PriorDraw
        The truth behind them.

    Raises
    ------
    InputError
        As :func:`simulate_problem`.
    """
    problem, theta = simulate_problem(replace(field.problem, noise=noise), seed)
    zeta, white = problem.split(theta)
    values, sigma = np.asarray(problem.observed), field.sensors.sigma
    if sigma is not None:
        sigma = np.broadcast_to(np.asarray(noise.sigma(jax.device_put(zeta))), values.shape)
    return replace(field.sensors, values=values, sigma=sigma), _draw_of(problem, white, zeta)


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
    truth = _describe(made, theta)
    known = PREDICTED, NOISE_SCORE
    shapes = {name: np.shape(x) for name, x in truth.items() if name not in known}
    numbers = {}
    for name, quantity in described(shapes, quantities_of(made)).items():
        values = np.ravel(truth[name]).tolist()
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


def prior_predictions(problem: InverseProblem, num: int, seed: int) -> np.ndarray:
    """Noise-free readings of draws from the prior, (num, d)."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(num):
        white, zeta = problem.prior.sample(rng), problem.noise.sample_parameters(rng)
        found.append(_describe(problem, np.concatenate([zeta, white]))[PREDICTED])
    return np.stack(found)


def prior_draws(field: FieldProblem, noise: Noise, num: int, seed: int) -> Iterator[PriorDraw]:
    """Draw fields and unknown parameters from the prior, one after the other.

    Parameters
    ----------
    field, noise
        As for :func:`simulate_readings`.
    num : int
    seed : int
        The first draw is the truth that :func:`simulate_readings` draws with the same seed.

    Raises
    ------
    InputError
        If conductivity or solution of a draw are not finite.
    """
    rng = np.random.default_rng(seed)
    problem = replace(field.problem, noise=noise)
    for index in range(num):
        white = problem.prior.sample(rng)
        draw = _draw_of(problem, white, noise.sample_parameters(rng))
        with np.errstate(over="ignore"):
            conductivity = np.exp(draw.log_conductivity)
        if not all(np.isfinite(each).all() for each in (conductivity, *draw.solutions.values())):
            raise InputError(
                f"draw {index} from the prior",
                "a finite conductivity and solution",
                "infinity or NaN",
                "correct the prior (a smaller std), source and boundary values",
            )
        yield draw


def _draw_of(problem: InverseProblem, white, zeta) -> PriorDraw:
    white, zeta = jax.device_put((white, zeta))
    numbers = problem.noise.parameters(zeta) | problem.prior.parameters(white)
    found = _solve(problem.prior, problem.model, white)
    coefficients, solutions, predicted = jax.tree.map(np.asarray, found)
    if isinstance(problem.prior, NamedPrior):
        others = unpack(coefficients, problem.prior.shapes)
        coefficients, numbers = others.pop(FIELD), others | numbers
    numbers = {name: np.asarray(each) for name, each in numbers.items()}
    return PriorDraw(coefficients, solutions, predicted, numbers)


def _from_white(prior, model, white):
    coefficients = prior.transform(white)
    predicted, expansion = model.expand(coefficients)
    return coefficients, expansion.byproducts, predicted


_solve = Program(_from_white, "none")


@partial(Program, effort="none")
def _describe(problem, theta):
    coefficients = problem.prior.transform(problem.split(theta)[1])
    return problem.describe(theta, coefficients, problem.model(coefficients))
