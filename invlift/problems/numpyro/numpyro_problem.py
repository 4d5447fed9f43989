"""A NumPyro model as an inverse problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from invlift.chains import Chain
from invlift.errors import InputError, as_input_error
from invlift.lift.jacobians import Grouped
from invlift.lift.jacobians.grouped import Grouping
from invlift.lift.targets.lifted_form import Lifted
from invlift.models.base import ForwardModel, by_columns
from invlift.models.named_readings import NamedReading
from invlift.noise import known_noise
from invlift.problems.numpyro.numpyro_groups import find_grouping
from invlift.problems.numpyro.numpyro_search import NUM_TRIES, find_sites
from invlift.problems.numpyro.numpyro_sites import Sites, Trace
from invlift.problems.problem import InverseProblem
from invlift.programs.compilation import program
from invlift.programs.precision import require_float64
from invlift.programs.pytrees import static
from invlift.programs.traced import reach_loops
from invlift.unknowns.priors.base import StandardNormalPrior


class SitesPrior(StandardNormalPrior):
    """Standard normal variables of the latent sites of a NumPyro model.

    Attributes
    ----------
    mean : (m,)
        Zeros.
    data : dict of arrays
        Observed values by site.
    sites : Sites
    """

    data: dict[str, jax.Array]
    sites: Sites = static()

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """Draw w, (m,), of the model without readings."""
        return np.asarray(self.draw(rng)[0])

    def draw(self, rng: np.random.Generator) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Draw w, (m,), of the model without readings, and new readings by site."""
        return _drawn(self, jax.random.key(rng.integers(2**32)))


@program
def _drawn(prior: SitesPrior, rng_key):
    return prior.sites.draw(rng_key)


class SitesModel(ForwardModel):
    """Model that predicts readings minus scores; the scores are noise of known scale one.

    Attributes
    ----------
    data : dict of arrays
        Observed values by site.
    sites : Sites
    in_loops : tuple of bool
        For each latent site, true if a loop of the model depends on it.
    readings : tuple of NamedReading
        Lifted readings, by site.
    kept_axes : tuple of (str, Axes)
        Axes of the latent sites that are arrays.
    """

    coefficients_name: ClassVar[None] = None

    data: dict[str, jax.Array]
    sites: Sites = static()
    in_loops: tuple[bool, ...] = static(default=())

    @property
    def readings(self) -> tuple[NamedReading, ...]:
        """Lifted readings, by site."""
        return tuple(NamedReading(site.name, *site.kept) for site in self.sites.lifted)

    @property
    def kept_axes(self) -> tuple:
        """Axes of the latent sites that are arrays."""
        return tuple((site.name, site.axes) for site in self.sites.latent if site.shape)

    def at(self, white: jax.Array) -> Trace:
        """Evaluate the model at w, (m,)."""
        return self.sites.at(white, self.data)

    def __call__(self, white: jax.Array) -> jax.Array:
        """Return readings minus scores, (d,), at w (m,)."""
        return self._of_parts(self.sites.split(white))

    def value_and_jacobian(self, white: jax.Array) -> tuple[jax.Array, jax.Array]:
        """As :meth:`ForwardModel.value_and_jacobian`, (d,) and (d, m).

        Loops are differentiated only by the variables that they depend on.
        """
        is_wide = sum(site.size for site in self.sites.lifted) <= white.shape[0]
        if is_wide or all(self.in_loops) or not any(self.in_loops):
            return super().value_and_jacobian(white)
        parts = list(zip(self.in_loops, self.sites.split(white), strict=True))
        looped, looped_parts = ravel_pytree([part for is_in, part in parts if is_in])
        others, other_parts = ravel_pytree([part for is_in, part in parts if not is_in])

        def readings(looped, others):
            either = iter(other_parts(others)), iter(looped_parts(looped))
            return self._of_parts([next(either[is_in]) for is_in in self.in_loops])

        def by_looped(others):
            linear = by_columns(lambda looped: readings(looped, others), looped)
            return linear[0], linear

        by_others, (value, by_loops) = jax.jacfwd(by_looped, has_aux=True)(others)
        by_site = iter(jax.vmap(other_parts)(by_others)), iter(jax.vmap(looped_parts)(by_loops))
        return value, jnp.hstack([next(by_site[is_in]) for is_in in self.in_loops])

    def _of_parts(self, parts):
        return self.sites.readings(self.data) - self.sites.at_parts(parts, self.data).scores


