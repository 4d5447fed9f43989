"""Readings of unknowns drawn from the prior: data of which the truth is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax
import numpy as np

from invlift.app.build import FieldProblem
from invlift.compilation import Program
from invlift.errors import InputError
from invlift.fem.sensors import Sensors
from invlift.inverse.noise import Noise, known_noise
from invlift.inverse.problem import InverseProblem


def simulate_readings(
    field: FieldProblem, noise: Noise | float, seed: int
) -> tuple[Sensors, dict[str, np.ndarray]]:
    """Readings of a field drawn from the prior, with noise.

    Parameters
    ----------
    field : FieldProblem
        Of which the noise is not looked at.
    noise : Noise or float
        Noise, of which unknown parameters are drawn from their prior, or the standard deviation of
        normal noise, > 0, in units of the readings.
    seed : int

    Returns
    -------
    Sensors
        The same sensors with new values; a column sigma, if there was one, holds the scale of the
        noise.
    dict
        The truth behind them: ``log_conductivity`` (N,), ``solution`` (num_nodes,) and by their
        names what was drawn of unknown parameters of noise and prior.

    Raises
    ------
    InputError
        If a reading is not finite, or one that the noise cannot have made.
    """
    noise = noise if isinstance(noise, Noise) else known_noise(noise)
    rng = np.random.default_rng(seed)
    prior, forward = field.problem.prior, field.problem.model
    white = jax.device_put(prior.sample(rng))
    coefficients = prior.transform(white)
    solution = forward.solve(coefficients)
    zeta = noise.sample_parameters(rng)
    values = noise.sample(rng, np.asarray(forward.observe(solution)), zeta)
    _check_readings(noise, values)
    zeta = jax.device_put(zeta)
    truth = {"log_conductivity": coefficients, "solution": solution}
    truth |= noise.parameters(zeta) | prior.parameters(white)
    old = field.sensors
    sigma = None
    if old.sigma is not None:
        sigma = np.broadcast_to(np.asarray(noise.sigma(zeta)), values.shape)
    sensors = replace(old, values=values, sigma=sigma)
    return sensors, {name: np.asarray(value) for name, value in truth.items()}


def simulate_problem(problem: InverseProblem, seed: int) -> tuple[InverseProblem, np.ndarray]:
    """A problem with readings simulated from it, of unknowns drawn from its prior.

    The random numbers are those of :func:`simulate_readings`.

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
        As :func:`simulate_readings`.
    """
    rng = np.random.default_rng(seed)
    made, theta = problem.simulate(rng)
    _check_readings(made.noise, np.asarray(made.observed))
    return made, theta


def _check_readings(noise: Noise, values: np.ndarray) -> None:
    """Check that simulated readings are finite, and such as the noise can have made.

    Raises
    ------
    InputError
        If they are not.
    """
    if not np.all(np.isfinite(values)):
        raise InputError(
            "simulated readings",
            "finite numbers",
            f"{values[~np.isfinite(values)][0]}",
            "correct the noise scale, or the prior (a smaller std), source and boundary values",
        )
    noise.check(values)


@dataclass(frozen=True, eq=False)
class PriorDraw:
    """A field drawn from the prior, and what follows from it.

    Attributes
    ----------
    log_conductivity : (N,) array
        At the nodes or in the cells.
    solution : (num_nodes,) array
        In units of the readings.
    predicted : (d,) array
        Readings without noise.
    numbers : dict of str to number or (k,) array
        What was drawn of unknown parameters of noise and prior, by name.
    """

    log_conductivity: np.ndarray
    solution: np.ndarray
    predicted: np.ndarray
    numbers: dict[str, np.ndarray]


def prior_draws(field: FieldProblem, noise: Noise, num: int, seed: int) -> Iterator[PriorDraw]:
    """Draw fields and unknown parameters from the prior, one after the other.

    Parameters
    ----------
    field : FieldProblem
        Of which readings and noise are not looked at.
    noise : Noise
        Of which unknown parameters are drawn from their prior.
    num : int
        Number of draws, at least 1.
    seed : int
        The first draw is the truth that :func:`simulate_readings` draws with the same seed.

    Yields
    ------
    PriorDraw

    Raises
    ------
    InputError
        If conductivity or solution of a draw are not finite.
    """
    rng = np.random.default_rng(seed)
    prior = field.problem.prior
    for index in range(num):
        white = prior.sample(rng)
        zeta = noise.sample_parameters(rng)
        coefficients, solution, predicted = map(np.asarray, _solve(field.problem, white))
        with np.errstate(over="ignore"):
            is_finite = np.all(np.isfinite(np.exp(coefficients))) and np.all(np.isfinite(solution))
        if not is_finite:
            raise InputError(
                f"draw {index} from the prior",
                "a finite conductivity and solution",
                "infinity or NaN",
                "correct the prior (a smaller std), source and boundary values",
            )
        numbers = noise.parameters(jax.device_put(zeta)) | prior.parameters(jax.device_put(white))
        yield PriorDraw(
            coefficients,
            solution,
            predicted,
            {name: np.asarray(value) for name, value in numbers.items()},
        )


def _from_white(problem: InverseProblem, white):
    coefficients = problem.prior.transform(white)
    solution = problem.model.solve(coefficients)
    return coefficients, solution, problem.model.observe(solution)


_solve = Program(_from_white, "none")
