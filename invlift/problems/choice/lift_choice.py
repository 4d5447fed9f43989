"""Choice of the combinations of many readings to lift, and of the reference for the rest.

At the mode, the readings' derivatives A by the whitened unknowns, in standard deviations of the
noise, have few large singular values: most readings are redundant.  The leading left singular
vectors are lifted.  The rest A_2 enters the reference, with covariance (I + A_2^T A_2)^-1, which is
that of the posterior if the problem is linear (Bui-Thanh, Ghattas, Martin & Stadler 2013, section
5).  Only directions that are both informative and curved must therefore be lifted.  Their number
follows from derivatives at draws of the Laplace approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.problems.choice.informative_directions import (
    Directions,
    number_to_lift,
    orthonormal,
    padded,
)
from invlift.problems.choice.merged import merged
from invlift.problems.choice.partly_lifted import (
    Lift,
    Reference,
    condensed_problem,
    laplace_reference,
    noise_of_combinations,
    weights_of,
)
from invlift.problems.laplace_approximation import (
    LaplaceApproximation,
    Mode,
    find_mode,
    is_enough,
    minimise,
    standard_normal,
)
from invlift.problems.problem import InverseProblem, prediction
from invlift.problems.scale_coordinate import typical_scale, with_scale_coordinate
from invlift.problems.starts.fit import initial_point
from invlift.programs.compilation import program

#: Numbers of readings, of whitened unknowns, and of readings for each scale of the noise, up to
#: which all readings are lifted: the search for modes takes longer than fewer combinations save.
FEW, FEW_WHITE, FEW_OF_A_SCALE = 50, 30, 10
#: Number of readings above which derivatives are computed from products with few vectors.
MANY_READINGS = 400
#: First and largest number of random directions; largest change of all readings together, in
#: standard deviations of the noise, outside their span before the number is doubled; and number of
#: further directions that measure this change (Halko, Martinsson & Tropp 2011, section 4.3).
NUM_DIRECTIONS, MOST_DIRECTIONS, MOST_MISSED, NUM_PROBES = 64, 256, 2.0, 8
#: Number of searches for modes; draws at which derivatives are compared with those at the heaviest
#: mode; difference of log mass above which a mode is negligible; and standard deviations below
#: which two modes are the same.
NUM_MODES, NUM_DRAWS, NEGLIGIBLE, SAME = 3, 2, np.log(100.0), 0.5
#: Standard deviations from the most probable noise down to the smallest plausible noise.
SMALLEST = 2.0

#: Names of the arrays of a reference.
NAMES = (
    *(f"{of}_{part}" for of in ("noise", "white") for part in ("mode", "directions", "precisions")),
    "lifted",
)


class Choice(NamedTuple):
    """Choices computed for a problem, on which its draws depend.

    Attributes
    ----------
    scale : float or None
        See :func:`~invlift.problems.scale_coordinate.typical_scale`.
    reference : Reference or None
        Reference of the unknowns; None: their prior.  A
        :class:`~invlift.problems.choice.partly_lifted.Lift` has the combinations that are lifted;
        otherwise all readings are lifted, if any.
    basis, predicted : (d, p), (d,) or None
        Arguments of :func:`~invlift.problems.choice.partly_lifted.condensed_problem`; None if d is
        not large.
    """

    scale: float | None
    reference: Reference | None = None
    basis: np.ndarray | None = None
    predicted: np.ndarray | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the choice, by name."""
        arrays = dict(zip(NAMES, jax.tree.leaves(self.reference), strict=False))
        arrays |= {"scale": self.scale, "condensed": self.basis, "predicted": self.predicted}
        return {name: np.asarray(leaf) for name, leaf in arrays.items() if leaf is not None}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Choice:
        """Restore a choice from its :meth:`arrays`."""
        *names, lifted = NAMES
        scale, reference = arrays.get("scale"), None
        if names[0] in arrays:
            parts = jax.device_put([arrays[name] for name in names])
            of_each = LaplaceApproximation(*parts[:3]), LaplaceApproximation(*parts[3:])
            reference = Reference(*of_each)
            if lifted in arrays:
                reference = Lift(*of_each, jax.device_put(arrays[lifted]))
        scale = None if scale is None else float(scale)
        return cls(scale, reference, arrays.get("condensed"), arrays.get("predicted"))

    def condensed(self, problem: InverseProblem) -> InverseProblem:
        """Return the problem that is used to search for modes and starts."""
        if self.basis is None:
            return problem
        return condensed_problem(problem, self.basis, self.predicted)


