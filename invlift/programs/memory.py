"""Size of the machine's memory, and return of freed memory to the system."""

from __future__ import annotations

import ctypes
import math
import os
from contextlib import suppress


def memory_size() -> float:
    """Return the machine's memory in bytes; infinity if the system does not report it."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def give_back_memory() -> None:
    """Return freed memory to the system.

    The C library of Linux keeps memory that was freed in many small parts: hundreds of megabytes
    after a compilation or with the draws of a chain.  On other systems this does nothing.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
