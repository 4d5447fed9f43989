"""Assembly of linear equations on scikit-fem's elements: what no coefficient changes, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import skfem
from scipy.sparse import csr_array, hstack, sparray, vstack
from skfem.assembly.dofs import DofsView

from invlift.errors import InputError
from invlift.fem import linalg, sparse
from invlift.fem.equation import LinearEquation
from invlift.fem.terms import Element, Inputs, Term
from invlift.inverse.models.base import SOLUTION
from invlift.programs.precision import require_float64

#: Difference of a symmetric matrix from its transpose, relative to its largest entry.
ROUNDING = 1e-9


class Form(NamedTuple):
    """A part of an equation: the matrix of one element as a function of the coefficient there.

    Attributes
    ----------
    basis : skfem.Basis or skfem.FacetBasis
        Elements, on cells or on facets.
    matrix : callable
        Coefficient at the quadrature points, (Q,), and :class:`invlift.fem.terms.Element` to
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


class Functionals(NamedTuple):
    """What d readings are sums of: weights, as matrices.

    Attributes
    ----------
    solution : (d, num_dofs) sparse matrix
        Of u.
    reactions : (d, p) sparse matrix, optional
        Of the reactions.
    coefficients : (d, N) sparse matrix, optional
        Of the coefficients themselves.
    """

    solution: sparray
    reactions: sparray | None = None
    coefficients: sparray | None = None


class Input(NamedTuple):
    """What one unit of a coefficient adds to loads and held values, which are affine in it.

    Attributes
    ----------
    coefficient : int
        Its number.
    load : number, (num_dofs,) or (num_dofs, L) array
    values : number, (num_held,) or (num_held, L) array
    """

    coefficient: int
    load: float | np.ndarray = 0.0
    values: float | np.ndarray = 0.0


