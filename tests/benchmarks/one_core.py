"""Runs of which the processor time of sampling is known."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import invlift


def sampled(problem, kernel, **options):
    """A run, one chain after the other, and the processor seconds of its sampling.

    Warm-up and compilation are not counted.  Chains measure by the clock: what share of it the
    processor had is that of the whole run.
    """
    began = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = invlift.sample(problem, kernel, executor=one_at_a_time, **options)
    share = (time.process_time() - began[0]) / (time.perf_counter() - began[1])
    return run, share * sum(chain.sampling_seconds for chain in run.chains)
