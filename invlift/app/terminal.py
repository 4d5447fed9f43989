"""The streams and signals of the process, as a shell and a person may use them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

#: What the standard streams are called in messages.
STREAMS = ("standard output", "standard error")


class Output:
    """A standard stream that takes any text, also when nobody reads on (as with ``| head -1``)."""

    def __init__(self, stream: TextIO) -> None:
        if hasattr(stream, "reconfigure"):  # names of files may hold what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
        self._stream = stream
        self._is_broken = False

    def write(self, text: str) -> int:
        """Write text, unless the reader has gone.

        Raises
        ------
        OSError
            If the stream cannot take it, as on a full device; its ``filename`` is the stream's.
        """
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Have everything written."""
        self._try(self._stream.flush)

    def _try(self, action) -> None:
        if self._is_broken:
            return
        try:
            action()
        except BrokenPipeError:
            self._is_broken = True
        except OSError as error:
            self._is_broken = True
            error.filename = STREAMS[getattr(self._stream, "name", "") == "<stderr>"]
            raise

    def close_if_broken(self) -> None:
        """Let Python's last flush of a stream without a reader go nowhere."""
        if self._is_broken:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """Ctrl-C, and the signal with which batch systems end a job, raise KeyboardInterrupt here."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.getsignal(number)
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
