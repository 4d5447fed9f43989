"""Where chains start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.inverse.laplace_approximation import (
    LaplaceApproximation,
    find_mode,
    find_noise,
    laplace_approximation,
)
from invlift.inverse.problem import InverseProblem
from invlift.inverse.readings import as_numbers, labels_of
from invlift.inverse.starts import initial_position
from invlift.inverse.targets.laplace_whitened import LaplaceWhitened
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.programs.compilation import Program
from invlift.programs.pytrees import Module, static
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.constrained.landing import (
    check_independent,
    distance_from_manifold,
    onto_manifold,
)
from invlift.samplers.constrained.likely_starts import likely_position
from invlift.samplers.constrained.retractions import POSITION_TOLERANCE
from invlift.samplers.kernels.base import Kernel
from invlift.targets import ConstrainedTarget

#: Prior draws tried for a chain until there are enough at which all is finite.
MAX_STARTS = 20
#: Starts that are compared.  With more unknowns than FEW_UNKNOWNS, where one may take seconds, the
#: first NUM_AGREEING are enough if no start's mode outweighs another's.
NUM_CANDIDATES, NUM_AGREEING, FEW_UNKNOWNS = 8, 3, 100
#: By how much the log mass of a mode falls short of another's that outweighs it.
NEGLIGIBLE = np.log(100.0)
#: Standard deviations of the noise by which a start may miss the readings.
MAX_MISFIT = 10.0
#: Most that a start which was moved onto a manifold may be away from it, and random directions by
#: which the sensitivity of the readings is then estimated, to a fifth of it.
CLOSE_ENOUGH, NUM_DIRECTIONS = 1e-9, 16

logger = logging.getLogger(__name__)


class Start(NamedTuple):
    """Where a chain starts: a position, (target.dimension,), and what is known of it, (d,) each.

    The misfit is how far the readings are from the predictions there, in standard deviations of the
    noise; zero if the noise has unknown parameters: its scale grows with what does not fit. The
    sensitivity is how far each reading moves with the field in standard deviations of its noise:
    one standard deviation of the prior's, at the mode nearby.
    """

    position: np.ndarray
    misfit: np.ndarray
    sensitivity: np.ndarray


# Of all chains: ``starts[chain]`` is a position, which is found where the chain runs --------------


class Starts(Module):
    """Starts on the posterior of a problem, found by :func:`find_start`."""

    #: They are lifted, and so on the manifold.
    is_exact: ClassVar[bool] = True

    kernel: Kernel
    target: LiftedPosterior | OrdinaryPosterior | LaplaceWhitened
    seed: int = static()
    num_chains: int = static()
    approximation: LaplaceApproximation | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return self.num_chains, self.target.dimension

    def __getitem__(self, chain: int) -> np.ndarray:
        """Start of a chain; a warning is logged if it does not reproduce the readings."""
        position, misfit, _ = find_start(
            self.kernel, self.target, self.seed, chain, approximation=self.approximation
        )
        if (most := misfit.max(initial=0.0)) > MAX_MISFIT:  # said before hours are spent on it
            worst = name_of_reading(self.target.problem, int(misfit.argmax()))
            logger.warning(
                f"chain {chain} starts from values that miss the readings by up to {most:.3g} "
                f"standard deviations of the noise, of {worst}: they may contradict each other or "
                "the model (a boundary or initial value, a unit, too small a noise)"
            )
        return position


class GivenStarts(Module):
    """Starts from given unknowns, with the noise parameters that are most probable there.

    ``white``, (num_chains, m), are standard normal variables that the prior transforms into them.
    """

    is_exact: ClassVar[bool] = True

    target: LiftedPosterior | OrdinaryPosterior | LaplaceWhitened
    white: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return len(self.white), self.target.dimension

    def __getitem__(self, chain: int) -> np.ndarray:
        """Start of a chain; an InputError if the model is not finite there."""
        lifted = _lifted_above(self.target.problem, self.white[chain])
        if not np.all(np.isfinite(lifted)):
            where, expected = f"starts, row {chain}", "unknowns at which the forward map is finite"
            raise InputError(where, expected, "readings that are not", "give another start")
        return np.asarray(_from_lifted(self.target, lifted))


class RoughStarts(Module):
    """Starts on a user's target: positions, (num_chains, Q), moved onto its manifold if any."""

    kernel: Kernel
    target: ConstrainedTarget
    positions: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return self.positions.shape

    def __getitem__(self, chain: int) -> np.ndarray:
        """Start of a chain; an InputError if constraints follow from others there, or no way onto
        the manifold is found.
        """
        rough = np.asarray(self.positions[chain])
        if self.kernel.target_kind != "manifold":
            return rough
        position = onto_manifold(self.target, rough)
        # Also where it is there: rounding may hide that constraints follow from others until no
        # step finds back.
        check_independent(self.target, position, _names_of_constraints(self.target))
        distance = distance_from_manifold(self.target, position)
        if not distance <= POSITION_TOLERANCE:
            raise InputError(
                f"chain {chain}, start",
                "values from which the manifold is reached",
                "a constraint or derivatives that are not finite on the way there"
                if np.isnan(distance)
                else f"no way to less than about {distance:.2g} from it",
                "give starts that are closer to it, and see that all constraints can hold at once "
                "and be differentiated there",
            )
        return position


