"""Parts shared by several commands: exit status, printed lines and tables, options, signals."""

from __future__ import annotations

import math
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from rich.console import Console

from invlift.app.problem.problem_file import ProblemSpec, as_typed
from invlift.app.problem.table_errors import expected
from invlift.app.problems import AnyProblem, PythonSpec, build
from invlift.app.runs.progress import phases_display
from invlift.errors import InputError

if TYPE_CHECKING:  # slow to import, and commands without a table do not need it
    import pandas as pd

#: Longest sleep of the thread that receives Ctrl-C, s.
MAX_SLEEP = 0.5
#: Exit status if the work is finished but the verdict is bad, or if it was stopped.
BAD_VERDICT = 3


def say(console: Console, text: str) -> None:
    """Print a line without markup, as it may contain names of files."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say_table(console: Console, table: pd.DataFrame) -> None:
    """Print a table with its index in the first column; long lines may wrap."""
    from invlift.posterior.output.files import number_style

    shown = table.rename_axis(index=None, columns=table.index.name)
    say(console, shown.to_string(**number_style(table), na_rep="-"))


def typed(option: str, text: str, kind: Any) -> Any:
    """Convert the text of an option to a type such as ``integer(1)``; an InputError if invalid."""
    adapter = TypeAdapter(kind, config=ConfigDict(strict=True, allow_inf_nan=False))
    try:
        return adapter.validate_python(as_typed(text))
    except ValidationError:
        allowed = expected(adapter.json_schema())
        raise InputError(option, allowed, repr(text), "correct the option") from None


def method_options(texts: Sequence[str]) -> dict[str, Any]:
    """Return options of a method from texts KEY=VALUE; a value that is not TOML is a string."""
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
    """Return the sizes of a problem in one line."""
    unknowns, sensors = f"{problem.num_unknowns} unknowns", problem.sensors
    if not problem.has_readings:
        return f"{problem.num_constraints} constraints; {unknowns}"
    if problem.mesh is None or sensors is None:
        sizes = f"{problem.num_observations} readings; {unknowns}"
    else:
        outside = f" ({sensors.outside})" if sensors.outside else ""
        sizes = f"{problem.num_observations} sensors{outside}; {unknowns}"
    return sizes if problem.mesh is None else f"{problem.mesh.size}; {sizes}"


def built(spec: ProblemSpec | PythonSpec, errors: Console, **options: Any) -> AnyProblem:
    """Build a problem as :func:`~invlift.app.problems.build` does, and show it if it takes long.

    A correction at the mode searches for this mode, and many times of readings need many weights.
    """
    with phases_display(errors, "building the problem"):
        return interruptible(partial(build, spec, **options))


def interruptible(fn: Callable, *arguments: Any, max_seconds: float | None = None) -> Any:
    """Call a function in a thread and return its result; Ctrl-C ends the wait within half a second.

    In the main thread Ctrl-C would have no effect until the compiler is finished.  An interruption,
    or a TimeoutError after ``max_seconds``, leaves the thread running: the command must then end.
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
    """Raise KeyboardInterrupt on Ctrl-C and on the signal by which batch systems end a job."""
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
