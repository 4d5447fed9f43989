"""Simulated readings from unknowns drawn from the prior: data with a known truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import jax
import numpy as np

from invlift.app.runs.quantities import quantities_of
from invlift.errors import InputError
from invlift.fem.readings.sensors import Sensors
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.models.named_readings import coordinates_of, labels_of
from invlift.noise import Noise
from invlift.posterior.names import FIELD, PREDICTED
from invlift.posterior.statistics.quantity import Quantity, described
from invlift.problems.problem import InverseProblem
from invlift.programs.compilation import program

#: Recorded quantities of a draw, and solutions of an equation, by name.
Draw = dict[str, np.ndarray]


def simulate_problem(problem: InverseProblem, seed: int) -> tuple[InverseProblem, np.ndarray]:
    """Return the problem with simulated readings, and the true unknowns.

    The truth is theta = (zeta, w), (h + m,), in the coordinates of the noise of the problem, drawn
    from the prior. Raises an InputError if a reading is not finite, or impossible under the noise.
    """
    made, theta = problem.simulate(np.random.default_rng(seed))
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


def simulate_readings(inverse: InverseProblem, noise: Noise, seed: int) -> tuple[Sensors, Draw]:
    """Simulate readings, with noise, of a field drawn from the prior; return them and the truth.

    The sensors are the same, with new values. A column sigma, if it exists, gets the scale of the
    noise, whose unknown parameters are also drawn. Raises an InputError as :func:`simulate_problem`
    does.
    """
    problem, theta = simulate_problem(replace(inverse, noise=noise), seed)
    zeta, _ = problem.split(theta)
    values, sigma = np.asarray(problem.observed), inverse.sensors.sigma
    if sigma is not None:
        sigma = np.broadcast_to(np.asarray(noise.sigma(jax.device_put(zeta))), values.shape)
    limits = None if problem.noise.censored is None else problem.noise.limits
    made = replace(inverse.sensors, values=values, sigma=sigma, limits=limits)
    return made, _drawn(problem, theta)


def simulate_by_name(
    problem: InverseProblem, seed: int
) -> tuple[dict[str, list], dict[str, float]]:
    """Simulate readings, with noise, of unknowns drawn from the prior; return them and the truth.

    The readings are columns of a table with a row for each: ``reading``, its name or number, its
    coordinates if it has any, ``value``, and ``limit`` if some are censored. The truth has the
    entries of unknowns, parameters of noise and prior, and further recorded quantities, by name.
    Raises an InputError as :func:`simulate_problem` does.
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
    columns = {"reading": labels, **coordinates_of(readings), "value": np.asarray(made.observed)}
    limits = {} if made.noise.censored is None else {"limit": made.noise.limits}
    return columns | limits, numbers


def prior_draws(problem: InverseProblem, num: int, seed: int) -> Iterator[Draw]:
    """Yield `num` draws of all unknowns from the prior.

    The first draw is the truth of readings simulated with the same seed. Raises an InputError if
    the conductivity or solution of a draw is not finite.
    """
    for index, draw in enumerate(_draws(problem, num, seed)):
        with np.errstate(over="ignore"):
            fields = [np.exp(draw.get(FIELD, 0.0)), *map(draw.get, problem.model.solutions)]
        if not all(np.isfinite(each).all() for each in fields):
            raise InputError(
                f"draw {index} from the prior",
                "a finite conductivity and solution",
                "infinity or NaN",
                "correct the prior (a smaller std), source and boundary values",
            )
        yield draw


def draw_predictions(problem: InverseProblem, num: int, seed: int) -> np.ndarray:
    """Return noise-free readings of draws from the prior, (num, d), finite or not."""
    return np.stack([draw[PREDICTED] for draw in _draws(problem, num, seed)])


def _draws(problem: InverseProblem, num: int, seed: int) -> Iterator[Draw]:
    rng = np.random.default_rng(seed)
    for _ in range(num):
        white = problem.prior.sample(rng)
        yield _drawn(problem, np.concatenate([problem.noise.sample_parameters(rng), white]))


def _drawn(problem: InverseProblem, theta: np.ndarray) -> Draw:
    return {name: np.asarray(each) for name, each in _describe(problem, theta).items()}


@program
def _describe(problem, theta):
    kept, solutions = OrdinaryPosterior(problem).describe(theta)
    return kept | solutions
