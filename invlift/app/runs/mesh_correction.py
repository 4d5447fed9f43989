"""Correction of a problem for the error of the mesh near the posterior mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from invlift.errors import InputError
from invlift.models.base import ForwardModel
from invlift.models.corrected import corrected
from invlift.models.joined import Combinations
from invlift.problems.choice.lift_choice import with_few_readings
from invlift.problems.choice.merged import merged
from invlift.problems.laplace_approximation import laplace_approximation
from invlift.problems.problem import InverseProblem, coefficients_at
from invlift.programs.compilation import program
from invlift.samplers.chains.workers import single_threaded_blas

#: Number of modes that are searched for, each with the correction at the one before.
NUM_ROUNDS = 2


def corrected_at_mode(problem: InverseProblem) -> InverseProblem:
    """Correct the readings of a problem for the error of the mesh near the posterior mode.

    The equation is also solved with ``refine_solution=1``, which gives other readings and other
    derivatives. The differences at the mode of the posterior are added to the model as a linear
    function of the coefficients. The mode is that of the corrected problem: it is searched for
    twice, the second time with the first correction. A step of a sampler then costs the same as on
    the given mesh. The correction is accurate if the posterior is so narrow that the error is
    nearly linear over it; otherwise use ``refine_solution=1``.

    Parameters
    ----------
    problem : InverseProblem
        A problem with an equation on a mesh, and with noise.

    Returns
    -------
    InverseProblem

    Raises
    ------
    InputError
        If the model has no equation on a mesh, or readings are exact.
    """
    refined = problem.model.on_mesh.refined
    if refined is None or problem.noise.is_exact:
        expected = "a problem of an equation on a mesh, with noise"
        found = "exact readings" if problem.noise.is_exact else "another model"
        raise InputError("corrected_at_mode", expected, found, "take the problem as it is")
    # A search on the refined mesh would take its derivatives there at each step.
    finer, white = refined(1), np.zeros(problem.prior.num_white)
    centre = coefficients_at(problem.prior, white[None])[0]
    model = _corrected(problem.model, problem.model, centre)  # by zero: searches share a program
    with single_threaded_blas():
        for _ in range(NUM_ROUNDS):
            searched = merged(replace(problem, model=model)).searched
            _, white = problem.split(laplace_approximation(with_few_readings(searched)).mode)
            centre = coefficients_at(problem.prior, white[None])[0]
            model = _corrected(problem.model, finer, centre)
    return replace(problem, model=model)


def _corrected(model: ForwardModel, finer: ForwardModel, centre) -> ForwardModel:
    """Return the model plus the linearised difference from a finer one, at coefficients (N,)."""
    if isinstance(model, Combinations):  # correct the inner model: the matrix stays accessible
        return replace(model, model=_corrected(model.model, finer.model, centre))
    here, there = (map(np.asarray, _linearised(each, centre)) for each in (model, finer))
    return corrected(model, *(new - old for new, old in zip(there, here, strict=True)), centre)


@program
def _linearised(model: ForwardModel, coefficients):
    return model.value_and_jacobian(coefficients)
