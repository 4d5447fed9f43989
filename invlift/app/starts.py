"""Where chains start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.inverse.laplace_approximation import (
    LaplaceApproximation,
    find_mode,
    find_noise,
    laplace_approximation,
)
from invlift.inverse.problem import InverseProblem
from invlift.inverse.readings import labels_of
from invlift.inverse.starts import initial_position
from invlift.inverse.targets.laplace_whitened import LaplaceWhitened
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.pytrees import Module, static
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.constrained.landing import distance_from_manifold, nearest, onto_manifold
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
    """Where a chain starts.

    Attributes
    ----------
    position : (target.dimension,)
    misfit : (d,)
        How far the readings are from the predictions there, in standard deviations of the noise;
        zero if the noise has unknown parameters: its scale grows with what does not fit.
    sensitivity : (d,)
        How far each reading moves with the field in standard deviations of its noise: one standard
        deviation of the prior's, at the mode nearby.
    """

    position: np.ndarray
    misfit: np.ndarray
    sensitivity: np.ndarray


class Starts(Module):
    """Where chains start: ``starts[chain]`` is :func:`find_start`.

    Attributes
    ----------
    kernel : Kernel
    target : LiftedPosterior, OrdinaryPosterior or LaplaceWhitened
    seed, num_chains : int
    approximation : LaplaceApproximation or None
        Whose draws are taken instead of the prior's.
    """

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
        far = np.flatnonzero(misfit > MAX_MISFIT)
        if far.size:
            # Said before hours are spent on it.
            logger.warning(
                "chain %d starts from values that miss the readings of %s by up to %.3g standard "
                "deviations of the noise: they may contradict each other or the model (a boundary "
                "or initial value, a unit, too small a noise)",
                chain,
                _names_of_readings(self.target.problem, far),
                misfit.max(),
            )
        return position


class RoughStarts(Module):
    """Where chains on a target start: positions moved onto its manifold, if it has one.

    Attributes
    ----------
    kernel : Kernel
    target
        Of the kind that the kernel walks on.
    seed, num_chains : int
    positions : (num_chains, Q) or None
        Or standard normal draws, of a target with a ``dimension``.
    """

    kernel: Kernel
    target: ConstrainedTarget
    seed: int = static()
    num_chains: int = static()
    positions: jax.Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        if self.positions is None:
            return self.num_chains, self.target.dimension
        return self.positions.shape

    def __getitem__(self, chain: int) -> np.ndarray:
        """Start of a chain."""
        if self.positions is None:
            rough = jax.random.normal(_key(self.seed, chain, 0), (self.target.dimension,))
        else:
            rough = self.positions[chain]
        if self.kernel.target_kind != "manifold":
            return np.asarray(rough)
        return onto_manifold(self.target, np.asarray(rough))


class GivenStarts(Module):
    """Chains start from given unknowns, with the noise parameters that are most probable there.

    Attributes
    ----------
    kernel : Kernel
    target : LiftedPosterior, OrdinaryPosterior or LaplaceWhitened
    white : (num_chains, m)
        Standard normal variables that the prior transforms into the unknowns.
    """

    #: They are lifted, and so on the manifold.
    is_exact: ClassVar[bool] = True

    kernel: Kernel
    target: LiftedPosterior | OrdinaryPosterior | LaplaceWhitened
    white: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return len(self.white), self.target.dimension

    def __getitem__(self, chain: int) -> np.ndarray:
        """Start of a chain.

        Raises
        ------
        InputError
            If the model is not finite there.
        """
        lifted = _lifted_start(self.target.problem, self.white[chain])
        if not np.all(np.isfinite(lifted)):
            raise InputError(
                f"starts, row {chain}", "unknowns at which the forward map is finite",
                "readings that are not", "give another start",
            )  # fmt: skip
        return np.asarray(_from_lifted(self.target, lifted))


def laplace_starts(kernel: Kernel, target, seed: int, num_chains: int) -> Starts:
    """Starts that are draws of the posterior's Laplace approximation.

    Raises
    ------
    InputError
        As :func:`~invlift.inverse.laplace_approximation.laplace_approximation`.
    """
    return Starts(kernel, target, seed, num_chains, laplace_approximation(target.problem))


#: What chains can start from, by name.
STARTS = {"prior": Starts, "laplace": laplace_starts}


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
    first draw of that form that the shortest moves lead onto the manifold.

    Returns
    -------
    Start

    Raises
    ------
    InputError
        If none of 20 draws has a finite density.
    """
    problem = target.problem
    own = problem.own_lifted()
    has_many = problem.num_unknowns > FEW_UNKNOWNS
    found, masses = [], []
    for attempt in range(MAX_STARTS):
        if approximation is not None:
            start = _approximate_start(problem, approximation, seed, chain, attempt)
        elif own is None:
            start = _start(problem, seed, chain, attempt)
        else:
            start = _landed_start(own, seed, chain, attempt)
        lifted, position = np.asarray(start), np.asarray(_from_lifted(target, start))
        state = evaluate_fn(kernel, target, position)
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves((lifted, state))):
            continue
        misfit = np.abs(lifted[problem.num_unknowns :])
        misfit = np.zeros_like(misfit) if problem.noise.num_parameters else misfit
        if own is not None:
            return Start(position, misfit, np.asarray(_sensitivity(problem, lifted)))
        log_mass, sensitivity = map(np.asarray, _mode(problem, lifted))
        masses.append(np.nan_to_num(log_mass, nan=-np.inf))
        found.append(Start(position, misfit, sensitivity))
        least = max(masses) - NEGLIGIBLE
        if len(found) == NUM_CANDIDATES or (
            has_many and len(found) == NUM_AGREEING and min(masses) >= least
        ):
            break
    if not found:
        _check_signs(problem, f"chain {chain}, start")
        raise InputError(
            f"chain {chain}, start",
            "a prior draw at which the forward map is finite",
            f"none in {MAX_STARTS} draws",
            "check the prior (a smaller std), the noise scale and the forward map (its source, "
            "say)",
        )
    return next(start for start, mass in zip(found, masses, strict=True) if mass >= least)


