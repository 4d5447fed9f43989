"""Forms of a linear equation, and the preparation of their arrays on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import skfem
from scipy.sparse import csr_array

from invlift.errors import InputError, as_input_error
from invlift.fem.equations.forms import Factored, Weighted
from invlift.fem.equations.terms import Element, FactoredTerm, GeneralTerm, Term, WeightedTerm
from invlift.fem.linalg import sparse

#: Tolerance of the symmetry of a matrix, relative to its largest entry.
ROUNDING = 1e-9


class Form(NamedTuple):
    """A part of an equation: the element matrix as a function of the element's coefficient.

    Attributes
    ----------
    basis : skfem.Basis or skfem.FacetBasis
        Elements, on cells or on facets.
    matrix : callable
        Function of the coefficient at the quadrature points, (Q,), and of
        :class:`invlift.fem.equations.terms.Element`.  It returns the symmetric element matrix,
        (m, m), by operations that JAX can differentiate.  Those of
        :mod:`invlift.fem.equations.forms`, and others of the same type, are integrated only once.
    load : callable or None
        Function of the same arguments.  It returns the element's contribution to b, (m, L) or
        (m, 1), if this depends on the coefficient.
    location : {"nodes", "cells"} or (E,) int array
        "nodes": the coefficient is given at the nodes of the mesh, and linear between them (on
        quadrilaterals bilinear).  "cells": it is constant in each cell.  An array holds the index
        of the coefficient of each of the E elements; elements may share one, as in a layer.
    start : int
        Index of the form's first coefficient, if an equation has several fields.
    dofs : (m, E) int array, optional
        Degrees of freedom of the elements, if they differ from those of the basis.  If the basis
        has N, those from N on are additional ones, such as the potential of an electrode.
    known : (E,) or (k, E) array, optional
        Known coefficients, one for each element, or each of an element's k coefficients; NaN for
        unknown ones.
    tests : (p, m, E) array, optional
        Weights of each element's residual in p reactions, if they differ from the weights of its
        degrees of freedom.
    further : sequence of int
        Indices of the further coefficients of a :class:`~invlift.fem.equations.forms.Factored`.
    """

    basis: skfem.assembly.basis.AbstractBasis
    matrix: Callable[[jax.Array, Element], jax.Array]
    load: Callable[[jax.Array, Element], jax.Array] | None = None
    location: Literal["nodes", "cells"] | np.ndarray = "nodes"
    start: int = 0
    dofs: np.ndarray | None = None
    known: np.ndarray | None = None
    tests: np.ndarray | None = None
    further: Sequence[int] = ()


def form_arrays(
    form: Form, number: np.ndarray, num_free: int, tested: csr_array
) -> dict[str, np.ndarray]:
    """Return the arrays of a form on the host, named as in `Term`, with rows and columns."""
    basis = form.basis
    functions = basis.basis[0]
    if len(functions) > 1 or functions[0].grad is None or len(basis.nodal_dofs) > 3:
        expected, found = "elements of one field with gradients", type(basis.elem).__name__
        remedy = "take Lagrange elements, or ElementVector of these"
        raise InputError("forms", expected, found, remedy)
    dofs = basis.element_dofs if form.dofs is None else np.asarray(form.dofs)
    least, num_elements = basis.element_dofs.shape
    is_whole = dofs.ndim == 2 and dofs.shape[0] >= least and dofs.shape[1] == num_elements
    if not is_whole or dofs.min() < 0 or dofs.max() >= number.size:
        raise InputError(
            "forms",
            f"degrees of freedom of {num_elements} elements, below the {number.size} of readings",
            f"shape {dofs.shape}, {dofs.min()} to {dofs.max()}",
            "make all bases and the readings of one mesh and one kind of element",
        )
    unknowns, size = number[dofs], dofs.shape[0]
    first, second = np.tril_indices(size)
    rows, cols = unknowns[first].ravel(), unknowns[second].ravel()
    is_kept = (rows < num_free) & (cols < num_free)
    entries = (first * size + second)[:, None] * num_elements + np.arange(num_elements)
    coefficients, shape = coefficients_of(form)
    known = np.asarray(np.nan if form.known is None else form.known, dtype=float)
    if known.shape not in ((), (num_elements,), coefficients.shape):
        expected, found = f"{num_elements} numbers, or NaN", f"shape {known.shape}"
        raise InputError("known", expected, found, "give one for each element of the form")
    known = np.broadcast_to(known, coefficients.shape)
    coefficients = np.where(np.isnan(known), form.start + coefficients, 0)
    if coefficients.min(initial=0) < 0:
        expected, found = "numbers of coefficients from 0 on", f"{coefficients.min()}"
        raise InputError("location", expected, found, "correct location or start")
    of_all = np.repeat(np.array(form.further, dtype=int)[:, None], num_elements, axis=1)
    coefficients = np.concatenate([coefficients, of_all])
    known = np.concatenate([known, np.full(of_all.shape, np.nan)])
    tests = tested.toarray()[:, dofs] if form.tests is None else np.asarray(form.tests, float)
    if tests.shape != (tested.shape[0], *dofs.shape):
        expected, found = f"weights {(tested.shape[0], *dofs.shape)}", f"shape {tests.shape}"
        raise InputError("tests", expected, found, "give one for each reaction and element")
    return {
        "coefficients": coefficients,
        "known": known,
        "shape": shape,
        "tests": tests,
        "dofs": dofs,
        "unknowns": unknowns,
        "kept": entries.ravel()[is_kept],
        "rows": rows[is_kept],
        "cols": cols[is_kept],
    }


def coefficients_of(form: Form) -> tuple[np.ndarray, np.ndarray]:
    """Return each element's coefficients, (k, E), and their basis functions, (k, Q, E)."""
    basis, location = form.basis, form.location
    if isinstance(location, str) and location == "nodes":
        linear = basis.with_element(basis.mesh.elem())
        return linear.element_dofs, _values(linear, np.asarray)
    num_elements, num_points = basis.dx.shape
    if isinstance(location, str) and location == "cells":
        location = np.arange(basis.mesh.nelements)[
            slice(None) if basis.tind is None else basis.tind
        ]
    location = np.asarray(location)
    if location.shape != (num_elements,) or location.dtype.kind != "i":
        raise InputError(
            "location",
            f'"nodes", "cells", or the number of a coefficient for each of {num_elements} elements',
            f"{form.location!r}" if location.ndim == 0 else f"{location.dtype} {location.shape}",
            "say where the coefficients live",
        )
    return location[None], np.ones((1, num_points, num_elements))


