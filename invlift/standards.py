"""Limits for the statistics of a sampler and for the fit of a model to data.

Checks before a run and the verdict after it use the same limits for the fit.
"""

from typing import NamedTuple

#: Smallest p-value of all readings together. For a true model the p-value is not near 0.
MIN_MISFIT_P_VALUE = 0.01
#: Beyond these limits the assumed noise cannot explain the readings.
DOUBTFUL_RESIDUAL, DOUBTFUL_P_VALUE = 6.0, 1e-6
#: Residuals of a model that explains nothing are as large as the spread of the readings. Smallest
#: ratio to the spread, and fewest readings, for which this is not chance.
MAX_UNEXPLAINED, MIN_READINGS = 0.9, 4
#: Probability of the tail of a prior in which a value contradicts the prior.
PRIOR_TAIL = 1e-3


class Standards(NamedTuple):
    """Limits for the statistics of a kernel.

    Attributes
    ----------
    min_acceptance : float or None
        Mean acceptance rate below which a warning is given; None if the rate has no meaning.
    failures : str or None
        Name of the statistic that counts failures in an iteration.
    failures_in_words, failures_in_brief : str
        Text for the failures: "projections onto the data manifold failed", "projections failed".
    advice : str
        Advice if there are many failures.
    short_step : float or None
        Step size below which a target has strong curvature; None if there is no usual step size.
    caveat : str
        Warning that applies to all draws of the kernel.
    """

    min_acceptance: float | None = None
    failures: str | None = None
    failures_in_words: str = ""
    failures_in_brief: str = ""
    advice: str = ""
    short_step: float | None = None
    caveat: str = ""


#: Standards for draws of an unknown method.
NO_STANDARDS = Standards()
