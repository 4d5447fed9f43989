"""What is said of bad input."""

import pytest

from invlift.errors import InputError


def assert_refused(parts, function, *arguments, start="", **options):
    """A call is refused, and what is said of it begins with a start and has these parts."""
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    message = str(caught.value)
    assert message.startswith(str(start)), message
    for part in parts:
        assert part in message, message
