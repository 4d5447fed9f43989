"""The error of the mesh beside the noise: the equation is solved on a refined mesh as well."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.app.checks.posterior_draws import some_draws
from invlift.app.quantities import mesh_of
from invlift.app.start_search import Fit, name_of_reading
from invlift.fem.finer_mesh import extrapolated
from invlift.inverse.models.base import ForwardModel, first_of_same
from invlift.inverse.priors.named import NamedPrior
from invlift.inverse.problem import InverseProblem
from invlift.inverse.targets.given_manifold import ManifoldProblem
from invlift.posterior.names import NOISE_SCORE, PREDICTED
from invlift.programs.compilation import program
from invlift.samplers.chains.results import Run

#: Standard deviations of the noise by which a reading may be off without a note, and without a
#: doubt; and by which means of the posterior may be, in their own.
NOTABLE, TOO_LARGE, SHIFTED = 0.3, 1.0, 1.0
#: Most nodes of a refined mesh on which an equation is solved for this, by the dimension; and of
#: one whose edges are halved twice: near wells once is not enough for a good estimate.
MAX_NODES, FEW_NODES = {2: 60_000, 3: 20_000}, 20_000
#: Draws of a run at which it is looked at.
NUM_DRAWS = 8

REMEDY = "refine the mesh, or set [mesh] refine_solution (in Python refine_solution=1)"


class Finer(NamedTuple):
    """The model on a refined mesh, how often edges are halved there, or why there is none."""

    model: ForwardModel | None
    times: int = 0
    reason: str = ""


def finer_model(problem: InverseProblem | ManifoldProblem) -> Finer | None:
    """The model on a refined mesh; None of a problem without a mesh."""
    again = getattr(getattr(problem, "model", None), "refined", None)
    mesh = None if again is None else mesh_of(problem.prior)
    if mesh is None:
        return None
    if (size := 2**mesh.dim * mesh.num_nodes) > MAX_NODES[mesh.dim]:
        return Finer(None, reason=f"not estimated, as a refined mesh has about {size} nodes")
    times = 2 if 2**mesh.dim * size <= FEW_NODES else 1
    return Finer(again(times), times)


def check_mesh_error(
    problem: InverseProblem, finer: Finer | None, fit: Fit | None
) -> list[Finding]:
    """What the mesh is off by at the mode near the start, reading by reading; () without a mesh."""
    if finer is None or fit is None:
        return []
    if finer.model is None:
        return [Finding("note", "mesh error", finer.reason)]
    labels, model = problem.model.alike(), problem.model
    rows = means = np.arange(problem.num_observations)
    if labels is not None:
        rows, means = first_of_same(labels)
        model = model.of_readings(rows)
    solved = _changes_at(replace(problem, model=model), finer.model, fit.white)
    finer_values, values, by_white = map(np.asarray, solved)
    bias = extrapolated(finer_values - values[means], finer.times)
    # All readings of one function together: those of its mean, which is as accurate as they are.
    sd = np.bincount(means, fit.sd**-2.0, rows.size) ** -0.5
    shift = _shift(bias[rows] / sd, by_white / sd[:, None])
    errors = np.abs(bias / fit.sd)
    detail = f"{_in_words(problem, errors)}; means of the posterior by up to {shift:.2g} of its sd"
    if errors.max() <= NOTABLE and shift <= SHIFTED:
        return [Finding("ok", "mesh error", detail)]
    return [Finding("note", "mesh error", f"{detail}: {REMEDY}")]


def _shift(bias: np.ndarray, scaled: np.ndarray) -> float:
    """What readings that are off, (r,), in sd move means by at most, in sd of the posterior.

    From derivatives of the readings in sd, (r, m).
    """
    left, values, _ = np.linalg.svd(scaled, full_matrices=False)
    return float(np.linalg.norm(values / np.sqrt(1.0 + values**2) * (left.T @ bias)))


def mesh_errors(problem: InverseProblem, run: Run) -> np.ndarray | None:
    """Errors of the readings, (d,), mean absolute ones of draws in sd of the noise.

    None where the problem has no mesh, or one too large for this, or no noise, and without chains.
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
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.abs((np.asarray(problem.observed) - kept[PREDICTED]) / kept[NOISE_SCORE])
        return np.nanmean(np.abs(extrapolated(changes, finer.times)) / sd, axis=0)


def mesh_objections(problem: InverseProblem, errors: np.ndarray | None) -> list[str]:
    """What is wrong with the mesh at the draws of a run, if anything is."""
    if errors is None or not np.nanmax(errors) > TOO_LARGE:
        return []
    return [f"mesh error: {_in_words(problem, errors)}: {REMEDY}"]


def _in_words(problem: InverseProblem, errors: np.ndarray) -> str:
    worst = int(np.nanargmax(errors))
    text = f"readings are off by up to {errors[worst]:.2g} sd of the noise, at "
    return text + f"{name_of_reading(problem, worst)} (median {np.nanmedian(errors):.2g})"


@program
def _changes_at(problem: InverseProblem, finer: ForwardModel, white):
    """Readings of the finer model at w (m,), (d,), those of the problem, and by w, (r, m)."""
    return finer(problem.prior.transform(white)), *problem.value_and_jacobian(white)


@program
def _solved(model: ForwardModel, coefficients):
    """Readings of each draw, (K, d)."""
    return jax.lax.map(model, coefficients)
