"""Assembly of linear equations on scikit-fem's elements: what no coefficient changes, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import skfem
from scipy.sparse import csr_array, sparray, vstack
from skfem.assembly.dofs import DofsView

from invlift.errors import InputError
from invlift.fem import linalg, sparse
from invlift.fem.equation import Element, LinearEquation, Term
from invlift.inverse.models.base import SOLUTION
from invlift.precision import require_float64

#: Difference of a symmetric matrix from its transpose, relative to its largest entry.
ROUNDING = 1e-9


class Form(NamedTuple):
    """A part of an equation: the matrix of one element as a function of the coefficient there.

    Attributes
    ----------
    basis : skfem.Basis or skfem.FacetBasis
        Elements, on cells or on facets.
    matrix : callable
        Coefficient at the quadrature points, (Q,), and :class:`invlift.fem.equation.Element` to
        the symmetric matrix of the element, (m, m), in operations that JAX differentiates.
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
    """

    basis: skfem.assembly.basis.AbstractBasis
    matrix: Callable[[jax.Array, Element], jax.Array]
    load: Callable[[jax.Array, Element], jax.Array] | None = None
    location: Literal["nodes", "cells"] | np.ndarray = "nodes"
    start: int = 0
    dofs: np.ndarray | None = None


def linear_equation(
    forms: Form | Sequence[Form],
    *,
    readings: sparray | Sequence[sparray],
    load: float | np.ndarray = 0.0,
    held: np.ndarray | DofsView = (),
    values: float | np.ndarray = 0.0,
    constant: sparray | None = None,
    experiments: Sequence[str] = (),
) -> LinearEquation:
    """Put an equation together from forms and from what no coefficient changes.

    Parameters
    ----------
    forms : Form or sequence of Form
        Their matrices add up to A, which must be positive definite on what is not held.
    readings : (d, num_dofs) sparse matrix, or one for each of L loads
        The rows give readings from u, as ``basis.probes(points)`` of scikit-fem does. A single
        matrix reads the solutions of all loads.
    load : number, (num_dofs,) or (num_dofs, L) array
        The part of b that no coefficient changes, as scikit-fem assembles it; a column for each
        experiment.
    held : (num_held,) int array or skfem's DofsView
        Degrees of freedom where u is given, as ``basis.get_dofs("left")`` names them.
    values : number, (num_held,) or (num_held, L) array
        u there, in its unit.
    constant : (num_dofs, num_dofs) sparse matrix, optional
        The symmetric part of A that no coefficient changes, of a Robin condition for example.
    experiments : sequence of L str, optional
        Names of the loads: posteriors have ``solution_NAME`` of each. They are 1, 2, ... without;
        a single one has none.

    Returns
    -------
    LinearEquation
        The readings of the first load come first.

    Raises
    ------
    InputError
        If shapes do not fit, a matrix is not symmetric, a number is not finite, no degree of
        freedom is left free, basis functions have no gradients, or JAX is not in double precision.

    Examples
    --------
    Conduction and a reaction on quadrilaterals:

    >>> import jax.numpy as jnp, numpy as np, skfem
    >>> import invlift
    >>> from invlift.fem.equation_assembly import Form, linear_equation
    >>> invlift.enable_x64()
    >>> basis = skfem.Basis(skfem.MeshQuad().refined(3), skfem.ElementQuad1())
    >>> def matrix(phi, element):
    ...     value, gradient, weight = element.value, element.gradient, element.weight
    ...     conduction = jnp.einsum("idq,jdq,q->ij", gradient, gradient, jnp.exp(phi) * weight)
    ...     return conduction + 2.0 * jnp.einsum("iq,jq,q->ij", value, value, weight)
    >>> load = skfem.LinearForm(lambda v, w: 1.0 * v).assemble(basis)
    >>> readings = basis.probes(np.array([[0.3, 0.6], [0.5, 0.8]]))
    >>> equation = linear_equation(Form(basis, matrix), load=load, readings=readings)
    >>> equation(jnp.zeros(equation.num_coefficients)).round(6).tolist()
    [0.5, 0.5]
    """
    forms = (forms,) if isinstance(forms, Form) else tuple(forms)
    if not forms:
        raise InputError("forms", "one form or more", "none", "give the form of the equation")
    basis = forms[0].basis
    require_float64(points=basis.mesh.p)
    matrices = _matrices(readings)
    num_dofs = matrices[0].shape[1]
    held = _held(held, num_dofs)
    load, values = _columns("load", load, num_dofs), _columns("values", values, held.size)
    num_loads = max(load.shape[1], values.shape[1], len(matrices))
    load, values = (_for_all(*each, num_loads) for each in (("load", load), ("values", values)))
    if len(matrices) == 1:
        matrices = list(matrices) * num_loads

    solution = np.zeros((num_dofs, num_loads))
    solution[held] = values
    free = np.setdiff1d(np.arange(num_dofs), held)
    if free.size == 0:
        raise InputError("held", "degrees of freedom that are not held", "none", "refine the mesh")
    number = np.full(num_dofs, free.size)
    number[free] = np.arange(free.size)
    parts = [_part(form, number, free.size) for form in forms]
    constant = _constant(constant, num_dofs)
    rows, cols, constants = sparse.lower_half(constant, number, free.size)
    num_coefficients = 1 + max(part["coefficients"].max() for part in parts)
    structure = linalg.analyse(
        np.concatenate([*(part["rows"] for part in parts), rows]),
        np.concatenate([*(part["cols"] for part in parts), cols]),
        free.size,
        _places(basis, parts, num_dofs)[free],
    )
    sensitivity = _pattern(
        parts, "sensitivity_entries", "coefficients", num_coefficients, free.size
    )
    couplings = _pattern(parts, "coupling_entries", "unknowns", free.size, free.size)
    observation, offsets, loads, columns = _observation(matrices, solution, free)
    terms = tuple(_term(form, part) for form, part in zip(forms, parts, strict=True))
    for term in terms:
        _check_term(term, num_loads)
    return LinearEquation(
        terms=terms,
        sensitivity=sensitivity,
        couplings=couplings,
        free=sparse.as_index(free),
        constants=jax.device_put(constants),
        structure=structure,
        load=jax.device_put((load - constant @ solution)[free]),
        held=jax.device_put(solution),
        observation=jax.device_put(observation),
        offsets=jax.device_put(offsets),
        loads=sparse.as_index(loads),
        columns=sparse.as_index(columns),
        by_load=sparse.as_index(_by_load(loads, num_loads)),
        nodal=sparse.as_index(basis.nodal_dofs),
        solutions=_solutions(experiments, num_loads, len(basis.nodal_dofs)),
    )


def _matrices(readings) -> list[csr_array]:
    """Matrices of the readings, one or for each load, of one number of columns."""
    matrices = readings if isinstance(readings, list | tuple) else [readings]
    shapes = [np.shape(each) for each in matrices]
    if not shapes or any(len(each) != 2 or each[1] != shapes[0][1] for each in shapes):
        raise InputError(
            "readings",
            "a matrix with a column for each degree of freedom, or one for each load",
            f"shapes {shapes}",
            "make them by basis.probes of the basis of the equation",
        )
    return [csr_array(each) for each in matrices]


def _held(given, num_dofs: int) -> np.ndarray:
    """Numbers of degrees of freedom, (num_held,)."""
    numbers = np.asarray(given.flatten() if isinstance(given, DofsView) else given)
    if numbers.size == 0:
        return np.zeros(0, dtype=int)
    is_good = numbers.dtype.kind in "iu" and numbers.min() >= 0 and numbers.max() < num_dofs
    if not is_good:
        expected, found = f"numbers of degrees of freedom from 0 to {num_dofs - 1}", f"{numbers}"
        raise InputError("held", expected, found, "find them by basis.get_dofs")
    return numbers.ravel()


def _constant(given, num_dofs: int) -> csr_array:
    """The constant part of A, (num_dofs, num_dofs)."""
    shape = num_dofs, num_dofs
    matrix = csr_array(shape if given is None else given)
    if matrix.shape != shape or not abs(matrix - matrix.T).max() <= ROUNDING * abs(matrix).max():
        found = "one that is not" if matrix.shape == shape else f"shape {matrix.shape}"
        remedy = "assemble it with the basis of the equation"
        raise InputError("constant", f"a symmetric matrix {shape}", found, remedy)
    return matrix


def _check_term(term: Term, num_loads: int) -> None:
    """Try the functions of a form, where all coefficients are 1."""
    size, num = term.dofs.shape
    local = jnp.ones(term.coefficients.shape)
    matrices = np.asarray(term.matrices(local))
    is_whole = matrices.shape == (size, size, num)
    gap = np.abs(matrices - matrices.swapaxes(0, 1)) if is_whole else np.inf
    if np.any(gap > ROUNDING * np.abs(matrices).max()):
        found = "one that is not" if is_whole else f"shape {matrices.shape[:-1]}"
        remedy = "only equations of a symmetric A can be solved, without convection for example"
        raise InputError("forms", f"a symmetric matrix ({size}, {size})", found, remedy)
    if term.load is None:
        return
    loads = jax.eval_shape(term.loads, local).shape[:-1]
    if loads not in ((size, 1), (size, num_loads)):
        expected = f"a load ({size}, 1) or ({size}, {num_loads})"
        raise InputError("forms", expected, f"shape {loads}", "return a column for each load")


def _pattern(parts, key: str, rows: str, num_rows: int, num_cols: int) -> sparse.Pattern:
    """Pattern of rows of each part beside its unknowns; each part is given its entries."""
    pairs = [np.broadcast_arrays(part[rows][:, None], part["unknowns"][None]) for part in parts]
    flat = (np.concatenate([each.ravel() for each in side]) for side in zip(*pairs, strict=True))
    found, entries = sparse.pattern(*flat, num_rows, num_cols)
    ends = np.cumsum([of_rows.size for of_rows, _ in pairs])
    for part, (of_rows, _), own in zip(parts, pairs, np.split(entries, ends), strict=False):
        part[key] = own.reshape(of_rows.shape)
    return found


def _part(form: Form, number: np.ndarray, num_free: int) -> dict[str, np.ndarray]:
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
    coefficients, shape = _coefficients(form)
    coefficients = form.start + coefficients
    if coefficients.min() < 0:
        expected, found = "numbers of coefficients from 0 on", f"{coefficients.min()}"
        raise InputError("location", expected, found, "correct location or start")
    return {
        "coefficients": coefficients,
        "shape": shape,
        "dofs": dofs,
        "unknowns": unknowns,
        "kept": entries.ravel()[is_kept],
        "rows": rows[is_kept],
        "cols": cols[is_kept],
    }


def _coefficients(form: Form) -> tuple[np.ndarray, np.ndarray]:
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


def _term(form: Form, part: dict[str, np.ndarray]) -> Term:
    basis = form.basis
    element = Element(
        _values(basis, np.asarray),
        _values(basis, lambda of: of.grad),
        basis.dx.T,
        np.asarray(basis.global_coordinates()).swapaxes(-1, -2),
    )
    names = "coefficients", "dofs", "unknowns", "sensitivity_entries", "coupling_entries", "kept"
    return Term(
        matrix=form.matrix,
        load=form.load,
        shape=jax.device_put(part["shape"]),
        element=jax.device_put(element),
        **{name: sparse.as_index(part[name]) for name in names},
    )


def _places(basis, parts, num_dofs: int) -> np.ndarray:
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


def _columns(name: str, given, size: int) -> np.ndarray:
    """A number, (size,) or (size, L) array as columns (size, L)."""
    array = np.asarray(given)
    if array.ndim == 0:
        array = np.full((size, 1), array)
    array = array[:, None] if array.ndim == 1 else array
    if array.shape[0] != size or array.ndim != 2 or array.dtype.kind not in "biuf":
        expected, found = f"{size} rows of real numbers", f"{array.dtype} {np.shape(given)}"
        raise InputError(name, expected, found, "give one number for each, or one")
    array = array.astype(float)
    if not np.all(np.isfinite(array)):
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise InputError(f"{name}, row {row}", "finite numbers", f"{array[row]}", "correct it")
    return array


def _for_all(name: str, array: np.ndarray, num_loads: int) -> np.ndarray:
    """Columns (size, 1) or (size, L) for all L loads."""
    if array.shape[1] not in (1, num_loads):
        raise InputError(
            name, f"1 or {num_loads} columns", f"{array.shape[1]}", "give one for each load"
        )
    return np.broadcast_to(array, (array.shape[0], num_loads))


def _solutions(experiments: Sequence[str], num_loads: int, num_components: int) -> tuple[str, ...]:
    """Names of the solutions, load by load, each component by component."""
    names = [str(name) for name in experiments]
    for name in names:
        if not f"{SOLUTION}_{name}".isidentifier():
            remedy = "rename it: posteriors have solution_NAME"
            raise InputError("experiments", "names of letters and digits", repr(name), remedy)
    names = names or ([""] if num_loads == 1 else [str(k + 1) for k in range(num_loads)])
    if len(set(names)) != num_loads or len(names) != num_loads:
        expected = f"{num_loads} different names"
        raise InputError("experiments", expected, ", ".join(names), "give one for each load")
    components = [""] if num_components == 1 else "xyz"[:num_components]
    return tuple(
        "_".join(part for part in (SOLUTION, name, component) if part)
        for name in names
        for component in components
    )


def _observation(matrices, solution: np.ndarray, free: np.ndarray):
    """Different readings as columns (n, r), offsets, loads and columns of each reading, (d,)."""
    num_loads = solution.shape[1]
    if len(matrices) != num_loads:
        expected = f"one matrix, or one for each of {num_loads} loads"
        raise InputError("readings", expected, f"{len(matrices)}", "give as many as loads")
    offsets = np.concatenate([each @ solution[:, k] for k, each in enumerate(matrices)])
    loads = np.repeat(np.arange(num_loads), [each.shape[0] for each in matrices])
    rows = vstack(matrices, format="csr")[:, free].toarray()
    different, columns = np.unique(rows, axis=0, return_inverse=True)
    return different.T, offsets, loads, columns.ravel()


def _by_load(loads: np.ndarray, num_loads: int) -> np.ndarray:
    """Readings of each load, (L, most); the number of readings where there are no more."""
    counts = np.bincount(loads, minlength=num_loads)
    found = np.full((num_loads, counts.max()), loads.size)
    for each, count in enumerate(counts):
        found[each, :count] = np.flatnonzero(loads == each)
    return found
