"""The law of every prior of the problem file, in the plane and in space: means, spreads, units."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from choices import brief, every
from structured import box_mesh

from invlift.tables.priors import PRIORS

MESHES = {2: box_mesh(2, 2), 3: box_mesh(3, 1)}
NUM_DRAWS, BIGGER = 4000, 3.0
NARROW = {"distribution": "lognormal", "median": 0.7, "factor": 1.3}
#: Keys in the unit of the conductivity, and those of its logarithm's level.
CONDUCTIVITIES, LEVELS = ("background", "inclusion", "median"), ("mean",)


@jax.jit
def fields_of(prior, white):
    return jax.lax.map(prior.transform, white, batch_size=200)


def in_dimension(content, dim):
    """With a smoothness that the dimension has, and unknown numbers of which draws tell much."""
    if not isinstance(content, dict):
        return content
    if "distribution" in content:
        return NARROW
    found = {key: in_dimension(each, dim) for key, each in content.items()}
    return found | {
        key: each - 0.5 * (dim - 2) for key, each in found.items() if key == "smoothness"
    }


def changed(content, change, within=""):
    """The content with ``change(key, number)`` in the place of each number; of dicts by name."""
    found = {}
    for key, value in content.items():
        name = within if isinstance(value, int | float) and within in LEVELS else key
        if isinstance(value, dict) and "distribution" not in value:
            found[key] = changed(value, change, key)
        else:
            found[key] = change(name, value) if isinstance(value, int | float) else value
    return found


def build(content, mesh):
    table = PRIORS[content["kind"]].model_validate(content)
    return table.build(mesh, lambda *keys: f"prior {keys}")


def extremes():
    """Of each kind what has least and most unknown numbers."""
    for kind in PRIORS:
        own = [each for each in every("prior").values() if each["kind"] == kind]
        unknown = [repr(each).count("distribution") for each in own]
        for number in sorted({min(unknown), max(unknown)}):
            yield next(each for each, num in zip(own, unknown, strict=True) if num == number)


CASES = [(content, dim) for content in extremes() for dim in MESHES]
KNOWN = [(content, dim) for content, dim in CASES if "distribution" not in repr(content)]


def named(case):
    return brief(case) if isinstance(case, dict) else f"{case}-D"


@pytest.mark.parametrize(("content", "dim"), CASES, ids=named)
def test_pointwise_std_is_that_of_draws(content, dim):
    """Over all that is unknown."""
    prior = build(in_dimension(content, dim), MESHES[dim])
    assert prior.location in ("nodes", "cells")
    rng = np.random.default_rng(5)
    white = np.stack([prior.sample(rng) for _ in range(NUM_DRAWS)])
    squares = np.asarray(fields_of(prior, white))
    squares = (squares - squares.mean(axis=0)) ** 2
    found, expected = squares.mean(axis=0), prior.pointwise_std() ** 2
    error = squares.std(axis=0) / np.sqrt(NUM_DRAWS)
    assert np.abs((found - expected) / error).max() < 5.0
    # Negative control: a quarter more is seen.
    assert np.abs((found - 1.25**2 * expected) / error).max() > 5.0


@pytest.mark.parametrize(("content", "dim"), KNOWN, ids=named)
def test_means_and_conductivities_move_the_field(content, dim):
    """By one everywhere, whatever the field is."""
    content = in_dimension(content, dim)

    def change(key, value):
        return value + (key in LEVELS) if key not in CONDUCTIVITIES else value * np.e

    one, other = (build(each, MESHES[dim]) for each in (content, changed(content, change)))
    white = np.random.default_rng(6).standard_normal((3, one.num_white))
    apart = np.asarray(fields_of(other, white)) - np.asarray(fields_of(one, white))
    np.testing.assert_allclose(apart, 1.0, rtol=1e-9)


@pytest.mark.parametrize(("content", "dim"), KNOWN, ids=named)
def test_the_unit_of_length_does_not_matter(content, dim):
    content, mesh = in_dimension(content, dim), MESHES[dim]
    larger = changed(content, lambda key, value: value * (BIGGER if key == "range" else 1.0))
    points = BIGGER * mesh.points
    one, other = build(content, mesh), build(larger, replace(mesh, points=points))
    np.testing.assert_allclose(other.pointwise_std(), one.pointwise_std(), rtol=1e-9)
    if "range" in repr(content):  # Negative control: a range that is not in the other unit.
        wrong = build(content, replace(mesh, points=points)).pointwise_std()
        assert np.abs(wrong / one.pointwise_std() - 1.0).max() > 0.01
