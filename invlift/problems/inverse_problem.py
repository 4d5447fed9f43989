"""Construction of an inverse problem from the user's parts, with checks that they fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, as_input_error, as_numbers, checked_integer
from invlift.lift.jacobians import JacobianStructure
from invlift.models.base import ForwardModel, JaxFunction
from invlift.models.named_model import NamedModel, with_axes
from invlift.models.named_readings import NamedReading, check_like, named_readings, of_frame
from invlift.noise import Noise
from invlift.noise.by_name import noise_by_name
from invlift.noise.families import exact_readings
from invlift.problems.censored import with_censored
from invlift.problems.problem import ExactProblem, InverseProblem
from invlift.programs.compilation import program
from invlift.programs.precision import require_float64
from invlift.programs.traced import functions_with_own_rules
from invlift.unknowns.axes import check_names
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.named import Unknown, named_prior
from invlift.unknowns.priors.base import Prior, StandardNormalPrior
from invlift.unknowns.priors.mapped import partly_known
from invlift.unknowns.priors.named import NamedPrior

#: Place in the error if readings are finite neither at the prior mean nor at a draw.
NOT_FINITE = "forward map at the prior mean"
#: Prior draws that are tried if the readings at the prior mean are not finite.
NUM_DRAWS = 20
#: Difference of two slopes, relative to slopes larger than 1, that is rounding.
CLOSE = 1e-8


def inverse_problem(
    model: ForwardModel | Callable,
    prior: Prior | Mapping[str, Unknown | Distribution | Prior],
    noise: Noise | Distribution | float | np.ndarray | Mapping[str, Any] | None,
    observed,
    *,
    axes: Mapping[str, Mapping[str, Sequence]] | None = None,
    structure: JacobianStructure | None = None,
) -> InverseProblem:
    """Put an inverse problem together and check that its parts fit.

    Parameters
    ----------
    model : ForwardModel or callable
        Map from coefficients (N,), those of all unknowns one after the other, to observations (d,).
        Or a function of named unknowns in their own units, ``model(rate=..., start=...)``, written
        in JAX operations.  It returns the observations, (d,) or a dict of arrays, or these and a
        dict of further quantities to store with the draws.
    prior : Prior or mapping of str to Unknown, Distribution or Prior
        Prior of the N coefficients.  Or distributions of invlift or NumPyro by the names of the
        unknowns: ``{"rate": lognormal(median=1e-3, factor=2), "start": normal(80, 10)}``.  An
        unknown with unit and axes is ``Unknown(normal(80, 10), "degree C")``.
    noise : Noise, Distribution, float, (d,) array, mapping of str to these, or None
        A noise of :mod:`invlift.noise`.  Or the standard deviation of normal noise: a number, (d,),
        or a distribution, which gives each name of the readings an unknown scale.  Or any of these
        by name.  None for exact readings, such as the output of a generator: only constrained
        samplers draw from these (Graham & Storkey 2017).
    observed : (d,) array, or mapping of str to array
        Measured values, real numbers. By name for a function that gives observations by name:
        arrays, or xarray's, whose coordinates name each observation, or the columns of a data
        frame. Arrays over all d observations, such as noise scales, have them in this order.
    axes : mapping of str to mapping of str to sequence, optional
        For a function of named unknowns: name and coordinates of each axis of a quantity that it
        returns, ``{"path": {"year": range(1900, 1921)}}``.
    structure : JacobianStructure, optional
        For exact readings: which of the last inputs enter which reading, in the order of the
        unknowns.  Earlier inputs may enter all readings.  ``Diagonal()`` if each reading has an
        input that enters no other reading; ``Triangular()`` if the inputs of earlier readings also
        enter (the same, appendix C); or another class of :mod:`invlift.lift.jacobians`.  Dense if
        left out.

    Returns
    -------
    InverseProblem
        For :func:`invlift.sample`.

    Raises
    ------
    InputError
        If shapes or names do not match, a value is not finite, JAX is not in double precision, or
        the forward map is finite neither at the prior mean nor at one of 20 draws, or cannot be
        differentiated; if there are not more unknowns than exact readings, or a derivative outside
        the structure is not zero.

    Examples
    --------
    >>> times = np.array([1.0, 2.0, 4.0])
    >>> problem = invlift.inverse_problem(
    ...     lambda start, rate: start * jnp.exp(-rate * times),
    ...     {"start": invlift.normal(10.0, 1.0), "rate": invlift.lognormal(median=0.3, factor=2.0)},
    ...     invlift.gaussian_noise(0.1),
    ...     [7.5, 5.4, 3.1],
    ... )
    >>> problem.num_unknowns, problem.num_observations
    (2, 3)
    """
    axes, prior = dict(axes or {}), _prior(prior, model)
    has_names = isinstance(prior, NamedPrior) and not isinstance(model, ForwardModel)
    given = dict(observed.items()) if hasattr(observed, "items") else {}
    noise = dict(noise.items()) if hasattr(noise, "columns") else noise  # a data frame
    observed, readings = _observed(observed, axes, has_names=has_names)
    if has_names:
        model = NamedModel(model, prior.shapes, readings)
    if not isinstance(model, ForwardModel):
        expected = "a ForwardModel, as the prior is one of all coefficients"
        remedy = 'name what is unknown, {"x": prior} say, or take jax_problem'
        raise InputError("argument model", expected, f"a {type(model).__name__}", remedy)
    _check_fields(model, prior)
    prior = _with_known(model, prior)
    names = [each.name for each in readings] or ["readings"]
    ends = np.cumsum([len(each.labels) for each in readings])[:-1]
    by_name = dict(zip(names, np.split(observed, ends), strict=True))
    for each in readings:
        own = noise.get(each.name) if isinstance(noise, Mapping) else noise
        check_like(("noise", each.name), own, each, given.get(each.name))
    is_exact = noise is None
    noise = exact_readings() if is_exact else noise_by_name(noise, by_name)
    noise.check(observed)
    _check_logarithms(model, noise)
    problem = InverseProblem(model, prior, noise, jax.device_put(np.array(observed)))
    problem = with_censored(problem)
    if is_exact:
        problem = _exact_problem(problem, structure)
    elif structure is not None:
        remedy = "leave it out, or give noise None"
        raise InputError("argument structure", "none where readings have noise", "one", remedy)
    _check_prediction(problem)
    if structure is not None:
        _check_structure(problem)
    if not has_names:
        return problem
    _check_order(prior, readings)
    kept = {name: own for name, own in axes.items() if name not in names}
    problem = replace(problem, model=with_axes(model, prior, kept)) if kept else problem
    every = [
        *prior.axes,
        *(each.axes for each in readings),
        *(own for _, own in problem.model.kept_axes),
    ]
    check_names(problem.shapes_of_draws(), {axis for each in every for axis, _ in each})
    return problem


def _prior(prior: Any, model: Any) -> Prior:
    """Return the prior of all coefficients, including those for which the model has a prior."""
    brings = model.on_mesh.further if isinstance(model, ForwardModel) else {}
    if isinstance(prior, Prior) and brings:
        name = model.coefficients_name
        prior = replace(named_prior({name: prior, **brings}), main=name)
    prior = named_prior(prior) if isinstance(prior, Mapping) else prior
    if not isinstance(prior, Prior):
        raise InputError(
            "argument prior",
            "a Prior of invlift or a subclass of it, or distributions of unknowns by name",
            f"{prior!r}"[:80],
            'give {"rate": lognormal(median=1e-3, factor=2)}, say',
        )
    return prior


def _observed(
    observed: Any, axes: Mapping, *, has_names: bool
) -> tuple[np.ndarray, tuple[NamedReading, ...]]:
    """Return all readings as one vector, (d,), and a description of each named reading."""
    if hasattr(observed, "columns"):  # a data frame
        observed = of_frame(observed)
    if not has_names and (axes or isinstance(observed, Mapping)):
        raise InputError(
            "argument axes" if axes else "argument observed",
            "none for a model without named unknowns" if axes else "an array (d,)",
            ", ".join(map(str, axes or observed)),
            "give a function of unknowns by name, and their distributions",
        )
    require_float64()
    readings = ()
    if isinstance(observed, Mapping):
        observed, readings = named_readings(observed, axes)
    observed = as_numbers("argument observed", observed, "an array of numbers")
    expected, remedy = "one finite value per observation", "remove or correct the observation"
    if observed.ndim != 1 or observed.size == 0:
        raise InputError("argument observed", expected, f"shape {observed.shape}", remedy)
    bad = np.flatnonzero(~np.isfinite(observed))
    if bad.size:
        found = f"{observed[bad[0]]} at index {bad[0]}"
        raise InputError("argument observed", expected, found, remedy)
    return observed, readings


def _exact_problem(problem: InverseProblem, structure: Any) -> ExactProblem:
    """Return the problem with exact readings; there must be fewer readings than unknowns."""
    if structure is not None and not isinstance(structure, JacobianStructure):
        expected = "one of invlift.lift.jacobians, Diagonal() say"
        raise InputError("argument structure", expected, f"{structure!r}"[:80], "give one")
    size, num_readings = problem.num_unknowns, problem.num_observations
    num_inputs = num_readings if structure is None else structure.num_variables(num_readings)
    for where, least in (("observed", num_readings + 1), ("structure", num_inputs)):
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
    expected = f"a structure of {problem.num_observations} readings"
    with as_input_error("argument structure", expected, "choose another"):
        slopes, expected = map(np.asarray, _slopes(problem, 0.1 * at, along))
    wrong = np.flatnonzero(np.abs(slopes - expected) > CLOSE * (1.0 + np.abs(expected)))
    if wrong.size:
        raise InputError(
            "argument structure",
            f"readings of which no derivative is outside {problem.structure}",
            f"{wrong.size} of {expected.size} that have one, reading {wrong[0]} the first of them",
            "choose another, and give the inputs that it is about last, in the readings' order",
        )


@program
def _slopes(problem: ExactProblem, position, direction):
    """Return directional derivatives of the readings, with and without the structure, (d,) each."""
    target = problem.lifted()
    _, jacobian = target.linearise(position)
    return jacobian.apply(direction), jax.jvp(problem.predict, (position,), (direction,))[1]


def _check_order(prior: NamedPrior, readings: Sequence[NamedReading]) -> None:
    """Refuse an axis of readings that has an unknown's coordinates in another order."""
    pairs = zip(prior.shapes, prior.axes, strict=True)
    known = [(name, axis, at) for (name, _), own in pairs for axis, at in own]
    read = [(each.name, axis, at) for each in readings for axis, at in each.axes]
    for reading, axis, labels in read:
        for name, other, at in known:
            is_same_set = axis == other and sorted(map(str, at)) == sorted(map(str, labels))
            if is_same_set and at != labels:
                expected = f"coordinates along {axis} in the order of the unknown {name}"
                found, remedy = "another order", "give both in one order, or axes of two names"
                raise InputError(f"argument observed, {reading}", expected, found, remedy)