def choose(
    problem: InverseProblem, *, target_kind: Literal["manifold", "density", "laplace"] = "manifold"
) -> Choice:
    """Choose what is lifted of a problem, its reference, and the coordinate of its noise scale.

    All readings are lifted, unless there are many readings and many unknowns.  They are also lifted
    if no mode is found.

    Parameters
    ----------
    problem : InverseProblem
    target_kind : str
        Kind of the sampler's target.  Combinations are chosen for "manifold" alone; "laplace" takes
        the Laplace approximation as the reference.

    Raises
    ------
    InputError
        As :func:`~invlift.problems.choice.partly_lifted.laplace_reference`.
    """
    problem = merged(problem).searched
    sizes = problem.num_observations, problem.prior.num_white
    has_density = problem.lifted().is_dense and problem.noise.is_transformed
    # Differences of readings from their means determine the noise better than the prior does.
    is_many = has_density and sizes[0] > FEW and sizes[1] > FEW_WHITE
    is_many = is_many and _scales(problem) * FEW_OF_A_SCALE <= sizes[0]
    choice, has_many = Choice(None), is_many and sizes[0] > MANY_READINGS
    if has_many:
        sigma = np.inf if problem.noise.scale.num_white else 1.0
        basis, predicted = _sketch(problem, np.zeros(sizes[1]), sigma)
        has_many = basis.size > 0  # else no reading depends on the unknowns
        choice = Choice(None, None, basis, predicted) if has_many else choice
    choice = choice._replace(scale=typical_scale(choice.condensed(problem)))
    is_choosing = target_kind == "manifold" and (
        is_many or (has_density and problem.noise.scale.has_data)
    )
    searched = with_scale_coordinate(problem, choice.scale) if choice.scale else problem
    modes = _modes(choice.condensed(searched)) if is_choosing or has_many else []
    if modes and has_many:  # again, with the derivatives at the mode
        has_scale = searched.noise.scale.num_white > 0
        sigma = np.asarray(searched.noise.sigma(modes[0].zeta)) if has_scale else 1.0
        basis, predicted = _sketch(searched, modes[0].white, sigma)
        choice = choice._replace(basis=basis, predicted=predicted)
        theta = np.concatenate([modes[0].zeta, modes[0].white])
        mode = jax.tree.map(np.asarray, _mode(choice.condensed(searched), theta))
        modes = [mode, *modes[1:]] if np.all(np.isfinite(mode.white)) else modes
    if target_kind == "laplace":
        return choice._replace(reference=laplace_reference(choice.condensed(searched)))
    is_choosing = is_choosing and len(modes) > 0
    return choice._replace(reference=_lift(searched, choice, modes)) if is_choosing else choice


def with_few_readings(problem: InverseProblem) -> InverseProblem:
    """Return the problem; with many readings, one of few combinations with nearly equal modes."""
    if problem.num_observations <= MANY_READINGS:
        return problem
    return choose(problem, target_kind="density").condensed(problem)


