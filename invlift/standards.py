"""By what the statistics of a sampler are judged: said by kernels, used by verdicts."""

from typing import NamedTuple


class Standards(NamedTuple):
    """By what a kernel's statistics are judged.

    Attributes
    ----------
    min_acceptance : float or None
        Mean acceptance rate below which something is wrong; None if the rate says nothing.
    failures : str or None
        The statistic that counts what went wrong in an iteration.
    failures_in_words, failures_in_brief : str
        What that is: "projections onto the data manifold failed", "projections failed".
    advice : str
        What to do about many failures.
    short_step : float or None
        Step size below which a target bends sharply; None if there is no usual size.
    caveat : str
        What holds of its draws however well it did.
    """

    min_acceptance: float | None = None
    failures: str | None = None
    failures_in_words: str = ""
    failures_in_brief: str = ""
    advice: str = ""
    short_step: float | None = None
    caveat: str = ""


#: Of draws of which nobody knows how they were made.
NO_STANDARDS = Standards()
