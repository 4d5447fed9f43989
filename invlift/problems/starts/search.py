"""Search for the start of a chain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.problems.laplace_approximation import (
    FEW_UNKNOWNS,
    LaplaceApproximation,
    find_mode,
    find_noise,
    is_enough,
)
from invlift.problems.problem import (
    InverseProblem,
    name_of_reading,
    names_of_constraints,
    prediction,
)
from invlift.problems.starts.fit import initial_point
from invlift.problems.starts.landing import (
    check_independent,
    distance_from_manifold,
    onto_manifold,
)
from invlift.problems.starts.likely import likely_position
from invlift.programs.compilation import program

#: Progress of searches, with the number of the chain: for displays, not for other logs.
PHASES = logging.getLogger(f"{__name__}.phases")
PHASES.setLevel(logging.INFO)
PHASES.propagate = False

#: Maximum number of prior draws that are tried for a chain.
MAX_STARTS = 20
#: Number of starts that are compared.  With many unknowns, where one may take seconds, the first
#: NUM_AGREEING are enough if no start's mode outweighs another's.  The first alone is enough if its
#: mode is as likely as for data drawn from the prior.
NUM_CANDIDATES, NUM_AGREEING = 12, 3
#: Difference of log masses above which one mode outweighs another.
NEGLIGIBLE = np.log(100.0)
#: Largest misfit of a start, in standard deviations of the noise.
MAX_MISFIT = 10.0
#: What may be wrong in a model that misses accurate readings, for messages.
CAUSES = "a boundary or initial value, the sign or size of a source, the mean of the prior, a unit"
#: Largest distance from the manifold of a start that was moved onto it, and number of random
#: directions that estimate the sensitivity of the readings, to a fifth of it.
CLOSE_ENOUGH, NUM_DIRECTIONS = 1e-9, 16


#: Prior draws at which predictions must be equal to count as equal for all unknowns.
NUM_ALIKE = 3


class Fit(NamedTuple):
    """Fit of the original readings at the mode near a start, (d,) each.

    Attributes
    ----------
    predicted : (d,)
    eta : (d,)
        Noise variables at the mode; standard normal before the data.
    sigma : (d,)
        Scales of the noise.
    sd : (d,)
        Change of each reading per unit of its noise variable, in the unit of the reading.
    white : (m,)
        Position of the mode.
    white_sd : (m,)
        Standard deviations of w in the normal approximation there; 1 before the data.
    """

    predicted: np.ndarray
    eta: np.ndarray
    sigma: np.ndarray
    sd: np.ndarray
    white: np.ndarray
    white_sd: np.ndarray


class Start(NamedTuple):
    """Start of a chain: a position, (target.dimension,), its misfit and sensitivity, (d,) each.

    The misfit is the distance of the readings from the predictions there, in standard deviations of
    the noise.  It is zero if the noise has unknown parameters, as its scale grows with the misfit.
    The sensitivity is the change of each reading with the field, in standard deviations of its
    noise, for one standard deviation of the prior at the mode nearby.  The fit is that of this
    mode; None if no mode was searched for.
    """

    position: np.ndarray
    misfit: np.ndarray
    sensitivity: np.ndarray
    fit: Fit | None = None


def find_start(
    kernel: Any,
    target: Any,
    seed: int,
    chain: int,
    evaluate_fn: Callable[[Any, Any, np.ndarray], Any],
    *,
    approximation: LaplaceApproximation | None = None,
) -> Start:
    """Find a start: :func:`~invlift.problems.starts.fit.initial_position` of a prior draw.

    If an approximation of the posterior is given, it is a draw of the approximation.

    Several draws with a finite density, as ``evaluate_fn`` computes it, are compared.  The first is
    taken whose mode holds at least a hundredth of the posterior probability of every other mode
    (:func:`~invlift.problems.laplace_approximation.find_mode`).  A draw leads to the nearest mode,
    which may hold almost no probability, and no chain would leave it.  Where several modes hold
    some, the draws decide between them, so that chains in different modes show it.  With few
    unknowns the density at the draw must also be at least a hundredth of the highest: from far
    above the noise's scale a chain may still reach another mode than the nearest.  With many
    unknowns and known noise, a first mode is taken at once if it :func:`is enough
    <invlift.problems.laplace_approximation.is_enough>`.

    If the lifted target is not dense, the first draw is taken that Gauss-Newton moves lead onto the
    manifold with a misfit of at most ten standard deviations of the noise.  If there is none, the
    draw of the smallest misfit is taken.

    Raises an InputError if none of 20 draws has a finite density or leads onto the manifold.  It
    names readings that follow from others, if these are the cause.
    """
    problem = target.problem.searched
    draws = _finite_draws(kernel, target, seed, chain, evaluate_fn, approximation)
    has_modes = problem.lifted().is_dense
    start = (_of_a_likely_mode if has_modes else _of_a_small_misfit)(problem, draws)
    if start is None:
        raise _no_start(problem, seed, chain)
    return start


class _Draw(NamedTuple):
    """A lifted point, its log density, its position on the target, and its misfit.

    The log density is zero where draws are not compared by it.
    """

    lifted: np.ndarray
    logdensity: float
    position: np.ndarray
    misfit: np.ndarray


def _finite_draws(kernel, target, seed, chain, evaluate_fn, approximation) -> Iterator[_Draw]:
    """Yield the draws at which all values are finite."""
    problem = target.problem.searched
    lifted_target = problem.lifted()
    is_drawn = lifted_target.is_dense or approximation is not None
    for attempt in range(MAX_STARTS):
        PHASES.info("searching for a start, attempt %d", attempt + 1, extra={"chain": chain})
        if is_drawn:
            lifted, logdensity = _lifted_draw(problem, approximation, seed, chain, attempt)
        else:
            lifted, logdensity = _landed(lifted_target, seed, chain, attempt), 0.0
        lifted, position = np.asarray(lifted), np.asarray(from_lifted(target, lifted))
        state = evaluate_fn(kernel, target, position)
        if all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((lifted, state))):
            misfit = np.abs(lifted[problem.num_unknowns :])
            if problem.noise.num_parameters:
                misfit = np.zeros_like(misfit)
            yield _Draw(lifted, float(logdensity), position, misfit)


def _of_a_small_misfit(problem: InverseProblem, draws: Iterator[_Draw]) -> Start | None:
    """Return the first start of small misfit, else that of the smallest; None without draws."""
    starts = []
    for draw in draws:
        sensitivity = np.asarray(_estimated_sensitivity(problem, draw.lifted))
        starts.append(Start(draw.position, draw.misfit, sensitivity))
        if np.max(draw.misfit) <= MAX_MISFIT:
            return starts[-1]
    return min(starts, key=lambda start: np.max(start.misfit), default=None)


def _of_a_likely_mode(problem: InverseProblem, draws: Iterator[_Draw]) -> Start | None:
    """Return the first start near a mode that no other mode outweighs; None without draws.

    With few unknowns, starts that are far less likely than others are left out.
    """
    starts, masses, logdensities = [], [], []
    has_many = problem.num_unknowns > FEW_UNKNOWNS
    for draw in draws:
        looked = map(np.asarray, _look_at_mode(problem, draw.lifted))
        log_mass, norm, sensitivity, *fit = looked
        starts.append(Start(draw.position, draw.misfit, sensitivity, Fit(*fit)))
        masses.append(np.nan_to_num(log_mass, nan=-np.inf))
        logdensities.append(0.0 if has_many else np.nan_to_num(draw.logdensity, nan=-np.inf))
        is_agreed = len(masses) == NUM_AGREEING and min(masses) >= max(masses) - NEGLIGIBLE
        is_first = len(masses) == 1 and is_enough(problem, norm)
        if len(masses) == NUM_CANDIDATES or is_first or (has_many and is_agreed):
            break
    likely = _not_outweighed(range(len(starts)), masses)
    return next((starts[index] for index in _not_outweighed(likely, logdensities)), None)


def _not_outweighed(indices: Iterable[int], logs: Sequence[float]) -> list[int]:
    """Return the indices whose probability is at least a hundredth of the largest."""
    least = max((logs[index] for index in indices), default=0.0) - NEGLIGIBLE
    return [index for index in indices if logs[index] >= least]


def _no_start(problem: InverseProblem, seed: int, chain: int) -> InputError:
    """Return the error for a missing start; some causes raise a more specific error."""
    where, target = f"chain {chain}, start", problem.lifted()
    _check_signs(problem, where)
    _check_repeated(problem, where, seed)
    if not target.is_dense:
        _, rough = map(np.asarray, _drawn_and_rough(target, seed, chain, 0))
        position = onto_manifold(target, rough)
        check_independent(target, position, names_of_constraints(target))
        miss = np.asarray(_miss(target, position))
        if np.isfinite(miss).all():
            worst = int(np.argmax(np.abs(miss)))
            return InputError(
                where,
                "a draw from which all readings are reached",
                f"none of {MAX_STARTS}: the one of {name_of_reading(problem, worst)}, "
                f"{problem.observed[worst]:g}, is missed by {abs(miss[worst]):.3g}",
                "correct the readings, or the model or its noise, which may not reach them",
            )
    return InputError(
        where,
        "a prior draw at which the forward map is finite",
        f"none in {MAX_STARTS} draws",
        "check the prior (a smaller std), the noise scale and the forward map (its source, say)",
    )


def _check_signs(problem: InverseProblem, where: str) -> None:
    """Refuse readings that differ from predictions in sign, which relative noise cannot change."""
    predicted = problem.model(problem.prior.transform(np.zeros(problem.prior.num_white)))
    readings = np.asarray(problem.observed)
    wrong = np.flatnonzero(np.asarray(predicted) * readings <= 0.0)
    if problem.noise.relative and wrong.size:
        first, name = wrong[0], name_of_reading(problem, wrong[0])
        expected = "readings with the signs of the predictions, as the noise is relative"
        found = f"{wrong.size} of {readings.size} without it, {name} the first: "
        found += f"{readings[first]:g} where {predicted[first]:g} is predicted"
        remedy = "correct or leave out the readings, or take additive noise (relative = false)"
        raise InputError(where, expected, found, remedy)


def _check_repeated(problem: InverseProblem, where: str, seed: int) -> None:
    """Refuse readings with equal predictions that differ by far more than their noise."""
    rng, noise = np.random.default_rng(seed), problem.noise
    theta = [rng.standard_normal(problem.num_unknowns) for _ in range(NUM_ALIKE)]
    predicted = np.stack([np.asarray(prediction(problem, each)) for each in theta])
    readings = np.asarray(problem.observed)
    sigma = np.asarray(noise.sigma(jnp.zeros(noise.num_parameters)))
    sigma = np.broadcast_to(sigma, readings.shape) * (np.abs(readings) if noise.relative else 1.0)
    order = np.lexsort(predicted)
    for one, other in pairwise(order):
        is_alike = np.array_equal(predicted[:, one], predicted[:, other])
        apart = abs(readings[one] - readings[other])
        if is_alike and apart > MAX_MISFIT * (sigma[one] + sigma[other]):
            names = [name_of_reading(problem, index) for index in sorted((one, other))]
            values = [f"{readings[index]:g}" for index in sorted((one, other))]
            expected = f"readings that differ by their noise alone of {' and '.join(names)}, which "
            expected += "are predicted alike"
            remedy = "correct one, or give them more noise"
            raise InputError(where, expected, " and ".join(values), remedy)


def _landed(target, seed, chain, attempt) -> np.ndarray:
    """Return a likely point on the lifted manifold near a draw, or NaN if none is reached.

    It keeps the noise parameters of the draw.  For targets that are not dense it replaces
    :func:`~invlift.problems.starts.fit.initial_position`.
    """
    if target.problem.noise.num_parameters:
        target = replace(target, holds_noise=True)
    drawn, rough = map(np.asarray, _drawn_and_rough(target, seed, chain, attempt))
    position = onto_manifold(target, rough)
    if not distance_from_manifold(target, position) <= CLOSE_ENOUGH:
        return np.full(position.size, np.nan)
    return _to_lifted(target, likely_position(target, position, drawn))


# Programs -----------------------------------------------------------------------------------------
# They take the problem, which all its targets share.  No sum is left to NumPy: in a process that
# has been sent the target, NumPy would take over and sum in another order.


def start_key(seed, chain, attempt):
    """Return the key of the random numbers of a start."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), chain), 2**31 - 1)
    return jax.random.fold_in(key, attempt)


