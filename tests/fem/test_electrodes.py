"""The complete electrode model: a column that is known exactly, reciprocity, units, mistakes."""

import jax
import numpy as np
import pytest
from refusals import refused
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.electrodes.complete import (
    electrode_groups,
    electrode_model,
    mesh_with_electrodes,
)
from invlift.fem.mesh.construction import mesh_from_arrays

MESH, NAMES = box_mesh(2, 4), ["top", "bottom", "left"]
DRIVEN = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
solve = jax.jit(lambda model, values: model(values))


def coefficients(model, seed=0):
    rng = np.random.default_rng(seed)
    phi, impedance = rng.standard_normal(MESH.num_nodes), np.exp(rng.standard_normal(3))
    return np.concatenate([phi, impedance])


def test_a_column_between_two_electrodes_is_exact():
    """Of height and width one and conductivity 3, between contacts of 0.2 and 0.5."""
    model = electrode_model(MESH, ["bottom", "top"], [[2.0, -2.0]], [[1.0, -1.0]])
    values = np.append(np.full(MESH.num_nodes, np.log(3.0)), [0.2, 0.5])
    np.testing.assert_allclose(solve(model, values), 2.0 * (1 / 3 + 0.2 + 0.5), rtol=1e-12)


def test_only_what_is_read_of_each_injection():
    whole = electrode_model(MESH, NAMES, DRIVEN, DRIVEN)
    parts = electrode_model(MESH, NAMES, DRIVEN, [DRIVEN[:1], DRIVEN[1:]])
    listed = electrode_model(MESH, NAMES, DRIVEN, DRIVEN.tolist())  # rows, not injections
    models = whole, parts, listed
    first, second, third = (np.asarray(solve(model, coefficients(model))) for model in models)
    np.testing.assert_allclose(second, first[[0, 3]], rtol=1e-12)
    np.testing.assert_array_equal(third, first)


def test_a_part_of_the_body_without_an_electrode_is_an_error():
    points = np.concatenate([MESH.points, MESH.points + np.array([2.0, 0.0])])
    cells = np.concatenate([MESH.cells, MESH.cells + MESH.num_nodes])
    boundaries = {name: MESH.facets(name) for name in NAMES}
    apart = mesh_from_arrays(points, cells, boundaries=boundaries)
    with pytest.raises(InputError, match="1 of 2 parts without"):
        electrode_model(apart, NAMES, DRIVEN, DRIVEN)


def test_groups_of_a_pattern_are_in_the_order_of_their_numbers():
    facets = MESH.boundary_facets
    groups = {f"e{k}": facets[k : k + 1] for k in (10, 2, 1)} | {"rim": facets}
    mesh = mesh_from_arrays(MESH.points, MESH.cells, boundaries=groups)
    assert electrode_groups(mesh, "e*", "groups") == ["e1", "e2", "e10"]
    assert electrode_groups(mesh, ["e10", "e1"], "groups") == ["e10", "e1"]
    with pytest.raises(InputError, match=r"groups: .* 'e\d+|it has: e10"):
        electrode_groups(mesh, "f*", "groups")


def test_electrodes_by_their_positions():
    """Sides of the square, of four edges each."""
    at = np.array([[0.5, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 0.0]])
    mesh, names = mesh_with_electrodes(MESH, at, 0.8, "v.ohm")
    assert names == ["electrode_1", "electrode_2", "electrode_3"]
    sides = "bottom", "top", "left"
    for name, side in zip(names, sides, strict=True):
        np.testing.assert_array_equal(np.sort(mesh.facets(name)), np.sort(MESH.facets(side)))
    narrow, _ = mesh_with_electrodes(MESH, at[:, :2], 0.3, "v.ohm")
    assert [len(narrow.facets(name)) for name in names] == [2, 2, 2]
    wrong = at + np.array([0.0, 0.0, 1.0])
    overlap = "electrode 3: .* no other electrode .* some of electrode 2; give a smaller width"
    for positions, width, part in ((at, 0.1, "electrode 1: .* within 0.05"),
                                   (at, 1.2, overlap),
                                   (wrong, 0.8, "2 coordinates")):  # fmt: skip
        with pytest.raises(InputError, match=part):
            mesh_with_electrodes(MESH, positions, width, "v.ohm")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"electrodes": ["top"]}, ["electrodes", "two or more"]),
        (
            {"electrodes": ["top", "boundary", "left"]},
            ["electrodes, groups, top", "no other electrode"],
        ),
        ({"impedance": 0.0}, ["electrodes, impedance", "a positive number"]),
        (
            {"impedance": [0.1, 0.2]},
            ["electrodes, impedance", "or 3", "found 2 numbers", "one for each electrode"],
        ),
        ({"impedance": {"top": 0.1}}, ["electrodes, impedance", "found {'top': 0.1}"]),
        ({"impedance": "0.1"}, ["electrodes, impedance", "found '0.1'"]),
        ({"currents": [[1.0, -1.0]]}, ["currents", "3 columns"]),
        ({"currents": [[1.0, -1.0], [1.0, -1.0, 0.0]]}, ["currents: expected numbers"]),
        ({"voltages": "all"}, ["voltages: expected numbers", "'all'"]),
        ({"currents": [[1.0, -1.0, 0.0], [1.0, 0.0, 0.0]]}, ["currents, row 1", "add up to zero"]),
        ({"voltages": [[np.nan, 1.0, 0.0]]}, ["voltages, row 0", "add up to zero"]),
    ],
)
def test_mistakes_are_named(change, parts):
    given = {"electrodes": NAMES, "currents": DRIVEN, "voltages": DRIVEN} | change
    with refused(*parts):
        electrode_model(MESH, **given)
