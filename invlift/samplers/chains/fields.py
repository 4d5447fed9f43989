"""Records of a field in a chain: some of its draws, and running sums of all draws.

The draws of a field are the largest arrays of a run.  All draws enter the moments and the batch
means, which give the effective sample size.  Of the draws, every 2^k-th is stored, with the
smallest k that the memory limit allows.  The records depend only on the draws, and not on the sizes
of the blocks in which they arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from invlift.moments import BatchMeans, Moments

#: Number of draws in the shortest batch; number of batches at which neighbours are joined.
SHORTEST, MOST = 25, 64


@dataclass
class FieldRecord:
    """Stored draws, moments and batch sums of a field of N values.

    Attributes
    ----------
    max_bytes : float
        Memory for stored draws; at least two are stored.
    num_draws : int
        Draws so far.
    every : int
        Draws 0, every, 2 every, ... are stored.
    rows : list of (N,) arrays
        The stored draws.
    moments : Moments or None
    size : int
        Draws in a batch.
    sums : list of (N,) arrays
        Sums over complete batches.
    pending : (N,) array or None
        Sum over the ``num_pending`` short batches of the current incomplete batch.
    num_pending : int
    partial : (N,) array or None
        Sum over the draws of the current incomplete short batch.
    """

    max_bytes: float
    num_draws: int = 0
    every: int = 1
    rows: list = field(default_factory=list)
    moments: Moments | None = None
    size: int = SHORTEST
    sums: list = field(default_factory=list)
    pending: np.ndarray | None = None
    num_pending: int = 0
    partial: np.ndarray | None = None

    def add(self, values: np.ndarray) -> FieldIncrement:
        """Add draws, (num, N), and return the increment of the saved record."""
        moments = Moments.of(values)
        self.moments = moments if self.moments is None else self.moments.merge(moments)
        numbers = self.num_draws + np.arange(len(values))
        self.store(numbers, values, self.every)
        batches = []
        for value in values:
            self.partial = value.copy() if self.partial is None else self.partial + value
            self.num_draws += 1
            if self.num_draws % SHORTEST == 0:
                batches.append(self.partial)
                self.partial = None
        for batch in batches:
            self.add_batch(batch)
        is_stored = numbers % self.every == 0
        return FieldIncrement(numbers[is_stored], values[is_stored], batches)

    def store(self, numbers: np.ndarray, rows: np.ndarray, every: int) -> None:
        """Store every ``self.every``-th draw, given their numbers, (num,), and rows, (num, N)."""
        if every > self.every:
            self.rows, self.every = self.rows[:: every // self.every], every
        self.rows += [row.copy() for row in rows[numbers % self.every == 0]]
        while len(self.rows) > 2 and len(self.rows) * self.rows[0].nbytes > self.max_bytes:
            self.rows, self.every = self.rows[::2], 2 * self.every

    def add_batch(self, short: np.ndarray) -> None:
        """Add the sum over a short batch."""
        self.pending = short if self.pending is None else self.pending + short
        self.num_pending += 1
        if self.num_pending * SHORTEST < self.size:
            return
        self.sums.append(self.pending)
        self.pending, self.num_pending = None, 0
        if len(self.sums) == MOST:
            pairs = zip(self.sums[::2], self.sums[1::2], strict=True)
            self.sums = [one + other for one, other in pairs]
            self.size *= 2

    def restore_batches(self, size: int, sums: list, pending: np.ndarray | None) -> None:
        """Restore the batches of a saved record into this record without batches."""
        self.size, self.sums, self.pending = size, sums, pending
        self.num_pending = self.num_draws % size // SHORTEST

    @property
    def batch_means(self) -> BatchMeans | None:
        """Means over the complete batches, or None if there are none."""
        return BatchMeans(self.size, np.stack(self.sums) / self.size) if self.sums else None


class FieldIncrement(NamedTuple):
    """Increment of the saved record of a field, from some draws.

    Attributes
    ----------
    numbers : (num,) array of int
        Numbers of the stored draws.
    rows : (num, N)
        The stored draws.
    batches : list of (N,) arrays
        Sums over the short batches that these draws complete.
    """

    numbers: np.ndarray
    rows: np.ndarray
    batches: list[np.ndarray]
