"""Selection of draws of a run, with the same draw numbers for all quantities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from invlift.samplers.chains.results import Run


def some_draws(run: Run, names: Sequence[str], num: int) -> dict[str, np.ndarray]:
    """Return at most ``num`` evenly spread draws of all chains, (K, size) each, by name."""
    every = {name: run.chains[0].every.get(name, 1) for name in names}
    stride = math.lcm(*every.values())  # draws that are stored for all quantities
    kept = {
        name: np.concatenate([chain.draws[name][:: stride // each] for chain in run.chains])
        for name, each in every.items()
    }
    size = min(map(len, kept.values()))
    chosen = np.linspace(0, size - 1, min(size, num)).astype(int)
    return {name: values[chosen].reshape(chosen.size, -1) for name, values in kept.items()}
