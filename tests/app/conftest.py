"""Let the tests of this folder import `problem_files`, and call commands; programs are kept."""

import sys
from pathlib import Path

import pytest

from invlift.app.cli import main
from invlift.app.commands import results  # noqa: F401  # before pages are not written
from invlift.programs.compilation import keep_compiled_programs

sys.path.insert(0, str(Path(__file__).parent))

_WITH_PAGES = {
    "test_cli", "test_examples", "test_manifold_commands", "test_named_fields",
    "test_python_problem", "test_reading_tables", "test_report",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _page_where_it_is_used(request):
    """Elsewhere runs are written without it: it takes seconds to draw."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__.split(".")[-1] not in _WITH_PAGES:
            patch.setattr("invlift.posterior.report.write_report", lambda *parts: parts[2])
        yield


@pytest.fixture(scope="module", autouse=True)
def programs_of_long_chains():
    """In this folder no chain is long."""


@pytest.fixture(scope="module", autouse=True)
def _programs_are_kept(_programs_are_not_kept):
    """As commands keep them, also for tests that call what is behind a command."""
    keep_compiled_programs()


@pytest.fixture
def invlift(capsys):
    """The command line: exit status and what is printed of it."""

    def call(*arguments, status=0):
        with pytest.raises(SystemExit) as stop:
            main([str(each) for each in arguments])
        out, err = capsys.readouterr()
        assert stop.value.code == status, err
        return out if status != 2 else err

    return call