class NumPyroProblem(InverseProblem):
    """A NumPyro model, lifted by the scores of its readings.  Made by :func:`numpyro_problem`.

    Attributes
    ----------
    grouping : Grouping or None
        Groups of readings with latent variables of their own, if there are any.
    """

    #: The densities of readings are in the sites.
    can_leave_out: ClassVar[bool] = False

    grouping: Grouping | None = static(default=None)

    @property
    def structure(self) -> Grouped | None:
        """Structure of the Jacobian by groups of readings; None without groups."""
        return None if self.grouping is None else self.grouping.structure

    @property
    def order(self) -> tuple[int, ...]:
        """Order of the unknowns by groups of readings; empty without groups."""
        return () if self.grouping is None else self.grouping.order

    def lifted(self) -> Lifted:
        """Return the lifted target, in groups of readings if there are any."""
        return super().lifted() if self.grouping is None else Lifted(self)

    def log_reference_of_unknowns(self, zeta: jax.Array, white: jax.Array) -> jax.Array:
        """As :meth:`InverseProblem.log_reference_of_unknowns`.

        It is the part of the density that standard normal variables and scores of readings do not
        cover: sites that have a coordinate or are not lifted, and the rest of lifted readings.
        """
        return self.model.at(white).log_reference

    def describe(self, theta: jax.Array, coefficients: jax.Array, predicted: jax.Array) -> dict:
        """Return latent and deterministic sites by name, and middles and scores of the readings.

        ``predicted`` (d,) holds the middles of their distributions, ``noise_score`` (d,) standard
        normal variables with their probabilities.
        """
        trace = self.model.sites.described(coefficients, self.model.data)
        return trace.values | {"predicted": trace.centres, "noise_score": trace.scores}

    def simulate(self, rng: np.random.Generator) -> tuple[NumPyroProblem, np.ndarray]:
        """As :meth:`InverseProblem.simulate`; all observed sites are drawn anew."""
        white, data = self.prior.draw(rng)
        model, prior = replace(self.model, data=data), replace(self.prior, data=data)
        made = replace(self, model=model, prior=prior, observed=model.sites.readings(data))
        return made, np.asarray(white)

    def arrays(self) -> dict[str, tuple[dict, np.ndarray]]:
        """As :meth:`InverseProblem.arrays`, by site.

        Sites of ``numpyro.factor`` are left out.  A lifted site with missing events gives the list
        of its present events.
        """
        model = self.model
        return {
            site.name: (dict(site.kept[1]), np.asarray(site.without_gaps(model.data[site.name])))
            for site in model.sites.measured
        }

    def reading_noise(self) -> SitesNoise:
        """Return the noise given by the distributions of the observed sites."""
        return SitesNoise(self)

    def lines(self) -> list[tuple[str, str]]:
        """As :meth:`ProblemBase.lines`: sites."""
        sites = self.model.sites
        lines = [(site.name, _of_latent(site)) for site in sites.latent]
        return lines + [(site.name, _of_observed(site)) for site in sites.observed]


