"""What the tests of the documents' snippets need to know."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What samples for a quarter of a minute and more is among the slow tests."""
    for item in items:
        slow = "tutorial", "own_model", "extending", "generators", "equations", "numpyro"
        if item.nodeid.startswith(tuple(f"docs/{name}" for name in slow)):
            item.add_marker(pytest.mark.slow)