def _check_fields(model: ForwardModel, prior: Prior) -> None:
    """Check that fields of the prior match those of the model in position and mesh.

    Raises
    ------
    InputError
        If they do not, because the order of the unknowns or the mesh differs.
    """
    places = {each.first: each.points for each in model.on_mesh.fields}
    for first, part in prior.placed.items():
        if part.mesh is None or part.location not in ("nodes", "cells") or not places:
            continue
        if first not in places:
            expected = f"a field whose coefficients begin at {', '.join(map(str, places))}"
            remedy = "give the unknowns in the order of the model's coefficients"
            raise InputError("argument prior", expected, f"one that begins at {first}", remedy)
        points, theirs = part.mesh.places_of(part.location), places[first]
        size = np.ptp(theirs, axis=0).max()
        if points.shape != theirs.shape or not np.abs(points - theirs).max() <= 1e-9 * size:
            expected = f"a field on the model's mesh, of {len(theirs)} coefficients in its order"
            found = (
                f"one of {len(points)} on another mesh" if len(points) != len(theirs) else "another"
            )
            remedy = "make prior and model of one mesh, with one location"
            raise InputError("argument prior", expected, found, remedy)


def _check_logarithms(model: ForwardModel, noise: Noise) -> None:
    """Refuse noise relative to readings of a logarithm, which depends on the unit chosen."""
    sensors = model.on_mesh.sensors
    if noise.relative and sensors is not None and sensors.has_logarithms:
        expected = f"false, as {sensors.name} has readings of the logarithm of the conductivity"
        remedy = "leave relative out, and give sigma in the unit of each reading"
        raise InputError(("noise", "relative"), expected, "true", remedy)


