"""What the tests of the documents' snippets need to know."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """The tutorials sample for half a minute each: they are among the slow tests."""
    for item in items:
        if item.nodeid.startswith("docs/tutorial"):
            item.add_marker(pytest.mark.slow)
