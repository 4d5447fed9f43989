"""Result of a chain: draws and statistics, in memory or read from files."""

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
        Draws by name. For a field in ``every`` only draws 0, k, 2 k, ... with k = every[name].
    stats : mapping of str to array (num_draws,)
        Statistics of the kernel, and its tuned parameters (``step_size``).
    moments : mapping of str to Moments
        Moments of quantities too large to store; not in files.
    warmup_stats : mapping of str to array (num_warmup,)
        Like ``stats``, for the warm-up.
    step_size : float or None
        Step size while sampling; NaN if warm-up was not finished, or the kernel has no step size.
    warmup_seconds, sampling_seconds : float or None
        Wall-clock time, without the compilation by :func:`compile_chain` before.
    every : mapping of str to int
        Thinning of stored draws, by name of the field.
    batches : mapping of str to BatchMeans
        Batch means of all draws of a field; not in files.
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
        """Number of draws after warm-up."""
        return next(iter(self.stats.values())).shape[0] if self.stats else 0
