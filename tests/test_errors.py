"""The place of an error is a path, which each front end renders."""

import pickle

import pytest

from invlift.errors import InputError, errors_at


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("sensors.csv, row 4", "sensors.csv, row 4"),
        (("prior", "std"), "prior std"),
        (("prior", "layer", "clay", "std"), "prior layer, clay, std"),
        (("experiment", "one", "robin", "top", "ambient"), "experiment one, robin, top, ambient"),
        (("observed", "index", 3), "observed, index 3"),
        (("problem.py", "prior", "std"), "problem.py, prior std"),
    ],
)  # fmt: skip
def test_a_path_is_rendered_in_words(where, text):
    error = InputError(where, "a number", "none", "give one")
    assert error.where == text
    assert str(error) == f"{text}: expected a number, found none; give one"
    again = pickle.loads(pickle.dumps(error))
    assert (again.path, str(again)) == (error.path, str(error))


def test_an_error_moves_to_what_the_user_wrote():
    with (
        pytest.raises(InputError) as caught,
        errors_at(lambda path: ("experiment", "pumping", *path)),
        errors_at(("robin", "left, or right")),
    ):
        raise InputError("distribution Normal", "one number", "two", "give one")
    # A comma of a name does not cut the path.
    assert caught.value.path == ("experiment", "pumping", "robin", "left, or right")
    assert (caught.value.expected, caught.value.found) == ("one number", "two")
