"""Expressions and conditions in x, y and z, parsed without running code.

The expression "12.5 - 0.002 * y" has a value at each point.  The condition "x < 0.1 and y > 2" is
true or false at each point.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping

import numpy as np

from invlift.errors import InputError, closest

AXES = "xyz"
_MAX_LENGTH = 500
#: Largest number of products that an expression in places and the time is multiplied out to.
_MAX_PRODUCTS = 100
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
_COMPARISONS: dict[type, Callable] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_KNOWN = f"pi, + - * / ** and {', '.join(_FUNCTIONS)}"


#: Remedies for names that users expect from elsewhere.
_REMEDIES = {
    "t": "only sources, boundary and ambient values and strengths may change in time",
}


def names_in(text: str) -> set[str] | None:
    """Return the names in an expression, without those of functions; None for other text."""
    body = _parsed(text.strip()[: _MAX_LENGTH + 1])
    if body is None:
        return None
    return {node.id for node in ast.walk(body) if isinstance(node, ast.Name)} - {*_FUNCTIONS, "pi"}


def _parsed(text: str) -> ast.expr | None:
    """Parse an expression; None for other text."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def unknown_name(text: str) -> tuple[str, str] | None:
    """Return an unknown name in a formula and its remedy; None if none, or a plain name."""
    unknown = sorted((names_in(text) or set()) - {*AXES})
    if text.strip().isidentifier() or not unknown:
        return None
    return unknown[0], _REMEDIES.get(unknown[0], f"the names that are known are x, y, z, {_KNOWN}")


def is_expression(text: str) -> bool:
    """Return whether a text is an expression in x, y or z, or of numbers, and not a name."""
    names = names_in(text)
    if names is None:
        return False
    return bool(names & set(AXES)) or not (names or text.strip() in (*_FUNCTIONS, "pi"))


def evaluate(
    text: str, points: np.ndarray, where: str, further: Mapping[str, np.ndarray] | None = None
) -> np.ndarray:
    """Evaluate an expression at points.

    Parameters
    ----------
    text : str
        Expression in Python's syntax: x, y and z, numbers, + - * / **, and functions such as sqrt.
    points : ndarray, shape (k, dim)
        Points, in the unit of length.
    where : str
        Place for error messages.
    further : mapping of str to ndarray, shape (k,), optional
        Values of other names in the expression, such as the times ``t``.

    Returns
    -------
    ndarray of float64, shape (k,)
        Values, which may be infinite or NaN.

    Raises
    ------
    InputError
        If the expression contains anything else; the message names it.
    """
    expected = f"an expression of {', '.join(further or AXES)}, {_KNOWN}"
    found = _read(text, points, further or {}, _number, where, expected)
    return np.broadcast_to(np.asarray(found, dtype=float), len(points)).copy()


def holds(
    text: str, points: np.ndarray, fields: Mapping[str, np.ndarray], where: str | tuple
) -> np.ndarray:
    """Evaluate a condition at points.

    Parameters
    ----------
    text : str
        Expressions as in :func:`evaluate`, compared by < <= > >= == !=, and joined by and, or, not.
    points : ndarray, shape (k, dim)
        Points, in the unit of length.
    fields : mapping of str to ndarray, shape (k,)
        Values at the points of further names in the condition.
    where : str or tuple
        Place for error messages.

    Returns
    -------
    ndarray of bool, shape (k,)

    Raises
    ------
    InputError
        If the condition contains anything else; the message names it.
    """
    names = ", ".join(("x, y, z", *fields))
    expected = f'a condition on {names}, for example "x < 0.1 and y > 2"'
    values = _read(text, points, fields, _truth, where, expected)
    return np.broadcast_to(values, len(points)).copy()


def separated(text: str, where: str | tuple) -> list[tuple[str | None, str]]:
    """Write an expression in x, y, z and t as a sum of products, with one sum for each factor in t.

    Returns
    -------
    list of (str or None, str)
        Expressions in t, None for what has no t, and the expressions in x, y and z that they
        multiply.

    Raises
    ------
    InputError
        If a part, such as exp(x - t), is no such sum.
    """
    expected = "a sum of products of expressions in x, y, z and expressions in t"

    def refuse(
        found: str, remedy: str = "multiply it out, or give steps for each of several groups"
    ):
        raise InputError(where, expected, found, remedy)

    if not isinstance(text, str):
        refuse(repr(text)[:80], "give it as text")
    if len(text) > _MAX_LENGTH:
        refuse(f"{len(text)} characters")
    if (body := _parsed(text)) is None:
        refuse(repr(text[:80]))
    found: dict[str | None, list[str]] = {}
    if any(isinstance(node, ast.BitXor) for node in ast.walk(body)):
        refuse("^", "write ** for a power")
    for of_time, of_place in _products(body, refuse):
        found.setdefault(of_time, []).append(of_place or "1")
    return [(of_time, " + ".join(parts)) for of_time, parts in found.items()]


#: Factors in t and in x, y and z of a product; None for 1.
_Product = tuple[str | None, str | None]


