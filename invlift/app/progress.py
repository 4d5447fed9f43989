"""What a person sees while chains run: a bar per chain on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from invlift.compilation import Program
from invlift.posterior.calibration import FINE, Simulation
from invlift.samplers.chains.chain import Progress

#: Least time between two lines about the same chain, s.
LINE_INTERVAL = 10.0
#: Time without progress after which it is said what goes on, s.
SILENCE = 1.5


@contextmanager
def progress_display(
    console: Console, num_chains: int, num_warmup: int, num_draws: int | None, failures: str
) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows the progress of chains, callable from their threads.

    Parameters
    ----------
    console : rich.console.Console
        Bars if it is a terminal.
    num_chains, num_warmup : int
    num_draws : int or None
        None if it is not known beforehand.
    failures : str
        What the kernel counts as failures: "projections failed", say.
    """
    total = None if num_draws is None else num_warmup + num_draws
    rates = _Rates(num_chains, failures)
    if console.is_terminal or console.is_jupyter:
        with _bars(console) as bars:
            tasks = [
                bars.add_task(f"chain {chain}", total=total, text="compiling")
                for chain in range(num_chains)
            ]

            def show_bar(progress: Progress) -> None:
                text = f"{_phase(progress)}  {rates.describe(progress)}"
                bars.update(tasks[progress.chain], completed=progress.iteration, text=text)

            yield show_bar
        return
    of_total = "" if total is None else f"/{total}"
    with _lines(console) as print_line:

        def show_line(progress: Progress) -> None:
            chain, phase = progress.chain, _phase(progress)
            text = rates.describe(progress)
            line = f"chain {chain}: {progress.iteration}{of_total} {phase}, {text}"
            print_line((chain, phase), line, is_last=progress.iteration == total)

        yield show_line


def bars_if_watched(num_chains: int, num_warmup: int, num_draws: int | None, failures: str):
    """:func:`progress_display` for a person at a notebook or terminal; silence for programs."""
    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        return progress_display(console, num_chains, num_warmup, num_draws, failures)
    return nullcontext(lambda progress: None)


@contextmanager
def comparison_display(console: Console) -> Iterator[Callable[[str, Progress], None]]:
    """Yield a function that shows how each method is doing, a line every few seconds."""
    with _lines(console) as print_line:

        def show(method: str, progress: Progress) -> None:
            where = f"chain {progress.chain} at iteration {progress.iteration}, {_phase(progress)}"
            rate = f"acceptance {progress.acceptance_rate:.2f}"
            print_line(method, f"{method}: {where}, {rate}")

        yield show


@contextmanager
def calibration_display(
    console: Console, num_simulations: int
) -> Iterator[Callable[[Simulation, int], None]]:
    """Yield a function that shows how many simulations are done: a bar, or a line now and then."""
    began, first, num_failed = 0.0, None, 0

    def describe(simulation: Simulation, num_done: int) -> str:
        """Failures in this process, and the time since its first simulation was done."""
        nonlocal began, first, num_failed
        num_failed += simulation.outcome != FINE
        failed = f"{num_failed} failed, " if num_failed else ""
        if first is None:
            began, first = time.monotonic(), num_done
            return f"{failed}the first in this process"
        seconds = (time.monotonic() - began) / (num_done - first)
        left = seconds * (num_simulations - num_done)
        time_left = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
        return f"{failed}{seconds:.2g} s each, {time_left} left"

    if console.is_terminal:
        with _bars(console) as bars:
            bar = bars.add_task("simulations", total=num_simulations, text="compiling")
            yield lambda simulation, num_done: bars.update(
                bar, completed=num_done, text=describe(simulation, num_done)
            )
        return
    with _lines(console) as print_line:

        def show(simulation: Simulation, num_done: int) -> None:
            line = f"simulation {num_done} of {num_simulations}: {describe(simulation, num_done)}"
            print_line("simulations", line, is_last=num_done >= num_simulations)

        yield show


def _bars(console: Console) -> Bars:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[text]}"),
    )
    return Bars(*columns, console=console)


@contextmanager
def _lines(console: Console) -> Iterator[Callable[..., None]]:
    """Yield a function that prints a line about something now and then, and the last one."""
    lock, last_time = threading.Lock(), {}

    def print_line(key, line: str, *, is_last: bool = False) -> None:
        with lock:
            now = time.monotonic()
            if now - last_time.get(key, -LINE_INTERVAL) < LINE_INTERVAL and not is_last:
                return
            last_time[key] = now
        console.print(line, highlight=False, soft_wrap=True)

    with says_that_it_compiles(console, lambda: not last_time):
        yield print_line


@contextmanager
def says_that_it_compiles(console: Console, is_silent: Callable[[], bool] = lambda: True):
    """Print why nothing is to be seen yet, if programs are compiled meanwhile.

    Parameters
    ----------
    console : rich.console.Console
    is_silent : callable
        Whether nothing else has been printed.
    """
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


class _Rates:
    """Failures so far and factorisations per second of each chain."""

    def __init__(self, num_chains: int, failures: str) -> None:
        self._failures_name = failures
        self._lock = threading.Lock()
        self._began = [None] * num_chains
        self._failures = [0] * num_chains
        self._factorisations = [0] * num_chains

    def describe(self, progress: Progress) -> str:
        with self._lock:
            chain, rate = progress.chain, ""
            self._failures[chain] += progress.num_failures or 0
            if self._began[chain] is None:
                self._began[chain] = progress.seconds
            else:
                self._factorisations[chain] += progress.num_factorisations
                seconds = max(progress.seconds - self._began[chain], 1e-9)
                rate = f", {self._factorisations[chain] / seconds:.0f} factorisations/s"
            parts = [f"acceptance {progress.acceptance_rate:.2f}"]
            if progress.step_size is not None:
                parts.insert(0, f"step {progress.step_size:.2g}")
            if progress.num_failures is not None:
                parts.append(f"{self._failures[chain]} {self._failures_name}")
            return ", ".join(parts) + rate


def _phase(progress: Progress) -> str:
    return "warm-up" if progress.is_warmup else "sampling"
