"""Readings of a field drawn from the prior: data of which the truth is known."""

from __future__ import annotations

import jax
import numpy as np

from invlift.app.build import FieldProblem
from invlift.errors import InputError
from invlift.fem.sensors import Sensors


def simulate_readings(
    field: FieldProblem, sigma: float, seed: int
) -> tuple[Sensors, dict[str, np.ndarray]]:
    """Readings of a field drawn from the prior, with noise.

    Parameters
    ----------
    field : FieldProblem
    sigma : float
        Standard deviation of the noise, > 0, in units of the readings.
    seed : int

    Returns
    -------
    Sensors
        The same sensors with new values.
    dict
        ``log_conductivity`` (N,) and ``solution`` (num_nodes,), the truth behind them.

    Raises
    ------
    InputError
        If a reading is not finite.
    """
    rng = np.random.default_rng(seed)
    prior, forward = field.problem.prior, field.problem.model
    truth = prior.transform(jax.device_put(rng.standard_normal(prior.num_white)))
    solution = forward.solve(truth)
    noise = sigma * rng.standard_normal(forward.num_observations)
    values = np.asarray(forward.observe(solution)) + noise
    if not np.all(np.isfinite(values)):
        raise InputError(
            "simulated readings",
            "finite numbers",
            f"{values[~np.isfinite(values)][0]}",
            "correct the noise scale, or the prior (a smaller std), source and boundary values",
        )
    old = field.sensors
    column = None if old.sigma is None else np.full(values.shape, sigma)
    sensors = Sensors(old.points, values, column, old.rows, old.name)
    return sensors, {"log_conductivity": np.asarray(truth), "solution": np.asarray(solution)}
