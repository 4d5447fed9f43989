"""Let the tests of this folder import `problem_files`, and call commands; programs are kept."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from invlift.app.cli import main
from invlift.app.commands import results
from invlift.posterior.output import report
from invlift.programs import compilation

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module", autouse=True)
def drawing():
    """A context in which pages and pictures of runs are drawn, which takes seconds.

    Elsewhere they are files without content.
    """
    is_on, page, picture = [], report.write_report, Figure.savefig

    @contextmanager
    def turned_on():
        is_on.append(True)
        yield
        is_on.pop()

    def write_page(posterior, record, path, *others):
        return page(posterior, record, path, *others) if is_on else path.touch() or path

    def write_picture(figure, path, **options):
        return picture(figure, path, **options) if is_on else path.touch()

    with pytest.MonkeyPatch.context() as patch:
        for module in (report, results):
            patch.setattr(module, "write_report", write_page)
        patch.setattr(Figure, "savefig", write_picture)
        yield turned_on


@pytest.fixture
def drawn(drawing):
    """The pages and pictures of this test are drawn."""
    with drawing():
        yield


@pytest.fixture(scope="module", autouse=True)
def programs_of_long_chains():
    """In this folder no chain is long."""


@pytest.fixture(scope="module", autouse=True)
def _programs_are_kept(_programs_are_not_kept):
    """As commands keep them, also for tests that call what is behind a command."""
    compilation._Folder.path = Path(os.environ["XDG_CACHE_HOME"]) / "invlift" / "programs"
    compilation._Folder.path.mkdir(parents=True, exist_ok=True)


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