def _with_known(model: ForwardModel, prior: Prior) -> Prior:
    """Return the prior with the known values of fields that the model has."""
    fields = model.on_mesh.fields
    known = {each.first: each.known for each in fields if each.known is not None}
    if not known:
        return prior
    if not isinstance(prior, NamedPrior):
        return partly_known(prior, known[0]) if 0 in known else prior
    parts = dict(prior.parts)
    for name, first in prior.firsts.items():
        if first in known and isinstance(parts[name], Prior):
            parts[name] = partly_known(parts[name], known[first])
    return replace(prior, parts=parts)


def _check_prediction(problem: InverseProblem) -> None:
    """Check that readings are finite at the prior mean or a draw, and can be differentiated.

    A draw is enough, as a model may have no value in the middle of a wide prior.
    """
    expected, remedy = "a JAX function of the unknowns", "check its arguments and shapes"
    with as_input_error("forward map", expected, remedy):
        value = np.asarray(_predicted(problem, np.zeros(problem.prior.num_white)))
    rng = np.random.default_rng(0)
    for _ in range(NUM_DRAWS):
        if np.isfinite(value).all():
            return
        found = value[~np.isfinite(value)][0]
        value = np.asarray(_predicted(problem, problem.prior.sample(rng)))
    remedy = "check the function or the prior"
    raise InputError(
        NOT_FINITE, f"finite observations there or at one of {NUM_DRAWS} draws", f"{found}", remedy
    )


