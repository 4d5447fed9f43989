"""Memory: how much there is, and what was freed given back to the system."""

from __future__ import annotations

import ctypes
import math
import os
from contextlib import suppress


def memory_size() -> float:
    """Bytes of memory that this machine has; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def give_back_memory() -> None:
    """Return to the system what has been freed in many small parts.

    The C library of Linux keeps it for later use, which after a compilation or with the draws of a
    chain is hundreds of megabytes.  Elsewhere it does nothing.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