def _values(basis, take) -> np.ndarray:
    """Return values or gradients of the basis functions, (m, ..., Q, E)."""
    functions = [np.asarray(take(basis.basis[i][0])) for i in range(basis.Nbfun)]
    whole = functions[0].shape[:-2] + basis.dx.shape
    return np.stack([np.broadcast_to(each, whole).swapaxes(-1, -2) for each in functions])


def number_known(parts: Sequence[dict[str, np.ndarray]], size: int) -> np.ndarray:
    """Return the known coefficients, (num_known,), and number them in the parts from ``size``."""
    values = [part["known"] for part in parts]
    known = np.unique(np.concatenate([each[~np.isnan(each)] for each in values]))
    for part, values_of_part in zip(parts, values, strict=True):
        numbers = size + np.searchsorted(known, values_of_part)
        part["coefficients"] = np.where(np.isnan(values_of_part), part["coefficients"], numbers)
    return known


def joint_pattern(parts, key: str, rows: str, num_rows: int, num_cols: int) -> sparse.Pattern:
    """Return the pattern of all parts' rows against their unknowns; store entries in the parts."""
    pairs = [np.broadcast_arrays(part[rows][:, None], part["unknowns"][None]) for part in parts]
    flat = (np.concatenate([each.ravel() for each in side]) for side in zip(*pairs, strict=True))
    joint, entries = sparse.pattern(*flat, num_rows, num_cols)
    ends = np.cumsum([of_rows.size for of_rows, _ in pairs])
    for part, (of_rows, _), entries_of_part in zip(
        parts, pairs, np.split(entries, ends), strict=False
    ):
        part[key] = entries_of_part.reshape(of_rows.shape)
    return joint


def places_of_dofs(basis, parts, num_dofs: int) -> np.ndarray:
    """Return coordinates of the degrees of freedom, (num_dofs, dim).

    Additional ones get the mean over their elements' midpoints.
    """
    places = np.zeros((num_dofs, basis.mesh.dim()))
    places[: basis.N] = basis.doflocs.T
    total, count = np.zeros_like(places), np.zeros((num_dofs, 1))
    for part in parts:
        dofs = part["dofs"]
        is_further = dofs >= basis.N
        if is_further.any():
            points = np.where(is_further[..., None], 0.0, places[np.minimum(dofs, basis.N - 1)])
            middles = points.sum(axis=0) / (~is_further).sum(axis=0)[:, None]
            for row, at in zip(dofs, is_further, strict=True):
                np.add.at(total, row[at], middles[at])
                np.add.at(count, row[at], 1.0)
    return np.where(count > 0, total / np.maximum(count, 1.0), places)


