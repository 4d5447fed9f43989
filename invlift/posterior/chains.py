"""The chains a posterior is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from invlift.errors import InputError
from invlift.moments import Moments
from invlift.posterior.blocks import check_draws


class Chain(Protocol):
    """One chain of a run.

    It may have more: `stats` and `warmup_stats` (name -> (num_draws,) array), `moments` (name ->
    `invlift.moments.Moments`) and the numbers `step_size`, `warmup_seconds`, `sampling_seconds`.

    Attributes
    ----------
    draws : mapping of str to (num_draws, ...) array
    """

    draws: Mapping[str, np.ndarray]


def kept(chains: Sequence[Chain], name: str) -> list[Mapping[str, np.ndarray | Moments]]:
    """What each chain keeps as `stats`, `warmup_stats` or `moments`; empty where it has none."""
    return [getattr(chain, name, None) or {} for chain in chains]


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
    if len(set(num_draws.values())) > 1:
        raise InputError(
            "posterior",
            "equally many draws of every quantity",
            str(num_draws),
            "thin all quantities alike",
        )
    return shapes
