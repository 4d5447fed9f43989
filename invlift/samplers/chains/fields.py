"""What a chain keeps of a field: some of its draws, and running sums of all of them.

The draws of a field are the largest arrays of a run.  Every draw counts in the moments and in the
means of batches, from which its effective sample size follows; of the draws themselves every
2^k-th is kept, with k as small as the memory for them allows.  All of it depends on the draws
alone, and not on how they were handed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from invlift.moments import BatchMeans, Moments

#: Draws in the shortest batch, and the number of batches at which neighbours are joined.
SHORTEST, MOST = 25, 64


@dataclass
class FieldRecord:
    """Draws of a field of N values.

    Attributes
    ----------
    max_bytes : float
        Memory for stored draws; at least two are stored.
    num_draws : int
        Seen so far.
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
        Sum over the ``num_pending`` short batches that do not fill one yet.
    num_pending : int
    partial : (N,) array or None
        Sum over the draws that do not fill a short batch yet.
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
        """Add draws, (num, N)."""
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
        """Store those of the draws with these numbers, rows (num, N), that have their turn."""
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
        """Take up the batches of a saved record, of which this one has none so far."""
        self.size, self.sums, self.pending = size, sums, pending
        self.num_pending = self.num_draws % size // SHORTEST

    @property
    def batch_means(self) -> BatchMeans | None:
        """Means over the complete batches, if there are any."""
        return BatchMeans(self.size, np.stack(self.sums) / self.size) if self.sums else None


class FieldIncrement(NamedTuple):
    """What some draws of a field add to what is stored of it.

    Attributes
    ----------
    numbers : (num,) array of int
        Numbers of the draws that are stored.
    rows : (num, N)
        These draws.
    batches : list of (N,) arrays
        Sums over the short batches that are now full.
    """

    numbers: np.ndarray
    rows: np.ndarray
    batches: list[np.ndarray]