def laplace_starts(kernel: Kernel, target, seed: int, num_chains: int) -> Starts:
    """Starts that are draws of the posterior's Laplace approximation."""
    return Starts(kernel, target, seed, num_chains, laplace_approximation(target.problem))


def random_starts(kernel: Kernel, target, seed: int, num_chains: int) -> RoughStarts:
    """Starts on a target of a user's: its own random ones, or standard normal ones."""
    positions = [_random_position(target, seed, chain) for chain in range(num_chains)]
    return RoughStarts(kernel, target, np.stack(positions))


#: What chains on a problem can start from, by name.
STARTS = {"prior": Starts, "laplace": laplace_starts}


def chosen_starts(
    problem: InverseProblem | ConstrainedTarget, starts: str | np.ndarray | Mapping, num_chains: int
) -> Callable[[Kernel, Any, int], Starts | GivenStarts | RoughStarts]:
    """What makes the starts of a kernel on a target with a seed, as :func:`sample` is told to.

    An InputError if there are none of that name, or not one row for each chain.
    """
    is_problem = isinstance(problem, InverseProblem)
    size = problem.prior.num_white if is_problem else getattr(problem, "dimension", None)
    names = STARTS if is_problem else {} if size is None else {"prior": random_starts}
    expected = f"an array ({num_chains}, {'Q' if size is None else size}), a row for each chain"
    expected = f"one of {', '.join(names)}, or {expected}" if names else expected
    if isinstance(starts, str):
        if starts not in names:
            raise InputError("starts", expected, f"{starts!r}"[:80], "choose one")
        if starts == "laplace" and problem.noise.is_exact:
            expected = '"prior" or an array, as exact readings have no Laplace approximation'
            raise InputError("starts", expected, f"{starts!r}", "choose one")
        return lambda kernel, target, seed: names[starts](kernel, target, seed, num_chains)
    if isinstance(starts, Mapping):
        starts = _positions_of(problem, starts, num_chains)
    given = as_numbers("starts", starts, expected)
    if given.ndim != 2 or len(given) != num_chains or size not in (None, given.shape[1]):
        raise InputError("starts", expected, f"shape {given.shape}", "give one for each chain")
    # With exact readings unknowns are not lifted, but moved to where these are reproduced.
    if is_problem and not problem.noise.is_exact:
        return lambda kernel, target, seed: GivenStarts(target, given)
    return lambda kernel, target, seed: RoughStarts(kernel, target, given)


def _positions_of(problem, starts: Mapping, num_chains: int) -> np.ndarray:
    """Positions, (num_chains, Q), or standard normal variables, of arrays by name."""
    named = problem.prior if isinstance(problem, InverseProblem) else problem
    shapes = {name: (num_chains, *shape) for name, shape in getattr(named, "shapes", ())}
    found = {name: np.shape(value) for name, value in starts.items()}
    if found != shapes:
        expected = f"arrays {shapes}" if shapes else "an array, as the unknowns have no names"
        raise InputError("starts", expected, f"{found}", "give one of each for each chain")
    arrays = {
        name: as_numbers(f"starts, {name}", value, f"an array {shapes[name]}")
        for name, value in starts.items()
    }
    if named is problem:
        return problem.position(arrays)
    chains = ({name: x[chain] for name, x in arrays.items()} for chain in range(num_chains))
    return np.stack([named.whiten(each) for each in chains])


# One start ----------------------------------------------------------------------------------------


