"""What several commands use: exit status, printed lines and tables, options, signals."""

from __future__ import annotations

import math
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from rich.console import Console

from invlift.app.problem.problem_file import as_typed
from invlift.app.problem.table_errors import expected
from invlift.app.problems import AnyProblem
from invlift.errors import InputError

if TYPE_CHECKING:  # which takes longer to import than a command that has no table needs
    import pandas as pd

#: Longest time that the thread which receives Ctrl-C sleeps, s.
MAX_SLEEP = 0.5
#: Exit status where the work was done but the verdict on it is bad, or it was stopped before.
BAD_VERDICT = 3


def say(console: Console, text: str) -> None:
    """Print a line as it is: it may hold the names of files."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say_table(console: Console, table: pd.DataFrame) -> None:
    """Print a table, its index in the first column; lines may run over."""
    from invlift.posterior.output.files import number_style

    shown = table.rename_axis(index=None, columns=table.index.name)
    say(console, shown.to_string(**number_style(table), na_rep="-"))


def typed(option: str, text: str, kind: Any) -> Any:
    """What an option's text holds of a type, ``integer(1)`` say; an InputError if it holds none."""
    adapter = TypeAdapter(kind, config=ConfigDict(strict=True, allow_inf_nan=False))
    try:
        return adapter.validate_python(as_typed(text))
    except ValidationError:
        allowed = expected(adapter.json_schema())
        raise InputError(option, allowed, repr(text), "correct the option") from None


def method_options(texts: Sequence[str]) -> dict[str, Any]:
    """Options of a method from texts KEY=VALUE; what is no value of TOML is text as it stands."""
    options = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise InputError("--option", "KEY=VALUE", repr(text), "correct the option")
        options[key] = value
        with suppress(tomllib.TOMLDecodeError):
            options[key] = tomllib.loads(f"value = {value}")["value"]
    return options


def headline(problem: AnyProblem) -> str:
    """The sizes of a problem, in a line."""
    unknowns, sensors = f"{problem.num_unknowns} unknowns", problem.sensors
    if not problem.has_readings:
        return f"{problem.num_constraints} constraints; {unknowns}"
    if problem.mesh is None or sensors is None:
        sizes = f"{problem.num_observations} readings; {unknowns}"
    else:
        outside = f" ({sensors.outside})" if sensors.outside else ""
        sizes = f"{problem.num_observations} sensors{outside}; {unknowns}"
    return sizes if problem.mesh is None else f"{problem.mesh.size}; {sizes}"


def interruptible(fn: Callable, *arguments: Any, max_seconds: float | None = None) -> Any:
    """What a function returns; Ctrl-C ends the wait for it within half a second.

    It runs in a thread, as this one would not be told before the compiler is done.  An interruption
    leaves the thread behind, and so does the end of its time, a TimeoutError: the command is to
    end.
    """
    end = math.inf if max_seconds is None else time.monotonic() + max_seconds
    pool = ThreadPoolExecutor(1, thread_name_prefix="command")
    try:
        done = pool.submit(fn, *arguments)
        while not done.done():
            if time.monotonic() > end:
                raise TimeoutError
            wait([done], timeout=MAX_SLEEP)
        return done.result()
    finally:
        pool.shutdown(wait=False)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """Ctrl-C, and the signal with which batch systems end a job, raise KeyboardInterrupt here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
