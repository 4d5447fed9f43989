"""Forms of a linear equation: what is prepared of each on the host, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import skfem
from scipy.sparse import csr_array

from invlift.errors import InputError, as_input_error
from invlift.fem.equations.forms import Weighted
from invlift.fem.equations.terms import Element, GeneralTerm, Term, WeightedTerm
from invlift.fem.linalg import sparse

#: Difference of a symmetric matrix from its transpose, relative to its largest entry.
ROUNDING = 1e-9


class Form(NamedTuple):
    """A part of an equation: the matrix of one element as a function of the coefficient there.

    Attributes
    ----------
    basis : skfem.Basis or skfem.FacetBasis
        Elements, on cells or on facets.
    matrix : callable
        Coefficient at the quadrature points, (Q,), and
        :class:`invlift.fem.equations.terms.Element` to the symmetric matrix of the element, (m, m),
        in operations that JAX differentiates.  Those of :mod:`invlift.fem.equations.forms`, and
        others of their kind, are integrated once.
    load : callable or None
        Likewise to the element's share of b, (m, L) or (m, 1), where this depends on the
        coefficient.
    location : {"nodes", "cells"} or (E,) int array
        The coefficient is given at the nodes of the mesh and linear (on quadrilaterals bilinear)
        between them, is constant in each cell, or each of the E elements has the coefficient of
        this number, as all elements of a layer have one.
    start : int
        Number of the form's first coefficient, where an equation has several fields of them.
    dofs : (m, E) int array, optional
        Degrees of freedom of the elements where these are not the basis's, which has N: those from
        N on are further ones, such as the potential of an electrode.
    known : (E,) or (k, E) array, optional
        The coefficient in those elements, or those of each element, that are known; else NaN.
    tests : (p, m, E) array, optional
        Weights of each element's own residual in p reactions, where these are not the weights of
        its degrees of freedom.
    """

    basis: skfem.assembly.basis.AbstractBasis
    matrix: Callable[[jax.Array, Element], jax.Array]
    load: Callable[[jax.Array, Element], jax.Array] | None = None
    location: Literal["nodes", "cells"] | np.ndarray = "nodes"
    start: int = 0
    dofs: np.ndarray | None = None
    known: np.ndarray | None = None
    tests: np.ndarray | None = None


def form_arrays(
    form: Form, number: np.ndarray, num_free: int, tested: csr_array
) -> dict[str, np.ndarray]:
    """Arrays of a form on the host, by the names of `Term`, and places of its kept entries."""
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
    """Coefficients of each element, (k, E), and their basis functions at its points, (k, Q, E)."""
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
    """Values or gradients of the basis functions, (m, ..., Q, E)."""
    functions = [np.asarray(take(basis.basis[i][0])) for i in range(basis.Nbfun)]
    whole = functions[0].shape[:-2] + basis.dx.shape
    return np.stack([np.broadcast_to(each, whole).swapaxes(-1, -2) for each in functions])


def number_known(parts: Sequence[dict[str, np.ndarray]], size: int) -> np.ndarray:
    """Values of known coefficients, (num_known,); parts get their numbers, from ``size`` on."""
    values = [part["known"] for part in parts]
    known = np.unique(np.concatenate([each[~np.isnan(each)] for each in values]))
    for part, own in zip(parts, values, strict=True):
        numbers = size + np.searchsorted(known, own)
        part["coefficients"] = np.where(np.isnan(own), part["coefficients"], numbers)
    return known


def joint_pattern(parts, key: str, rows: str, num_rows: int, num_cols: int) -> sparse.Pattern:
    """Pattern of rows of each part beside its unknowns; each part is given its entries."""
    pairs = [np.broadcast_arrays(part[rows][:, None], part["unknowns"][None]) for part in parts]
    flat = (np.concatenate([each.ravel() for each in side]) for side in zip(*pairs, strict=True))
    found, entries = sparse.pattern(*flat, num_rows, num_cols)
    ends = np.cumsum([of_rows.size for of_rows, _ in pairs])
    for part, (of_rows, _), own in zip(parts, pairs, np.split(entries, ends), strict=False):
        part[key] = own.reshape(of_rows.shape)
    return found


def places_of_dofs(basis, parts, num_dofs: int) -> np.ndarray:
    """Coordinates of the degrees of freedom, (num_dofs, dim); further ones amid their elements."""
    places = np.zeros((num_dofs, basis.mesh.dim()))
    places[: basis.N] = basis.doflocs.T
    total, count = np.zeros_like(places), np.zeros((num_dofs, 1))
    for part in parts:
        dofs = part["dofs"]
        is_further = dofs >= basis.N
        if is_further.any():
            own = np.where(is_further[..., None], 0.0, places[np.minimum(dofs, basis.N - 1)])
            middles = own.sum(axis=0) / (~is_further).sum(axis=0)[:, None]
            for row, at in zip(dofs, is_further, strict=True):
                np.add.at(total, row[at], middles[at])
                np.add.at(count, row[at], 1.0)
    return np.where(count > 0, total / np.maximum(count, 1.0), places)


def element_of(basis) -> Element:
    """Of all elements of a basis, with the elements last, on the host."""
    return Element(
        _values(basis, np.asarray),
        _values(basis, lambda of: of.grad),
        basis.dx.T,
        np.asarray(basis.global_coordinates()).swapaxes(-1, -2),
    )


def integrated(form: Weighted, element: Element) -> dict[str, np.ndarray]:
    """The constant matrices of a weighted form, ``integrals`` and ``shares`` of its term."""
    at_points = np.moveaxis(np.asarray(form.integrand(element)), 2, 0)
    whole = element.weight.sum(axis=0)
    shares = element.weight / np.where(whole > 0.0, whole, 1.0)
    total = at_points.sum(axis=0)
    gap = np.abs(at_points - shares[:, None, None] * total)
    if len(shares) > 1 and np.all(gap <= ROUNDING * np.abs(total).max(axis=(0, 1))):
        at_points = total[None]
    return {"integrals": at_points, "shares": _one_for_all(shares)}


def term_of(form: Form, part: dict[str, np.ndarray], held: np.ndarray) -> Term:
    """A form as the equation holds it, of its arrays.

    ``held``, (num_dofs,), tells which degrees of freedom have held values that are not zero.
    """
    element = element_of(form.basis)
    names = "coefficients", "dofs", "unknowns", "sensitivity_entries", "coupling_entries", "kept"
    own = {name: sparse.as_index(part[name]) for name in names}
    own["given"] = sparse.as_index(np.flatnonzero(held[part["dofs"]].any(axis=0)))
    own |= jax.device_put({"shape": _one_for_all(part["shape"]), "tests": part["tests"]})
    if isinstance(form.matrix, Weighted) and form.load is None:
        with _told("weight and an integrand of JAX functions"):
            integrals = integrated(form.matrix, element)
            weights = jax.eval_shape(form.matrix.weight, element.weight)
        _check_symmetric(integrals["integrals"].sum(axis=0), part["dofs"].shape)
        if weights.shape != element.weight.shape:
            expected, remedy = "a weight of the shape of the coefficient", "weigh point by point"
            raise InputError("forms", expected, f"shape {weights.shape}", remedy)
        return WeightedTerm(weight=form.matrix.weight, **jax.device_put(integrals), **own)
    if form.load is not None:
        own["given"] = sparse.as_index(np.arange(len(element.weight[0])))
    return GeneralTerm(matrix=form.matrix, load=form.load, element=jax.device_put(element), **own)


def _one_for_all(array: np.ndarray) -> np.ndarray:
    """An array (..., E) as (..., 1) where all elements have the same."""
    return array[..., :1] if np.ptp(array, axis=-1).max(initial=0.0) <= ROUNDING else array


def check_functions(term: Term, num_loads: int) -> None:
    """Try the functions of a form of one's own, where all coefficients are 1."""
    if not isinstance(term, GeneralTerm):
        return
    size = len(term.dofs)
    local = jnp.ones(term.coefficients.shape)
    with _told("matrix that is a JAX function of the coefficient and the element"):
        matrices = np.asarray(term.matrices(local))
    _check_symmetric(matrices, term.dofs.shape)
    if term.load is None:
        return
    with _told("load that is a JAX function of the coefficient and the element"):
        loads = jax.eval_shape(term.loads, local).shape[:-1]
    if loads not in ((size, 1), (size, num_loads)):
        expected = f"a load ({size}, 1) or ({size}, {num_loads})"
        raise InputError("forms", expected, f"shape {loads}", "return a column for each load")


def _check_symmetric(matrices: np.ndarray, shape: tuple[int, int]) -> None:
    """Refuse matrices of elements, (m, m, E), that are not symmetric or not of this shape."""
    size, num = shape
    is_whole = matrices.shape == (size, size, num)
    gap = np.abs(matrices - matrices.swapaxes(0, 1)) if is_whole else np.inf
    if np.any(gap > ROUNDING * np.abs(matrices).max()):
        found = "one that is not" if is_whole else f"shape {matrices.shape[:-1]}"
        remedy = "only equations of a symmetric A can be solved, without convection for example"
        raise InputError("forms", f"a symmetric matrix ({size}, {size})", found, remedy)


def _told(what: str):
    """Faults of a user's function told as bad input."""
    return as_input_error("forms", f"a {what}", "see what an element has")
