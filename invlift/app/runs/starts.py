"""Starting points of chains."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

import jax
import numpy as np

from invlift.errors import InputError, as_numbers
from invlift.lift.targets.lifted_form import Lifted
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.problems.choice.lift_choice import Choice
from invlift.problems.choice.partly_lifted import Reference
from invlift.problems.laplace_approximation import (
    LaplaceApproximation,
    laplace_approximation,
)
from invlift.problems.problem import InverseProblem, name_of_reading, names_of_constraints
from invlift.problems.starts.landing import (
    check_independent,
    distance_from_manifold,
    onto_manifold,
)
from invlift.problems.starts.search import (
    CAUSES,
    MAX_MISFIT,
    Start,
    find_start,
    from_lifted,
    lifted_above,
    start_key,
)
from invlift.programs.compilation import program
from invlift.programs.pytrees import Module, aside, static
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.constrained.retractions import POSITION_TOLERANCE
from invlift.samplers.kernels.base import Kernel
from invlift.targets import ConstrainedTarget, Target

logger = logging.getLogger(__name__)


# Starts of all chains: ``starts[chain]`` is a position, found in the process of the chain ---------


class Starts(Module):
    """Starts for the posterior of a problem, found by :func:`find_start`.

    The start of the first chain and the choice of the target may be known already, from the check
    of the problem.
    """

    #: The starts are lifted, and so exactly on the manifold.
    is_exact: ClassVar[bool] = True

    kernel: Kernel
    target: Lifted | OrdinaryPosterior
    seed: int = static()
    num_chains: int = static()
    approximation: LaplaceApproximation | Reference | None = None
    first: Start | None = None
    choice: Choice | None = aside()

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return self.num_chains, self.target.dimension

    def __getitem__(self, chain: int) -> np.ndarray:
        """Return the start of a chain; log a warning if it does not reproduce the readings."""
        is_known = chain == 0 and self.first is not None
        position, misfit, *_ = self.first if is_known else self.find(chain)
        if (most := misfit.max(initial=0.0)) > MAX_MISFIT:  # warn before a long run
            worst = name_of_reading(self.target.problem.searched, int(misfit.argmax()))
            logger.warning(
                f"chain {chain} starts from values that miss the readings by up to {most:.3g} "
                f"standard deviations of the noise, of {worst}: they may contradict each other or "
                f"the model ({CAUSES}, too small a noise)"
            )
        return np.asarray(position)

    def find(self, chain: int, evaluate_fn: Callable = evaluate_state) -> Start:
        """Search for the start of a chain: see :func:`find_start`."""
        return find_start(
            self.kernel,
            self.target,
            self.seed,
            chain,
            evaluate_fn,
            approximation=self.approximation,
        )

    def with_first(
        self, evaluate_fn: Callable = evaluate_state, choice: Choice | None = None
    ) -> Starts:
        """Return the starts with that of the first chain found; `choice` made the target.

        Raises an InputError if no start is found.
        """
        return replace(self, first=self.find(0, evaluate_fn), choice=choice)


class GivenStarts(Module):
    """Starts from given unknowns, with the most probable noise parameters for them.

    ``white``, (num_chains, m), are standard normal variables that the prior transforms into them.
    """

    is_exact: ClassVar[bool] = True

    target: Lifted | OrdinaryPosterior
    white: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return len(self.white), self.target.dimension

    def __getitem__(self, chain: int) -> np.ndarray:
        """Return the start of a chain; an InputError if the model is not finite there."""
        lifted = lifted_above(self.target.problem.searched, self.white[chain])
        if not np.all(np.isfinite(lifted)):
            where, expected = f"starts, row {chain}", "unknowns at which the forward map is finite"
            raise InputError(where, expected, "readings that are not", "give another start")
        return np.asarray(from_lifted(self.target, lifted))


class RoughStarts(Module):
    """Starts for a target: positions, (num_chains, Q), projected onto its manifold if any."""

    first: ClassVar[None] = None

    kernel: Kernel
    target: ConstrainedTarget
    positions: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains and dimension of the target."""
        return self.positions.shape

    def with_first(self, *_, **__) -> RoughStarts:
        """Return the starts, which need no search."""
        return self

    def __getitem__(self, chain: int) -> np.ndarray:
        """Return the start of a chain.

        Raises an InputError if the constraints are dependent there, or the projection onto the
        manifold does not converge.
        """
        rough = np.asarray(self.positions[chain])
        if self.kernel.target_kind != "manifold":
            return rough
        position = onto_manifold(self.target, rough)
        # Check this also on the manifold: rounding may hide dependent constraints, and then no
        # step can return to the manifold.
        check_independent(self.target, position, names_of_constraints(self.target))
        distance = distance_from_manifold(self.target, position)
        if not distance <= POSITION_TOLERANCE:
            raise InputError(
                f"chain {chain}, start",
                "values from which the projection onto the manifold converges",
                "a constraint or derivatives that are not finite along the way"
                if np.isnan(distance)
                else f"a distance that stays above {distance:.2g}",
                "give starts that are closer to it, and see that all constraints can hold at once "
                "and be differentiated there",
            )
        return position


