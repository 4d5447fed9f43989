"""Checks of the fit of the model to the readings at the best fit, before a run."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from scipy.special import chdtrc

from invlift.app.checks.findings import Finding
from invlift.problems.problem import InverseProblem, name_of_reading, prediction
from invlift.problems.starts.search import CAUSES, MAX_MISFIT, Fit, Start
from invlift.programs.compilation import program
from invlift.standards import (
    DOUBTFUL_P_VALUE,
    DOUBTFUL_RESIDUAL,
    MAX_UNEXPLAINED,
    MIN_MISFIT_P_VALUE,
    MIN_READINGS,
    PRIOR_TAIL,
)

#: Number of draws of the noise scale from its prior.
NUM_DRAWS = 1000
#: Units that readings often have by mistake, and their factors to the unit of the other readings.
UNITS = {"feet": 0.3048, "inches": 0.0254, "thousandths": 1e-3, "hundredths": 1e-2, "tenths": 0.1,
         "tens": 10.0, "hundreds": 100.0, "thousands": 1e3}  # fmt: skip


def check_fit(problem: InverseProblem, start: Start) -> Finding:
    """Check that the best fit reproduces all readings, and those of each group.

    If the noise scale is known, the misfit shows a wrong model. An unknown scale increases with the
    misfit, and is compared with its prior and with the spread of the readings.
    """
    if problem.noise.is_exact:
        return Finding("ok", "fit", "the start reproduces the readings exactly")
    if start.fit is None:
        return _of_a_start(problem, start)
    if problem.noise.num_parameters:
        return _of_unknown_noise(problem, start.fit)
    eta = start.fit.eta
    worst, p_value = int(np.argmax(np.abs(eta))), _p_value(eta)
    most = float(np.abs(eta[worst]))
    detail = f"the best fit has residuals of up to {most:.3g} sd of the noise"
    detail += f" (p-value of all {p_value:.2g})"
    if most > DOUBTFUL_RESIDUAL or p_value < DOUBTFUL_P_VALUE:
        return Finding("bad", "fit", f"{detail}, most at {_reading(problem, start.fit, worst)}")
    notes = [
        f"{name}: {value:.2g}"
        for name, value in _by_group(problem, eta)
        if value < MIN_MISFIT_P_VALUE
    ]
    if p_value < MIN_MISFIT_P_VALUE or notes:
        detail += f", most at {_reading(problem, start.fit, worst)}"
        detail += f"; p-values of {', '.join(notes)}" if notes else ""
        return Finding("note", "fit", detail)
    return Finding("ok", "fit", detail)


def check_limits(problem: InverseProblem, start: Start) -> list[Finding]:
    """Check that the best fit of the other readings is within the limits of censored readings."""
    if problem.noise.censored is None or start.fit is None:
        return []
    signs, limits = np.asarray(problem.noise.censored), np.asarray(problem.observed)
    theta = np.concatenate([np.zeros(problem.noise.num_parameters), start.fit.white])
    beyond = signs * (limits - np.asarray(prediction(problem, theta))) * (signs != 0.0)
    num, size = int(np.count_nonzero(beyond > 0.0)), int(np.count_nonzero(signs))
    detail = f"{size} censored reading{'s' * (size > 1)}, not lifted: {num} beyond "
    detail += "their limits at the best fit of the others"
    if not num:
        return [Finding("ok", "limits", detail)]
    worst = int(np.argmax(beyond))
    value = limits[worst] - signs[worst] * beyond[worst]
    detail += f", most {name_of_reading(problem, worst)}, {value:.4g} where the reading is "
    detail += f"{'below' if signs[worst] < 0.0 else 'above'} {limits[worst]:.4g}"
    return [Finding("note", "limits", detail)]


def _of_a_start(problem: InverseProblem, start: Start) -> Finding:
    """Return the finding for a start without a search for the mode."""
    if problem.noise.num_parameters:
        return Finding("ok", "fit", "no limit: the unknown noise scale increases with the misfit")
    worst = int(np.argmax(start.misfit))
    most = start.misfit[worst]
    detail = f"the best fit has residuals of up to {most:.3g} sd of the noise"
    if most <= MAX_MISFIT:
        return Finding("ok", "fit", detail)
    detail += f", at {name_of_reading(problem, worst)}, which contradicts another or the model "
    detail += f"({CAUSES}, too small a noise)"
    return Finding("bad", "fit", detail)


def _of_unknown_noise(problem: InverseProblem, fit: Fit) -> Finding:
    observed, predicted = np.asarray(problem.observed), fit.predicted
    if problem.noise.relative:
        observed, predicted = np.log(np.abs(observed)), np.log(np.abs(predicted))
    left, spread = observed - predicted, float(np.std(observed))
    rms, sigma = float(np.sqrt(np.mean(left**2))), float(np.median(fit.sigma))
    detail = f"the best fit has residuals of {rms:.3g} where readings vary by {spread:.3g}, and a "
    detail += f"noise scale of {sigma:.3g}"
    rng = np.random.default_rng(0)
    zetas = np.stack([problem.noise.sample_parameters(rng) for _ in range(NUM_DRAWS)])
    of_prior = np.median(np.asarray(_scales(problem.noise, zetas)), axis=-1)
    end = float(np.quantile(of_prior, 1.0 - PRIOR_TAIL))
    is_nothing = observed.size >= MIN_READINGS and rms >= MAX_UNEXPLAINED * spread
    is_above = sigma > end
    worst = int(np.argmax(np.abs(left)))
    if is_above:
        detail += f", above its prior ({end:.3g} at most)"
    if is_nothing:
        detail += ": the model fits no better than a constant"
    if not (is_above or is_nothing):
        return Finding("ok", "fit", detail)
    detail += f"; the largest residual is at {_reading(problem, fit, worst)}"
    return Finding("bad" if is_above and is_nothing else "note", "fit", detail)


@program
def _scales(noise, zetas):
    """Return scales of the noise, (K, 1) or (K, d), at its parameters, (K, h)."""
    return jax.lax.map(lambda zeta: jax.numpy.atleast_1d(noise.sigma(zeta)), zetas)


def _p_value(eta: np.ndarray) -> float:
    """Return the probability of a larger sum of squares of standard normal variables."""
    return float(chdtrc(eta.size, np.sum(eta**2)))


def _by_group(problem: InverseProblem, eta: np.ndarray) -> Iterator[tuple[str, float]]:
    """Yield names and p-values of the readings of each experiment, kind and group."""
    sensors = problem.sensors
    for column in ("experiments", "kinds", "groups"):
        labels = getattr(sensors, column, None)
        if labels is None or len(names := np.unique(labels)) < 2:
            continue
        for name in names:
            yield f"{column[:-1]} {name}", _p_value(eta[labels == name])


def _reading(problem: InverseProblem, fit: Fit, index: int) -> str:
    """Describe a reading: its best fit, the range of the others, and a unit that would fit."""
    observed = np.asarray(problem.observed)
    reading, others = float(observed[index]), np.delete(observed, index)
    text = (
        f"{name_of_reading(problem, index)}, {reading:.6g} where {fit.predicted[index]:.6g} fits "
    )
    text += "best"
    if not others.size:
        return text
    low, high = float(others.min()), float(others.max())
    text += f" and the others are {low:.6g} to {high:.6g}"
    if low <= reading <= high:
        return f"{text}: {CAUSES}, or too small a noise?"
    near = [
        f"{factor * reading:.4g} if it is in {unit}"
        for unit, factor in UNITS.items()
        if low <= factor * reading <= high
    ]
    return text + (f" ({near[0]})" if near else ": a code for a missing reading, or a unit?")