def _modes(problem: InverseProblem) -> list[Mode]:
    """Return different modes that hold some of the posterior probability, the heaviest first.

    The first search starts from the middle of the prior.
    """
    candidates = []
    for number in range(NUM_MODES):
        start = _start(problem, number) if number else np.zeros(problem.num_unknowns)
        mode = jax.tree.map(np.asarray, _mode(problem, start))
        candidates += [mode] * all(np.all(np.isfinite(leaf)) for leaf in mode)
        if is_enough(problem, mode.white @ mode.white + mode.eta @ mode.eta):
            break
    candidates.sort(key=lambda mode: -mode.log_mass)
    modes = []
    for mode in candidates:
        # Moves at the mode, in standard deviations of the posterior.
        moves = [(mode.white - each.white, each.by_white) for each in modes]
        if all(np.hypot(*map(np.linalg.norm, (w, by @ w))) > SAME for w, by in moves):
            modes.append(mode)
    return [mode for mode in modes if mode.log_mass >= candidates[0].log_mass - NEGLIGIBLE]


def _sketch(problem: InverseProblem, white: np.ndarray, sigma) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal columns, (d, p), that span nearly all changes of weighted readings.

    Also return the readings, (d,).  Weighted readings are divided by their weights; ``sigma``, ()
    or (d,), is the scale of their noise.
    """
    rng, groups = np.random.default_rng(0), _groups(problem)
    most = min(*white.shape, groups.size)
    num, columns = min(NUM_DIRECTIONS, most), []
    directions = rng.standard_normal((NUM_PROBES + num, white.size))
    while True:
        predicted, pushed = _pushed(problem, white, directions)
        columns.append(np.asarray(pushed).T / _columns(weights_of(problem)))
        tried, pushed = np.split(np.concatenate(columns, axis=1), [NUM_PROBES], axis=1)
        basis = orthonormal(pushed, groups)
        rest = (tried - basis @ (basis.T @ tried)) / _columns(sigma)
        missed, num = np.linalg.norm(rest, axis=0).max(), pushed.shape[1]
        if missed <= MOST_MISSED or num >= min(MOST_DIRECTIONS, most):
            return basis, np.asarray(predicted)
        directions = rng.standard_normal((min(2 * num, most) - num, white.size))


def _groups(problem: InverseProblem) -> np.ndarray:
    """Return the index of the scale of each reading, (d,) int."""
    groups = problem.noise.scale.groups
    return np.zeros(problem.num_observations, int) if groups is None else np.asarray(groups)


def _scales(problem: InverseProblem) -> int:
    """Number of scales of the noise."""
    return int(_groups(problem).max()) + 1


def _columns(values) -> np.ndarray:
    """Return (d,) as one column, and () as it is."""
    values = np.asarray(values)
    return values[:, None] if values.ndim else values


def _lift(problem: InverseProblem, choice: Choice, modes: list[Mode]) -> Lift | None:
    """Return the combinations and references for a problem in the coordinates of its choice."""
    small, mode, groups = choice.condensed(problem), modes[0], _groups(problem)
    spread = (mode.directions**2 @ (1.0 / mode.curvatures)) ** 0.5
    residuals_at = partial(_scaled_residuals, small, mode.zeta - SMALLEST * spread)
    of_rows = groups if choice.basis is None else groups[np.abs(choice.basis).argmax(axis=0)]
    *noise, by_white = map(np.asarray, residuals_at(mode.white))
    directions = Directions.of(by_white, of_rows)
    del by_white  # hundreds of megabytes with many unknowns, as each of the matrices below
    if not directions.values.size:  # no reading depends on the unknowns
        return None
    whites = [*(each.white for each in modes[1:]), *_draws(mode)]
    number = number_to_lift(directions, (np.asarray(residuals_at(white)[2]) for white in whites))
    # The scale of means still has a narrow density, for which a reference is needed.
    if number == problem.num_observations and not problem.noise.scale.has_data:
        return None
    residual, scale = noise
    spread, of_white = _reference(directions, number, residual, mode.white)
    basis, spread = directions.left[:, :number], spread * scale
    if choice.basis is None:
        spread = spread / np.asarray(weights_of(problem))
    else:
        basis, spread = choice.basis @ basis, np.sqrt(choice.basis**2 @ spread**2)
    of_noise = _reference_of_noise(problem, mode, basis, spread)
    return Lift(*jax.device_put((of_noise, of_white, basis)))


def _draws(mode: Mode) -> np.ndarray:
    """Draw w from its Laplace approximation, (NUM_DRAWS, m)."""
    _, values, along = np.linalg.svd(mode.by_white, full_matrices=False)
    white = np.random.default_rng(2).standard_normal((NUM_DRAWS, mode.white.size))
    return mode.white + white + (white @ along.T) * ((1.0 + values**2) ** -0.5 - 1.0) @ along


def _reference(directions: Directions, number: int, residual: np.ndarray, white: np.ndarray):
    """Return standard deviations of predicted rows, (n,), and the reference of w.

    Both are conditional on the part that is not lifted.  ``residual``, (n,), is that at the mode,
    in standard deviations of the noise.
    """
    left, values, along = directions.rest(number)
    mean = along @ (values / (1.0 + values**2) * (left.T @ residual + values * (along.T @ white)))
    spread = np.sqrt(left**2 @ (values**2 / (1.0 + values**2)))
    return spread, LaplaceApproximation(mean, *padded(along, 1.0 + values**2))


def _reference_of_noise(problem, mode: Mode, basis, spread) -> LaplaceApproximation:
    """Return the reference of zeta, (h,), given the part of the readings that is not lifted.

    ``spread``, (d,), holds the standard deviations of predicted readings divided by weights.
    """
    if not problem.noise.num_parameters:
        return standard_normal(0)
    weights, observed = np.asarray(weights_of(problem)), np.asarray(problem.observed)
    theta = np.concatenate([mode.zeta, mode.white])
    rest = (observed - np.asarray(prediction(problem, theta))) / weights
    rest -= basis @ (basis.T @ rest)
    rest = np.copysign(np.hypot(rest, spread), rest)
    combined = basis.T @ (observed / weights)
    approximation = _most_probable_noise(problem, basis, observed - weights * rest, combined, theta)
    zeta, values, vectors = map(np.asarray, approximation)
    return LaplaceApproximation(zeta, vectors, np.maximum(values, 1.0))


@program
def _most_probable_noise(problem: InverseProblem, basis, predicted, combined, theta):
    """Return the most probable zeta, (h,), given the rest, and eigenpairs of the Hessian.

    The rest is the part of the readings that is not lifted.  With the given predicted readings,
    (d,), the lifted combinations, (k,), have zero residual.
    """
    zeta, white = problem.split(theta)
    lifted = noise_of_combinations(problem, basis)

    def loss(zeta):
        reference = problem.log_reference_of_unknowns(zeta, white) - 0.5 * zeta @ zeta
        every = problem.noise.loglikelihood(predicted, zeta, problem.observed)
        return lifted.loglikelihood(combined, zeta, combined) - every - reference

    zeta = minimise(loss, zeta)
    return zeta, *jnp.linalg.eigh(jax.hessian(loss)(zeta))


@program
def _start(problem: InverseProblem, number):
    """Return a start near the data from the draw with this number, (h + m,)."""
    drawn, _ = initial_point(problem, jax.random.key(number))
    return drawn[: problem.num_unknowns]


@program
def _mode(problem: InverseProblem, theta):
    return find_mode(problem, *problem.split(theta))


@program
def _scaled_residuals(problem: InverseProblem, zeta, white):
    """Return residuals and scales of readings, (d,), and derivatives by w over scales, (d, m).

    The log density of a reading is about -(residual - change / scale)^2 / 2, and exactly so for
    normal noise.  For any other noise, the scale is that of its Fisher information.
    """
    predicted, by_white = problem.value_and_jacobian(white)
    score_and_information = problem.noise.score_and_information(predicted, zeta, problem.observed)
    score, scale = score_and_information[0], score_and_information[1] ** -0.5
    return score * scale, scale, by_white / scale[:, None]


@program
def _pushed(problem: InverseProblem, white, directions):
    """Return readings, (d,), and their derivatives, (n, d), along directions, (n, m)."""
    predicted, push = jax.linearize(
        lambda white: problem.model(problem.prior.transform(white)), white
    )
    return predicted, jax.lax.map(push, directions)
