"""Errors of readings due to the mesh, relative to the noise, from solutions on a refined mesh."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.fem import linalg
from invlift.fem.equations.error_map import sums_of_errors
from invlift.fem.mesh.finer_mesh import MAX_TIMES
from invlift.fem.mesh.mesh import Mesh
from invlift.lift.jacobians.krylov import conjugate_residuals
from invlift.models.base import ForwardModel
from invlift.posterior.names import NOISE_SCORE, PREDICTED
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem, coefficients_at, name_of_reading
from invlift.problems.starts.search import Fit
from invlift.programs.compilation import Program
from invlift.samplers.chains.results import Run

#: Largest error of a reading without a note, and without a doubt, in standard deviations of the
#: noise; and largest shift of a posterior mean without a note, in posterior standard deviations.
NOTABLE, TOO_LARGE, SHIFTED = 0.3, 1.0, 1.0
#: Largest number of nodes of a refined mesh on which the equation is solved for an estimate, and of
#: one whose edges are halved twice.  Near wells one refinement does not give a good estimate.
MAX_NODES, FEW_NODES = 150_000, 10_000
#: Relative residual of the system for posterior moves, and largest number of products.  About as
#: many products are needed as there are directions that the readings determine.
SOLVED, MAX_PRODUCTS = 1e-8, 300
#: Number of draws of a run or of the linearised posterior at which errors are estimated.
NUM_DRAWS = 3
#: Step of a difference quotient, as a fraction of a draw's distance from the centre.
STEP = 0.01
#: About the factor by which a refinement reduces errors.  In the examples it is 7 to 75 for the
#: first one and 2 to 12 for others (``tests/benchmarks/bench_mesh_error.py --settings``).
REDUCTION = 4.0
#: Largest number of nodes of a refined mesh that is recommended for the solution in chains.
MAX_SAMPLED = 20_000


class Finer(NamedTuple):
    """The model on a refined mesh and the number of refinements, or the reason for None."""

    model: ForwardModel | None
    times: int = 0
    reason: str = ""


class Errors(NamedTuple):
    """Errors due to the mesh.

    Attributes
    ----------
    readings : (d,)
        Mean absolute errors of the readings over draws, in standard deviations of the noise.
    beyond : (d,)
        Errors that remain over the posterior after a correction at the mode, in the same unit: mean
        absolute difference between the errors at draws and their linearisation.
    at_mode : (d,) or None
        Absolute errors of the readings at the most probable field, in the same unit.
    shift : float
        Largest error of a posterior mean, in posterior standard deviations.
    at_nodes : (num_nodes,) or None
        Root of the sum of squares, over the readings, of the contributions of each node's
        surroundings to their errors, in standard deviations of the noise.
    """

    readings: np.ndarray
    beyond: np.ndarray
    at_mode: np.ndarray | None = None
    shift: float = 0.0
    at_nodes: np.ndarray | None = None


def finer_model(problem: InverseProblem | ManifoldProblem) -> Finer | None:
    """Return the model on a refined mesh; None for a problem without a mesh."""
    if problem.mesh is None or problem.model.on_mesh.refined is None:
        return None
    known = problem.model.on_mesh

    def size(times: int) -> int:
        return _num_nodes(known.solved_on.mesh, times)

    # A correction is made with one refinement; on that mesh the estimated error would be zero.
    least = 2 if problem.model.is_corrected else 1
    if size(least) > MAX_NODES:
        reason = f"not estimated, as a refined mesh has about {size(least)} nodes"
        return Finer(None, reason=reason)
    times = 2 if size(2) <= FEW_NODES else least
    with linalg.iteratively():  # a factorisation does not pay off for a few solves
        return Finer(known.refined(times), times)


def _num_nodes(mesh: Mesh, times: int) -> int:
    """Return the approximate number of nodes after this number of refinements."""
    return 2 ** (mesh.dim * times) * mesh.num_nodes


def check_mesh_error(
    problem: InverseProblem, finer: Finer | None, fit: Fit | None
) -> list[Finding]:
    """Report errors of readings due to the mesh near the mode of a start; [] without a mesh."""
    if finer is None or fit is None:
        return []
    if finer.model is None:
        return [Finding("note", "mesh error", finer.reason)]
    errors = errors_at(problem, finer, fit)
    if not np.isfinite([errors.at_mode, errors.readings]).all():
        reason = "not estimated, as there is no solution on the refined mesh"
        return [Finding("note", "mesh error", reason)]
    searched, setting = problem.searched, _setting(problem)
    detail = f"with {setting} " if setting else ""
    detail += f"readings are off by {_in_words(searched, errors.at_mode)} at the most probable "
    detail += f"field, by {_in_words(searched, errors.readings, '')} at draws of the posterior; "
    detail += f"means of the posterior by up to {errors.shift:.2g} of their sd"
    # At draws the limit is that of the verdict of a run.
    worst = max(
        errors.at_mode.max() / NOTABLE, errors.readings.max() / TOO_LARGE, errors.shift / SHIFTED
    )
    if worst <= 1.0:
        return [Finding("ok", "mesh error", detail)]
    remedy = _remedy(problem, worst, _does_hold(errors.beyond))
    return [Finding("note", "mesh error", f"{detail}; {remedy}")]


def errors_at(problem: InverseProblem, finer: Finer, fit: Fit) -> Errors:
    """Estimate errors at the mode near a start, and at draws of the posterior linearised there."""
    searched, model = problem.searched, finer.model
    rng, size = np.random.default_rng(0), fit.white.size
    of_prior = rng.standard_normal((NUM_DRAWS, size))
    of_noise = rng.standard_normal((NUM_DRAWS, fit.sd.size))
    near = searched, fit.white, fit.sd
    moves = [_moved(*near, *each)[0] for each in zip(of_prior, of_noise, strict=True)]
    whites = np.stack([fit.white, *(fit.white + np.asarray(each) for each in moves)])
    centre, *draws = np.asarray(coefficients_at(problem.prior, whites))
    changes = _changes(problem.model, model, centre, np.stack(draws))
    changes = (problem.of_searched(np.asarray(each)) for each in changes)  # as the fit is
    bias, *others = (each / fit.sd for each in changes)
    square = _moved(*near, np.zeros(size), bias)[1]
    return Errors(*map(_mean_size, others), np.abs(bias), math.sqrt(square))


def mesh_errors(problem: InverseProblem, run: Run) -> Errors | None:
    """Estimate mean absolute errors at draws of a run, and the map of errors at the mean of draws.

    The map is computed only if an error is notable, and without a correction at the mode.
    Return None if the problem has no mesh, its noise is exact or only a joint density, the mesh is
    too large, there are no chains, or there is no solution on the refined mesh.
    """
    if problem.noise.is_exact or not problem.noise.is_transformed or not run.chains:
        return None
    finer = finer_model(problem)
    if finer is None or finer.model is None:
        return None
    prior, model = problem.prior, problem.model
    names = [name for name, _ in prior.shapes] or [model.coefficients_name]
    kept = run.some_draws([*names, PREDICTED, NOISE_SCORE], NUM_DRAWS)
    coefficients = np.concatenate([kept[name] for name in names], axis=1)
    means = [
        np.mean([chain.draws[name].mean(axis=0) for chain in run.chains], axis=0) for name in names
    ]
    centre = np.concatenate([each.ravel() for each in means])
    _, changes, beyond = map(np.asarray, _changes(model, finer.model, centre, coefficients))
    if not np.isfinite(changes).all():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.abs((np.asarray(problem.observed) - kept[PREDICTED]) / kept[NOISE_SCORE])
        found = [_mean_size(each / sd) for each in (changes, beyond)]
    if not np.nanmax(found[0]) > NOTABLE:
        return Errors(*found)
    sums = sums_of_errors(model, finer.model, finer.times, centre, np.nanmean(sd, axis=0))
    sums = sums @ model.on_mesh.solved_on.nodes
    return Errors(*found, at_nodes=np.sqrt(np.mean(sums**2, axis=0)))


def mesh_doubts(problem: InverseProblem, errors: Errors | None) -> list[tuple[str, str]]:
    """Return doubts about the mesh from errors at the draws of a run, each with a remedy."""
    if errors is None or not np.nanmax(errors.readings) > TOO_LARGE:
        return []
    text = "the mesh is too coarse for these sensors: "
    setting = _setting(problem)
    text += f"{setting} is set and is not enough; " if setting else ""
    text += f"its error {'still ' if setting else ''}moves readings by "
    ratio = np.nanmax(errors.readings) / NOTABLE
    advice = _remedy(problem, ratio, _does_hold(errors.beyond))
    return [(text + _in_words(problem, errors.readings), advice)]


def _mean_size(errors: np.ndarray) -> np.ndarray:
    """Return the mean absolute error over draws, (K, d) to (d,)."""
    return np.nanmean(np.abs(errors), axis=0)


def _does_hold(beyond: np.ndarray) -> bool:
    """Return whether a correction at the mode is accurate over the posterior."""
    return bool(np.nanmax(beyond) <= TOO_LARGE)


def _in_words(problem: InverseProblem, errors: np.ndarray, unit: str = " sd of the noise") -> str:
    worst = int(np.nanargmax(errors))
    text = f"up to {errors[worst]:.2g}{unit} at {name_of_reading(problem, worst)}"
    return text + f" (median {np.nanmedian(errors):.2g})"


def _setting(problem: InverseProblem) -> str:
    """Return the setting that already reduces errors of the mesh, as in a problem file, or ""."""
    model = problem.model
    value = '"mode"' if model.is_corrected else model.on_mesh.solved_on.times
    return f"refine_solution = {value}" if value else ""


def _remedy(problem: InverseProblem, ratio: float, does_hold: bool) -> str:
    """Return the remedy for an error that exceeds its limit by the factor ``ratio``.

    A correction at the mode is proposed only if it is accurate over the posterior.
    """
    mesh, done = problem.mesh, problem.model.on_mesh.solved_on.times
    needed = done + max(1, math.ceil(math.log(ratio, REDUCTION)))
    possible = sum(_num_nodes(mesh, n + 1) <= MAX_SAMPLED for n in range(MAX_TIMES))
    times, other = min(needed, possible), "or refine the mesh"
    in_file, in_python = f"{times}", f"refine_solution={times}"
    size = f" (the equation then has about {_num_nodes(mesh, times):,} nodes)"
    if needed > possible:
        # What was found on a refined mesh says nothing of a correction, made on the given one.
        if does_hold and not done and not problem.model.is_corrected:
            in_file, in_python, size = '"mode"', "corrected_at_mode(problem)", ""
        elif times <= done:
            return "refine the mesh at these readings"
        else:
            other = "and refine the mesh at these readings"
    return f"set [mesh] refine_solution = {in_file}{size}, in Python {in_python}, {other}"


@partial(Program, effort="none")
def _moved(problem: InverseProblem, white, sd, of_prior, of_noise):
    """Return a move of the posterior linearised at w, (m,), and the square of its length.

    With A the derivatives of the readings over their noise's standard deviations sd, (d,), and
    given a, (m,), and b, (d,), the move is x = a + A^T (I + A A^T)^-1 (b - A a), (m,).  Its squared
    length in standard deviations of the posterior is |x|^2 + |A x|^2.  For standard normal a and b,
    w + x is a draw.  For a = 0, x is the shift of the mean due to errors b of the readings.  The
    system of the unknowns, I + A^T A, would lose all digits with accurate readings.  Only products
    with A and A^T are used, as there may be many readings and many unknowns.
    """

    def scaled(white):
        return problem.model(problem.prior.transform(white)) / sd

    _, push = jax.linearize(scaled, white)
    transposed = jax.linear_transpose(push, white)

    def pull(readings):
        return transposed(readings)[0]

    right = of_noise - push(of_prior)
    along = conjugate_residuals(lambda y: y + push(pull(y)), right, SOLVED, MAX_PRODUCTS)
    move = of_prior + pull(along)
    return move, move @ move + jnp.sum(push(move) ** 2)


@partial(Program, effort="none")
def _changes(model: ForwardModel, finer: ForwardModel, centre, draws):
    """Return changes of readings from the given to the finer mesh at a centre and at draws.

    The centre is (N,) and the draws are (K, N).  The results are the changes at the centre, (d,),
    at the draws, (K, d), and the part of the latter that is not linear around the centre, (K, d).
    """
    # By central differences: derivatives of two models take more compilation than all else here.
    moves = draws - centre
    points = [centre[None], draws, centre + STEP * moves, centre - STEP * moves]
    changes = jax.lax.map(lambda each: finer(each) - model(each), jnp.concatenate(points))
    here, ahead, back = jnp.split(changes[1:], 3)
    return changes[0], here, here - changes[0] - (ahead - back) / (2.0 * STEP)
