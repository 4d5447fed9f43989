"""What the tests of the documents' snippets need to know."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """All of them sample, for 5 s to a minute: they are among the slow tests."""
    for item in items:
        if item.nodeid.startswith("docs/"):
            item.add_marker(pytest.mark.slow)
