"""Reading of input files, with uniform errors for files that cannot be read."""

from __future__ import annotations

import stat
from pathlib import Path

from invlift.errors import InputError


def read_input(path: Path, name: str, what: str, *, remedy: str, max_bytes: int) -> bytes:
    """Return the content of a file.

    `name` is the name of the file in errors, `what` its expected kind, for example "a sensor
    table", and `remedy` the advice if the file does not exist. Files larger than `max_bytes` are
    refused.

    Raises an InputError if the file does not exist, is a directory, a device or a pipe, is too
    large, or cannot be read.
    """
    try:
        mode, size = path.stat().st_mode, path.stat().st_size
        content = b""
        if stat.S_ISREG(mode) and size <= max_bytes:
            with path.open("rb") as file:
                content = file.read()  # a given length would allocate that much memory first
    except FileNotFoundError:
        raise InputError(name, what, "no such file", remedy) from None
    except OSError as reason:
        found = f"an error on opening it ({reason.strerror or reason})"
        raise InputError(name, what, found, "check its path and its permissions") from None
    except ValueError as reason:  # a path with a null character in it
        raise InputError(name, what, f"a path that cannot be ({reason})", remedy) from None
    if stat.S_ISDIR(mode):
        raise InputError(name, what, "a directory", "give the path of the file itself")
    if not stat.S_ISREG(mode):
        raise InputError(name, what, "a device or a pipe", "save its content in a file first")
    if max(size, len(content)) > max_bytes:
        limit = f"{max_bytes / 2**20:g} MiB"
        raise InputError(name, f"{what} of at most {limit}", "a larger file", "check which it is")
    return content


def read_text(path: Path, name: str, what: str, *, remedy: str, max_bytes: int = 2**20) -> str:
    """Return the content of a UTF-8 text file: see `read_input`.

    A byte-order mark at the start, as spreadsheets write it, is left out. Raises an InputError also
    if the content is not text in UTF-8.
    """
    content = read_input(path, name, what, remedy=remedy, max_bytes=max_bytes)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        found = "bytes that are not text in UTF-8"
        raise InputError(name, what, found, "save the file as text in UTF-8") from None
