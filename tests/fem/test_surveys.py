"""Surveys of one body at several dates: each is its model at the field plus its change."""

import jax
import numpy as np
import pytest
from structured import box_mesh, interior_points

from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.equations.surveys import join_surveys
from invlift.fem.fields.matern_prior import matern_prior
from invlift.fem.readings.locate import locate
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.models.base import JaxFunction
from invlift.unknowns.distributions import lognormal, normal

MESH = box_mesh(2, 3)
SIZE = MESH.num_nodes
OTHER = box_mesh(2, 2)
CHANGE, SMALLER = (matern_prior(mesh, range=0.5, std=0.4, smoothness=1.0) for mesh in (MESH, OTHER))
look = jax.jit(lambda model, at: (model(at), model.expand(at)[1].byproducts))


def survey(num, storey, mesh=MESH):
    """``num`` readings with an offset that all surveys share, and an exchange of this one."""
    table = sensors_from_arrays(interior_points(2, num), np.zeros(num), groups=["a"] * num)
    return assemble_poisson(
        mesh,
        locate(mesh, table, offsets={"a": normal(0.0, 1.0)}),
        source=2.0,
        dirichlet={"left": 0.3},
        robin={storey: (lognormal(median=1.0, factor=2.0), 0.5)},
    )


SURVEYS = {"first": survey(3, "top"), "second": survey(3, "bottom")}


def test_each_survey_is_its_model_at_its_own_field():
    model = join_surveys(SURVEYS, {"second": CHANGE})
    names = list(model.on_mesh.further)
    shared = ["robin_top_coefficient", "offset_a", "robin_bottom_coefficient"]
    assert sorted(names[:3]) == sorted(shared)
    assert names[3:] == ["change_second"]
    rng = np.random.default_rng(5)
    at = {name: rng.standard_normal(SIZE) for name in ("phi", *names[3:])}
    at |= {name: 0.5 + rng.random(1) for name in shared}
    values, solutions = look(model, np.concatenate([at["phi"], *(at[name] for name in names)]))
    first = 0
    for name, alone in SURVEYS.items():
        phi = at["phi"] + at.get(f"change_{name}", 0.0)
        own = np.concatenate([phi, *(at[each] for each in alone.on_mesh.further)])
        expected, fields = look(alone, own)
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(values[first : first + expected.size], expected, rtol=1e-12)
        np.testing.assert_allclose(solutions[f"solution_{name}"], fields["solution"], rtol=1e-12)
        first += expected.size
    assert first == values.size


def test_readings_keep_their_survey_in_the_table():
    table = join_surveys(SURVEYS).on_mesh.sensors
    assert table.experiments.tolist() == 3 * ["first"] + 3 * ["second"]


@pytest.mark.parametrize(
    ("surveys", "changes", "words"),
    [
        ({}, {}, "surveys: expected one or more"),
        ({"a": JaxFunction(lambda x: x)}, {}, "a model of a field on a mesh"),
        (SURVEYS | {"other": survey(2, "top", OTHER)}, {}, "surveys, other"),
        (SURVEYS, {"fourth": CHANGE}, "first, second"),
        (
            SURVEYS,
            {"second": SMALLER},
            "one of 9",
        ),
    ],
)
def test_what_does_not_fit_is_named(surveys, changes, words):
    with pytest.raises(InputError, match=words):
        join_surveys(surveys, changes)
