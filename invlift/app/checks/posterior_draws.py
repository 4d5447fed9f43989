"""Some draws of a run, of all quantities at the same positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from invlift.samplers.chains.results import Run


def some_draws(run: Run, names: Sequence[str], num: int) -> dict[str, np.ndarray]:
    """At most ``num`` draws of all chains, evenly spread, by name: (K, size) each, flattened."""
    every = {name: run.chains[0].every.get(name, 1) for name in names}
    stride = math.lcm(*every.values())  # of draws that all of them were kept of
    kept = {
        name: np.concatenate([chain.draws[name][:: stride // each] for chain in run.chains])
        for name, each in every.items()
    }
    size = min(map(len, kept.values()))
    chosen = np.linspace(0, size - 1, min(size, num)).astype(int)
    return {name: values[chosen].reshape(chosen.size, -1) for name, values in kept.items()}
