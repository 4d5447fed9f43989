"""What a chain is to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from invlift.samplers.kernels.base import Kernel


@dataclass(frozen=True)
class Plan:
    """What a chain is to do.

    Attributes
    ----------
    kernel : Kernel
    num_warmup, num_draws : int
    max_seconds : float or None
        Time after which it ends before that, to within a block: its warm-up after half of it.
    fields : tuple of str
        Recorded quantities that are fields, of which not all draws need to be stored.
    max_field_bytes : float
        Memory for the stored draws of each of these.
    """

    kernel: Kernel
    num_warmup: int
    num_draws: int
    max_seconds: float | None = None
    fields: tuple[str, ...] = ()
    max_field_bytes: float = math.inf

    def is_over(self, seconds: Sequence[float], is_warmup: bool) -> bool:
        """Whether warm-up, or all, has had its time: ``seconds`` of warm-up and sampling."""
        if self.max_seconds is None:
            return False
        return seconds[0] > 0.5 * self.max_seconds if is_warmup else sum(seconds) > self.max_seconds
