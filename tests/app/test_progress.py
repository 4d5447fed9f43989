"""What a person sees while chains run, on a terminal and in a notebook."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from invlift.app.runs import progress
from invlift.app.runs.progress import comparison_display, display, if_watched, simulations_display


class Notebook:
    """What IPython has, without ipywidgets: the text that a cell shows."""

    def __init__(self):
        self.texts = []

    def display(self, data, *, raw, display_id):
        assert display_id
        self.update(data, raw=raw)
        return self

    def update(self, data, *, raw):
        assert raw
        self.texts.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch):
    """One that is watched."""
    found = Notebook()
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=found.display))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    monkeypatch.setattr(progress, "Console", lambda **_: Console(force_jupyter=True))
    return found


@pytest.mark.filterwarnings("error")
def test_a_notebook_shows_a_line_for_each_name(notebook):
    with if_watched(display, ["chain 0", "chain 1"], 100) as tell:
        assert notebook.texts == ["chain 0: compiling\nchain 1: compiling"]
        tell("chain 1", 100, "sampling")
        assert notebook.texts[-1] == "chain 0: compiling\nchain 1: 100/100 sampling"
        tell("chain 0", 1, "warm-up")  # so soon after the other that it is shown with the next
    assert notebook.texts[-1] == "chain 0: 1/100 warm-up\nchain 1: 100/100 sampling"


def test_comparisons_and_calibrations_are_shown(notebook):
    with if_watched(comparison_display, ["nuts"]) as tell:
        now = SimpleNamespace(chain=1, iteration=7, is_warmup=True, acceptance_rate=0.5)
        tell("nuts", now)
    assert notebook.texts[-1] == "nuts: 7 iterations of chain 1, warm-up, acceptance 0.50"
    with if_watched(simulations_display, 3) as tell:
        tell(SimpleNamespace(outcome="fine"), 3)
    assert notebook.texts[-1] == "simulations: 3/3 fine"


def test_a_terminal_shows_bars_and_a_program_nothing(monkeypatch):
    shown = io.StringIO()
    watched = Console(file=shown, force_terminal=True, width=100)
    monkeypatch.setattr(progress, "Console", lambda **_: watched)
    with if_watched(display, ["chain 0"], 10) as tell:
        tell("chain 0", 5, "sampling")
    assert "chain 0" in shown.getvalue()
    assert "5/10" in shown.getvalue()
    unwatched = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=unwatched))
    with if_watched(display, ["chain 0"], 10) as tell:
        tell("chain 0", 5, "sampling")
    assert not unwatched.getvalue()


def test_lines_say_how_long_it_will_take(monkeypatch):
    now = iter([0.0, 100.0, 110.0, 150.0, 1200.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(now)))
    shown = io.StringIO()
    with display(Console(file=shown), ["chain 0"], 100) as tell:
        tell("chain 0", 0, "compiling")
        for num_done in (10, 20, 50, 100):
            tell("chain 0", num_done, "sampling")
    assert shown.getvalue().splitlines() == [
        "chain 0: 0/100 compiling",
        "chain 0: 10/100 sampling",
        "chain 0: 20/100 sampling, about 80 s left",
        "chain 0: 50/100 sampling, about 62 s left",
        "chain 0: 100/100 sampling",
    ]