@program
def _miss(target, position):
    """Return predictions minus the noise-free readings that data and noise imply, (d,)."""
    problem = target.problem
    theta, eta = jnp.split(target.to_lifted(position), [problem.num_unknowns])
    noise_free = problem.observed
    if not problem.noise.is_exact:
        noise_free = problem.noise.predicted(noise_free, problem.split(theta)[0], eta)
    return problem.predict(theta) - noise_free


@program
def _lifted_draw(problem: InverseProblem, approximation, seed, chain, attempt):
    """Return a lifted draw, fitted to the data or from an approximation, and its log density.

    The log density is zero for draws from an approximation, which are all equally good.
    """
    key, lifted = start_key(seed, chain, attempt), LiftedPosterior(problem)
    if approximation is not None:
        white = jax.random.normal(key, (problem.num_unknowns,))
        return lifted.lift(approximation.colour(white)), jnp.zeros(())
    position, by_white = initial_point(problem, key)
    gram = lifted.jacobian(position, by_white).inner()
    return position, lifted.logdensity(position, gram) - 0.5 * position @ position


@program
def from_lifted(target, lifted):
    """Return the position of a target, (target.dimension,), from a point on the lifted manifold."""
    return target.from_lifted(lifted)


@program
def lifted_above(problem: InverseProblem, white):
    """Lift standard normal variables, (m,), at the most probable noise parameters."""
    zeta = find_noise(problem, white) if problem.noise.num_parameters else jnp.zeros(0)
    return LiftedPosterior(problem).lift(jnp.concatenate([zeta, white]))


