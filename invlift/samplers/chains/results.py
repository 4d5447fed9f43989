"""The chains of a run, and how they are cut to one length."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from invlift.chains import Chain
from invlift.samplers.kernels.base import Standards


@dataclass(frozen=True, repr=False)
class Run:
    """Chains of one run.

    Attributes
    ----------
    chains : list of Chain
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

    chains: list[Chain]
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


def cut_to_one_length(chains: list[Chain]) -> list[Chain]:
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


def _cut(chain: Chain, num_draws: int, every: dict[str, int]) -> Chain:
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
