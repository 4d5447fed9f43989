"""Atomic writing of files, and locks that give one run at a time a folder.

A run may be interrupted while it writes. Its results and saved chains are therefore written under a
temporary name beside their destination and renamed at the end. A rename within one folder is
atomic, so that a file is either complete or absent.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from invlift.errors import InputError

#: Lock file of a run in its folder.
LOCK = ".lock"


@contextmanager
def replace_on_success(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; rename it to `path` if the block succeeds.

    Parameters
    ----------
    path : path-like
        Destination. Its folder is created if it does not exist. An older file remains until the
        new one is complete.

    Yields
    ------
    pathlib.Path
        The temporary path. If the block raises, this file is removed and the exception propagates.
        A system error that names no file (a full disc) or this file gets the name of `path`.

    Raises
    ------
    InputError
        If the folder cannot be created or the destination is a folder.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            str(path.parent), "a folder to write to", str(error), "choose another output folder"
        ) from error
    if path.is_dir():
        raise InputError(str(path), "a file name", "a folder", "remove it or choose another name")
    temporary = path.with_name(f".{path.stem}-{uuid.uuid4().hex[:8]}.tmp{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.filename is None or str(error.filename) == str(temporary):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # the folder may not be accessible
            temporary.unlink()


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write a file, complete or not at all: see :func:`replace_on_success`."""
    with replace_on_success(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Prevent other runs from writing to a folder, if its file system supports locks.

    Parameters
    ----------
    directory : pathlib.Path
        The folder; it is created if it does not exist.

    Raises
    ------
    InputError
        If another run has locked it, or it cannot be created or written to.
    """
    lock = FileLock(directory / LOCK, is_singleton=True)  # the same thread may lock again
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"{directory}",
            "a directory that no other run is at work in",
            "another run at work in it",
            f"wait for it to end, or choose another directory (if none is, delete {LOCK} there)",
        ) from None
    except NotImplementedError:  # some file systems of clusters cannot lock
        pass
    except OSError as reason:
        raise InputError(
            f"{directory}",
            "a directory that can be written to",
            f"an error ({reason.strerror or reason})",
            "choose another output directory",
        ) from None
    try:
        yield
    finally:
        lock.release()
