"""What a person sees while chains run: a bar per chain on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from invlift.compilation import Program
from invlift.samplers.chains.chain import Progress as News

#: Least time between two lines about the same chain, s.
LINE_INTERVAL = 10.0
#: Time without news after which it is said what goes on, s.
SILENCE = 1.5


@contextmanager
def progress_display(
    console: Console,
    num_chains: int,
    num_warmup: int,
    num_draws: int | None,
    failures_in_words: str,
):
    """Yield a function that shows the news of the chains, callable from their threads.

    Parameters
    ----------
    console : rich.console.Console
        Where to show it; bars if it is a terminal.
    num_chains, num_warmup : int
    num_draws : int or None
        None if it is not known beforehand.
    failures_in_words : str
        What the kernel counts as failures: "projections failed", say.
    """
    total = None if num_draws is None else num_warmup + num_draws
    rates = _Rates(num_chains, failures_in_words)
    if not (console.is_terminal or console.is_jupyter):
        lines = _Lines(console, rates, total)
        with says_that_it_compiles(console, lambda: not lines.has_news):
            yield lines
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[news]}"),
    )
    with Progress(*columns, console=console) as progress:
        tasks = [
            progress.add_task(f"chain {chain}", total=total, news="compiling")
            for chain in range(num_chains)
        ]

        def show(news: News) -> None:
            text = f"{_phase(news)}  {rates.describe(news)}"
            progress.update(tasks[news.chain], completed=news.iteration, news=text)

        yield show


def bars_if_watched(num_chains: int, num_warmup: int, num_draws: int | None, failures: str):
    """:func:`progress_display` for a person at a notebook or terminal; silence for programs."""
    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        return progress_display(console, num_chains, num_warmup, num_draws, failures)
    return nullcontext(lambda news: None)


@contextmanager
def comparison_display(console: Console):
    """Yield a function that shows how each method is doing, a line every few seconds.

    Parameters
    ----------
    console : rich.console.Console
    """
    lock, last = threading.Lock(), {}

    def show(method: str, news: News) -> None:
        with lock:
            now = time.monotonic()
            if now - last.get(method, -LINE_INTERVAL) < LINE_INTERVAL:
                return
            last[method] = now
        console.print(
            f"{method}: chain {news.chain} at iteration {news.iteration}, {_phase(news)}, "
            f"acceptance {news.acceptance_rate:.2f}",
            highlight=False,
            soft_wrap=True,
        )

    with says_that_it_compiles(console, lambda: not last):
        yield show


@contextmanager
def calibration_display(console: Console, num_simulations: int):
    """Yield a function that shows how many simulations are done: a bar, or a line now and then.

    Parameters
    ----------
    console : rich.console.Console
    num_simulations : int
        In all.
    """
    began, first, num_failed, last = 0.0, None, 0, -LINE_INTERVAL

    def describe(num_done: int) -> str:
        """Failures in this process, and the time since its first simulation was done."""
        failed = f"{num_failed} failed, " if num_failed else ""
        if num_done == first:
            return f"{failed}the first in this process"
        seconds = (time.monotonic() - began) / (num_done - first)
        left = seconds * (num_simulations - num_done)
        time_left = f"{left / 60:.0f} min" if left > 90 else f"{left:.0f} s"
        return f"{failed}{seconds:.2g} s each, {time_left} left"

    def tell(is_fine: bool, num_done: int, show: Callable[[int, str], None]) -> None:
        nonlocal began, first, num_failed
        if first is None:
            began, first = time.monotonic(), num_done
        num_failed += not is_fine
        show(num_done, describe(num_done))

    if console.is_terminal:
        columns = (
            TextColumn("simulations"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("[dim]{task.fields[news]}"),
        )
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=num_simulations, news="compiling")

            def on_bar(num_done: int, text: str) -> None:
                progress.update(bar, completed=num_done, news=text)

            yield lambda is_fine, num_done: tell(is_fine, num_done, on_bar)
        return

    def on_line(num_done: int, text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < LINE_INTERVAL and num_done < num_simulations:
            return
        last = now
        words = f"simulation {num_done} of {num_simulations}: {text}"
        console.print(words, highlight=False, soft_wrap=True)

    with says_that_it_compiles(console, lambda: first is None):
        yield lambda is_fine, num_done: tell(is_fine, num_done, on_line)


@contextmanager
def says_that_it_compiles(console: Console, is_silent: Callable[[], bool] = lambda: True):
    """Tell why nothing is to be seen yet, if programs are compiled meanwhile.

    Parameters
    ----------
    console : rich.console.Console
    is_silent : callable
        Whether that still needs to be told.
    """
    num_before, is_over = Program.num_begun, threading.Event()

    def watch() -> None:
        while not is_over.wait(SILENCE) and is_silent():
            if Program.num_begun > num_before:
                words = "compiling, which the next time with a problem of these sizes need not"
                console.print(words, highlight=False, soft_wrap=True)
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

    def __init__(self, num_chains: int, failures_in_words: str) -> None:
        self._failures_in_words = failures_in_words
        self._lock = threading.Lock()
        self._began = [None] * num_chains
        self._failures = [0] * num_chains
        self._factorisations = [0] * num_chains

    def describe(self, news: News) -> str:
        with self._lock:
            chain = news.chain
            self._failures[chain] += news.num_failures or 0
            rate = ""
            if self._began[chain] is None:
                self._began[chain] = news.seconds
            else:
                self._factorisations[chain] += news.num_factorisations
                seconds = max(news.seconds - self._began[chain], 1e-9)
                rate = f", {self._factorisations[chain] / seconds:.0f} factorisations/s"
            parts = [f"acceptance {news.acceptance_rate:.2f}"]
            if news.step_size is not None:
                parts.insert(0, f"step {news.step_size:.2g}")
            if news.num_failures is not None:
                parts.append(f"{self._failures[chain]} {self._failures_in_words}")
            return ", ".join(parts) + rate


class _Lines:
    """A line per chain every few seconds, and at the end of each phase."""

    def __init__(self, console: Console, rates: _Rates, total: int | None) -> None:
        self._console, self._rates, self._total = console, rates, total
        self._last: dict[int, tuple[float, bool]] = {}

    @property
    def has_news(self) -> bool:
        """Whether a chain has had any."""
        return bool(self._last)

    def __call__(self, news: News) -> None:
        text = self._rates.describe(news)
        now = time.monotonic()
        last, was_warmup = self._last.setdefault(news.chain, (now, True))
        is_over = news.iteration == self._total
        if now - last < LINE_INTERVAL and was_warmup == news.is_warmup and not is_over:
            return
        self._last[news.chain] = (now, news.is_warmup)
        of_total = "" if self._total is None else f"/{self._total}"
        self._console.print(
            f"chain {news.chain}: {news.iteration}{of_total} {_phase(news)}, {text}",
            highlight=False,
            soft_wrap=True,
        )


def _phase(news: News) -> str:
    return "warm-up" if news.is_warmup else "sampling"