def linear_equation(
    forms: Form | Sequence[Form],
    *,
    readings: sparray | Functionals | Sequence[sparray | Functionals],
    load: float | np.ndarray = 0.0,
    held: np.ndarray | DofsView = (),
    values: float | np.ndarray = 0.0,
    constant: sparray | None = None,
    experiments: Sequence[str] = (),
    inputs: Sequence[Input] = (),
    reactions: sparray | None = None,
    num_coefficients: int | None = None,
) -> LinearEquation:
    """Put an equation together from forms and from what no coefficient changes.

    Parameters
    ----------
    forms : Form or sequence of Form
        Their matrices add up to A, which must be positive definite on what is not held.
    readings : (d, num_dofs) sparse matrix or Functionals, or one for each of L loads
        The rows give readings from u, as ``basis.probes(points)`` of scikit-fem does. A single
        one reads the solutions of all loads.
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
    inputs : sequence of Input, optional
        Coefficients in which loads and held values are affine, such as an unknown strength.
    reactions : (p, num_dofs) sparse matrix, optional
        Weights of A u - b, where u is held, in what :class:`Functionals` call reactions: the fluxes
        or forces that hold it.
    num_coefficients : int, optional
        Number N of coefficients, if forms and inputs do not have the last.

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
    readings = _readings(readings)
    num_dofs = readings[0].solution.shape[1]
    held = _held(held, num_dofs)
    loads = _stacked("load", [load, *(each.load for each in inputs)], num_dofs)
    values = _stacked("values", [values, *(each.values for each in inputs)], held.size)
    num_loads = max(loads.shape[2], values.shape[2], len(readings))
    loads, values = (_for_all(*each, num_loads) for each in (("load", loads), ("values", values)))
    if len(readings) == 1:
        readings = readings * num_loads

    solution = np.zeros((len(loads), num_dofs, num_loads))
    solution[:, held] = values
    free = np.setdiff1d(np.arange(num_dofs), held)
    if free.size == 0:
        raise InputError("held", "degrees of freedom that are not held", "none", "refine the mesh")
    number = np.full(num_dofs, free.size)
    number[free] = np.arange(free.size)
    tested = csr_array((0, num_dofs)) if reactions is None else csr_array(reactions)
    parts = [_part(form, number, free.size, tested) for form in forms]
    least = 1 + max(
        -1, *(part["coefficients"].max(initial=-1) for part in parts),
        *(each.coefficient for each in inputs),
    )  # fmt: skip
    num_coefficients = _checked_number(num_coefficients, least)
    known = _number_known(parts, num_coefficients)
    constant = _constant(constant, num_dofs)
    rows, cols, constants = sparse.lower_half(constant, number, free.size)
    structure = linalg.analyse(
        np.concatenate([*(part["rows"] for part in parts), rows]),
        np.concatenate([*(part["cols"] for part in parts), cols]),
        free.size,
        _places(basis, parts, num_dofs)[free],
    )
    sensitivity = _pattern(
        parts, "sensitivity_entries", "coefficients", num_coefficients, free.size
    )
    couplings = _pattern(parts, "coupling_entries", "dofs", num_dofs, free.size)
    pulled = loads - np.stack([constant @ each for each in solution])
    observed = _observation(readings, solution, free, tested @ constant, num_coefficients)
    different, of_reactions, offsets, loads_of, columns, own = observed
    terms = tuple(_term(form, part) for form, part in zip(forms, parts, strict=True))
    for term in terms:
        _check_term(term, num_loads)
    return LinearEquation(
        terms=terms,
        sensitivity=sensitivity,
        couplings=couplings,
        free=sparse.as_index(free),
        constants=jax.device_put(constants),
        known=jax.device_put(known),
        structure=structure,
        inputs=Inputs(
            coefficients=sparse.as_index([each.coefficient for each in inputs]),
            load=jax.device_put(pulled[:, free]),
            held=jax.device_put(solution),
            reactions=jax.device_put(np.stack([tested @ each for each in pulled])),
            offsets=jax.device_put(offsets),
        ),
        observation=jax.device_put(different),
        of_reactions=jax.device_put(of_reactions),
        own=own,
        loads=sparse.as_index(loads_of),
        columns=sparse.as_index(columns),
        by_load=sparse.as_index(_by_load(loads_of, num_loads)),
        nodal=sparse.as_index(basis.nodal_dofs),
        solutions=_solutions(experiments, num_loads, len(basis.nodal_dofs)),
    )


def _readings(given) -> list[Functionals]:
    """Functionals, one or for each load, whose matrices have rows and columns that fit."""
    several = isinstance(given, list | tuple) and not isinstance(given, Functionals)
    found = [each if isinstance(each, Functionals) else Functionals(each)
             for each in (given if several else [given])]  # fmt: skip
    for name in Functionals._fields:
        matrices = [getattr(each, name) for each in found]
        shapes = [np.shape(each) for each in matrices if each is not None or name == "solution"]
        rows = [each.solution.shape[0] for each in found if getattr(each, name) is not None
                and np.ndim(each.solution) == 2]  # fmt: skip
        is_good = all(len(each) == 2 and each[1] == shapes[0][1] for each in shapes)
        if not is_good or [each[0] for each in shapes] != rows or not found:
            raise InputError(
                "readings",
                "a matrix with a column for each degree of freedom, or one for each load",
                f"shapes {shapes}",
                "make them by basis.probes of the basis of the equation",
            )
    return [
        Functionals(*(None if part is None else csr_array(part) for part in each)) for each in found
    ]


def _checked_number(given: int | None, least: int) -> int:
    """The number of coefficients."""
    if given is not None and given < least:
        expected, remedy = f"{least} coefficients or more", "leave it out, or correct it"
        raise InputError("num_coefficients", expected, f"{given}", remedy)
    return least if given is None else given


def _number_known(parts: Sequence[dict[str, np.ndarray]], size: int) -> np.ndarray:
    """Values of known coefficients, (num_known,); parts get their numbers, from ``size`` on."""
    values = [part["known"] for part in parts]
    known = np.unique(np.concatenate([each[~np.isnan(each)] for each in values]))
    for part, own in zip(parts, values, strict=True):
        numbers = size + np.searchsorted(known, own)
        part["coefficients"] = np.where(np.isnan(own), part["coefficients"], numbers)
    return known


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


def _part(
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
    coefficients, shape = _coefficients(form)
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
        tests=jax.device_put(part["tests"]),
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


def _stacked(name: str, given: Sequence, size: int) -> np.ndarray:
    """Numbers, (size,) or (size, L) arrays, one behind the other: (k, size, L)."""
    columns = [_columns(name, each, size) for each in given]
    most = max(each.shape[1] for each in columns)
    return np.stack([_for_all(name, each[None], most)[0] for each in columns])


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
    """Columns (k, size, 1) or (k, size, L) for all L loads."""
    if array.shape[2] not in (1, num_loads):
        raise InputError(
            name, f"1 or {num_loads} columns", f"{array.shape[2]}", "give one for each load"
        )
    return np.broadcast_to(array, (*array.shape[:2], num_loads))


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


def _observation(
    readings: Sequence[Functionals],
    solution: np.ndarray,
    free: np.ndarray,
    pulled: csr_array,
    num_coefficients: int,
):
    """Different readings as columns, (n, r) and (p, r), and of each reading what it is.

    Offsets (k, d), load and column (d,), and its weights of coefficients.  Reactions have what no
    coefficient changes of A, (p, num_dofs), from u.
    """
    num_loads = solution.shape[2]
    if len(readings) != num_loads:
        expected = f"one matrix, or one for each of {num_loads} loads"
        raise InputError("readings", expected, f"{len(readings)}", "give as many as loads")
    sizes = [each.solution.shape[0] for each in readings]
    parts = []
    for name, width in (("reactions", pulled.shape[0]), ("coefficients", num_coefficients)):
        matrices = [getattr(each, name) for each in readings]
        matrices = [csr_array((size, width)) if each is None else each
                    for each, size in zip(matrices, sizes, strict=True)]  # fmt: skip
        if any(each.shape[1] != width for each in matrices):
            expected, found = f"{width} columns", f"{[each.shape for each in matrices]}"
            raise InputError("readings", f"{name} of {expected}", found, "give one for each")
        parts.append(vstack(matrices, format="csr"))
    of_reactions, of_coefficients = parts
    offsets = [each.solution @ solution[..., k].T for k, each in enumerate(readings)]
    loads = np.repeat(np.arange(num_loads), sizes)
    rows = vstack([each.solution for each in readings], format="csr") + of_reactions @ pulled
    rows = hstack([rows[:, free], of_reactions]).toarray()
    different, columns = np.unique(rows, axis=0, return_inverse=True)
    own = of_coefficients.tocoo()
    own = sparse.as_index(own.row), sparse.as_index(own.col), jax.device_put(own.data.astype(float))
    different = different.T
    of_reactions, different = different[free.size :], different[: free.size]
    return different, of_reactions, np.concatenate(offsets).T, loads, columns.ravel(), own


def _by_load(loads: np.ndarray, num_loads: int) -> np.ndarray:
    """Readings of each load, (L, most); the number of readings where there are no more."""
    counts = np.bincount(loads, minlength=num_loads)
    found = np.full((num_loads, counts.max()), loads.size)
    for each, count in enumerate(counts):
        found[each, :count] = np.flatnonzero(loads == each)
    return found