def find_start(
    kernel: Kernel,
    target,
    seed: int,
    chain: int,
    evaluate_fn: Callable = evaluate_state,
    *,
    approximation: LaplaceApproximation | None = None,
) -> Start:
    """A start for a chain: :func:`~invlift.inverse.starts.initial_position` of a prior draw.

    With an approximation of the posterior, a draw of that.

    Of several such draws with a finite density, as ``evaluate_fn`` finds it, the first is taken
    whose mode holds no less than a hundredth of the posterior probability of any other's
    (:func:`~invlift.inverse.laplace_approximation.find_mode`): a draw leads to the nearest mode,
    which may hold next to nothing, and no chain would leave it.  Where several modes hold some,
    draws still decide between them, so that chains that start in different ones show it.

    For a problem with a lifted form of its own, whose derivatives are not to be dense, it is the
    first draw of that form that the shortest moves lead onto the manifold, to where readings are
    missed by ten standard deviations of the noise at most; if there is none, that of the smallest
    misfit.

    An InputError if none of 20 draws has a finite density, or leads onto the manifold; with the
    readings that follow from others, if that is why.
    """
    problem, own = target.problem, target.problem.own_lifted()
    draws = _finite_draws(kernel, target, seed, chain, evaluate_fn, approximation)
    start = (_of_a_likely_mode if own is None else _of_a_small_misfit)(problem, draws)
    if start is None:
        raise _no_start(problem, seed, chain)
    return start


def _finite_draws(
    kernel, target, seed, chain, evaluate_fn, approximation
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Lifted points, positions and misfits of those draws at which all is finite."""
    problem = target.problem
    own = None if approximation is not None else problem.own_lifted()
    for attempt in range(MAX_STARTS):
        if own is None:
            lifted = _lifted_draw(problem, approximation, seed, chain, attempt)
        else:
            lifted = _landed(own, seed, chain, attempt)
        lifted, position = np.asarray(lifted), np.asarray(_from_lifted(target, lifted))
        state = evaluate_fn(kernel, target, position)
        if all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((lifted, state))):
            misfit = np.abs(lifted[problem.num_unknowns :])
            is_fixed = not problem.noise.num_parameters
            yield lifted, position, misfit if is_fixed else np.zeros_like(misfit)


def _of_a_small_misfit(problem: InverseProblem, draws: Iterator) -> Start | None:
    """The first that misses no reading by much, or the one that misses them least."""
    starts = []
    for lifted, position, misfit in draws:
        sensitivity = np.asarray(_estimated_sensitivity(problem, lifted))
        starts.append(Start(position, misfit, sensitivity))
        if np.max(misfit) <= MAX_MISFIT:
            return starts[-1]
    return min(starts, key=lambda start: np.max(start.misfit), default=None)


def _of_a_likely_mode(problem: InverseProblem, draws: Iterator) -> Start | None:
    """The first near a mode that no other one's outweighs."""
    starts, masses, has_many = [], [], problem.num_unknowns > FEW_UNKNOWNS
    for lifted, position, misfit in draws:
        log_mass, sensitivity = map(np.asarray, _mass_and_sensitivity(problem, lifted))
        masses.append(np.nan_to_num(log_mass, nan=-np.inf))
        starts.append(Start(position, misfit, sensitivity))
        is_agreed = len(masses) == NUM_AGREEING and min(masses) >= max(masses) - NEGLIGIBLE
        if len(masses) == NUM_CANDIDATES or (has_many and is_agreed):
            break
    least = max(masses, default=0.0) - NEGLIGIBLE
    pairs = zip(starts, masses, strict=True)
    return next((start for start, mass in pairs if mass >= least), None)


def _no_start(problem: InverseProblem, seed: int, chain: int) -> InputError:
    """Why there is no start; constraints that follow from others are an error of their own."""
    where, own = f"chain {chain}, start", problem.own_lifted()
    _check_signs(problem, where)
    if own is not None:
        _, rough = map(np.asarray, _drawn_and_rough(own, seed, chain, 0))
        position = onto_manifold(own, rough)
        check_independent(own, position, _names_of_constraints(own))
        miss = np.asarray(_miss(own, position))
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


def name_of_reading(problem: InverseProblem, index: int) -> str:
    """What messages call a reading: by its name, by its sensor on a mesh, or by its number."""
    if problem.whole is not problem:
        return f"combination {index} of the readings"
    if labels := labels_of(problem.model.readings):
        return labels[index]
    return f"sensor {index}" if problem.model.solutions else f"reading {index}"


def _check_signs(problem: InverseProblem, where: str) -> None:
    """Refuse readings of a sign that relative noise cannot give to what the prior predicts."""
    predicted = problem.model(problem.prior.transform(np.zeros(problem.prior.num_white)))
    readings = np.asarray(problem.observed)
    wrong = readings[np.asarray(predicted) * readings < 0.0]
    if problem.noise.relative and wrong.size:
        expected = "readings with the signs of the predictions, as the noise is relative"
        found = f"{wrong.size} of {readings.size} with the other one, {wrong[0]:g} the first"
        remedy = "correct the readings, or take additive noise (relative = false)"
        raise InputError(where, expected, found, remedy)


def _landed(own, seed, chain, attempt) -> np.ndarray:
    """Likely point on the lifted manifold near a draw, with its noise parameters; NaN without one.

    What :func:`~invlift.inverse.starts.initial_position` finds of the general form.
    """
    if own.problem.noise.num_parameters:
        own = replace(own, holds_noise=True)
    drawn, rough = map(np.asarray, _drawn_and_rough(own, seed, chain, attempt))
    position = onto_manifold(own, rough)
    if not distance_from_manifold(own, position) <= CLOSE_ENOUGH:
        return np.full(position.size, np.nan)
    return _to_lifted(own, likely_position(own, position, drawn))


def _names_of_constraints(target) -> list[str]:
    """Of the readings, if they have names and the target is that of a problem."""
    model = getattr(getattr(target, "problem", None), "model", None)
    return labels_of(getattr(model, "readings", ()))


# Programs -----------------------------------------------------------------------------------------
# Of the problem, which all its targets share.  Nothing is left to NumPy, which would take over in a
# process that has been sent the target and does not sum in the same order.


def _key(seed, chain, attempt):
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), chain), 2**31 - 1)
    return jax.random.fold_in(key, attempt)


