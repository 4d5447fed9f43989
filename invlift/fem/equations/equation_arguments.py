"""Arguments of a linear equation, and their checks: forms, readings, loads and held values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, sparray
from skfem.assembly.basis import AbstractBasis
from skfem.assembly.dofs import DofsView

from invlift.errors import InputError
from invlift.fem.equations.form_assembly import ROUNDING, Form


class Functionals(NamedTuple):
    """Weights of d readings, as matrices.

    Attributes
    ----------
    solution : (d, num_dofs) sparse matrix
        Weights of u.
    reactions : (d, p) sparse matrix, optional
        Weights of the reactions.
    coefficients : (d, N) sparse matrix, optional
        Weights of the coefficients.
    """

    solution: sparray
    reactions: sparray | None = None
    coefficients: sparray | None = None


class Input(NamedTuple):
    """Rates of loads and held values, which are affine in a coefficient, per unit of it.

    Attributes
    ----------
    coefficient : int
        Index of the coefficient.
    load : number, (num_dofs,) or (num_dofs, L) array
    values : number, (num_held,) or (num_held, L) array
    """

    coefficient: int
    load: float | np.ndarray = 0.0
    values: float | np.ndarray = 0.0


def checked_forms(given) -> tuple[Form, ...]:
    """Return the forms as a tuple, checked to have one mesh and one kind of element."""
    forms = (given,) if isinstance(given, Form) or not np.iterable(given) else tuple(given)
    if not forms or not all(isinstance(form, Form) for form in forms):
        found = ", ".join(type(form).__name__ for form in forms) or "none"
        remedy = "give Form(basis, matrix), or a list of such"
        raise InputError("forms", "one form or more", found, remedy)
    for number, form in enumerate(forms):
        if not isinstance(form.basis, AbstractBasis):
            expected, found = "bases of scikit-fem", type(form.basis).__name__
            raise InputError("forms", expected, found, "make it by skfem.Basis")
        first, own = forms[0].basis, form.basis
        is_same = own.N == first.N and type(own.elem) is type(first.elem)
        if not is_same or not np.array_equal(own.mesh.p, first.mesh.p):
            expected, found = "bases of one mesh and one kind of element", f"another of {number}"
            remedy = "make all bases and the readings of one mesh and one kind of element"
            raise InputError("forms", expected, found, remedy)
    return forms


def checked_readings(given) -> list[Functionals]:
    """Return the functionals, one or one for each load, with checked shapes."""
    several = isinstance(given, list | tuple) and not isinstance(given, Functionals)
    functionals = [each if isinstance(each, Functionals) else Functionals(each)
             for each in (given if several else [given])]  # fmt: skip
    for name in Functionals._fields:
        matrices = [getattr(each, name) for each in functionals]
        shapes = [np.shape(each) for each in matrices if each is not None or name == "solution"]
        rows = [each.solution.shape[0] for each in functionals if getattr(each, name) is not None
                and np.ndim(each.solution) == 2]  # fmt: skip
        is_good = all(len(each) == 2 and each[1] == shapes[0][1] for each in shapes)
        if not is_good or [each[0] for each in shapes] != rows or not functionals:
            raise InputError(
                "readings",
                "a matrix with a column for each degree of freedom, or one for each load",
                f"shapes {shapes}",
                "make them by basis.probes of the basis of the equation",
            )
    return [
        Functionals(*(None if part is None else csr_array(part) for part in each))
        for each in functionals
    ]


def checked_number(given: int | None, least: int) -> int:
    """Return the number of coefficients, checked to be at least ``least``."""
    if given is not None and given < least:
        expected, remedy = f"{least} coefficients or more", "leave it out, or correct it"
        raise InputError("num_coefficients", expected, f"{given}", remedy)
    return least if given is None else given


def checked_held(given, num_dofs: int) -> np.ndarray:
    """Return the indices of held degrees of freedom, (num_held,), after checks."""
    numbers = np.asarray(given.flatten() if isinstance(given, DofsView) else given)
    if numbers.size == 0:
        if isinstance(given, DofsView):
            expected, remedy = "degrees of freedom", "correct the condition that they are found by"
            raise InputError("held", expected, "none", remedy)
        return np.zeros(0, dtype=int)
    is_good = numbers.dtype.kind in "iu" and numbers.min() >= 0 and numbers.max() < num_dofs
    if not is_good:
        expected, found = f"numbers of degrees of freedom from 0 to {num_dofs - 1}", f"{numbers}"
        raise InputError("held", expected, found, "find them by basis.get_dofs")
    return numbers.ravel()


def checked_constant(given, num_dofs: int) -> csr_array:
    """Return the constant part of A, (num_dofs, num_dofs), checked to be symmetric."""
    shape = num_dofs, num_dofs
    matrix = csr_array(shape if given is None else given)
    if matrix.shape != shape or not abs(matrix - matrix.T).max() <= ROUNDING * abs(matrix).max():
        found = "one that is not" if matrix.shape == shape else f"shape {matrix.shape}"
        remedy = "assemble it with the basis of the equation"
        raise InputError("constant", f"a symmetric matrix {shape}", found, remedy)
    return matrix


def stacked(name: str, given: Sequence, size: int) -> np.ndarray:
    """Stack numbers, (size,) or (size, L) arrays into one array (k, size, L)."""
    columns = [_columns(name, each, size) for each in given]
    most = max(each.shape[1] for each in columns)
    return np.stack([for_all(name, each[None], most)[0] for each in columns])


def _columns(name: str, given, size: int) -> np.ndarray:
    """Return a number, (size,) or (size, L) array as columns (size, L), after checks."""
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


def for_all(name: str, array: np.ndarray, num_loads: int) -> np.ndarray:
    """Broadcast columns (k, size, 1) or (k, size, L) to all L loads."""
    if array.shape[2] not in (1, num_loads):
        raise InputError(
            name, f"1 or {num_loads} columns", f"{array.shape[2]}", "give one for each load"
        )
    return np.broadcast_to(array, (*array.shape[:2], num_loads))
