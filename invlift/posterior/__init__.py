"""Results of a run: posterior fields, diagnostics, verdict, files and figures.

`Posterior` is imported only when it is first used: it needs pandas, xarray and matplotlib, and a
command that only checks a problem does not.
"""

from typing import TYPE_CHECKING

from invlift.posterior.statistics.parts import Readings
from invlift.posterior.statistics.quantity import Quantity

if TYPE_CHECKING:  # for editors and the site
    from invlift.posterior.posterior import Posterior

__all__ = ["Posterior", "Quantity", "Readings"]


def __getattr__(name: str):
    if name != "Posterior":
        raise AttributeError(f"module 'invlift.posterior' has no attribute {name!r}")
    from invlift.posterior.posterior import Posterior

    return Posterior
