"""Progress of running chains: bars on a terminal, a line in a notebook, or plain lines."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from invlift.problems.starts.search import PHASES
from invlift.programs.compilation import Program
from invlift.samplers.chains.chain import Progress

logger = logging.getLogger(__name__)

#: Shortest time between two lines with the same name, and between two changes of a line, s.
LINE_INTERVAL, CHANGE_INTERVAL = 10.0, 0.2
#: Longest time without a line during one phase, s.
LONGEST_SILENCE = 60.0


@contextmanager
def display(
    console: Console, names: Sequence[str], total: int | None = None
) -> Iterator[Callable[[str, int, str], None]]:
    """Yield a function, callable from any thread, of a name, the number done, and a text.

    A terminal shows a bar for each name, a notebook a line that changes. Otherwise a line is
    printed every ten seconds and at the end.
    """
    if console.is_jupyter:  # bars of rich need a further package there
        from IPython.display import display as show

        lines = dict.fromkeys(names, "compiling")
        shown = show({"text/plain": _joined(lines)}, raw=True, display_id=True)
        last, whole = [0.0], f"/{total}" if total else ""

        def show_changed(name: str, num_done: int, text: str) -> None:
            lines[name], now = f"{num_done}{whole} {text}", time.monotonic()
            if now - last[0] > CHANGE_INTERVAL or num_done == total:
                last[0] = now
                shown.update({"text/plain": _joined(lines)}, raw=True)

        yield show_changed
        shown.update({"text/plain": _joined(lines)}, raw=True)
        return
    if console.is_terminal:
        text, done = TextColumn("[dim]{task.fields[text]}"), MofNCompleteColumn()
        name, bar = TextColumn("{task.description}"), BarColumn(bar_width=24)
        with Bars(name, bar, done, TimeRemainingColumn(), text, console=console) as bars:
            tasks = {name: bars.add_task(name, total=total, text="compiling") for name in names}
            yield lambda name, num, text: bars.update(tasks[name], completed=num, text=text)
        return
    yield _now_and_then(total, partial(console.print, highlight=False, soft_wrap=True))


def _now_and_then(
    total: int | None, show: Callable[[str], None]
) -> Callable[[str, int, str], None]:
    """Return a function that shows a line for each name every ten seconds, and the last line.

    With a total each line ends with the time that is left, by the pace since the first progress.
    """
    lock, last_time, of_total = threading.Lock(), {}, f"/{total}" if total else ""
    first: dict[str, tuple[float, int]] = {}

    def show_line(name: str, num_done: int, text: str) -> None:
        with lock:
            now = time.monotonic()
            began, num = first.setdefault(name, (now, num_done)) if num_done else (now, 0)
            if now - last_time.get(name, -LINE_INTERVAL) < LINE_INTERVAL and num_done != total:
                return
            last_time[name] = now
        if total and num < num_done < total:
            text += (
                f", about {_rounded((now - began) * (total - num_done) / (num_done - num))} left"
            )
        show(f"{name}: {num_done}{of_total} {text}")

    return show_line


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"


@contextmanager
def phases_display(console: Console, first: str, before: str = "") -> Iterator[None]:
    """Show what is done: the first phase, then those that are shown, each after a text.

    Each line says whether programs are compiled, and the seconds since the start. A terminal shows
    a line that changes. Otherwise a line is printed for a new phase, at most every ten seconds, and
    every minute for one that lasts.
    """
    began, phase, is_over = time.monotonic(), first, threading.Event()

    def show(chain: int, text: str) -> None:
        nonlocal phase
        phase = f"{before}{text}"

    def line() -> str:
        compiling = " (compiling)" if Program.compiling else ""
        return f"{phase}{compiling}, after {time.monotonic() - began:.0f} s"

    with console.status(first) as status:

        def tell() -> None:
            shown, last = None, began
            while not is_over.wait(1.0 if console.is_terminal else LINE_INTERVAL):
                if console.is_terminal:
                    status.update(line())
                elif phase != shown or time.monotonic() - last >= LONGEST_SILENCE:
                    shown, last = phase, time.monotonic()
                    console.print(line(), highlight=False, soft_wrap=True)

        # The thread also tells of a phase that lasts, such as the compilation of a large program.
        threading.Thread(target=tell, daemon=True).start()
        try:
            with _starts_shown(show):
                yield
        finally:
            is_over.set()


@contextmanager
def _starts_shown(show: Callable[[int, str], None]) -> Iterator[None]:
    """Show the phase of the search for the start of a chain, in this process."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            show(record.chain, record.getMessage())

    PHASES.addHandler(handler := Handler())
    try:
        yield
    finally:
        PHASES.removeHandler(handler)


def _joined(lines: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in lines.items())


@contextmanager
def progress_display(
    console: Console, num_chains: int, num_warmup: int, num_draws: int | None, failures: str
) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows the progress of chains, callable from their threads.

    ``num_draws`` is None if it is not known beforehand. ``failures`` describes what the kernel
    counts as failures, for example "projections failed".
    """
    failed, names = Counter(), [f"chain {chain}" for chain in range(num_chains)]
    total = None if num_draws is None else num_warmup + num_draws
    with display(console, names, total) as tell:

        def show(progress: Progress) -> None:
            name, parts = names[progress.chain], [phase_of(progress)]
            if progress.step_size is not None:
                parts.append(f"step {progress.step_size:.2g}")
            parts.append(f"acceptance {progress.acceptance_rate:.2f}")
            if progress.num_failures is not None:
                failed[name] += progress.num_failures
                parts.append(f"{failed[name]} {failures}")
            tell(name, progress.iteration, ", ".join(parts))

        with _starts_shown(lambda chain, phase: tell(names[chain], 0, phase)):
            yield show


@contextmanager
def comparison_display(
    console: Console, methods: Sequence[str]
) -> Iterator[Callable[[str, Progress], None]]:
    """Yield a function that shows the progress of the chains of a method."""
    with display(console, methods) as tell:

        def show(method: str, progress: Progress) -> None:
            text = f"iterations of chain {progress.chain}, {phase_of(progress)}, acceptance "
            tell(method, progress.iteration, f"{text}{progress.acceptance_rate:.2f}")

        yield show


@contextmanager
def simulations_display(console: Console, num: int) -> Iterator[Callable[[Any, int], None]]:
    """Yield a function that shows the number of finished simulations and the last outcome."""
    with display(console, ["simulations"], num) as tell:
        yield lambda simulation, num_done: tell("simulations", num_done, simulation.outcome)


def given_or_shown(given: Callable | None, open_display: Callable, *arguments):
    """Return a context of a given function of progress, or without one of that of a display."""
    return nullcontext(given) if given else if_watched(open_display, *arguments)


def if_watched(open_display: Callable, *arguments):
    """Open a display on a notebook or terminal, or else one that writes to the log."""
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        console = _Log()
    return open_display(console, *arguments)


class _Log:
    """Replacement of a console that prints to the logger of this module, level INFO."""

    is_terminal = is_jupyter = False

    def print(self, text: str, **style) -> None:
        logger.info(text)


def phase_of(progress: Progress) -> str:
    """Return the phase of a chain."""
    return "warm-up" if progress.is_warmup else "sampling"
