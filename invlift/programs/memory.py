"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back_memory() -> None:
    """Return to the system what has been freed in many small parts.

    The C library of Linux keeps it for later use, which after a compilation or with the draws of a
    chain is hundreds of megabytes.  Elsewhere it does nothing.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