@dataclass(frozen=True, eq=False)
class SitesNoise:
    """Noise of the readings given draws, by site, for a posterior.

    Attributes
    ----------
    problem : NumPyroProblem
    """

    problem: NumPyroProblem

    def every(self, chains: Sequence[Chain]) -> int:
        """Return the largest thinning of a latent site's draws; all are powers of two."""
        sites = self.problem.model.sites.latent
        return max(chain.every.get(site.name, 1) for chain in chains for site in sites)

    def log_likelihoods(self, chains: Sequence) -> dict[str, list[np.ndarray]]:
        """Return log densities of events by site, (num_draws, ...) for each chain."""
        model = self.problem.model
        return self._by_name([_log_densities(model, self._latent(draws)) for draws in chains])

    def new_readings(
        self, rng: np.random.Generator, chains: Sequence, paths: Mapping[str, np.ndarray]
    ) -> dict[str, list[np.ndarray]]:
        """Draw new readings by site, (num_draws, ...) for each chain, one set for each draw.

        ``paths`` is not used: a NumPyro model does not declare which of its sites are paths.
        """
        drawn = []
        for draws in chains:
            key = jax.random.key(rng.integers(2**32))
            keys = jax.random.split(key, len(draws["predicted"]))
            drawn.append(_new_readings(self.problem.model, self._latent(draws), keys))
        return self._by_name(drawn)

    def _by_name(self, chains):
        """Return arrays by site, in the order of the sites, for each chain."""
        names = [site.name for site in self.problem.model.sites.measured]
        return {name: [np.asarray(each[name]) for each in chains] for name in names}

    def _latent(self, draws):
        return {site.name: np.asarray(draws[site.name]) for site in self.problem.model.sites.latent}


@program
def _log_densities(model: SitesModel, latent):
    return jax.vmap(lambda latent: model.sites.log_densities(latent | model.data))(latent)


@program
def _new_readings(model: SitesModel, latent, keys):
    return jax.vmap(lambda latent, key: model.sites.new_readings(latent | model.data, key))(
        latent, keys
    )


def numpyro_problem(model: Callable, *args, **kwargs) -> NumPyroProblem:
    """Build the inverse problem of a NumPyro model.

    See :func:`~invlift.app.problem.numpyro_model.from_numpyro`.
    """
    require_float64()
    if not callable(model):
        raise InputError("argument model", "a function", type(model).__name__, "give the model")
    sites, data = find_sites(partial(model, *args, **kwargs))
    data = {name: jax.device_put(value) for name, value in data.items()}
    mean = jnp.zeros(sites.num_white)
    problem = NumPyroProblem(
        SitesModel(data, sites),
        SitesPrior(mean, data, sites),
        known_noise(1.0),
        sites.readings(data),
    )
    _check_runs(problem)
    parts = sites.split(mean)
    in_loops = reach_loops(lambda *parts: sites.at_parts(parts, data).scores, *parts)
    model = replace(problem.model, in_loops=tuple(in_loops))
    return replace(problem, model=model, grouping=find_grouping(sites, data))


def _check_runs(problem: NumPyroProblem) -> None:
    """Check that the model can be traced, and is finite at the middle of its prior, or a draw."""
    white = problem.prior.mean
    draws = np.random.default_rng(0).standard_normal((NUM_TRIES, white.size))
    expected = "JAX operations and sites that do not depend on values"
    with as_input_error("model", expected, "correct it"):
        is_finite = any(np.isfinite(_log_density(problem, each)) for each in (white, *draws))
    if not is_finite:
        raise InputError(
            f"model, at the middle of its prior and {NUM_TRIES} draws",
            "finite densities",
            "others",
            "check the readings and what the model computes there",
        )


@program
def _log_density(problem: NumPyroProblem, white):
    trace = problem.model.at(white)
    return trace.log_reference - 0.5 * jnp.sum(trace.scores**2)


def _of_latent(site) -> str:
    how = "" if site.coordinate is None else ", in a coordinate"
    return f"{site.kind}{_size(site)}{how}"


def _of_observed(site) -> str:
    how = f"{site.size} readings, lifted" if site.size else "stays in the density"
    return f"{site.kind}{_size(site)}, observed: {how}"


def _size(site) -> str:
    return f" of shape {site.shape}" if site.shape else ""
