"""The plan of a chain: its kernel, numbers of iterations, and limits of time and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from invlift.samplers.kernels.base import Kernel


@dataclass(frozen=True)
class Plan:
    """Plan of a chain: its kernel, numbers of iterations, and limits of time and memory.

    Attributes
    ----------
    kernel : Kernel
    num_warmup, num_draws : int
    max_seconds : float or None
        Time limit of the chain, to within a block; the limit of its warm-up is half of it.
    fields : tuple of str
        Names of the recorded fields, of which not all draws need to be stored.
    max_field_bytes : float
        Memory for the stored draws of each field.
    """

    kernel: Kernel
    num_warmup: int
    num_draws: int
    max_seconds: float | None = None
    fields: tuple[str, ...] = ()
    max_field_bytes: float = math.inf

    def is_over(self, seconds: Sequence[float], is_warmup: bool) -> bool:
        """Return whether warm-up or chain is over, given ``seconds`` of warm-up and sampling."""
        if self.max_seconds is None:
            return False
        return seconds[0] > 0.5 * self.max_seconds if is_warmup else sum(seconds) > self.max_seconds
