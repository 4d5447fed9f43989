"""Expressions in x, y and z, "12.5 - 0.002 * y": values at places, read without running code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

import numpy as np

from invlift.errors import InputError

AXES = "xyz"
_MAX_LENGTH = 500
_OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "log10": np.log10, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "abs": np.abs, "min": np.minimum,
    "max": np.maximum,
}  # fmt: skip
_KNOWN = f"x, y, z, pi, + - * / ** and {', '.join(_FUNCTIONS)}"


#: Names that are known elsewhere, and what to do in their place.
_REMEDIES = {
    "t": "a number that changes in time is { steps = [[0.0, 1.0], [60.0, 2.0]] }, or a schedule",
}


def unknown_name(text: str) -> tuple[str, str] | None:
    """The first unknown name in a formula, and a remedy; None of a name alone, or other text."""
    try:
        body = ast.parse(text.strip()[: _MAX_LENGTH + 1], mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = [node.id for node in ast.walk(body) if isinstance(node, ast.Name)]
    unknown = [name for name in names if name not in (*_FUNCTIONS, "pi", *AXES)]
    if isinstance(body, ast.Name) or not unknown:
        return None
    return unknown[0], _REMEDIES.get(unknown[0], f"the names that are known are {_KNOWN}")


def is_expression(text: str) -> bool:
    """Whether a text is about x, y or z, or numbers alone, rather than a name of something else."""
    try:
        tree = ast.parse(text.strip()[: _MAX_LENGTH + 1], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    has_axis = bool(names & set(AXES))
    return has_axis or (names <= {*_FUNCTIONS, "pi"} and not isinstance(tree.body, ast.Name))


def evaluate(text: str, points: np.ndarray, where: str) -> np.ndarray:
    """Values of an expression at places.

    Parameters
    ----------
    text : str
        In the syntax of Python: x, y and z, numbers, + - * / **, and functions such as sqrt.
    points : ndarray, shape (k, dim)
        In the unit of length.
    where : str
        What error messages blame.

    Returns
    -------
    ndarray of float64, shape (k,)
        Not finite where the expression is not.

    Raises
    ------
    InputError
        Naming what is not allowed in it.
    """
    expected = f"an expression of {_KNOWN}"
    if len(text) > _MAX_LENGTH:
        raise InputError(where, expected, f"{len(text)} characters", "save a field in the mesh")
    axes = dict(zip(AXES, points.T, strict=False))

    def refuse(found: str, remedy: str = "correct it"):
        raise InputError(where, expected, found, remedy)

    def value(node: ast.AST):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return float(node.value)
        if isinstance(node, ast.Name):
            if node.id == "pi":
                return np.pi
            if node.id not in axes:
                if node.id in AXES:
                    refuse(repr(node.id), "the mesh is flat: leave it out")
                remedy = _REMEDIES.get(node.id, "correct it")
                refuse(f"the unknown name {node.id!r}", remedy)
            return axes[node.id]
        if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            refuse("^", "write ** for a power")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            function = _FUNCTIONS.get(node.func.id)
            if function is None:
                refuse(f"the function {node.func.id!r}")
            if len(node.args) != function.nin:
                refuse(f"{len(node.args)} arguments of {node.func.id}", f"give {function.nin}")
            return function(*map(value, node.args))
        return refuse(ast.unparse(node)[:40])

    try:
        with np.errstate(all="ignore"):
            found = value(ast.parse(text.strip(), mode="eval").body)
    except (ArithmeticError, RecursionError, MemoryError) as error:
        raise InputError(where, expected, f"{text[:80]!r}, {error}", "correct it") from None
    return np.broadcast_to(np.asarray(found, dtype=float), len(points)).copy()
