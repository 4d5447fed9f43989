"""Clocks that tests set themselves, in the place of the machine's."""

import threading
from types import SimpleNamespace


def steady_clock(seconds):
    """What stands for the module time: each thread's clock goes on by so much whenever asked."""
    own = threading.local()

    def perf_counter():
        own.now = getattr(own, "now", 0.0) + seconds
        return own.now

    return SimpleNamespace(perf_counter=perf_counter, monotonic=perf_counter)
