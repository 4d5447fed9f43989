"""The chains a posterior is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from invlift.errors import InputError
from invlift.posterior.blocks import check_draws


class Chain(Protocol):
    """One chain of a run.

    It may have more: `stats` and `warmup_stats` (name -> (num_draws,) array), `moments` (name ->
    `invlift.moments.Moments`) and the numbers `step_size`, `warmup_seconds`, `sampling_seconds`. Of
    a quantity named in `every` (name -> number) it stores draws 0, every, 2 every, ... alone, and
    has the moments and the `batches` (name -> `invlift.moments.BatchMeans`) of all of them.

    Attributes
    ----------
    draws : mapping of str to (num_draws, ...) array
    """

    draws: Mapping[str, np.ndarray]


def kept(chains: Sequence[Chain], name: str) -> list[Mapping[str, Any]]:
    """What each chain keeps under a name of its own, `stats` for example; empty without it."""
    return [getattr(chain, name, None) or {} for chain in chains]


def every_of(chains: Sequence[Chain], name: str) -> int:
    """Every how many-th draw of a quantity is stored."""
    return max(every.get(name, 1) for every in kept(chains, "every"))


def check_chains(chains: Sequence[Chain]) -> dict[str, tuple[int, ...]]:
    """Check that the draws of all chains can be read as one sample.

    Parameters
    ----------
    chains : sequence of Chain

    Returns
    -------
    dict of str to tuple
        Shape of one draw of each quantity.

    Raises
    ------
    InputError
        If there is no chain or no draw, or chains differ in what they hold.
    """
    if not chains:
        raise InputError(
            "posterior", "at least one chain", "none", "run the sampler before asking for it"
        )
    known = [set(chain.draws) for chain in chains]
    if any(names != known[0] for names in known):
        raise InputError(
            "posterior",
            "draws of the same quantities in every chain",
            "; ".join(str(sorted(names)) for names in known),
            "combine chains of one problem only",
        )
    if not known[0]:
        raise InputError("posterior", "draws in every chain", "none", "run the sampler for longer")
    num_draws, shapes = {}, {}
    for name in chains[0].draws:
        draws = [chain.draws[name] for chain in chains]
        _, num_draws[name], shapes[name] = check_draws(draws, name)
    whole = {num for name, num in num_draws.items() if every_of(chains, name) == 1}
    if len(whole) > 1:
        raise InputError(
            "posterior",
            "equally many draws of every quantity",
            str(num_draws),
            "thin all quantities alike",
        )
    return shapes
