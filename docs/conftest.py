"""What the tests of the documents' snippets need to know."""

import gc

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """All of them sample, for 5 s to a minute: they are among the slow tests."""
    for item in items:
        if item.nodeid.startswith("docs/"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _programs_are_forgotten():
    """Those of a document are of no use to others, and all together fill gigabytes."""
    import jax

    from invlift.programs.compilation import Program
    from invlift.programs.memory import give_back_memory

    yield
    for each in gc.get_objects():
        if isinstance(each, Program):
            each._compiled.clear()
    jax.clear_caches()
    give_back_memory()
