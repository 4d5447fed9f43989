"""By what is judged: statistics of a sampler, as its kernel says, and the fit of a model to data.

Checks before a run and the verdict after it judge the fit alike.
"""

from typing import NamedTuple

#: Of all readings together. Under a true model the p-value keeps away from 0.
MIN_MISFIT_P_VALUE = 0.01
#: Beyond these no noise of the kind that is assumed explains the readings.
DOUBTFUL_RESIDUAL, DOUBTFUL_P_VALUE = 6.0, 1e-6
#: Residuals of a model that explains nothing are as large as the readings' own spread: the least
#: part of it, and the fewest readings, of which that does not happen by chance.
MAX_UNEXPLAINED, MIN_READINGS = 0.9, 4
#: Tail of a prior in which a value contradicts it.
PRIOR_TAIL = 1e-3


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


#: For draws of an unknown method.
NO_STANDARDS = Standards()
