"""Run a command in its process: precision, compiled programs, interruptions, errors, status."""

from __future__ import annotations

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import jax
from rich.console import Console

from invlift.app.commands.common import BAD_VERDICT, interrupts_raise
from invlift.app.runs.environment import check_platform
from invlift.errors import InputError
from invlift.programs.compilation import keep_compiled_programs
from invlift.programs.precision import enable_x64

BAD_INPUT = 2


class _Console(Console):
    """Console that stops printing if its pipe is closed, as by ``| head -1``."""

    def on_broken_pipe(self) -> None:
        """Discard all further output, and let the command continue."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())

    def print(self, *things, **style) -> None:
        """Print as usual; a system error names the stream."""
        with _named(self.file):
            super().print(*things, **style)


@contextmanager
def _named(stream: TextIO) -> Iterator[None]:
    """Add the name of a stream to a system error without a file name."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or stream.name
        raise


def run_command(parsed: Namespace) -> int:
    """Run a command with its parsed arguments, and return the exit status."""
    enable_x64()
    # Suppress warnings that the user cannot act on, such as a read-only folder for fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    logging.basicConfig(format="invlift: note: %(message)s", stream=sys.stderr, force=True)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # the terminal may lack characters of names of files
            stream.reconfigure(errors="backslashreplace")
    keep_compiled_programs()
    try:
        check_platform()
        with interrupts_raise():
            status = _command(parsed.command)(parsed, _Console(), _Console(stderr=True))
        with _named(sys.stdout):
            sys.stdout.flush()
    except InputError as error:
        return _refuse(error)
    except OSError as error:
        return _refuse(_from_system(error, parsed.command))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return _refuse(_OUT_OF_MEMORY)
    except KeyboardInterrupt:
        print("invlift: interrupted", file=sys.stderr)
        return BAD_VERDICT
    return status


def _command(name: str) -> Callable[..., int]:
    """Import and return the function of a command."""
    match name:
        case "run":
            from invlift.app.commands.run import execute
        case "check":
            from invlift.app.commands.check import execute
        case "compare":
            from invlift.app.commands.compare import execute
        case "example":
            from invlift.app.commands.example import execute
        case "report":
            from invlift.app.commands.results import report as execute
        case "calibrate":
            from invlift.app.commands.calibrate import execute
        case "loo":
            from invlift.app.commands.results import loo as execute
        case "next-sensor":
            from invlift.app.commands.results import next_sensor as execute
        case "schema":
            from invlift.app.commands.schema import execute
        case "simulate":
            from invlift.app.commands.simulate import execute
        case "serve":
            from invlift.app.commands.serve import execute
    return execute


def _refuse(error: InputError) -> int:
    print(f"invlift: {error}", file=sys.stderr)
    return BAD_INPUT


_OUT_OF_MEMORY = InputError(
    "problem", "one that fits into memory", "more nodes or sensors than do",
    "use a coarser mesh, fewer sensors or a machine with more memory",
)  # fmt: skip
#: Text on the saved results of a command that ended by an error of the system.
_SAVED = {
    "run": "; what chains have saved is kept, --resume goes on from there",
    "calibrate": "; what simulations have saved is kept, --resume goes on from there",
    "compare": "; methods that are done are kept, --resume goes on from there",
}


def _from_system(error: OSError, command: str) -> InputError:
    """Convert an error of the operating system to an InputError."""
    reason = (error.strerror or str(error)).splitlines()[0]
    expected = "a file or directory that can be read and written"
    remedy = f"mend that and try again{_SAVED.get(command, '')}"
    return InputError(f"{error.filename or 'a file'}", expected, reason, remedy)
