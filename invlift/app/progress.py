"""What a person sees while chains run: bars on a terminal or in a notebook, else plain lines."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from invlift.samplers.chains.chain import Progress

#: Least time between two lines about the same thing, s.
LINE_INTERVAL = 10.0


@contextmanager
def display(
    console: Console, names: Sequence[str], total: int | None = None
) -> Iterator[Callable[[str, int, str], None]]:
    """Yield a function, for any thread, of a name, how much of its total is done, and a text.

    On a terminal there is a bar for each name; else a line is printed now and then, and the last.
    """
    if console.is_terminal or console.is_jupyter:
        text, done = TextColumn("[dim]{task.fields[text]}"), MofNCompleteColumn()
        name, bar = TextColumn("{task.description}"), BarColumn(bar_width=24)
        with Bars(name, bar, done, TimeRemainingColumn(), text, console=console) as bars:
            tasks = {name: bars.add_task(name, total=total, text="compiling") for name in names}
            yield lambda name, num, text: bars.update(tasks[name], completed=num, text=text)
        return
    lock, last_time, of_total = threading.Lock(), {}, f"/{total}" if total else ""

    def show_line(name: str, num_done: int, text: str) -> None:
        with lock:
            now = time.monotonic()
            if now - last_time.get(name, -LINE_INTERVAL) < LINE_INTERVAL and num_done != total:
                return
            last_time[name] = now
        console.print(f"{name}: {num_done}{of_total} {text}", highlight=False, soft_wrap=True)

    yield show_line


@contextmanager
def progress_display(
    console: Console, num_chains: int, num_warmup: int, num_draws: int | None, failures: str
) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows the progress of chains, callable from their threads.

    ``num_draws`` is None if it is not known beforehand; ``failures`` is what the kernel counts as
    such: "projections failed", say.
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

        yield show


def bars_if_watched(num_chains: int, num_warmup: int, num_draws: int | None, failures: str):
    """:func:`progress_display` for a person at a notebook or terminal; silence for programs."""
    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        return progress_display(console, num_chains, num_warmup, num_draws, failures)
    return nullcontext(lambda progress: None)


def phase_of(progress: Progress) -> str:
    """What a chain is at."""
    return "warm-up" if progress.is_warmup else "sampling"
