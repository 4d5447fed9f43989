"""An inverse problem: model, prior, noise and data.

The unknowns are theta = (zeta, w): standard normal coordinates of the noise's unknown parameters,
and the standard normal variables that the prior transforms into coefficients x = X(w).  The data
obey y = F(x) + noise, the noise being a transformation of standard normal variables eta (Au, Graham
& Thiery 2023, eq. 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import ConcretizationTypeError, TracerArrayConversionError

from invlift.errors import InputError, first_line, is_integer
from invlift.inverse.axes import checked_unit
from invlift.inverse.descriptions import lines_of
from invlift.inverse.distributions import Distribution
from invlift.inverse.jacobians import Structure
from invlift.inverse.models.base import ForwardModel
from invlift.inverse.models.jax_function import JaxFunction
from invlift.inverse.noise import Noise
from invlift.inverse.noise.by_name import noise_by_name
from invlift.inverse.noise.exact import exact_readings
from invlift.inverse.noise.given_draws import NoiseGivenDraws
from invlift.inverse.priors.base import Prior
from invlift.inverse.priors.named import NamedPrior
from invlift.inverse.priors.standard_normal import StandardNormalPrior
from invlift.inverse.problem_base import ProblemBase
from invlift.inverse.readings import as_numbers, named_readings
from invlift.inverse.targets.exact_conditioning import ExactConditioning
from invlift.inverse.unknowns import (
    NamedModel,
    Unknown,
    named_prior,
    unpack,
    with_axes,
)
from invlift.programs.compilation import Program
from invlift.programs.precision import require_float64
from invlift.programs.pytrees import Module, aside, static
from invlift.targets import ConstrainedTarget

#: What an error names if the model gives no finite readings where it is looked at first.
NOT_FINITE = "forward map at the prior mean"
#: Difference of two slopes, relative to slopes larger than 1, that is rounding.
CLOSE = 1e-8


class InverseProblem(ProblemBase, Module):
    """Everything that defines the posterior.  Build it with :func:`inverse_problem`.

    Attributes
    ----------
    model : ForwardModel
        Coefficients (N,) to noise-free observations (d,).
    prior : Prior
        Standard normal variables (m,) to coefficients (N,).
    noise : Noise
        With h unknown parameters.
    observed : (d,)
        The data y.
    units : mapping of str to str or None
        See :meth:`with_units`.
    """

    model: ForwardModel
    prior: Prior
    noise: Noise
    observed: jax.Array
    units: Mapping[str, str] | None = aside()

    @property
    def whole(self) -> InverseProblem:
        """The problem of the readings as they are, where this one has others in their place."""
        return self

    @property
    def num_observations(self) -> int:
        """Number d of observations."""
        return self.observed.shape[0]

    @property
    def num_unknowns(self) -> int:
        """Number h + m of unknowns theta = (zeta, w)."""
        return self.noise.num_parameters + self.prior.num_white

    @property
    def coefficients_name(self) -> str | None:
        """What the coefficients are called among the draws; None if they have several names."""
        return None if isinstance(self.prior, NamedPrior) else self.model.coefficients_name

    def split(self, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """zeta (h,) and w (m,) from theta (h + m,)."""
        return theta[: self.noise.num_parameters], theta[self.noise.num_parameters :]

    def predict(self, theta: jax.Array) -> jax.Array:
        """Noise-free observations F(X(w)), (d,), at theta (h + m,)."""
        return self.model(self.prior.transform(self.split(theta)[1]))

    def value_and_jacobian(self, white: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Noise-free observations F(X(w)), (d,), and their derivatives by w, (d, m)."""
        coefficients, tangent = self.prior.linearise(white)
        predicted, by_coefficients = self.model.value_and_jacobian(coefficients)
        return predicted, tangent.pull(by_coefficients.T).T

    def noise_variables(self, predicted: jax.Array, zeta: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Noise variables eta that predictions (d,) leave over, and d eta / d predicted, (d,) each.

        Each eta depends on its own prediction alone.
        """

        def invert(predicted):
            return self.noise.invert(predicted, zeta, self.observed)

        return jax.jvp(invert, (predicted,), (jnp.ones_like(predicted),))

    def log_reference(self, zeta: jax.Array, white: jax.Array, eta: jax.Array) -> jax.Array:
        """Log density of (zeta, w, eta) by the standard normal one, and log |det dg/dy|, ()."""
        reference = self.noise.log_reference(zeta, eta) + self.prior.log_reference(white)
        return reference + self.noise.log_slope(self.observed, zeta, eta)

    def described(self, theta: jax.Array) -> dict[str, jax.Array]:
        """:meth:`describe` of a position alone."""
        coefficients = self.prior.transform(self.split(theta)[1])
        return self.describe(theta, coefficients, self.model(coefficients))

    def describe(self, theta: jax.Array, coefficients: jax.Array, predicted: jax.Array) -> dict:
        """What is kept of a draw, by name.

        The coefficients as the model describes them, ``predicted`` (d,), ``noise_score``
        (d,), the noise variables eta that explain the data, if they are not exact, and whatever
        noise and prior call their unknown parameters.
        """
        zeta, white = self.split(theta)
        has_own_names = self.model.coefficients_name is None or self.coefficients_name is not None
        kept = self.model.describe if has_own_names else partial(unpack, shapes=self.prior.shapes)
        kept = kept(coefficients) | {"predicted": predicted}
        if not self.noise.is_exact:
            kept["noise_score"] = self.noise.invert(predicted, zeta, self.observed)
        return kept | self.noise.parameters(zeta) | self.prior.parameters(white)

    def with_units(self, units: Mapping[str, str]) -> Self:
        """The same problem, whose results have these units.

        Parameters
        ----------
        units : mapping of str to str
            Units as they are to be written, by the names of draws or readings: ``{"half_life":
            "min"}``.  That of ``hare`` is that of ``hare_path`` as well.  Nothing is converted.

        Raises
        ------
        InputError
            If there is no draw and no reading of a name, or a unit is no text or not the one that
            the unknown has.
        """
        if not isinstance(units, Mapping):
            expected = "a dict of units by name"
            raise InputError("units", expected, f"{units!r}"[:80], 'give {"level": "mV"}, say')
        known = [each.name for each in self.model.readings]
        known += [name.removesuffix("_path") for name in self.shapes_of_draws()]
        own = self.prior.units_by_name if isinstance(self.prior, NamedPrior) else {}
        for name, unit in units.items():
            if str(name).removesuffix("_path") not in known:
                names = ", ".join(dict.fromkeys(known))
                raise InputError("units", f"names among {names}", f"{name!r}", "rename it")
            if checked_unit(f"units, {name}", unit) != own.get(name, unit):
                remedy = "give it once, that of the distribution: nothing is converted"
                raise InputError(f"units, {name}", f"the unknown's, {own[name]}", unit, remedy)
        return replace(self, units=dict(units))

    def shapes_of_draws(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what is kept of one draw, by name."""

        def draw(theta):
            coefficients = self.prior.transform(self.split(theta)[1])
            return self.describe(theta, coefficients, self.model(coefficients))

        found = jax.eval_shape(draw, jax.ShapeDtypeStruct((self.num_unknowns,), float))
        return {name: each.shape for name, each in found.items()}

    def own_lifted(self) -> ConstrainedTarget | None:
        """The target of constrained samplers in a form of its own; None for the general one.

        Of a problem with one nothing is computed by dense derivatives where chains start.  Beside
        what a constrained target is, it has ``dimension``, ``problem``, ``unknowns(point)`` and
        ``slopes``, as :class:`~invlift.inverse.targets.lifted.LiftedPosterior`, ``from_lifted`` and
        ``to_lifted`` between its positions and the points (zeta, w, eta) of the general lift, and
        ``rough_position(drawn)``, from which chains get onto its manifold near a standard normal
        draw, and ``holds_noise``, with which they do so with zeta as it is.
        """
        return None

    def simulate(self, rng: np.random.Generator) -> tuple[InverseProblem, np.ndarray]:
        """The problem with data drawn from it, and the unknowns theta (h + m,) behind them."""
        white = self.prior.sample(rng)
        zeta = self.noise.sample_parameters(rng)
        theta = np.concatenate([zeta, white])
        values = self.noise.sample(rng, np.asarray(_predicted(self, theta)), zeta)
        return replace(self, observed=jax.device_put(values)), theta

    def arrays(self) -> dict[str, tuple[dict, np.ndarray]]:
        """Readings that are arrays of the model, by name: coordinates by axis, and values.

        None of a model whose readings are one vector.
        """
        return {}

    def reading_noise(self) -> Any:
        """What a posterior asks about noise, given draws; None where readings are exact.

        A :class:`~invlift.posterior.parts.ReadingNoise`.
        """
        if self.noise.is_exact:
            return None
        return NoiseGivenDraws(self.noise, np.asarray(self.observed))

    def lines(self) -> list[tuple[str, str]]:
        """As :meth:`ProblemBase.lines`: model, prior or unknowns, noise, readings."""
        return lines_of(self.model, self.prior, self.noise, self.observed)


_predicted = Program(InverseProblem.predict, "none")


class ExactProblem(InverseProblem):
    """Inverse problem of exact readings.  Build it with :func:`inverse_problem`, noise None.

    Attributes
    ----------
    structure : Structure or None
        Of the derivatives of the readings by the last of w.  None: dense.
    """

    structure: Structure | None = static(default=None)

    def own_lifted(self) -> ExactConditioning:
        """The manifold of the inputs that reproduce the readings."""
        return ExactConditioning(self)


def inverse_problem(
    model: ForwardModel | Callable,
    prior: Prior | Mapping[str, Unknown | Distribution | Prior],
    noise: Noise | Distribution | float | Mapping[str, Distribution | float] | None,
    observed,
    *,
    axes: Mapping[str, Mapping[str, Sequence]] | None = None,
    structure: Structure | None = None,
) -> InverseProblem:
    """Put an inverse problem together and check that its parts fit.

    Parameters
    ----------
    model : ForwardModel or callable
        Coefficients (N,), those of all unknowns one after the other, to observations (d,).  Or a
        function of unknowns by name, in their own units: ``model(rate=..., start=...)``, made of
        JAX operations, gives the observations, (d,) or a dict of arrays, or these and a dict of
        further quantities to keep with the draws.
    prior : Prior or mapping of str to Unknown, Distribution or Prior
        Of the N coefficients.  Or of the unknowns by name: ``{"rate": lognormal(median=1e-3,
        factor=2), "start": normal(80, 10)}``, of invlift or of NumPyro; with unit and
        axes as ``Unknown(normal(80, 10), "degree C")``.
    noise : Noise, Distribution, float, mapping of str to float or Distribution, or None
        See :mod:`invlift.inverse.noise`; or the standard deviation of a normal one, or its
        distribution, one scale for each name of the readings, or these by name.  None for exact
        readings, the output of a generator, say: only constrained samplers draw from these (Graham
        & Storkey 2017).
    observed : (d,) float64 array, or mapping of str to array
        Measured values. By name for a function that gives observations by name: arrays, or
        xarray's, whose coordinates name each observation, or the columns of a data frame. One
        follows the other in what is of all d, such as a scale of the noise for each.
    axes : mapping of str to mapping of str to sequence, optional
        Of a function of unknowns: for each axis of a quantity that it gives, its name and the
        coordinates along it, ``{"path": {"year": range(1900, 1921)}}``.
    structure : Structure, optional
        Of exact readings: which of the last inputs enter which reading, in the order of the
        unknowns; those before may enter all.  ``Diagonal()`` where each reading has an input of its
        own, ``Triangular()`` where it also depends on those of the readings before (the same,
        appendix C), or another of :mod:`invlift.inverse.jacobians`.  Without one all is dense.

    Returns
    -------
    InverseProblem

    Raises
    ------
    InputError
        If shapes or names do not match, a value is not finite, an array is not float64, or the
        forward map is not finite at the prior mean or cannot be differentiated; if there are not
        more unknowns than exact readings, or a derivative outside the structure is not zero.
    """
    axes, readings = dict(axes or {}), ()
    if hasattr(observed, "columns"):  # a data frame
        observed = observed.to_xarray()
    if isinstance(prior, Prior) and (further := getattr(model, "further", None)):
        name = model.coefficients_name
        prior = replace(named_prior({name: prior, **further}), main=name)
    is_of_names = isinstance(prior, Mapping) and not isinstance(model, ForwardModel)
    if not is_of_names and (axes or isinstance(observed, Mapping)):
        raise InputError(
            "argument axes" if axes else "argument observed",
            "none for a model without named unknowns" if axes else "an array (d,)",
            ", ".join(map(str, axes or observed)),
            "give a function of unknowns by name, and their distributions",
        )
    if isinstance(observed, Mapping):
        require_float64()
        observed, readings = named_readings(observed, axes)
        axes = {name: own for name, own in axes.items() if name not in {r.name for r in readings}}
    if isinstance(observed, np.ma.MaskedArray) or np.asarray(observed).dtype.kind in "iu":
        observed = as_numbers("argument observed", observed)
    require_float64(observed=observed)
    observed = np.asarray(observed)
    if observed.ndim != 1 or observed.size == 0 or not np.all(np.isfinite(observed)):
        raise InputError(
            "argument observed",
            "one finite value per observation",
            f"shape {observed.shape}"
            if observed.ndim != 1 or observed.size == 0
            else f"{observed[~np.isfinite(observed)][0]} at index "
            f"{np.flatnonzero(~np.isfinite(observed))[0]}",
            "remove or correct the observation",
        )
    if isinstance(prior, Mapping):
        prior = named_prior(prior)
        if callable(model) and not isinstance(model, ForwardModel):
            model = NamedModel(model, prior.shapes, readings)
    if not isinstance(prior, Prior):
        raise InputError(
            "argument prior",
            "a Prior of invlift or a subclass of it, or distributions of unknowns by name",
            f"{prior!r}"[:80],
            'give {"rate": lognormal(median=1e-3, factor=2)}, say',
        )
    _check_fields(model, prior)
    is_exact = noise is None
    names = [each.name for each in readings] or ["readings"]
    ends = np.cumsum([len(each.labels) for each in readings])[:-1]
    by_name = dict(zip(names, np.split(observed, ends), strict=True))
    noise = exact_readings() if is_exact else noise_by_name(noise, by_name)
    noise.check(observed)
    problem = InverseProblem(model, prior, noise, jax.device_put(observed))
    if is_exact:
        problem = _exact_problem(problem, structure)
    elif structure is not None:
        remedy = "leave it out, or give noise None"
        raise InputError("argument structure", "none where readings have noise", "one", remedy)
    try:
        value = _at_prior_mean(problem)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        is_of_numpy = isinstance(error, ConcretizationTypeError | TracerArrayConversionError)
        raise InputError(
            "forward map",
            "a JAX function of the unknowns",
            first_line(error),
            "take jax.numpy in place of numpy, and jnp.where in place of if"
            if is_of_numpy
            else "check the function's arguments and shapes",
        ) from error
    if not np.all(np.isfinite(value)):
        raise InputError(
            NOT_FINITE,
            "finite observations",
            f"{np.asarray(value)[~np.isfinite(value)][0]}",
            "check the function or the prior mean",
        )
    if structure is not None:
        _check_structure(problem)
    return replace(problem, model=with_axes(model, prior, axes)) if axes else problem


def _exact_problem(problem: InverseProblem, structure: Any) -> ExactProblem:
    """The same with exact readings, of which there must be fewer than unknowns."""
    if structure is not None and not isinstance(structure, Structure):
        expected = "one of invlift.inverse.jacobians, Diagonal() say"
        raise InputError("argument structure", expected, f"{structure!r}"[:80], "give one")
    size, num_readings = problem.num_unknowns, problem.num_observations
    own = num_readings if structure is None else structure.num_variables(num_readings)
    for where, least in (("observed", num_readings + 1), ("structure", own)):
        if size < least:
            expected = f"at least {least} unknown numbers for {num_readings} exact readings"
            raise InputError(
                f"argument {where}", expected, f"{size}", "give fewer readings, or noise"
            )
    parts = problem.model, problem.prior, problem.noise, problem.observed
    return ExactProblem(*parts, structure=structure)


def _check_structure(problem: ExactProblem) -> None:
    """Check that derivatives outside the structure are zero, in a direction near the prior mean."""
    rng = np.random.default_rng(0)
    at, along = rng.standard_normal((2, problem.num_unknowns))
    try:
        found, expected = map(np.asarray, _slopes(problem, 0.1 * at, along))
    except (TypeError, ValueError) as error:
        expected = f"a structure of {problem.num_observations} readings"
        raise InputError(
            "argument structure", expected, first_line(error), "choose another"
        ) from error
    wrong = np.flatnonzero(np.abs(found - expected) > CLOSE * (1.0 + np.abs(expected)))
    if wrong.size:
        raise InputError(
            "argument structure",
            f"readings of which no derivative is outside {problem.structure}",
            f"{wrong.size} of {expected.size} that have one, reading {wrong[0]} the first of them",
            "choose another, and give the inputs that it is about last, in the readings' order",
        )


def _slopes_along(problem: ExactProblem, position, direction):
    """Of the readings along a direction, by the structure and without it, (d,) each."""
    target = problem.own_lifted()
    _, jacobian = target.linearise(position)
    return jacobian.apply(direction), jax.jvp(problem.predict, (position,), (direction,))[1]


_slopes = Program(_slopes_along, "none")


def _check_fields(model: ForwardModel, prior: Prior) -> None:
    """Check that fields of the prior are where the model has the coefficients of fields.

    Raises
    ------
    InputError
        If they are not, as after another order of the unknowns or on another mesh.
    """
    places, parts = dict(getattr(model, "fields", None) or ()), [(prior, 0)]
    if isinstance(prior, NamedPrior):
        parts = [(prior.parts[name], math.prod(shape)) for name, shape in prior.shapes]
    for first, (part, _) in zip(np.cumsum([0, *(n for _, n in parts)]), parts, strict=False):
        mesh, location = getattr(part, "mesh", None), getattr(part, "location", None)
        if mesh is None or location not in ("nodes", "cells") or not places:
            continue
        if first not in places:
            expected = f"a field whose coefficients begin at {', '.join(map(str, places))}"
            remedy = "give the unknowns in the order of the model's coefficients"
            raise InputError("argument prior", expected, f"one that begins at {first}", remedy)
        own, theirs = mesh.places_of(location), places[first]
        size = np.ptp(theirs, axis=0).max()
        if own.shape != theirs.shape or not np.abs(own - theirs).max() <= 1e-9 * size:
            expected = f"a field on the model's mesh, of {len(theirs)} coefficients in its order"
            found = f"one of {len(own)} on another mesh" if len(own) != len(theirs) else "another"
            remedy = "make prior and model of one mesh, with one location"
            raise InputError("argument prior", expected, found, remedy)


def _readings_at_prior_mean(problem: InverseProblem):
    """Readings at w = 0, through all that evaluates them; what they must be is checked here.

    In a compiled function, and so once for problems of the same structure and shapes.
    """
    value = problem.predict(jnp.zeros(problem.num_unknowns))
    shape = problem.observed.shape
    is_array = isinstance(value, jax.Array)
    if not is_array or value.shape != shape or value.dtype != jnp.float64:
        raise InputError(
            "forward map",
            f"{shape[0]} float64 observations",
            f"{value.dtype} of shape {value.shape}" if is_array else type(value).__name__,
            "return one float64 value per observation"
            + (", or name the observed values as well" if isinstance(value, dict) else ""),
        )
    try:
        jax.eval_shape(_differentiate, problem)
    except (TypeError, ValueError) as error:
        raise InputError(
            "forward map",
            "a JAX function with derivatives in forward and in reverse mode",
            first_line(error),
            "see JAX's documentation of what the function is made of",
        ) from error
    return value


_at_prior_mean = Program(_readings_at_prior_mean, "none")


def _differentiate(problem: InverseProblem):
    """All the derivatives that samplers take, to see whether they exist."""
    mean = problem.prior.transform(jnp.zeros(problem.prior.num_white))
    (_, jacobian), expansion = problem.model.linearise(mean)
    _, pushed = problem.model.push_forward(expansion, jacobian.T)
    gradient = problem.model.pull_back(expansion, pushed, lambda columns: columns)
    jax.vjp(problem.model, mean)[1](problem.observed)
    _, expansion = problem.model.expand(mean)
    first = problem.model.derivative(expansion, gradient)
    return first, problem.model.higher_derivative(expansion, (gradient,))[0]


def jax_problem(fn, num_parameters: int, noise: Noise, observed, *, arguments=()) -> InverseProblem:
    """Inverse problem of a user's own JAX function with standard normal parameters.

    Parameters
    ----------
    fn : callable
        ``fn(theta, *arguments)``, (num_parameters,) to (d,); maps standard normal theta to the
        model's own parameters itself.
    num_parameters : int
        Number of parameters, at least 1.
    noise : Noise
    observed : (d,) float64 array
    arguments : tuple
        Further arguments of ``fn``.

    Returns
    -------
    InverseProblem

    Raises
    ------
    InputError
        As :func:`inverse_problem`.
    """
    if not is_integer(num_parameters) or num_parameters < 1:
        raise InputError(
            "argument num_parameters",
            "an integer of at least 1",
            f"{num_parameters!r}",
            "give the length of theta",
        )
    prior = StandardNormalPrior(jax.device_put(np.zeros(num_parameters)))
    return inverse_problem(JaxFunction(fn, tuple(arguments)), prior, noise, observed)