def name_of_reading(problem: InverseProblem, index: int) -> str:
    """What messages call a reading: by its name, by its sensor on a mesh, or by its number."""
    if labels := labels_of(getattr(problem.model, "readings", ())):
        return labels[index]
    is_on_mesh = getattr(problem.prior, "location", None) is not None
    return f"sensor {index}" if is_on_mesh else f"reading {index}"


def _names_of_readings(problem: InverseProblem, indices: np.ndarray) -> str:
    names = ", ".join(name_of_reading(problem, index) for index in indices[:8])
    return names + (" and others" if len(indices) > 8 else "")


def _check_signs(problem: InverseProblem, where: str) -> None:
    """Refuse readings of a sign that relative noise cannot give to what the prior predicts.

    Raises
    ------
    InputError
        If the noise is relative and there are such, at the prior's median.
    """
    predicted = problem.model(problem.prior.transform(np.zeros(problem.prior.num_white)))
    readings = np.asarray(problem.observed)
    wrong = readings[np.asarray(predicted) * readings < 0.0]
    if problem.noise.relative and wrong.size:
        raise InputError(
            where,
            "readings with the signs of the predictions, as the noise is relative",
            f"{wrong.size} of {readings.size} with the other one, {wrong[0]:g} the first of them",
            "correct the readings, or take additive noise (relative = false)",
        )


def _key(seed, chain, attempt):
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), chain), 2**31 - 1)
    return jax.random.fold_in(key, attempt)


# Programs of the problem, which all its targets share.  Nothing is left to NumPy, which would take
# over in a process that has been sent the target and does not sum in the same order.
def _attempted_start(problem: InverseProblem, seed, chain, attempt):
    return initial_position(problem, _key(seed, chain, attempt))


def _lifted_above(problem: InverseProblem, white):
    zeta = find_noise(problem, white) if problem.noise.num_parameters else jnp.zeros(0)
    return LiftedPosterior(problem).lift(jnp.concatenate([zeta, white]))


def _draw_of(problem: InverseProblem, approximation: LaplaceApproximation, seed, chain, attempt):
    white = jax.random.normal(_key(seed, chain, attempt), (problem.num_unknowns,))
    return LiftedPosterior(problem).lift(approximation.colour(white))


def _position_of(target, lifted):
    return target.from_lifted(lifted)


def _mode_near(problem: InverseProblem, lifted):
    """Log mass and sensitivity of the readings at the mode near a point on the lifted manifold."""
    mode = find_mode(problem, *problem.split(lifted[: problem.num_unknowns]))
    return mode.log_mass, jnp.linalg.norm(mode.by_white, axis=1)


def _landed_start(own, seed, chain, attempt) -> np.ndarray:
    """Point on the lifted manifold nearest to a draw, with its noise parameters; NaN without one.

    What :func:`~invlift.inverse.starts.initial_position` finds of the general form.
    """
    own = replace(own, holds_noise=True)
    drawn, rough = map(np.asarray, _rough(own, seed, chain, attempt))
    landed = onto_manifold(own, rough)
    if not distance_from_manifold(own, landed) <= CLOSE_ENOUGH:
        return np.full(landed.size, np.nan)
    return np.asarray(_lifted(own, nearest(own, landed, drawn)))


def _rough_position(own, seed, chain, attempt):
    drawn = jax.random.normal(_key(seed, chain, attempt), (own.dimension,))
    return drawn, own.rough_position(drawn)


def _lifted_point(own, position):
    return own.to_lifted(position)


def _sensitivity_near(problem: InverseProblem, lifted):
    """As that of :func:`_mode_near`, estimated: a standard deviation over random directions."""
    zeta, white = problem.split(lifted[: problem.num_unknowns])
    predicted, push = jax.linearize(lambda w: problem.predict(jnp.concatenate([zeta, w])), white)
    directions = jax.random.normal(jax.random.key(0), (NUM_DIRECTIONS, white.size))
    _, slope = problem.noise_variables(predicted, zeta)
    return jnp.sqrt(jnp.mean((slope * jax.vmap(push)(directions)) ** 2, axis=0))


_rough = Program(_rough_position, "none")
_lifted = Program(_lifted_point, "none")
_sensitivity = Program(_sensitivity_near, "none")
_start = Program(_attempted_start, "none")
_lifted_start = Program(_lifted_above, "none")
_from_lifted = Program(_position_of, "none")
_approximate_start = Program(_draw_of, "none")
_mode = Program(_mode_near, "none")
