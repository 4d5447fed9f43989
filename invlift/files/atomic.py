"""Files that are either complete or absent, in folders that one run at a time writes to.

A run may be interrupted while it writes. Its results and saved chains are therefore written under
a temporary name beside their destination and renamed at the end; a rename within one folder is
atomic.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from invlift.errors import InputError

#: The file whose lock a run holds on a folder.
LOCK = ".lock"


@contextmanager
def replace_on_success(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; rename it to `path` if the block succeeds.

    Parameters
    ----------
    path : path-like
        Destination. Its folder is made if it does not exist; an older file there survives until
        the new one is complete.

    Yields
    ------
    pathlib.Path
        Where to write. If the block raises, this file is removed and the exception propagates; one
        of the system's that names no file (a full disk) or this one gets the name of `path`.

    Raises
    ------
    InputError
        If the folder cannot be made or the destination is itself a folder.
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
        with suppress(OSError):  # of a folder that is not to be looked into
            temporary.unlink()


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Keep other runs from writing to a folder, where its file system can.

    Parameters
    ----------
    directory : pathlib.Path
        Made if it does not exist.

    Raises
    ------
    InputError
        If another run holds it, or it cannot be made or written to.
    """
    lock = FileLock(directory / LOCK, is_singleton=True)  # once more in the same thread
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