@program
def _look_at_mode(problem: InverseProblem, lifted):
    """Return the values that describe the mode near a lifted point.

    These are its log mass, |w|^2 + |eta|^2, the sensitivity of the readings, and the fields of
    `Fit`.
    """
    mode = find_mode(problem, *problem.split(lifted[: problem.num_unknowns]))
    whole = problem.whole
    predicted = whole.predict(jnp.concatenate([mode.zeta, mode.white]))
    eta, slope = whole.noise_variables(predicted, mode.zeta)
    sigma = jnp.broadcast_to(whole.noise.sigma(mode.zeta), eta.shape)
    norm = mode.white @ mode.white + mode.eta @ mode.eta
    gram = jnp.eye(mode.eta.size) + mode.by_white @ mode.by_white.T
    along = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(gram), mode.by_white, lower=True)
    white_sd = jnp.sqrt(jnp.maximum(1.0 - jnp.sum(along**2, axis=0), 0.0))
    fit = Fit(predicted, eta, sigma, jnp.abs(1.0 / slope), mode.white, white_sd)
    return mode.log_mass, norm, jnp.linalg.norm(mode.by_white, axis=1), *fit


@program
def _drawn_and_rough(target, seed, chain, attempt):
    """Return a standard normal draw, and a rough position near it to be moved onto the manifold."""
    drawn = jax.random.normal(start_key(seed, chain, attempt), (target.dimension,))
    return drawn, target.rough_position(drawn)


@program
def _to_lifted(target, position):
    return target.to_lifted(position)


@program
def _estimated_sensitivity(problem: InverseProblem, lifted):
    """Estimate the sensitivity as a standard deviation over random directions."""
    zeta, white = problem.split(lifted[: problem.num_unknowns])
    predicted, push = jax.linearize(lambda w: problem.predict(jnp.concatenate([zeta, w])), white)
    directions = jax.random.normal(jax.random.key(0), (NUM_DIRECTIONS, white.size))
    _, slope = problem.noise_variables(predicted, zeta)
    return jnp.sqrt(jnp.mean((slope * jax.vmap(push)(directions)) ** 2, axis=0))
