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
from invlift.fem.equations.error_map import error_map
from invlift.fem.mesh.finer_mesh import MAX_TIMES, extrapolated
from invlift.fem.mesh.mesh import Mesh
from invlift.lift.jacobians.krylov import conjugate_residuals
from invlift.models.base import ForwardModel
from invlift.posterior.names import NOISE_SCORE, PREDICTED
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.problem import InverseProblem
from invlift.problems.reading_names import name_of_reading
from invlift.problems.starts.search import Fit
from invlift.programs.compilation import Program
from invlift.samplers.chains.results import Run
from invlift.unknowns.priors.base import Prior

#: Standard deviations of the noise by which a reading may be off without a note, and without a
#: doubt; and by which means of the posterior may be, in their own.
NOTABLE, TOO_LARGE, SHIFTED = 0.3, 1.0, 1.0
#: Most nodes of a refined mesh on which an equation is solved for this; and of one whose edges are
#: halved twice: near wells once is not enough for a good estimate.
MAX_NODES, FEW_NODES = 150_000, 10_000
#: Relative residual of the system for these, and products at most: as many as there are directions
#: that the readings determine.
SOLVED, MAX_PRODUCTS = 1e-8, 300
#: Draws at which it is looked at, of a run or of the linearised posterior.
NUM_DRAWS = 3
#: Sums of readings with random signs whose squares make the map of the errors.
NUM_SUMS = 8
#: Most nodes of a mesh on which chains may solve the equation instead of the given one.
MAX_SAMPLED = 20_000


class Finer(NamedTuple):
    """The model on a refined mesh, how often edges are halved there, or why there is none."""

    model: ForwardModel | None
    times: int = 0
    reason: str = ""


class Errors(NamedTuple):
    """What the mesh is off by.

    Attributes
    ----------
    readings : (d,)
        Absolute errors of the readings, in standard deviations of the noise.
    beyond : (d,)
        The same of what a correction at the mode leaves over the posterior: the mean absolute
        difference between errors at draws and those that are linear in the coefficients.
    shift : float
        The most that a mean of the posterior is off by, in its own standard deviations.
    at_nodes : (num_nodes,) or None
        What is made near each node: roots of the sums over the readings of the squares of what it
        adds to their errors, in standard deviations of their noise.
    """

    readings: np.ndarray
    beyond: np.ndarray
    shift: float = 0.0
    at_nodes: np.ndarray | None = None


def finer_model(problem: InverseProblem | ManifoldProblem) -> Finer | None:
    """The model on a refined mesh; None of a problem without a mesh."""
    mesh = problem.mesh
    if mesh is None or problem.model.on_mesh.refined is None:
        return None
    known = problem.model.on_mesh

    def size(times: int) -> int:
        return _num_nodes(mesh, known.num_refined + times)

    # On the mesh that a correction was made with, the estimated error is zero by construction.
    least = 2 if problem.model.is_corrected else 1
    if size(least) > MAX_NODES:
        reason = f"not estimated, as a refined mesh has about {size(least)} nodes"
        return Finer(None, reason=reason)
    times = 2 if size(2) <= FEW_NODES else least
    with linalg.iteratively():  # no factor, for the few solves that there are
        return Finer(known.refined(times), times)


def _num_nodes(mesh: Mesh, times: int) -> int:
    """About, with each edge halved so many times."""
    return 2 ** (mesh.dim * times) * mesh.num_nodes


def check_mesh_error(
    problem: InverseProblem, finer: Finer | None, fit: Fit | None
) -> list[Finding]:
    """What the mesh is off by at the mode near the start, reading by reading; () without a mesh."""
    if finer is None or fit is None:
        return []
    if finer.model is None:
        return [Finding("note", "mesh error", finer.reason)]
    errors = errors_at(problem, finer, fit)
    if not np.isfinite(errors.readings).all():
        reason = "not estimated, as there is no solution on the refined mesh"
        return [Finding("note", "mesh error", reason)]
    searched, largest = problem.searched, errors.readings.max()
    is_set = _is_set(problem)
    detail = f"with {is_set} " if is_set else ""
    detail += f"readings are off by {_in_words(searched, errors.readings)}, "
    detail += f"means of the posterior by up to {errors.shift:.2g} of their sd"
    does_hold = _does_hold(errors.beyond)
    if problem.model.is_corrected and not does_hold:
        detail += "; the correction does not hold over the posterior, where they are off by "
        detail += _in_words(searched, errors.beyond)
        largest = max(largest, errors.beyond.max())
    elif largest <= NOTABLE and errors.shift <= SHIFTED:
        return [Finding("ok", "mesh error", detail)]
    worst = max(largest / NOTABLE, errors.shift / SHIFTED)
    return [Finding("note", "mesh error", f"{detail}; {_remedy(problem, worst, does_hold)}")]


def errors_at(problem: InverseProblem, finer: Finer, fit: Fit) -> Errors:
    """At the mode near a start, and draws of the posterior linearised there."""
    searched, model = problem.searched, finer.model
    rng, size = np.random.default_rng(0), fit.white.size
    of_prior = rng.standard_normal((NUM_DRAWS, size))
    of_noise = rng.standard_normal((NUM_DRAWS, fit.sd.size))
    near = searched, fit.white, fit.sd
    moves = [_moved(*near, *each)[0] for each in zip(of_prior, of_noise, strict=True)]
    whites = np.stack([fit.white, *(fit.white + np.asarray(each) for each in moves)])
    centre, *draws = np.asarray(_transformed(problem.prior, whites))
    changes = _changes(problem.model, model, centre, np.stack(draws))
    changes = (problem.of_searched(np.asarray(each)) for each in changes)  # as the fit is
    bias, _, beyond = (extrapolated(each, finer.times) / fit.sd for each in changes)
    square = _moved(*near, np.zeros(size), bias)[1]
    return Errors(np.abs(bias), _mean_size(beyond), math.sqrt(square))


