"""One option has one name in problem files, on the line and in Python; earlier ones are told."""

import inspect
import warnings

import numpy as np
import pytest
from structured import box_mesh

import invlift
from invlift.app.problem.run_tables import SamplerTable
from invlift.errors import InputError
from invlift.keywords import earlier_names
from invlift.tables.priors import MaternTable

#: What earlier versions called some arguments, by function.
EARLIER = {
    "sample": {"kernel": "method", "max_seconds": "budget"},
    "calibrate": {"kernel": "method"},
    "compare": {"seconds": "budget"},
    "matern_prior": {"correlation_range": "range"},
    "inclusion_prior": {"correlation_range": "range"},
    "random_field": {"correlation_range": "range"},
}


@earlier_names(old="new")
def told(new=0, *, other=1):
    return new, other


def test_an_earlier_name_is_taken_with_a_note():
    with pytest.warns(FutureWarning, match="told: old is called new now") as notes:
        assert told(old=3, other=2) == (3, 2)
    assert notes[0].filename == __file__
    with warnings.catch_warnings():  # negative control: no note of the name of today
        warnings.simplefilter("error")
        assert told(new=3) == told(3) == (3, 1)


def test_a_function_by_its_earlier_name_is_the_same():
    arguments = {"range": invlift.lognormal(0.0, 0.3), "std": 1.0, "smoothness": 1.0}
    with pytest.warns(FutureWarning, match="hierarchical_matern_prior is called matern_prior now"):
        earlier = invlift.hierarchical_matern_prior(box_mesh(2, 3), **arguments)
    prior = invlift.matern_prior(box_mesh(2, 3), **arguments)
    white = np.ones(prior.num_white)
    np.testing.assert_array_equal(prior.transform(white), earlier.transform(white))


def test_both_names_and_unknown_ones_are_refused():
    with pytest.raises(InputError, match="told, old: expected one of new and old, found both"):
        told(old=1, new=2)
    with pytest.raises(TypeError, match="olt"):
        told(olt=1)


@pytest.mark.parametrize("name", EARLIER)
def test_functions_know_the_names_of_the_tables_and_earlier_ones(name):
    function = getattr(invlift, name)
    arguments = inspect.signature(function).parameters
    tables = {*SamplerTable.model_fields, *MaternTable.model_fields}
    for old, new in EARLIER[name].items():
        assert new in arguments
        assert new in tables
        assert old not in arguments
        with pytest.warns(FutureWarning, match=old), pytest.raises((TypeError, InputError)):
            function(None, **{old: None}, nothing=None)


def test_a_prior_by_its_earlier_name_is_the_same():
    mesh, rest = box_mesh(2, 3), {"std": 1.0, "smoothness": 1.0}
    own = invlift.matern_prior(mesh, range=0.5, **rest)
    with pytest.warns(FutureWarning, match="correlation_range is called range now"):
        before = invlift.matern_prior(mesh, correlation_range=0.5, **rest)
    white = np.ones(own.num_white)
    np.testing.assert_array_equal(own.transform(white), before.transform(white))
    with pytest.warns(FutureWarning, match="prior layer, rock: correlation_range"):
        invlift.layered_prior(replaced(mesh), {"rock": {"correlation_range": 0.5, **rest}})


def replaced(mesh):
    """The mesh with one layer that is all of it."""
    cells = np.arange(mesh.num_cells)
    return invlift.mesh_from_arrays(mesh.points, mesh.cells, subdomains={"rock": cells})
