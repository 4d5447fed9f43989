"""The result of a run: its chains, cut to equal length."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
        Whether the run was stopped early; the draws until then are in ``chains``.
    standards : Standards
        Standards by which the kernel's statistics are judged.
    num_draws_requested : int or None
        Requested number of draws of each chain; None if the run decides it, or if not known.
    num_chains_requested : int or None
        Number of chains that the run began with; None if not known.
    problem : str
        Digest of the problem that was sampled; empty if not known.
    """

    chains: list[Chain]
    compile_seconds: float
    is_interrupted: bool
    standards: Standards
    num_draws_requested: int | None = None
    num_chains_requested: int | None = None
    problem: str = ""

    def __repr__(self) -> str:
        """Return the numbers of chains and draws in one line, without the arrays."""
        num, num_draws = len(self.chains), self.chains[0].num_draws if self.chains else 0
        how = ", interrupted" if self.is_interrupted else ""
        return f"<Run: {num} chain{'s' * (num != 1)} of {num_draws} draws{how}>"

    def some_draws(self, names: Sequence[str], num: int) -> dict[str, np.ndarray]:
        """Return at most ``num`` evenly spread draws of all chains, (K, size) each, by name.

        The draws have the same numbers for all quantities.
        """
        every = {name: self.chains[0].every.get(name, 1) for name in names}
        stride = math.lcm(*every.values())  # draws that are stored for all quantities
        kept = {
            name: np.concatenate([chain.draws[name][:: stride // each] for chain in self.chains])
            for name, each in every.items()
        }
        size = min(map(len, kept.values()))
        chosen = np.linspace(0, size - 1, min(size, num)).astype(int)
        return {name: values[chosen].reshape(chosen.size, -1) for name, values in kept.items()}


def cut_to_one_length(chains: list[Chain]) -> list[Chain]:
    """Return chains cut to an equal number of draws, with the largest total number of draws.

    After an interruption some chains may be very short: two chains of 1,000 draws are better than
    four of 10.  At least two chains are kept if two have draws.
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
    """Return the first ``num_draws`` draws; fields are thinned to ``every``, moments unchanged."""

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
