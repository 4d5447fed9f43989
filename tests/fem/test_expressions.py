"""Expressions in x, y and z: values at nodes, read without running code."""

from dataclasses import replace

import numpy as np
import pytest
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.mesh.expressions import evaluate, holds, is_expression

POINTS = np.random.default_rng(0).uniform(0.1, 2.0, size=(20, 3))
X, Y, Z = POINTS.T


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("12.5 - 0.002 * y", 12.5 - 0.002 * Y),
        ("x**2 / (1 + z) - -y", X**2 / (1 + Z) + Y),
        ("2 * sin(pi * x) + max(y, 1)", 2 * np.sin(np.pi * X) + np.maximum(Y, 1)),
        ("exp(-sqrt(x**2 + y**2)) + 1e-3", np.exp(-np.hypot(X, Y)) + 1e-3),
        ("x", X),
        (" 3 ", np.full(20, 3.0)),
    ],
)
def test_values_are_those_of_numpy(text, values):
    assert is_expression(text)
    np.testing.assert_allclose(evaluate(text, POINTS, "here"), values, rtol=1e-14)


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('x')", "x.real", "[x for x in y]", "lambda x: x", "x if y else z",
     "'a' * x", "True + x", "x @ y", "x and y", "open(x)", "sqrt(x, y)", "sin", "x + t", "(x, y)",
     "x := 3", "1j * x", "sin(a=x)", "x" + " + x" * 200],
)  # fmt: skip
def test_all_else_is_refused(text):
    if is_expression(text):
        with pytest.raises(InputError, match=r"^here: expected an expression"):
            evaluate(text, POINTS, "here")


def test_refusals_say_what_to_do():
    for text, points, part in (
        ("x^2", POINTS, r"found \^; write \*\* for a power"),
        ("x + z", POINTS[:, :2], "found 'z'; the mesh is flat"),
        ("x + t", POINTS, "found the unknown name 't'; only sources, boundary"),
        ("x + w", POINTS, "found the unknown name 'w'; known are x, y, z and pi"),
        ("9.0 ** 9 ** 9 * x", POINTS, "correct it"),
    ):
        with pytest.raises(InputError, match=part):
            evaluate(text, points, "here")


def test_an_unknown_name_in_a_formula_is_told_as_one():
    mesh = box_mesh(2, 3)
    for text, found, remedy in (
        ("100*w", "the unknown name 'w' in '100\\*w'", "known are x, y, z, pi"),
        ("height", "'height'", "use one of these names"),
    ):
        with pytest.raises(InputError, match=rf"it has: 'ramp'\).*found {found}.*; .*{remedy}"):
            mesh.point_field(text)


def test_a_field_of_the_mesh_comes_first():
    mesh = box_mesh(2, 3)
    own = {"x": np.arange(16.0), "a-2": np.ones(16)}
    mesh = replace(mesh, point_fields=own)
    np.testing.assert_array_equal(mesh.point_field("x"), own["x"])
    np.testing.assert_array_equal(mesh.point_field("a-2"), own["a-2"])
    np.testing.assert_array_equal(mesh.point_field("y + 1"), mesh.points[:, 1] + 1.0)
    np.testing.assert_array_equal(mesh.field("2 * y"), 2.0 * mesh.points[:, 1])
    for text in ("a-3", "ramp", "my field"):
        with pytest.raises(InputError, match="a point field of mesh"):
            mesh.point_field(text)
    # Only where it is used it must be finite.
    right = mesh.boundary_facets[(mesh.points[mesh.boundary_facets][..., 0] == 1.0).all(axis=1)]
    mesh = replace(mesh, boundaries={"right": right}, point_fields={})
    nodes = np.unique(right)
    np.testing.assert_array_equal(mesh.point_field("log(x)", group="right")[nodes], 0.0)
    with pytest.raises(InputError, match=r"finite values of 'log\(x\)'.* correct the expression"):
        mesh.point_field("log(x)")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("x < 1", X < 1),
        ("0.5 <= x < 1 and not y > z", (X >= 0.5) & (X < 1) & (Y <= Z)),
        ("x > 1 or y > 1 and z > 1", (X > 1) | (Y > 1) & (Z > 1)),
        ("marker == 2 and sqrt(x) != 0", np.arange(20) % 3 == 2),
        ("1 < 2", np.ones(20, dtype=bool)),
    ],
)
def test_conditions_hold_where_numpy_says(text, where):
    found = holds(text, POINTS, {"marker": np.arange(20) % 3}, "here")
    np.testing.assert_array_equal(found, where)


@pytest.mark.parametrize(
    "text",
    ["x", "x < 1 < (y > 2)", "-(x < 1)", "x < 1 and", "x in y", "x is y", "1", "other < 1", "",
     "x < 1 and y", "not x", "x < 'a'", "x.real < 1"],
)  # fmt: skip
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(InputError, match=r"^here: expected a condition on x, y, z"):
        holds(text, POINTS, {}, "here")
