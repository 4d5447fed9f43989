"""Things have one digest if they compute the same, whatever their names and where they stand."""

import copy
import datetime
import functools
import importlib
from dataclasses import dataclass
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.interpolate import CubicSpline

from invlift.programs import digest as digests
from invlift.programs.digest import digest, is_of_library

FACTOR = 2.0


def single(theta):
    return theta


def double(theta):
    return 2 * theta


def scaled(factor):
    def scale(theta):
        return factor * theta

    return scale


def with_default(factor):
    def scale(theta, by=factor):
        return by * theta

    return scale


def by_keyword(factor):
    def scale(theta, *, by=factor):
        return by * theta

    return scale


def through_a_global(theta):
    return FACTOR * theta


def through_another(theta):
    return through_a_global(theta) + 1.0


def nested(theta):
    return sorted(theta, key=lambda x: x * FACTOR)


class Callable:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, theta):
        return self.factor * theta


@dataclass(frozen=True)
class Model:
    factor: float

    def apply(self, theta):
        return self.factor * theta


def cyclic(value):
    first = SimpleNamespace(value=value)
    first.itself = first
    return first


MAKERS = [
    scaled,
    with_default,
    by_keyword,
    Callable,
    Model,
    cyclic,
    lambda factor: functools.partial(scaled, factor),
    lambda factor: functools.partial(scaled, factor=factor),
    lambda factor: Callable(factor).__call__,
    lambda factor: Model(factor).apply,
    lambda factor: jax.jit(scaled(factor)),
    lambda factor: jax.vmap(scaled(factor)),
    lambda factor: {"a": [scaled(factor)], "b": 1},
    lambda factor: np.array([1.0, factor]),
    lambda factor: jnp.array([1.0, factor]),
    lambda factor: np.array([1.0, factor], dtype=object),
    lambda factor: (1, factor),
    lambda factor: {1, factor},
    lambda factor: str(factor),
    lambda factor: range(int(factor)),
    lambda factor: datetime.date(2020, 1, int(factor)),
    lambda factor: jax.random.key(int(factor)),
    lambda factor: pd.DataFrame({"x": [1.0, factor]}),
    lambda factor: pd.Series([1.0, factor]),
    lambda factor: xr.DataArray([1.0, factor], dims="x"),
    lambda factor: CubicSpline([0.0, 1.0, 2.0], [0.0, 1.0, factor]),
    lambda factor: np.ma.masked_equal([2.0, 3.0], factor),
    lambda factor: Callable(pd.DataFrame({"x": [factor]})).__call__,
]


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_is_the_same_and_another_is_another(make):
    assert digest(make(2.0)) == digest(make(2.0))
    assert digest(make(2.0)) != digest(make(3.0))
    assert digest(make(2.0), 1) != digest(make(2.0))


def test_all_kinds_differ():
    kinds = [single, double, scaled(2.0), Callable(2.0), jnp.sin, jnp.cos, np.sin, len, 1, 1.0, "1",
             None, True, b"1", [1], (1,), {1}, {1: 1}, np.ones(1), np.ones(1, int), Model,
             Callable]  # fmt: skip
    assert len({digest(each) for each in kinds}) == len(kinds)


def test_names_and_places_do_not_matter():
    def another_name(theta):
        return 2 * theta

    assert digest(another_name) == digest(double)


@pytest.mark.parametrize("function", [through_a_global, through_another, nested])
def test_globals_that_a_function_refers_to_matter(function, monkeypatch):
    before = digest(function)
    monkeypatch.setattr(f"{__name__}.FACTOR", 3.0)
    assert digest(function) != before
    monkeypatch.undo()
    assert digest(function) == before


def test_what_a_function_refers_to_in_a_users_module_matters(tmp_path, monkeypatch):
    (tmp_path / "own_tables.py").write_text("factor, other = 2.0, 1\n")
    lines = "import own_tables\n", "def function(theta):\n    return own_tables.factor * theta\n"
    (tmp_path / "own_model.py").write_text("".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("own_model")
    before = digest(model.function)
    monkeypatch.setattr(model.own_tables, "other", 2)
    assert digest(model.function) == before
    monkeypatch.setattr(model.own_tables, "factor", 3.0)
    assert digest(model.function) != before


def test_a_function_that_another_calls_matters(monkeypatch):
    before = digest(through_another)
    monkeypatch.setattr(f"{__name__}.through_a_global", double)
    assert digest(through_another) != before


def test_a_function_that_refers_to_itself_has_a_digest():
    def factorial(n):
        return n * factorial(n - 1) if n else 1

    assert len(digest(factorial)) == 64


def test_what_is_shared_does_not_matter():
    """A structure that was saved and loaded shares other parts than one just made."""
    part = {"size": 3, "values": (1, 2)}
    shared = [part, part, {"again": part}]
    assert digest(shared) == digest(copy.deepcopy(shared))
    copies = [copy.deepcopy(part), copy.deepcopy(part), {"again": copy.deepcopy(part)}]
    assert digest(copies) == digest(shared)
    # Negative control.
    copies[1]["size"] = 4
    assert digest(copies) != digest(shared)


def test_structures_that_refer_to_themselves():
    def loop(size):
        inner = [size]
        inner.append(inner)
        return {"inner": inner, "same": inner}

    assert digest(loop(1)) == digest(loop(1))
    assert digest(loop(1)) != digest(loop(2))


def test_state_of_the_library_does_not_matter(monkeypatch):
    """Also where it is not installed: what it has compiled so far is no part of a problem."""
    from invlift.fem.fields.matern_prior import matern_prior
    from invlift.fem.mesh.construction import mesh_from_arrays
    from invlift.programs.compilation import Program

    points, cells = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([[0, 1, 2]])
    mesh = mesh_from_arrays(points, cells)
    prior = matern_prior(mesh, range=1.0, std=1.0, smoothness=1.0)
    before = digest(prior)
    monkeypatch.setattr(Program, "num_begun", Program.num_begun + 7)
    assert digest(prior) == before


def test_libraries_are_known_wherever_python_finds_them(monkeypatch):
    """By PYTHONPATH in the folder of another environment: their insides have no digest."""
    monkeypatch.setattr(digests, "_LIBRARIES", ())
    digests._is_library.cache_clear()
    try:
        assert is_of_library(jnp.exp)
        assert is_of_library(CubicSpline)
        assert is_of_library(pytest.approx)
        assert not is_of_library(single)
        assert digest(lambda x: jnp.exp(x)) == digest(lambda x: jnp.exp(x))
    finally:
        digests._is_library.cache_clear()
