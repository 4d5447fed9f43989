"""By what the statistics of a sampler are judged, where the run does not say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Presumed:
    """Standards presumed of a kernel that is known by its statistics alone."""

    min_acceptance: float | None = None
    failures: str | None = None
    failures_in_words: str = ""
    advice: str = ""
    short_step: float | None = None
    caveat: str = ""


_PRESUMED = (
    _Presumed(
        min_acceptance=0.5,
        failures="num_projection_failures",
        failures_in_words="projections onto the data manifold failed",
        advice="raise warmup for a smaller step size; check for a noise scale far too small",
        short_step=0.03,
    ),
    _Presumed(
        min_acceptance=0.5,
        failures="num_divergences",
        failures_in_words="trajectories diverged",
        advice="raise target_acceptance or warmup, or sample on the lifted manifold (chmc)",
    ),
)


def presumed_standards(names: Iterable[str]) -> Standards:
    """Standards of the kernel that has statistics of these names.

    Parameters
    ----------
    names : iterable of str

    Returns
    -------
    Standards
        Those of constrained HMC if failed projections are counted, of HMC if divergences are;
        otherwise none, by which no statistic is judged.
    """
    names = set(names)
    found = (each for each in _PRESUMED if each.failures in names)
    return next(found, _Presumed())
