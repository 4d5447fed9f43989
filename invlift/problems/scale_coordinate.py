"""Which coordinate of an unknown noise scale suits the data: where it turns linear."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from invlift.problems.problem import InverseProblem
from invlift.problems.starts.fit import fit
from invlift.programs.compilation import program

#: Prior scales that are weighed against each other, at equal distances of their normal scores.
NUM_SCALES, LARGEST_SCORE = 81, 4.0
#: Rounds of linearising where the model fits best at the scale found, and weighing.
NUM_ROUNDS = 3


def typical_scale(problem: InverseProblem) -> float | None:
    """What the noise's scale is about: its posterior root mean square under the linearised model.

    To two digits, which are nearly always the same whatever the rounding of the model.

    Parameters
    ----------
    problem : InverseProblem

    Returns
    -------
    float or None
        In the unit of the scale; None if the scale is known, no estimate is finite, or the problem
        has a lifted form of its own: derivatives are dense here.
    """
    if not problem.noise.num_parameters or not problem.lifted().is_dense:
        return None
    estimate = float(_estimate(problem) / jnp.mean(problem.noise.scale.over_weights()[0]))
    return float(f"{estimate:.1e}") if np.isfinite(estimate) and estimate > 0.0 else None


def with_scale_coordinate(problem: InverseProblem, scale: float | None = None) -> InverseProblem:
    """The same problem with the coordinate of its noise's scale chosen for its data.

    The scale's posterior root mean square under the linearised model becomes the threshold of its
    coordinate (:meth:`invlift.noise.base.Noise.near`): above, where an exponential
    coordinate would hold the step of the whole chain down, it is linear.  Where readings say little
    of the scale its posterior has a long tail, in which chains with a threshold at its mean move
    slowly.

    Parameters
    ----------
    problem : InverseProblem
    scale : float, optional
        The threshold, if it is not to be what :func:`typical_scale` finds.

    Returns
    -------
    InverseProblem
        Of the same posterior; itself if the scale is known, or no estimate is finite.
    """
    scale = typical_scale(problem) if scale is None else scale
    return (
        problem if scale is None else replace(problem, noise=problem.noise.near(np.float64(scale)))
    )


@program
def _estimate(problem: InverseProblem):
    """Posterior root mean square of the scale, (), of a linearised model.

    It is linearised where it fits best at that scale.  There the data are
    Normal(F - U w, U U^T + sigma^2 s s^T) with s the derivatives of the readings by the noise at
    scale one.  One scale is taken for all readings.  Readings that are more than the unknowns are
    noise alone in the directions that are left.
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
