"""The complete electrode model: a column that is known exactly, reciprocity, units, mistakes."""

import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.electrodes import electrode_model
from invlift.fem.mesh.mesh import mesh_from_arrays

MESH, NAMES = box_mesh(2, 4), ["top", "bottom", "left"]
DRIVEN = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])


def coefficients(model, seed=0):
    rng = np.random.default_rng(seed)
    phi, impedance = rng.standard_normal(MESH.num_nodes), np.exp(rng.standard_normal(3))
    return jnp.asarray(np.concatenate([phi, impedance]))


def test_a_column_between_two_electrodes_is_exact():
    """Of height and width one and conductivity 3, between contacts of 0.2 and 0.5."""
    model = electrode_model(MESH, ["bottom", "top"], [[2.0, -2.0]], [[1.0, -1.0]])
    values = np.append(np.full(MESH.num_nodes, np.log(3.0)), [0.2, 0.5])
    np.testing.assert_allclose(model(values), 2.0 * (1 / 3 + 0.2 + 0.5), rtol=1e-12)


def test_what_drives_and_what_is_read_may_be_exchanged():
    model = electrode_model(MESH, NAMES, DRIVEN, DRIVEN)
    resistances = np.asarray(model(coefficients(model))).reshape(2, 2)
    np.testing.assert_allclose(resistances, resistances.T, rtol=1e-12)
    assert np.linalg.eigvalsh(resistances).min() > 0.0
    # negative control: other electrodes, other resistances
    others = electrode_model(MESH, ["top", "right", "left"], DRIVEN, DRIVEN)
    assert np.abs(np.asarray(others(coefficients(others))) - resistances.ravel()).max() > 1e-2


def test_only_what_is_read_of_each_injection():
    whole = electrode_model(MESH, NAMES, DRIVEN, DRIVEN)
    parts = electrode_model(MESH, NAMES, DRIVEN, [DRIVEN[:1], DRIVEN[1:]])
    listed = electrode_model(MESH, NAMES, DRIVEN, DRIVEN.tolist())  # rows, not injections
    models = whole, parts, listed
    first, second, third = (np.asarray(model(coefficients(model))) for model in models)
    np.testing.assert_allclose(second, first[[0, 3]], rtol=1e-12)
    np.testing.assert_array_equal(third, first)


def test_a_part_of_the_body_without_an_electrode_is_an_error():
    points = np.concatenate([MESH.points, MESH.points + np.array([2.0, 0.0])])
    cells = np.concatenate([MESH.cells, MESH.cells + MESH.num_nodes])
    boundaries = {name: MESH.facets(name) for name in NAMES}
    apart = mesh_from_arrays(points, cells, boundaries=boundaries)
    with pytest.raises(InputError, match="1 of 2 parts without"):
        electrode_model(apart, NAMES, DRIVEN, DRIVEN)


@pytest.mark.parametrize("location", ["nodes", "cells"])
def test_voltages_fall_as_all_conducts_better(location):
    model = electrode_model(MESH, NAMES, DRIVEN, DRIVEN, location=location)
    size = model.num_coefficients - 3
    values = np.append(0.3 * np.cos(np.arange(size)), [0.1, 0.2, 0.3])
    better = np.append(values[:size] + np.log(4.0), values[size:] / 4.0)
    np.testing.assert_allclose(model(better), np.asarray(model(values)) / 4.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"electrodes": ["top"]}, ["electrodes", "two or more"]),
        ({"electrodes": ["top", "lid", "left"]}, ["'lid'"]),
        ({"electrodes": ["top", "boundary", "left"]}, ["electrodes, top", "no other electrode"]),
        ({"electrodes": ["top", "left", "left"]}, ["electrodes, left", "no other electrode"]),
        ({"currents": [[1.0, -1.0]]}, ["currents", "3 columns"]),
        ({"currents": [[1.0, -1.0, 0.0], [1.0, 0.0, 0.0]]}, ["currents, row 1", "add up to zero"]),
        ({"voltages": [[1.0, 1.0, 0.0]]}, ["voltages, row 0", "add up to zero"]),
        ({"voltages": [[np.nan, 1.0, 0.0]]}, ["voltages, row 0", "add up to zero"]),
    ],
)
def test_mistakes_are_named(change, parts):
    given = {"electrodes": NAMES, "currents": DRIVEN, "voltages": DRIVEN} | change
    with pytest.raises(InputError) as caught:
        electrode_model(MESH, **given)
    for part in parts:
        assert part in str(caught.value), str(caught.value)
