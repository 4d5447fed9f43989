"""What the tests of the documents' snippets need to know."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """The tutorial samples the disc, for half a minute: it is among the slow tests."""
    for item in items:
        if item.nodeid == "docs/tutorial.md::tutorial.md":
            item.add_marker(pytest.mark.slow)
