"""Reading the files a person names, with every reason why one cannot be read told in one way."""

from __future__ import annotations

import stat
from pathlib import Path

from invlift.errors import InputError


def read_input(path: Path, name: str, what: str, *, remedy: str, max_bytes: int) -> bytes:
    """Content of a file.

    Error messages call it `name`; `what` it should be is "a sensor table", for example; `remedy` is
    what to do if there is no such file. Nobody's file of this kind is larger than `max_bytes`.

    An InputError if there is no such file, it is a directory, a device or a pipe, larger than that,
    or the system does not let it be read.
    """
    try:
        mode, size = path.stat().st_mode, path.stat().st_size
        content = b""
        if stat.S_ISREG(mode) and size <= max_bytes:
            with path.open("rb") as file:
                content = file.read()  # of a given length it would take that much memory first
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
    """The same as text in UTF-8; a byte-order mark in front, as spreadsheets write it, is left out.

    An InputError also if the content is not text in UTF-8.
    """
    content = read_input(path, name, what, remedy=remedy, max_bytes=max_bytes)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        found = "bytes that are not text in UTF-8"
        raise InputError(name, what, found, "save the file as text in UTF-8") from None
