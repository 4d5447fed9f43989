"""By what the statistics of a sampler are judged."""

from __future__ import annotations

from typing import Protocol


class Standards(Protocol):
    """By what a kernel's statistics are judged; a run has those of its kernel.

    Attributes
    ----------
    min_acceptance : float or None
        Mean acceptance rate below which something is wrong; None if the rate says nothing.
    failures : str or None
        The statistic that counts what went wrong in an iteration.
    failures_in_words : str
        What that is: "projections onto the data manifold failed".
    advice : str
        What to do about many failures.
    short_step : float or None
        Step size below which a posterior bends sharply; None if there is no usual size.
    caveat : str
        What holds of its draws however well it did.
    """

    min_acceptance: float | None
    failures: str | None
    failures_in_words: str
    advice: str
    short_step: float | None
    caveat: str
