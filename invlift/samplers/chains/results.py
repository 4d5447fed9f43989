"""What chains leave behind: draws, statistics, moments."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from invlift.moments import BatchMeans, Moments
from invlift.samplers.kernels.base import Standards


@dataclass(frozen=True)
class ChainResult:
    """Draws and statistics of one chain.

    Attributes
    ----------
    draws : dict of arrays (num_draws, ...)
        Of a field named in ``every`` draws 0, every, 2 every, ... alone.
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
    every : dict of int
        By name of the field.
    batches : dict of BatchMeans
        Of all draws of a field.
    """

    draws: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    moments: dict[str, Moments]
    warmup_stats: dict[str, np.ndarray]
    step_size: float
    warmup_seconds: float
    sampling_seconds: float
    every: dict[str, int] = field(default_factory=dict)
    batches: dict[str, BatchMeans] = field(default_factory=dict)

    @property
    def num_draws(self) -> int:
        """Draws after warm-up."""
        return next(iter(self.stats.values())).shape[0] if self.stats else 0


@dataclass(frozen=True, repr=False)
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
    num_draws_requested : int or None
        Draws for each chain that were asked for; None for as many as it takes, or if not known.
    problem : str
        Digest of the problem that was sampled; empty if not known.
    """

    chains: list[ChainResult]
    compile_seconds: float
    is_interrupted: bool
    standards: Standards
    num_draws_requested: int | None = None
    problem: str = ""

    def __repr__(self) -> str:
        """Return how much there is, in a line: arrays would fill pages."""
        num, num_draws = len(self.chains), self.chains[0].num_draws if self.chains else 0
        how = ", interrupted" if self.is_interrupted else ""
        return f"<Run: {num} chain{'s' * (num != 1)} of {num_draws} draws{how}>"


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
    kept = [chain for chain in chains if chain.num_draws >= length]
    every = {name: max(chain.every[name] for chain in kept) for name in kept[0].every}
    return [_cut(chain, length, every) for chain in kept]


def _cut(chain: ChainResult, num_draws: int, every: dict[str, int]) -> ChainResult:
    """The first ``num_draws`` draws, of fields every so-many-th; moments stay those of all."""

    def rows(name: str, values: np.ndarray) -> np.ndarray:
        if name not in every:
            return values[:num_draws]
        return values[: -(-num_draws // chain.every[name]) : every[name] // chain.every[name]]

    return replace(
        chain,
        draws={name: rows(name, values) for name, values in chain.draws.items()},
        stats={name: values[:num_draws] for name, values in chain.stats.items()},
        every=every,
    )
