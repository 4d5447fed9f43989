"""What chains leave behind: draws, statistics, moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invlift.moments import Moments
from invlift.samplers.kernels.base import Standards


@dataclass(frozen=True)
class ChainResult:
    """Draws and statistics of one chain.

    Attributes
    ----------
    draws : dict of arrays (num_draws, ...)
    stats : dict of arrays (num_draws,)
        The kernel's statistics, and what it was tuned to (``step_size``).
    moments : dict of Moments
        Of quantities too large to keep.
    warmup_stats : dict of arrays (num_warmup,)
        As ``stats``.
    step_size : float
        Used for sampling; NaN if warm-up was not finished, or the kernel has none.
    warmup_seconds, sampling_seconds : float
        Wall-clock time, without what :func:`compile_chain` has compiled beforehand.
    """

    draws: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    moments: dict[str, Moments]
    warmup_stats: dict[str, np.ndarray]
    step_size: float
    warmup_seconds: float
    sampling_seconds: float

    @property
    def num_draws(self) -> int:
        """Draws after warm-up."""
        return next(iter(self.stats.values())).shape[0] if self.stats else 0


@dataclass(frozen=True)
class Run:
    """Chains of one run.

    Attributes
    ----------
    chains : list of ChainResult
        All with the same number of draws.
    compile_seconds : float
    is_interrupted : bool
        Stopped before the plan was done; the draws made until then are here.
    standards : Standards
        By what the kernel's statistics are judged.
    """

    chains: list[ChainResult]
    compile_seconds: float
    is_interrupted: bool
    standards: Standards


def cut_to_one_length(chains: list[ChainResult]) -> list[ChainResult]:
    """Chains with the same number of draws, at least one, and of these as many as there can be.

    After an interruption some may have hardly begun: two chains of 1,000 draws are worth more than
    four of 10.  Two at least are kept if two have draws.
    """
    lengths = sorted((chain.num_draws for chain in chains if chain.num_draws), reverse=True)
    if not lengths:
        return []
    counts = range(min(2, len(lengths)), len(lengths) + 1)
    length = lengths[max(counts, key=lambda count: count * lengths[count - 1]) - 1]
    return [_truncated(chain, length) for chain in chains if chain.num_draws >= length]


def _truncated(chain: ChainResult, num_draws: int) -> ChainResult:
    """The first ``num_draws`` draws; moments stay those of all draws."""
    return ChainResult(
        {name: values[:num_draws] for name, values in chain.draws.items()},
        {name: values[:num_draws] for name, values in chain.stats.items()},
        chain.moments,
        chain.warmup_stats,
        chain.step_size,
        chain.warmup_seconds,
        chain.sampling_seconds,
    )
