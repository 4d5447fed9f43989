"""The error of the mesh beside the noise: the equation is solved on a refined mesh as well."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.checks.posterior_draws import some_draws
from invlift.fem import linalg
from invlift.fem.mesh.finer_mesh import MAX_TIMES, extrapolated
from invlift.lift.jacobians.krylov import conjugate_residuals
from invlift.models.base import ForwardModel
from invlift.models.combinations import Combinations
from invlift.models.corrected import Corrected
from invlift.posterior.names import NOISE_SCORE, PREDICTED
from invlift.problems.censored import CensoredProblem
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.problems.reading_names import name_of_reading
from invlift.problems.starts.search import Fit
from invlift.programs.compilation import Program
from invlift.samplers.chains.results import Run
from invlift.unknowns.priors.named import NamedPrior

#: Standard deviations of the noise by which a reading may be off without a note, and without a
#: doubt; and by which means of the posterior may be, in their own.
NOTABLE, TOO_LARGE, SHIFTED = 0.3, 1.0, 1.0
#: Most nodes of a refined mesh on which an equation is solved for this; and of one whose edges are
#: halved twice: near wells once is not enough for a good estimate.
MAX_NODES, FEW_NODES = 150_000, 10_000
#: Relative residual of the system for these, and products at most: as many as there are directions
#: that readings tell.
SOLVED, MAX_PRODUCTS = 1e-8, 300
#: Draws of a run at which it is looked at.
NUM_DRAWS = 3
#: Most nodes of a mesh on which chains may solve the equation instead of the given one.
MAX_SAMPLED = 20_000


class Finer(NamedTuple):
    """The model on a refined mesh, how often edges are halved there, or why there is none."""

    model: ForwardModel | None
    times: int = 0
    reason: str = ""


def _is_corrected(model: ForwardModel) -> bool:
    inner = model.model if isinstance(model, Combinations) else model
    return isinstance(inner, Corrected)


class Errors(NamedTuple):
    """Errors of the readings, (d,), in sd of the noise, and the most that a mean of the posterior
    is off by, in its own.
    """

    readings: np.ndarray
    shift: float


def finer_model(problem: InverseProblem | ManifoldProblem) -> Finer | None:
    """The model on a refined mesh; None of a problem without a mesh."""
    mesh = problem.mesh
    if mesh is None or problem.model.on_mesh.refined is None:
        return None
    # On the mesh that a correction was made with, nothing of the error is left by its making.
    least = 2 if _is_corrected(problem.model) else 1
    if (size := 2 ** (mesh.dim * least) * mesh.num_nodes) > MAX_NODES:
        return Finer(None, reason=f"not estimated, as a refined mesh has about {size} nodes")
    times = 2 if 2 ** (mesh.dim * 2) * mesh.num_nodes <= FEW_NODES else least
    with linalg.iteratively():  # no factor, for the few solves that there are
        return Finer(problem.model.on_mesh.refined(times), times)


def check_mesh_error(
    problem: InverseProblem, finer: Finer | None, fit: Fit | None
) -> list[Finding]:
    """What the mesh is off by at the mode near the start, reading by reading; () without a mesh."""
    if finer is None or fit is None:
        return []
    if finer.model is None:
        return [Finding("note", "mesh error", finer.reason)]
    errors, shift = errors_at(problem, finer, fit)
    if not np.isfinite(errors).all():
        reason = "not estimated, as there is no solution on the refined mesh"
        return [Finding("note", "mesh error", reason)]
    detail = f"readings are off by {_in_words(problem.searched, errors)}, means of the posterior "
    detail += f"by up to {shift:.2g} of their sd"
    if errors.max() <= NOTABLE and shift <= SHIFTED:
        return [Finding("ok", "mesh error", detail)]
    worst = max(errors.max() / NOTABLE, shift / SHIFTED)
    return [Finding("note", "mesh error", f"{detail}; {_remedy(problem, worst)}")]


def errors_at(problem: InverseProblem, finer: Finer, fit: Fit) -> Errors:
    """At the mode near a start."""
    changes = np.asarray(_changes_at(problem, finer.model, fit.white))
    if isinstance(problem, CensoredProblem):  # of which the fit is without these readings
        changes, problem = changes[list(problem.rows)], problem.searched
    bias = extrapolated(changes, finer.times) / fit.sd
    return Errors(np.abs(bias), float(_shift(problem, fit.white, bias, fit.sd)))


def mesh_errors(problem: InverseProblem, run: Run) -> np.ndarray | None:
    """Errors of the readings, (d,), mean absolute ones of draws in sd of the noise.

    None where the problem has no mesh, or one too large for this, or no noise, without chains, and
    where there is no solution on the refined mesh.
    """
    if problem.noise.is_exact or not problem.noise.is_transformed or not run.chains:
        return None
    finer = finer_model(problem)
    if finer is None or finer.model is None:
        return None
    prior, model = problem.prior, problem.model
    own = [name for name, _ in prior.shapes] if isinstance(prior, NamedPrior) else []
    names = own or [model.coefficients_name]
    kept = some_draws(run, [*names, PREDICTED, NOISE_SCORE], NUM_DRAWS)
    coefficients = np.concatenate([kept[name] for name in names], axis=1)
    changes = np.asarray(_solved(finer.model, coefficients)) - kept[PREDICTED]
    if not np.isfinite(changes).all():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.abs((np.asarray(problem.observed) - kept[PREDICTED]) / kept[NOISE_SCORE])
        return np.nanmean(np.abs(extrapolated(changes, finer.times)) / sd, axis=0)


def mesh_doubts(problem: InverseProblem, errors: np.ndarray | None) -> list[tuple[str, str]]:
    """What is wrong with the mesh at the draws of a run, if anything is, and what to do."""
    if errors is None or not np.nanmax(errors) > TOO_LARGE:
        return []
    text = "the mesh is too coarse for these sensors: its error moves readings by "
    advice = _remedy(problem, np.nanmax(errors) / NOTABLE)
    return [(text + _in_words(problem, errors), advice)]


def _in_words(problem: InverseProblem, errors: np.ndarray) -> str:
    worst = int(np.nanargmax(errors))
    text = f"up to {errors[worst]:.2g} sd of the noise, at {name_of_reading(problem, worst)}"
    return text + f" (median {np.nanmedian(errors):.2g})"


def _remedy(problem: InverseProblem, ratio: float) -> str:
    """What takes out an error that is larger than it may be, by this factor.

    Each refinement leaves a fourth.
    """
    mesh = problem.mesh
    times = max(1, math.ceil(math.log(ratio, 4.0)))
    if times > MAX_TIMES or 2 ** (mesh.dim * times) * mesh.num_nodes > MAX_SAMPLED:
        in_file, in_python = '"mode"', "corrected_at_mode(problem)"
    else:
        in_file, in_python = f"{times}", f"refine_solution={times}"
    return f"set [mesh] refine_solution = {in_file}, in Python {in_python}, or refine the mesh"


@partial(Program, effort="some")
def _changes_at(problem: InverseProblem, finer: ForwardModel, white):
    """Changes of the readings at w (m,), (d,)."""
    coefficients = problem.prior.transform(white)
    return finer(coefficients) - problem.model(coefficients)


@partial(Program, effort="some")
def _shift(problem: InverseProblem, white, bias, sd):
    """By how much the mean of w moves, (), in standard deviations of the posterior, with readings
    that are off by a bias, (d,), in standard deviations of their noise, (d,).

    With the derivatives A of the readings in these, b^T A (I + A^T A)^-1 A^T b, by products with A
    and A^T alone, as there may be many readings and many unknowns.
    """

    def scaled(white):
        return problem.model(problem.prior.transform(white)) / sd

    _, push = jax.linearize(scaled, white)
    pull = jax.linear_transpose(push, white)
    along = pull(bias)[0]
    moved = conjugate_residuals(lambda x: x + pull(push(x))[0], along, SOLVED, MAX_PRODUCTS)
    return jnp.sqrt(along @ moved)


@partial(Program, effort="some")
def _solved(model: ForwardModel, coefficients):
    """Readings of each draw, (K, d)."""
    return jax.lax.map(model, coefficients)
