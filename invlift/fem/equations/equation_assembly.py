"""Assembly of the constant parts of linear equations on scikit-fem's elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import jax
import numpy as np
from scipy.sparse import csr_array, hstack, sparray, vstack
from skfem.assembly.dofs import DofsView

from invlift.errors import InputError, is_integer
from invlift.fem import linalg
from invlift.fem.equations.equation import LinearEquation
from invlift.fem.equations.equation_arguments import (
    Functionals,
    Input,
    checked_constant,
    checked_forms,
    checked_held,
    checked_number,
    checked_readings,
    for_all,
    stacked,
)
from invlift.fem.equations.form_assembly import (
    Form,
    check_functions,
    coefficients_of,
    form_arrays,
    joint_pattern,
    number_known,
    places_of_dofs,
    term_of,
)
from invlift.fem.equations.system import readings_by_load
from invlift.fem.equations.terms import Inputs
from invlift.fem.linalg import sparse
from invlift.models.base import SOLUTION
from invlift.models.on_mesh import FieldPlaces, OnMesh
from invlift.programs.precision import require_float64


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
    name: str = "coefficients",
) -> LinearEquation:
    """Assemble a linear equation from forms, loads, held values and readings.

    Parameters
    ----------
    forms : Form or sequence of Form
        Forms whose matrices add up to A, which must be positive definite on the free degrees of
        freedom.
    readings : (d, num_dofs) sparse matrix or Functionals, or one for each of L loads
        Matrix from u to readings, such as ``basis.probes(points)`` of scikit-fem. A single one
        reads the solutions of all loads.
    load : number, (num_dofs,) or (num_dofs, L) array
        The part of b that does not depend on coefficients, as scikit-fem assembles it; a column for
        each experiment.
    held : (num_held,) int array or skfem's DofsView
        Degrees of freedom with given u, such as ``basis.get_dofs("left")``.
    values : number, (num_held,) or (num_held, L) array
        Given values of u, in its unit.
    constant : (num_dofs, num_dofs) sparse matrix, optional
        The symmetric part of A that does not depend on coefficients, for example of a Robin
        condition.
    experiments : sequence of L str, optional
        Names of the loads: posteriors have ``solution_NAME`` of each. By default they are 1, 2,
        ...; a single load has no name.
    inputs : sequence of Input, optional
        Coefficients in which loads and held values are affine, such as an unknown strength.
    reactions : (p, num_dofs) sparse matrix, optional
        Weights of the residual A u - b at held degrees of freedom in the reactions of
        :class:`Functionals`, which are fluxes or forces.
    num_coefficients : int, optional
        Number N of coefficients, if the last one is not in forms and inputs.
    name : str
        Name of the coefficients among the draws.  For ``log_conductivity`` posteriors also have
        maps of the conductivity.

    Returns
    -------
    LinearEquation
        The equation, with the readings of the first load first.

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
    >>> from invlift.fem.equations.equation_assembly import Form, linear_equation
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
    forms = checked_forms(forms)
    basis = forms[0].basis
    require_float64(points=basis.mesh.p)
    for each in inputs:
        if not is_integer(each.coefficient) or each.coefficient < 0:
            expected, found = "the number of a coefficient, from 0 on", f"{each.coefficient!r}"
            raise InputError(
                "inputs", expected, found, "count behind the coefficients of the forms"
            )
    if np.ndim(load) == 0 and load != 0.0:
        expected, remedy = "a number for each degree of freedom", "assemble it with scikit-fem"
        raise InputError("load", expected, f"{load!r} alone", remedy)
    readings = checked_readings(readings)
    num_dofs = readings[0].solution.shape[1]
    held = checked_held(held, num_dofs)
    loads = stacked("load", [load, *(each.load for each in inputs)], num_dofs)
    values = stacked("values", [values, *(each.values for each in inputs)], held.size)
    num_loads = max(loads.shape[2], values.shape[2], len(readings))
    loads, values = (for_all(*each, num_loads) for each in (("load", loads), ("values", values)))
    if len(readings) == 1:
        readings = readings * num_loads

    solution = np.zeros((len(loads), num_dofs, num_loads))
    solution[:, held] = values
    if not np.array_equal(solution[:, held], values):
        row = int(np.flatnonzero((solution[:, held] != values).any(axis=(0, 2)))[0])
        expected, remedy = "one value for each degree of freedom", "hold it once"
        raise InputError("values", expected, f"two for that of number {held[row]}", remedy)
    free = np.setdiff1d(np.arange(num_dofs), held)
    if free.size == 0:
        raise InputError("held", "degrees of freedom that are not held", "none", "refine the mesh")
    number = np.full(num_dofs, free.size)
    number[free] = np.arange(free.size)
    tested = csr_array((0, num_dofs)) if reactions is None else csr_array(reactions)
    parts = [form_arrays(form, number, free.size, tested) for form in forms]
    least = 1 + max(
        -1, *(part["coefficients"].max(initial=-1) for part in parts),
        *(each.coefficient for each in inputs),
        *(form.start + coefficients_of(form)[0].max() for form in forms if _knows_cells(form)),
    )  # fmt: skip
    num_coefficients = checked_number(num_coefficients, least)
    known = number_known(parts, num_coefficients)
    constant = checked_constant(constant, num_dofs)
    rows, cols, constants = sparse.lower_half(constant, number, free.size)
    structure = linalg.analyse(
        np.concatenate([*(part["rows"] for part in parts), rows]),
        np.concatenate([*(part["cols"] for part in parts), cols]),
        free.size,
        places_of_dofs(basis, parts, num_dofs)[free],
    )
    sensitivity = joint_pattern(
        parts, "sensitivity_entries", "coefficients", num_coefficients, free.size
    )
    couplings = joint_pattern(parts, "coupling_entries", "dofs", num_dofs, free.size)
    pulled = loads - np.stack([constant @ each for each in solution])
    observed = _observation(readings, solution, free, tested @ constant, num_coefficients)
    different, of_reactions, offsets, loads_of, columns, of_coefficients = observed
    has_value = (solution != 0.0).any(axis=(0, 2))
    terms = tuple(term_of(form, part, has_value) for form, part in zip(forms, parts, strict=True))
    for term in terms:
        check_functions(term, num_loads)
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
        observation=sparse.sparse_matrix(different),
        of_reactions=jax.device_put(of_reactions),
        own=of_coefficients,
        loads=sparse.as_index(loads_of),
        columns=sparse.as_index(columns),
        by_load=sparse.as_index(readings_by_load(loads_of, num_loads)),
        nodal=sparse.as_index(basis.nodal_dofs),
        solutions=_solutions(experiments, num_loads, len(basis.nodal_dofs)),
        coefficients_name=name,
        on_mesh=OnMesh(
            fields=_fields(forms, parts, num_coefficients), is_linear=basis.elem.maxdeg == 1
        ),
    )


