"""What bad input must lead to."""

from contextlib import contextmanager

import pytest

from invlift.errors import InputError


@contextmanager
def refused(*parts, start=""):
    """What is done within is refused in one line, which begins so and has all these parts."""
    with pytest.raises(InputError) as caught:
        yield
    message = str(caught.value)
    assert message.startswith(start), message
    assert "\n" not in message, message
    assert [part for part in parts if part not in message] == [], message
