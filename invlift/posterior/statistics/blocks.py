"""Iterate over the coefficients of many chains without copying all draws.

Draws of a field are the largest arrays of a run (chains x draws x coefficients). Statistics of
single coefficients are computed in blocks that fit the cache of a processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from invlift.errors import InputError

BLOCK_SIZE = 2**17  # numbers per block: 1 MiB in float64, about 30 MiB with all copies


def check_draws(draws: Sequence[np.ndarray], name: str) -> tuple[int, int, tuple[int, ...]]:
    """Return the number of chains and of draws, and the shape of a draw.

    Raises an InputError if the shapes of the chains differ, or there are no chains or draws.
    """
    shapes = [np.shape(chain) for chain in draws]
    if not shapes:
        raise InputError(f"draws of {name}", "at least one chain", "none", "run the sampler first")
    if any(len(shape) == 0 for shape in shapes) or len(set(shapes)) > 1:
        expected, found = "one shape (num_draws, ...) in every chain", ", ".join(map(str, shapes))
        raise InputError(f"draws of {name}", expected, found, "cut all chains to one length")
    num_draws, *shape = shapes[0]
    if num_draws == 0:
        expected, found = "at least one draw per chain", "none (the run ended during warm-up)"
        remedy = "run again and let it finish, or ask for a shorter warm-up"
        raise InputError(f"draws of {name}", expected, found, remedy)
    return len(shapes), num_draws, tuple(shape)


def coefficient_blocks(
    draws: Sequence[np.ndarray], name: str = "field"
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield blocks of coefficients and their draws, (block, chains, num_draws) in float64.

    The draws of each chain are (num_draws, N). The yielded arrays are contiguous along the draws.
    """
    num_chains, num_draws, shape = check_draws(draws, name)
    step = max(1, BLOCK_SIZE // (num_chains * num_draws))
    for start in range(0, shape[0], step):
        block = slice(start, min(start + step, shape[0]))
        out = np.empty((block.stop - block.start, num_chains, num_draws))
        for chain, chain_draws in enumerate(draws):
            out[:, chain, :] = np.asarray(chain_draws[:, block]).T
        yield block, out


def pooled(draws: Sequence[np.ndarray], name: str = "field") -> Iterator[np.ndarray]:
    """Yield the draws of each coefficient in turn, of all chains together, (S,) each."""
    for _, values in coefficient_blocks(draws, name):
        yield from values.reshape(len(values), -1)
