"""What a chain leaves behind: one record, while it is in memory and when it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from invlift.moments import BatchMeans, Moments


@dataclass(frozen=True, eq=False)
class Chain:
    """Draws and statistics of one chain.

    Attributes
    ----------
    draws : mapping of str to array (num_draws, ...)
        Of a field named in ``every`` draws 0, every, 2 every, ... alone.
    stats : mapping of str to array (num_draws,)
        The kernel's statistics, and what it was tuned to (``step_size``).
    moments : mapping of str to Moments
        Of quantities too large to keep; files have none.
    warmup_stats : mapping of str to array (num_warmup,)
        As ``stats``.
    step_size : float or None
        Used for sampling; NaN if warm-up was not finished, or the kernel has none.
    warmup_seconds, sampling_seconds : float or None
        Wall-clock time, without what :func:`compile_chain` has compiled beforehand.
    every : mapping of str to int
        By name of the field.
    batches : mapping of str to BatchMeans
        Of all draws of a field; files have none.
    """

    draws: Mapping[str, np.ndarray]
    stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    moments: Mapping[str, Moments] = field(default_factory=dict)
    warmup_stats: Mapping[str, np.ndarray] = field(default_factory=dict)
    step_size: float | None = None
    warmup_seconds: float | None = None
    sampling_seconds: float | None = None
    every: Mapping[str, int] = field(default_factory=dict)
    batches: Mapping[str, BatchMeans] = field(default_factory=dict)

    @property
    def num_draws(self) -> int:
        """Draws after warm-up."""
        return next(iter(self.stats.values())).shape[0] if self.stats else 0
