"""Choice of the coordinate of an unknown noise scale: the threshold above which it is linear."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from invlift.problems.problem import InverseProblem
from invlift.problems.starts.fit import fit
from invlift.programs.compilation import program

#: Number of prior scales that are compared, at equally spaced normal scores, and the largest score.
NUM_SCALES, LARGEST_SCORE = 81, 4.0
#: Rounds: each linearises the model at its best fit for the current scale, then weighs all scales.
NUM_ROUNDS = 3


def typical_scale(problem: InverseProblem) -> float | None:
    """Estimate the noise's scale: its posterior root mean square under the linearised model.

    Rounded to two digits, which rarely depend on rounding errors of the model.

    Parameters
    ----------
    problem : InverseProblem

    Returns
    -------
    float or None
        In the unit of the scale; None if the scale is known, the estimate is not finite, or the
        lifted target is not dense: dense derivatives are used here.
    """
    if not problem.noise.num_parameters or not problem.lifted().is_dense:
        return None
    estimate = float(_estimate(problem) / jnp.mean(problem.noise.scale.over_weights()[0]))
    return float(f"{estimate:.1e}") if np.isfinite(estimate) and estimate > 0.0 else None


def with_scale_coordinate(problem: InverseProblem, scale: float | None = None) -> InverseProblem:
    """Return the same problem with the coordinate of its noise scale chosen for its data.

    The scale's posterior root mean square under the linearised model becomes the threshold of its
    coordinate (:meth:`invlift.noise.base.Noise.near`).  Above it the coordinate is linear: an
    exponential coordinate there would force small steps on the whole chain.  The threshold is not
    the mean: where readings say little about the scale, its posterior has a long tail, in which
    chains with a threshold at the mean move slowly.

    Parameters
    ----------
    problem : InverseProblem
    scale : float, optional
        The threshold; :func:`typical_scale` if left out.

    Returns
    -------
    InverseProblem
        With the same posterior; the given problem if there is no threshold.
    """
    scale = typical_scale(problem) if scale is None else scale
    return (
        problem if scale is None else replace(problem, noise=problem.noise.near(np.float64(scale)))
    )


@program
def _estimate(problem: InverseProblem):
    """Return the posterior root mean square of the scale, (), of a linearised model.

    The model is linearised at its best fit for that scale.  There the data are Normal(F - U w, U
    U^T + sigma^2 s s^T) with s the derivatives of the readings by the noise at scale one.  One
    scale is taken for all readings.  With more readings than unknowns, the remaining directions
    hold noise alone.
    """
    num_white, num_parameters = problem.prior.num_white, problem.noise.num_parameters
    scores = jnp.linspace(-LARGEST_SCORE, LARGEST_SCORE, NUM_SCALES)
    at_scores = jnp.broadcast_to(scores[:, None], (NUM_SCALES, num_parameters))
    scales = jax.vmap(lambda zeta: jnp.mean(problem.noise.sigma(zeta)))(at_scores)
    white = jnp.zeros(problem.prior.num_white)
    log_references = jax.vmap(problem.log_reference_of_unknowns, (0, None))(at_scores, white)
    log_weights = log_references - 0.5 * scores**2

    def weigh(score, _):
        zeta = jnp.full(num_parameters, score)
        zero = jnp.zeros(problem.num_observations)
        white, predicted, by_white = fit(problem, zeta, jnp.zeros(num_white), zero)
        # Readings in units in which the noise has its scale: of order one where it is relative.
        _, slope = problem.noise_variables(predicted, zeta)
        unit = slope * jnp.mean(problem.noise.sigma(zeta))
        residual = unit * (problem.observed - predicted + by_white @ white)
        by_white = unit[:, None] * by_white
        vectors, values, _ = jnp.linalg.svd(by_white, full_matrices=False)
        variance = values**2 + scales[:, None] ** 2
        along = vectors.T @ residual
        evidence = -0.5 * jnp.sum(along**2 / variance + jnp.log(variance), axis=1)
        if left := residual.size - along.size:
            rest = jnp.sum((residual - vectors @ along) ** 2)
            evidence -= 0.5 * rest / scales**2 + left * jnp.log(scales)
        weights = jax.nn.softmax(evidence + log_weights)
        mean = jnp.sum(weights * scales)
        return jnp.interp(mean, scales, scores), jnp.sqrt(jnp.sum(weights * scales**2))

    _, estimates = jax.lax.scan(weigh, jnp.zeros(()), length=NUM_ROUNDS)
    return estimates[-1]