def _fields(forms: Sequence[Form], parts: Sequence[dict], size: int) -> tuple[FieldPlaces, ...]:
    """Return the positions of each field's coefficients: nodes, or midpoints of cells.

    A coefficient is known if all elements that use it have known values.
    """
    fields, taken = {}, np.zeros(size, dtype=bool)
    for part in parts:
        taken[part["coefficients"][part["coefficients"] < size]] = True
    for form in forms:
        mesh, location, first = form.basis.mesh, form.location, form.start
        if not isinstance(location, str):
            continue
        points = (mesh.p[:, mesh.t].mean(axis=1) if location == "cells" else mesh.p).T
        fields[first] = place = fields.get(first, FieldPlaces(first, points))
        if _knows_cells(form):
            known = np.full(len(points), np.nan)
            known[coefficients_of(form)[0]] = form.known
            known[taken[first : first + len(points)]] = np.nan
            fields[first] = place._replace(known=known, known_cells=np.asarray(form.known))
    return tuple(fields.values())


def _knows_cells(form: Form) -> bool:
    """Return whether a form on all cells has a field that is known in some cells."""
    is_field = isinstance(form.location, str) and form.basis.tind is None
    return is_field and np.ndim(form.known) == 1 and not np.isnan(form.known).all()


def _solutions(experiments: Sequence[str], num_loads: int, num_components: int) -> tuple[str, ...]:
    """Return the names of the solutions, load by load and component by component."""
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
    """Return the r different readings as columns, and the data of each of the d readings.

    The columns are weights of unknowns, sparse (n, r), and of reactions, (p, r).  The data are
    offsets, (k, d), load and column, (d,), and weights of coefficients.  ``pulled``, (p, num_dofs),
    is the constant part of A in the reactions.
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
    different, columns = _different(hstack([rows[:, free], of_reactions], format="csr"))
    entries = of_coefficients.tocoo()
    entries = (
        sparse.as_index(entries.row),
        sparse.as_index(entries.col),
        jax.device_put(entries.data.astype(float)),
    )
    of_reactions, different = different[:, free.size :].toarray().T, different[:, : free.size].T
    return different, of_reactions, np.concatenate(offsets).T, loads, columns, entries


def _different(rows: csr_array) -> tuple[csr_array, np.ndarray]:
    """Return the different rows, (r, n), and the index of each given row among them, (d,)."""
    rows.sum_duplicates()
    rows.eliminate_zeros()
    numbers: dict[bytes, int] = {}
    of_rows = [
        numbers.setdefault(rows.indices[k:n].tobytes() + rows.data[k:n].tobytes(), len(numbers))
        for k, n in pairwise(rows.indptr)
    ]
    _, first, columns = np.unique(of_rows, return_index=True, return_inverse=True)
    return rows[first], columns
