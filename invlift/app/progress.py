"""What a person sees while chains run: a bar per chain on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from invlift.compilation import Program
from invlift.samplers.chains.chain import Progress

if TYPE_CHECKING:
    from invlift.posterior.calibration import Simulation

#: Least time between two lines about the same chain, s.
LINE_INTERVAL = 10.0
#: Time without progress after which it is said what goes on, s.
SILENCE = 1.5


@contextmanager
def progress_display(
    console: Console, num_chains: int, num_warmup: int, num_draws: int | None, failures: str
) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows the progress of chains, callable from their threads.

    ``num_draws`` is None if it is not known beforehand; ``failures`` is what the kernel counts as
    such: "projections failed", say.
    """
    began, failed, factorised = {}, Counter(), Counter()
    names = [f"chain {chain}" for chain in range(num_chains)]
    with _display(console, None if num_draws is None else num_warmup + num_draws, names) as tell:

        def show(progress: Progress) -> None:
            name, phase = names[progress.chain], _phase(progress)
            parts = [phase, f"acceptance {progress.acceptance_rate:.2f}"]
            if progress.step_size is not None:
                parts.insert(1, f"step {progress.step_size:.2g}")
            if progress.num_failures is not None:
                failed[name] += progress.num_failures
                parts.append(f"{failed[name]} {failures}")
            if name in began:
                factorised[name] += progress.num_factorisations
                seconds = max(progress.seconds - began[name], 1e-9)
                parts.append(f"{factorised[name] / seconds:.0f} factorisations/s")
            began.setdefault(name, progress.seconds)
            tell(name, progress.iteration, ", ".join(parts), phase)

        yield show


def bars_if_watched(num_chains: int, num_warmup: int, num_draws: int | None, failures: str):
    """:func:`progress_display` for a person at a notebook or terminal; silence for programs."""
    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        return progress_display(console, num_chains, num_warmup, num_draws, failures)
    return nullcontext(lambda progress: None)


@contextmanager
def comparison_display(console: Console) -> Iterator[Callable[[str, Progress], None]]:
    """Yield a function that shows how each method is doing, a line every few seconds."""
    with _display(console) as tell:

        def show(method: str, progress: Progress) -> None:
            text = f"iterations of chain {progress.chain}, {_phase(progress)}"
            rate = f"acceptance {progress.acceptance_rate:.2f}"
            tell(method, progress.iteration, f"{text}, {rate}")

        yield show


@contextmanager
def calibration_display(
    console: Console, num_simulations: int
) -> Iterator[Callable[[Simulation, int], None]]:
    """Yield a function that shows how many simulations are done: a bar, or a line now and then."""
    first, num_failed = None, 0
    with _display(console, num_simulations, ["simulations"]) as tell:

        def show(simulation: Simulation, num_done: int) -> None:
            """Failures in this process, and the time since its first simulation was done."""
            nonlocal first, num_failed
            num_failed += not simulation.counts
            parts, now = [f"{num_failed} failed"] * (num_failed > 0), time.monotonic()
            if first is None:
                first = now, num_done
            else:
                seconds = (now - first[0]) / (num_done - first[1])
                left = seconds * (num_simulations - num_done)
                time_left = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
                parts += [f"{seconds:.2g} s each", f"{time_left} left"]
            tell("simulations", num_done, ", ".join(["done", *parts]))

        yield show


@contextmanager
def _display(
    console: Console, total: int | None = None, names: Sequence[str] = ()
) -> Iterator[Callable[..., None]]:
    """Yield a function of a name, how much of it is done, a text and perhaps a phase.

    On a terminal there is a bar for each name; else a line about a name and phase is printed now
    and then, and the last one.
    """
    if names and (console.is_terminal or console.is_jupyter):
        done, text = MofNCompleteColumn(), TextColumn("[dim]{task.fields[text]}")
        name, bar = TextColumn("{task.description}"), BarColumn(bar_width=24)
        with Bars(name, bar, done, TimeRemainingColumn(), text, console=console) as bars:
            tasks = {name: bars.add_task(name, total=total, text="compiling") for name in names}

            def show_bar(name: str, num_done: int, text: str, phase: str = "") -> None:
                bars.update(tasks[name], completed=num_done, text=text)

            yield show_bar
        return
    lock, last_time, of_total = threading.Lock(), {}, f"/{total}" if total else ""

    def show_line(name: str, num_done: int, text: str, phase: str = "") -> None:
        with lock:
            key, now = (name, phase), time.monotonic()
            if now - last_time.get(key, -LINE_INTERVAL) < LINE_INTERVAL and num_done != total:
                return
            last_time[key] = now
        console.print(f"{name}: {num_done}{of_total} {text}", highlight=False, soft_wrap=True)

    with says_that_it_compiles(console, lambda: not last_time):
        yield show_line


@contextmanager
def says_that_it_compiles(console: Console, is_silent: Callable[[], bool] = lambda: True):
    """Say why nothing is to be seen yet, if programs are compiled while ``is_silent()``."""
    num_before, is_over = Program.num_begun, threading.Event()

    def watch() -> None:
        while not is_over.wait(SILENCE) and is_silent():
            if Program.num_begun > num_before:
                line = "compiling, which the next time with a problem of these sizes need not"
                console.print(line, highlight=False, soft_wrap=True)
                return

    watching = threading.Thread(target=watch, name="watching", daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()


def _phase(progress: Progress) -> str:
    return "warm-up" if progress.is_warmup else "sampling"