_program = partial(Program, effort="none")


@_program
def _miss(own, position):
    """Predictions less the noise-free readings that the data would mean, (d,)."""
    problem = own.problem
    theta, eta = jnp.split(own.to_lifted(position), [problem.num_unknowns])
    meant = problem.observed
    if not problem.noise.is_exact:
        meant = problem.noise.predicted(meant, problem.split(theta)[0], eta)
    return problem.predict(theta) - meant


@_program
def _lifted_draw(problem: InverseProblem, approximation, seed, chain, attempt):
    """A draw from the prior moved onto the data, or one of an approximation, lifted."""
    if approximation is None:
        return initial_position(problem, _key(seed, chain, attempt))
    white = jax.random.normal(_key(seed, chain, attempt), (problem.num_unknowns,))
    return LiftedPosterior(problem).lift(approximation.colour(white))


@_program
def _lifted_above(problem: InverseProblem, white):
    zeta = find_noise(problem, white) if problem.noise.num_parameters else jnp.zeros(0)
    return LiftedPosterior(problem).lift(jnp.concatenate([zeta, white]))


@_program
def _from_lifted(target, lifted):
    return target.from_lifted(lifted)


@_program
def _mass_and_sensitivity(problem: InverseProblem, lifted):
    """Log mass and sensitivity of the readings at the mode near a point on the lifted manifold."""
    mode = find_mode(problem, *problem.split(lifted[: problem.num_unknowns]))
    return mode.log_mass, jnp.linalg.norm(mode.by_white, axis=1)


@_program
def _drawn_and_rough(own, seed, chain, attempt):
    """A standard normal draw, and a position near it from which the manifold is reached."""
    drawn = jax.random.normal(_key(seed, chain, attempt), (own.dimension,))
    return drawn, own.rough_position(drawn)


@_program
def _random_position(target, seed, chain):
    """The target's own random position, or a standard normal one."""
    key = _key(seed, chain, 0)
    if hasattr(target, "random_position"):
        return target.random_position(key)
    return jax.random.normal(key, (target.dimension,))


@_program
def _to_lifted(own, position):
    return own.to_lifted(position)


@_program
def _estimated_sensitivity(problem: InverseProblem, lifted):
    """The sensitivity as a standard deviation over random directions, without derivatives."""
    zeta, white = problem.split(lifted[: problem.num_unknowns])
    predicted, push = jax.linearize(lambda w: problem.predict(jnp.concatenate([zeta, w])), white)
    directions = jax.random.normal(jax.random.key(0), (NUM_DIRECTIONS, white.size))
    _, slope = problem.noise_variables(predicted, zeta)
    return jnp.sqrt(jnp.mean((slope * jax.vmap(push)(directions)) ** 2, axis=0))