def laplace_starts(kernel: Kernel, target, seed: int, num_chains: int) -> Starts:
    """Return starts that are draws from the Laplace approximation of the posterior."""
    problem = target.problem
    is_known = kernel.target_kind == "laplace"  # the target already uses it as its reference
    approximation = problem.reference if is_known else laplace_approximation(problem.searched)
    return Starts(kernel, target, seed, num_chains, approximation)


def random_starts(kernel: Kernel, target, seed: int, num_chains: int) -> RoughStarts:
    """Return random starts for a target, from its `random_position` or standard normal."""
    positions = [_random_position(target, seed, chain) for chain in range(num_chains)]
    return RoughStarts(kernel, target, np.stack(positions))


#: Kinds of starts for a problem, by name.
STARTS = {"prior": Starts, "laplace": laplace_starts}


def chosen_starts(
    problem: InverseProblem | ConstrainedTarget,
    starts: str | np.ndarray | Mapping | Starts | RoughStarts,
    num_chains: int,
) -> Callable[[Kernel, Target, int], Starts | GivenStarts | RoughStarts]:
    """Return a function of kernel, target and seed that makes the starts for :func:`sample`.

    Starts that were partly found before are used unchanged.  Raises an InputError if the name is
    unknown, or there is not one row per chain.
    """
    if isinstance(starts, Starts | RoughStarts):
        return lambda kernel, target, seed: starts
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
    # With exact readings unknowns are not lifted, but moved until they reproduce the readings.
    if is_problem and not problem.noise.is_exact:
        return lambda kernel, target, seed: GivenStarts(target, given)
    return lambda kernel, target, seed: RoughStarts(kernel, target, given)


def _positions_of(problem, starts: Mapping, num_chains: int) -> np.ndarray:
    """Return positions, (num_chains, Q), or standard normal variables, from arrays by name."""
    named = problem.prior if isinstance(problem, InverseProblem) else problem
    shapes = {name: (num_chains, *shape) for name, shape in getattr(named, "shapes", ())}
    found = {name: np.shape(value) for name, value in starts.items()}
    if found != shapes:
        expected = f"arrays {shapes}" if shapes else "an array of standard normal variables"
        raise InputError("starts", expected, f"{found}", "give one of each for each chain")
    arrays = {
        name: as_numbers(f"starts, {name}", value, f"an array {shapes[name]}")
        for name, value in starts.items()
    }
    if named is problem:
        return problem.position(arrays)
    chains = ({name: x[chain] for name, x in arrays.items()} for chain in range(num_chains))
    return np.stack([named.whiten(each) for each in chains])


@program
def _random_position(target, seed, chain):
    """Return a random position from the target if it provides one, or a standard normal one."""
    key = start_key(seed, chain, 0)
    if hasattr(target, "random_position"):
        return target.random_position(key)
    return jax.random.normal(key, (target.dimension,))
