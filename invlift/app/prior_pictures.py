"""What the prior of a problem says before any data are used, in numbers to be drawn."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, kv

from invlift.app.build import FieldProblem, build_problem
from invlift.app.problem_file import ProblemSpec
from invlift.app.simulate import PriorDraw, prior_draws
from invlift.compilation import Program
from invlift.fem.priors.hierarchical_matern import HierarchicalMaternPrior
from invlift.fem.priors.matern_table import MaternTable
from invlift.fem.priors.partly_known import PartlyKnownPrior
from invlift.inverse.priors.base import AffinePrior
from invlift.posterior.field_plots import PriorPicture
from invlift.tables import Table

#: Draws of which the readings are shown, the fields among them, and the unknown ranges.
NUM_DRAWS, NUM_FIELDS, NUM_RANGES = 50, 4, 12
#: Places of the line on which the correlation is computed, at most.
NUM_PLACES = 40
#: Points at which the formula is evaluated.
NUM_FORMULA = 200


def picture_prior(spec: ProblemSpec) -> PriorPicture:
    """Draw from the prior of a problem and compute its standard deviation and correlation.

    The draws are those of ``invlift simulate --draws`` with the seed of the problem file.

    An InputError if the problem cannot be put together, or a draw has no finite solution.
    """
    field = build_problem(spec)
    prior, noise = field.prior, field.problem.noise
    draws = list(prior_draws(field, noise, NUM_DRAWS, spec.sampler.seed))
    places, distances = line_outward(field.places)
    formula, label = _formula(spec, distances[-1])
    return PriorPicture(
        mesh=field.mesh,
        sensors=field.sensors,
        is_nodal=field.is_nodal,
        fields=np.stack([draw.log_conductivity for draw in draws[:NUM_FIELDS]]),
        field_names=[_name_of(index, draw) for index, draw in enumerate(draws[:NUM_FIELDS])],
        predicted=np.stack([draw.predicted for draw in draws]),
        noise_scale=_noise_scale(field, draws),
        is_noise_known=not noise.scale.num_parameters,
        std=prior.pointwise_std(),
        distances=distances,
        correlations=_correlations(spec, field, draws, places),
        formula=formula,
        formula_name=label,
    )


def line_outward(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of a mesh near the line from its middle to the point furthest from there.

    Returns their indices, at most 40, (k,), and their increasing distances from the first.
    """
    middle = int(np.argmin(np.linalg.norm(points - points.mean(axis=0), axis=1)))
    furthest = int(np.argmax(np.linalg.norm(points - points[middle], axis=1)))
    shares = np.linspace(0.0, 1.0, NUM_PLACES)[:, None]
    targets = points[middle] + shares * (points[furthest] - points[middle])
    nearest = [np.argmin(np.linalg.norm(points - target, axis=1)) for target in targets]
    places = np.unique(nearest)
    distances = np.linalg.norm(points[places] - points[middle], axis=1)
    order = np.argsort(distances, kind="stable")
    return places[order], distances[order]


def matern_correlation(distances: np.ndarray, length: float, smoothness: float) -> np.ndarray:
    """Matern correlation far from boundaries (Lindgren, Rue & Lindstrom 2011, eq. 1).

    2^(1 - nu) / Gamma(nu) (kappa r)^nu K_nu(kappa r) with kappa = sqrt(8 nu) / range.
    """
    scaled = np.sqrt(8.0 * smoothness) / length * np.asarray(distances, dtype=float)
    is_positive = scaled > 0.0
    safe = np.where(is_positive, scaled, 1.0)
    scale = np.exp((1.0 - smoothness) * np.log(2.0) - gammaln(smoothness))
    return np.where(is_positive, scale * safe**smoothness * kv(smoothness, safe), 1.0)


def _name_of(index: int, draw: PriorDraw) -> str:
    """Number of a draw, and the unknown range and standard deviation that it has."""
    unknown = [name for name in ("prior_range", "prior_std") if name in draw.numbers]
    parts = [f"{name.removeprefix('prior_')} {draw.numbers[name]:.2g}" for name in unknown]
    return ", ".join([f"Draw {index}", *parts])


def _noise_scale(field: FieldProblem, draws: list[PriorDraw]) -> np.ndarray:
    """Scale of the noise in units of the readings, (d,): its prior median where it is unknown."""
    noise, observed = field.problem.noise, np.asarray(field.sensors.values)
    if noise.scale.num_parameters:
        median = np.median(np.stack([draw.numbers["sigma"] for draw in draws]), axis=0)
        scale = noise.scale.of_readings(median)
    else:
        scale = np.asarray(noise.sigma(np.zeros(noise.num_parameters)))
    return np.broadcast_to(np.abs(observed) * scale if noise.relative else scale, observed.shape)


def _correlations(spec, field: FieldProblem, draws: list[PriorDraw], places) -> np.ndarray:
    """Correlation with the first place, one row, or one for each of several drawn ranges."""
    prior = field.prior
    if isinstance(prior, PartlyKnownPrior):
        prior = prior.prior
    units = np.zeros((len(field.places), len(places)))
    units[places, np.arange(len(places))] = 1.0
    if isinstance(prior, HierarchicalMaternPrior):
        num = NUM_RANGES if "range" in prior.unknown else 1
        rng = np.random.default_rng(spec.sampler.seed)
        hyper = [prior.sample_hyper(rng) for _ in range(num)]
        return np.stack([np.asarray(_correlation(prior, z, units)) for z in hyper])
    if prior.is_affine:
        return np.asarray(_correlation(prior, None, units))[None]
    values = np.stack([draw.log_conductivity[places] for draw in draws])
    return np.corrcoef(values, rowvar=False)[:1]


@partial(Program, effort="none")
def _correlation(prior: AffinePrior | HierarchicalMaternPrior, hyper, units):
    """S^T e_i for each place, and the cosines of their angles with the first, (k,)."""
    prior = prior if hyper is None else prior.given(hyper)
    roots = prior.sqrt_transpose(units)
    lengths = jnp.linalg.norm(roots, axis=0)
    return roots[:, 0] @ roots / (lengths[0] * lengths)


def _formula(spec: ProblemSpec, reach: float) -> tuple[np.ndarray | None, str]:
    """Matern correlation at distances from 0 to the last, (2, 200), and what to call it."""
    if not isinstance(spec.prior, MaternTable):
        return None, ""
    length, _ = spec.prior.typical()
    distances = np.linspace(0.0, reach, NUM_FORMULA)
    values = matern_correlation(distances, length, spec.prior.smoothness)
    kind = "median range" if isinstance(spec.prior.range, Table) else "range"
    return np.stack([distances, values]), f"Matern, {kind} {length:.3g}"
