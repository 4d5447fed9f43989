"""Construction of a density on a manifold from named unknowns, a constraint and a log density."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError, as_input_error
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.manifolds.manifolds import Manifold, as_manifold
from invlift.programs.precision import require_float64
from invlift.programs.pytrees import PyTree
from invlift.unknowns.axes import check_agreement, check_names, checked_axes, checked_unit
from invlift.unknowns.named import Unknown, check_name


def manifold_problem(
    constraint: Callable | None,
    logdensity: Callable,
    unknowns: Mapping[str, Manifold | tuple[int, ...] | Unknown],
    data: PyTree = None,
    *,
    derived: Callable | None = None,
    metric: Callable | None = None,
    start: Callable | None = None,
) -> ManifoldProblem:
    """Build a density on a manifold for sampling.

    All functions are written in JAX operations, twice differentiable, and take the unknowns by
    name, each in its shape, and ``data`` by that name if there are any: ``logdensity(U=..., s=...,
    data=...)``.

    Parameters
    ----------
    constraint : callable or None
        Returns an array that vanishes on the manifold, with gradients that are linearly independent
        there.  None if the manifolds of the unknowns are the only constraints.
    logdensity : callable
        Returns the log density, (), up to a constant, with respect to the manifold's own measure:
        length, area, volume.
    unknowns : mapping of str to Manifold, tuple of int or Unknown
        Each on a manifold, :func:`sphere` or :func:`stiefel`, or free, by its shape.  With unit and
        axes as ``Unknown((3,), "m", {"axis": "xyz"})``.
    data : pytree of arrays, optional
        Other data of the same shapes need no new compilation.  Lists of numbers become arrays.
    derived : callable, optional
        Returns arrays by name that are stored with each draw beside the unknowns.
    metric : callable, optional
        Returns a positive definite matrix (Q, Q), Q the number of entries of all unknowns, one
        unknown after the other: for the kernel ``constrained-rmhmc`` with ``metric="own"``
        (Brubaker, Salzmann & Urtasun 2012).
    start : callable, optional
        ``start(rng_key, data=...)`` returns unknowns by name, from which a chain is moved onto the
        manifold.  If left out, starts are random points on named manifolds and standard normal
        numbers for free unknowns.

    Returns
    -------
    ManifoldProblem
        For :func:`invlift.sample`.

    Raises
    ------
    InputError
        If a name or a shape does not fit, data are not numbers, a function cannot be evaluated and
        differentiated, there is no constraint, or there are not fewer constraints than unknown
        numbers.

    Notes
    -----
    Constraint and unknowns should be of the order of one: the tolerance for draws on the manifold
    is absolute, as is the spread of the first moves.  ``starts`` of :func:`sample` replaces
    ``start`` by one start for each chain.
    """
    require_float64()
    parts, units, axes = [], [], []
    for name, given in unknowns.items():
        check_name(name, ("data",))
        given = given if isinstance(given, Unknown) else Unknown(given)
        parts.append((name, as_manifold(f"unknown {name}", given.distribution)))
        units.append(checked_unit(("unknown", name, "unit"), given.unit))
        axes.append(checked_axes(("unknown", name), given.axes, parts[-1][1].shape))
    if not parts:
        raise InputError("unknowns", "at least one", "none", "name them with their shapes")
    check_agreement(
        (("unknown", name), coordinates) for (name, _), coordinates in zip(parts, axes, strict=True)
    )
    problem = ManifoldProblem(
        tuple(parts), tuple(units), tuple(axes), _arrays_of(data),
        logdensity, constraint, derived, metric, start,
    )  # fmt: skip
    _check_functions(problem)
    return problem


def _arrays_of(data: PyTree) -> PyTree:
    """Return the data with lists of numbers as arrays."""
    paths, structure = jax.tree_util.tree_flatten_with_path(data, is_leaf=_is_list_of_numbers)
    arrays = []
    for path, value in paths:
        arrays.append(np.asarray(value))
        if arrays[-1].dtype.kind not in "biufc":
            where = f"data{jax.tree_util.keystr(path)}"
            raise InputError(where, "an array of numbers", f"{value!r}"[:80], "leave it out")
    return jax.tree.unflatten(structure, arrays)


def _is_list_of_numbers(value: object) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(each, int | float) or _is_list_of_numbers(each) for each in value)


def _check_functions(problem: ManifoldProblem) -> None:
    """Check by tracing that all functions can be evaluated and differentiated."""
    position = jax.ShapeDtypeStruct((problem.dimension,), jnp.float64)

    def shapes(where, fn, derivatives=lambda fn: fn):
        expected = "a JAX function of the unknowns by name"
        with as_input_error(where, expected, "check its arguments and shapes"):
            return jax.eval_shape(derivatives(lambda q, own: fn(own, q)), position, problem)

    def expect(where, found, shape):
        if jnp.shape(found) != shape or getattr(found, "dtype", None) != jnp.float64:
            kind = getattr(found, "dtype", type(found).__name__)
            raise InputError(
                where, f"a float64 array of shape {shape}", f"{kind} of shape {jnp.shape(found)}",
                "return that",
            )  # fmt: skip

    value = shapes("logdensity", lambda traced, q: traced.call(traced.logdensity_fn, q))
    expect("logdensity", value, ())
    (num,) = shapes("constraint", lambda traced, q: traced.constraint(q)).shape
    if not 0 < num < problem.dimension:
        raise InputError(
            "constraint", f"from 1 to {problem.dimension - 1} constraints", f"{num}",
            "a density without constraints is for inverse_problem; one with as many as unknown "
            "numbers leaves points",
        )  # fmt: skip
    if problem.metric_fn is not None:
        expect("metric", shapes("metric", lambda traced, q: traced.metric(q)), 2 * position.shape)
    if problem.derived_fn is not None:
        derived = shapes("derived", lambda traced, q: traced.call(traced.derived_fn, q))
        if not isinstance(derived, dict):
            raise InputError("derived", "a dict of arrays", type(derived).__name__, "return that")
        for name in derived:
            check_name(name, [each for each, _ in problem.parts])
        check_names(derived, {axis for each in problem.axes for axis, _ in each})
    if problem.start_fn is not None:
        found = shapes(
            "start", lambda traced, q: traced.start_fn(jax.random.key(0), **traced._data)
        )
        expected = {name: (shape, jnp.float64) for name, shape in problem.shapes}
        is_dict = isinstance(found, dict)
        found = (
            {name: (each.shape, each.dtype) for name, each in found.items()} if is_dict else None
        )
        if found != expected:
            what = ", ".join(f"{name} {shape}" for name, shape in problem.shapes)
            what, remedy = f"a dict of float64 arrays {what}", "return that"
            raise InputError("start", what, f"{found}" if is_dict else "something else", remedy)
    shapes("logdensity and constraint", lambda traced, q: traced.point(q))