@program
def _predicted(problem: InverseProblem, white):
    """Return the readings at w (m,), after checks of their type, shape and derivatives.

    The checks run at compilation, so once for problems of the same structure and shapes.
    """
    value = problem.predict(jnp.concatenate([jnp.zeros(problem.noise.num_parameters), white]))
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
    expected = "a JAX function with derivatives in forward and in reverse mode"
    remedy = "see JAX's documentation of what the function is made of"
    own_rules = _own_rules(problem)
    if own_rules:
        remedy += f"; {own_rules}, which it calls, may have no second derivative"
    with as_input_error("forward map", expected, remedy):
        jax.eval_shape(_differentiate, problem)
        if own_rules:  # some can be traced, but not compiled
            shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), problem)
            jax.jit(_differentiate).lower(shapes)
    return value


def _own_rules(problem: InverseProblem) -> str:
    """Return the names of functions with custom derivatives that a user's function calls."""
    if type(problem.model).linearise is not ForwardModel.linearise:
        return ""
    white = jnp.zeros(problem.prior.num_white)
    names = functions_with_own_rules(lambda w: problem.model(problem.prior.transform(w)), white)
    return ", ".join(names)


def _differentiate(problem: InverseProblem):
    """Compute all derivatives that samplers need, to test that they exist."""
    mean = problem.prior.transform(jnp.zeros(problem.prior.num_white))
    (_, jacobian), expansion = problem.model.linearise(mean)
    _, pushed = problem.model.push_forward(expansion, jacobian.T)
    gradient = problem.model.pull_back(expansion, pushed, lambda columns: columns)
    jax.vjp(problem.model, mean)[1](problem.observed)
    _, expansion = problem.model.expand(mean)
    first = problem.model.derivative(expansion, gradient)
    return first, problem.model.higher_derivative(expansion, (gradient,))[0]


def jax_problem(fn, num_parameters: int, noise: Noise, observed, *, arguments=()) -> InverseProblem:
    """Build the inverse problem of a user's JAX function with standard normal parameters.

    Parameters
    ----------
    fn : callable
        ``fn(theta, *arguments)``, (num_parameters,) to (d,); maps standard normal theta to the
        model's own parameters itself.
    num_parameters : int
        Number of parameters, at least 1.
    noise : Noise
    observed : (d,) array
    arguments : tuple
        Further arguments of ``fn``.

    Returns
    -------
    InverseProblem
        For :func:`invlift.sample`.

    Raises
    ------
    InputError
        As :func:`inverse_problem`.
    """
    where, remedy = "argument num_parameters", "give the length of theta"
    num = checked_integer(where, num_parameters, 1, remedy=remedy)
    prior = StandardNormalPrior(jax.device_put(np.zeros(num)))
    return inverse_problem(JaxFunction(fn, tuple(arguments)), prior, noise, observed)