def _products(node: ast.AST, refuse: Callable) -> list[_Product]:
    """Write a node of an expression as a sum of products."""
    text = f"({ast.unparse(node)})"
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if "t" not in names:
        return [(None, text)]
    if not names & {*AXES}:
        return [(text, None)]
    match node:
        case ast.UnaryOp(ast.UAdd(), of):
            return _products(of, refuse)
        case ast.UnaryOp(ast.USub(), of):
            return _multiplied(_products(of, refuse), [(None, "(-1)")], refuse)
        case ast.BinOp(left, ast.Add(), right):
            return _products(left, refuse) + _products(right, refuse)
        case ast.BinOp(left, ast.Sub(), right):
            return _products(left, refuse) + _products(ast.UnaryOp(ast.USub(), right), refuse)
        case ast.BinOp(left, ast.Mult(), right):
            return _multiplied(_products(left, refuse), _products(right, refuse), refuse)
        case ast.BinOp(left, ast.Div(), right) if len(by := _products(right, refuse)) == 1:
            inverse = tuple(each and f"(1 / ({each}))" for each in by[0])
            return _multiplied(_products(left, refuse), [inverse], refuse)
        case ast.BinOp(left, ast.Pow(), ast.Constant(2)):
            return _multiplied(*[_products(left, refuse)] * 2, refuse)
    return refuse(f"{text[1:-1][:60]}, where t and x, y or z cannot be separated")


def _multiplied(left: list[_Product], right: list[_Product], refuse: Callable) -> list[_Product]:
    """Multiply out two sums of products."""
    if len(left) * len(right) > _MAX_PRODUCTS:
        refuse(f"a sum of {len(left) * len(right)} products", "write a shorter one")
    return [
        tuple(" * ".join(filter(None, pair)) or None for pair in zip(one, other, strict=True))
        for one in left
        for other in right
    ]


def _read(text: str, points, fields, value: Callable, where, expected: str):
    """Parse a text and evaluate it at points by ``value``, with the names of axes and fields."""
    if len(text) > _MAX_LENGTH:
        raise InputError(where, expected, f"{len(text)} characters", "save a field in the mesh")
    names = {**fields, **dict(zip(AXES, points.T, strict=False))}

    def refuse(found: str, remedy: str = "correct it"):
        raise InputError(where, expected, found, remedy)

    if (body := _parsed(text)) is None:
        refuse(repr(text[:80]))
    try:
        with np.errstate(all="ignore"):
            return value(body, names, refuse)
    except (ArithmeticError, RecursionError, MemoryError) as error:
        return refuse(f"{text[:80]!r}, {error}")


def _number(node: ast.AST, names: Mapping[str, np.ndarray], refuse: Callable):
    """Evaluate a node of an expression."""

    def value(of):
        return _number(of, names, refuse)

    match node:
        case ast.Constant(number) if type(number) in (int, float):
            return float(number)
        case ast.Name(name) if name in names or name == "pi":
            return names.get(name, np.pi)
        case ast.Name(name) if name in AXES:
            refuse(repr(name), "the mesh is flat: leave it out")
        case ast.Name(name):
            close = closest(name, [each for each in names if each not in AXES])
            remedy = f"did you mean {close!r}?" if close else f"known are {', '.join(names)} and pi"
            refuse(f"the unknown name {name!r}", _REMEDIES.get(name, remedy))
        case ast.UnaryOp(op, of) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](value(of))
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](value(left), value(right))
        case ast.BinOp(_, ast.BitXor(), _):
            refuse("^", "write ** for a power")
        case ast.Call(ast.Name(name), _, []) if name not in _FUNCTIONS:
            refuse(f"the function {name!r}")
        case ast.Call(ast.Name(name), given, []):
            if len(given) != _FUNCTIONS[name].nin:
                refuse(f"{len(given)} arguments of {name}", f"give {_FUNCTIONS[name].nin}")
            return _FUNCTIONS[name](*map(value, given))
    return refuse(ast.unparse(node)[:40])


def _truth(node: ast.AST, names: Mapping[str, np.ndarray], refuse: Callable) -> np.ndarray:
    """Evaluate a node of a condition."""
    match node:
        case ast.BoolOp(op, parts):
            join = {ast.And: np.logical_and, ast.Or: np.logical_or}[type(op)]
            return functools.reduce(join, (_truth(each, names, refuse) for each in parts))
        case ast.UnaryOp(ast.Not(), of):
            return np.logical_not(_truth(of, names, refuse))
        case ast.Compare(first, ops, others) if all(type(each) in _COMPARISONS for each in ops):
            sides = [_number(each, names, refuse) for each in (first, *others)]
            pairs = zip(ops, sides[:-1], sides[1:], strict=True)
            of_pairs = [_COMPARISONS[type(op)](left, right) for op, left, right in pairs]
            return functools.reduce(np.logical_and, of_pairs)
    return refuse(ast.unparse(node)[:40], "compare numbers by < or >, and join by and, or, not")