def mesh_errors(problem: InverseProblem, run: Run) -> Errors | None:
    """Errors at draws of a run, means of absolute ones; those at nodes at the mean of all draws.

    The latter are of errors that are notable, and without a correction at the mode.
    None where the problem has no mesh, or one too large for this, or no noise, without chains, and
    where there is no solution on the refined mesh.
    """
    if problem.noise.is_exact or not problem.noise.is_transformed or not run.chains:
        return None
    finer = finer_model(problem)
    if finer is None or finer.model is None:
        return None
    prior, model = problem.prior, problem.model
    names = [name for name, _ in prior.shapes] or [model.coefficients_name]
    kept = some_draws(run, [*names, PREDICTED, NOISE_SCORE], NUM_DRAWS)
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
        found = [_mean_size(extrapolated(each, finer.times) / sd) for each in (changes, beyond)]
    if not np.nanmax(found[0]) > NOTABLE:
        return Errors(*found)
    return Errors(*found, at_nodes=_errors_at_nodes(problem, finer, centre, np.nanmean(sd, axis=0)))


def _errors_at_nodes(problem, finer, centre, sd) -> np.ndarray:
    """As of ``Errors``, by sums of the readings with random signs: a sum of squares in the mean."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (NUM_SUMS, sd.size))
    weights = signs * np.nan_to_num(1.0 / sd, posinf=0.0)
    parts = error_map(problem.model, finer.model, finer.times, problem.mesh, centre, weights)
    return np.sqrt(np.mean(parts**2, axis=0))


def mesh_doubts(problem: InverseProblem, errors: Errors | None) -> list[tuple[str, str]]:
    """What is wrong with the mesh at the draws of a run, if anything is, and what to do."""
    if errors is None or not np.nanmax(errors.readings) > TOO_LARGE:
        return []
    text = "the mesh is too coarse for these sensors: "
    is_set = _is_set(problem)
    text += f"{is_set} is set and is not enough; " if is_set else ""
    text += f"its error {'still ' if is_set else ''}moves readings by "
    ratio = np.nanmax(errors.readings) / NOTABLE
    advice = _remedy(problem, ratio, _does_hold(errors.beyond))
    return [(text + _in_words(problem, errors.readings), advice)]


def _mean_size(errors: np.ndarray) -> np.ndarray:
    """Over draws, (K, d) to (d,)."""
    return np.nanmean(np.abs(errors), axis=0)


def _does_hold(beyond: np.ndarray) -> bool:
    """Is a correction at the mode right over the posterior?"""
    return bool(np.nanmax(beyond) <= TOO_LARGE)


def _in_words(problem: InverseProblem, errors: np.ndarray) -> str:
    worst = int(np.nanargmax(errors))
    text = f"up to {errors[worst]:.2g} sd of the noise, at {name_of_reading(problem, worst)}"
    return text + f" (median {np.nanmedian(errors):.2g})"


def _is_set(problem: InverseProblem) -> str:
    """What takes out errors of the mesh already, as in a problem file; "" if nothing does."""
    model = problem.model
    value = '"mode"' if model.is_corrected else model.on_mesh.num_refined
    return f"refine_solution = {value}" if value else ""


def _remedy(problem: InverseProblem, ratio: float, does_hold: bool) -> str:
    """What takes out an error that is larger than it may be, by this factor.

    Each refinement leaves a fourth; a correction at the mode has to hold over the posterior.
    """
    mesh, done = problem.mesh, problem.model.on_mesh.num_refined
    needed = done + max(1, math.ceil(math.log(ratio, 4.0)))
    possible = sum(_num_nodes(mesh, n + 1) <= MAX_SAMPLED for n in range(MAX_TIMES))
    times, other = min(needed, possible), "or refine the mesh"
    in_file, in_python = f"{times}", f"refine_solution={times}"
    if needed > possible:
        if does_hold and not problem.model.is_corrected:
            in_file, in_python = '"mode"', "corrected_at_mode(problem)"
        elif times <= done:
            return "refine the mesh at these readings"
        else:
            other = "and refine the mesh at these readings"
    return f"set [mesh] refine_solution = {in_file}, in Python {in_python}, {other}"


@partial(Program, effort="none")
def _moved(problem: InverseProblem, white, sd, of_prior, of_noise):
    """Where the posterior linearised at w (m,) moves with a (m,) and readings b, (d,).

    With the derivatives A of the readings in standard deviations of their noise, sd (d,): x = a +
    A^T (I + A A^T)^-1 (b - A a), (m,), and |x|^2 + |A x|^2, its squared length in standard
    deviations of the posterior.  Of standard normal a and b w + x is a draw; without a it is what
    the mean moves by with readings that are off by b.  The system of the unknowns, (I + A^T A),
    would lose all digits with accurate readings.  By products with A and A^T alone, as there may be
    many readings and many unknowns.
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
def _transformed(prior: Prior, whites):
    """Coefficients, (K, N), at each w of (K, m)."""
    return jax.lax.map(prior.transform, whites)


@partial(Program, effort="none")
def _changes(model: ForwardModel, finer: ForwardModel, centre, draws):
    """Changes of the readings at coefficients (N,), (d,), and at draws (K, N), (K, d), and what of
    the latter is not linear in the coefficients around the first, (K, d).
    """

    def change(coefficients):
        return finer(coefficients) - model(coefficients)

    at_centre, along = jax.linearize(change, centre)

    def beside(draw):
        here = change(draw)
        return here, here - at_centre - along(draw - centre)

    return at_centre, *jax.lax.map(beside, draws)