def element_of(basis) -> Element:
    """Return the data of all elements of a basis, with the elements last, on the host."""
    return Element(
        _values(basis, np.asarray),
        _values(basis, lambda of: of.grad),
        basis.dx.T,
        np.asarray(basis.global_coordinates()).swapaxes(-1, -2),
    )


def integrated(form: Weighted, element: Element) -> dict[str, np.ndarray]:
    """Integrate a weighted form: return ``integrals`` and ``shares`` of its term."""
    at_points = np.moveaxis(np.asarray(form.integrand(element)), 2, 0)
    whole = element.weight.sum(axis=0)
    shares = element.weight / np.where(whole > 0.0, whole, 1.0)
    total = at_points.sum(axis=0)
    gap = np.abs(at_points - shares[:, None, None] * total)
    if len(shares) > 1 and np.all(gap <= ROUNDING * np.abs(total).max(axis=(0, 1))):
        at_points = total[None]
    return {"integrals": at_points, "shares": _one_for_all(shares)}


def term_of(form: Form, part: dict[str, np.ndarray], held: np.ndarray) -> Term:
    """Build the term of a form from its arrays.

    ``held``, (num_dofs,), is the mask of degrees of freedom with nonzero held values.
    """
    element = element_of(form.basis)
    names = "coefficients", "dofs", "unknowns", "sensitivity_entries", "coupling_entries", "kept"
    arrays = {name: sparse.as_index(part[name]) for name in names}
    arrays["given"] = sparse.as_index(np.flatnonzero(held[part["dofs"]].any(axis=0)))
    arrays |= jax.device_put({"shape": _one_for_all(part["shape"]), "tests": part["tests"]})
    if isinstance(form.matrix, Factored):
        parts = [integrated(each, element) for each in form.matrix.parts]
        integrals = parts[0] | {"integrals": np.concatenate([each["integrals"] for each in parts])}
        functions = {"weight": form.matrix.weight, "factors": form.matrix.factors}
        return FactoredTerm(**functions, **jax.device_put(integrals), **arrays)
    if isinstance(form.matrix, Weighted) and form.load is None:
        with _errors_of("weight and an integrand of JAX functions"):
            integrals = integrated(form.matrix, element)
            weights = jax.eval_shape(form.matrix.weight, element.weight)
        _check_symmetric(integrals["integrals"].sum(axis=0), part["dofs"].shape)
        if weights.shape != element.weight.shape:
            expected, remedy = "a weight of the shape of the coefficient", "weigh point by point"
            raise InputError("forms", expected, f"shape {weights.shape}", remedy)
        return WeightedTerm(weight=form.matrix.weight, **jax.device_put(integrals), **arrays)
    if form.load is not None:
        arrays["given"] = sparse.as_index(np.arange(len(element.weight[0])))
    return GeneralTerm(
        matrix=form.matrix, load=form.load, element=jax.device_put(element), **arrays
    )


def _one_for_all(array: np.ndarray) -> np.ndarray:
    """Reduce an array (..., E) to (..., 1) if all elements have the same values."""
    return array[..., :1] if np.ptp(array, axis=-1).max(initial=0.0) <= ROUNDING else array


def check_functions(term: Term, num_loads: int) -> None:
    """Check the functions of a user's form by a call with all coefficients 1."""
    if not isinstance(term, GeneralTerm):
        return
    size = len(term.dofs)
    local = jnp.ones(term.coefficients.shape)
    with _errors_of("matrix that is a JAX function of the coefficient and the element"):
        matrices = np.asarray(term.matrices(local))
    _check_symmetric(matrices, term.dofs.shape)
    if term.load is None:
        return
    with _errors_of("load that is a JAX function of the coefficient and the element"):
        loads = jax.eval_shape(term.loads, local).shape[:-1]
    if loads not in ((size, 1), (size, num_loads)):
        expected = f"a load ({size}, 1) or ({size}, {num_loads})"
        raise InputError("forms", expected, f"shape {loads}", "return a column for each load")


def _check_symmetric(matrices: np.ndarray, shape: tuple[int, int]) -> None:
    """Raise an error for element matrices, (m, m, E), of wrong shape or without symmetry."""
    size, num = shape
    is_whole = matrices.shape == (size, size, num)
    gap = np.abs(matrices - matrices.swapaxes(0, 1)) if is_whole else np.inf
    if np.any(gap > ROUNDING * np.abs(matrices).max()):
        found = "one that is not" if is_whole else f"shape {matrices.shape[:-1]}"
        remedy = "only equations of a symmetric A can be solved, without convection for example"
        raise InputError("forms", f"a symmetric matrix ({size}, {size})", found, remedy)


def _errors_of(what: str):
    """Return a context that turns errors of a user's function into an InputError."""
    return as_input_error("forms", f"a {what}", "see what an element has")
