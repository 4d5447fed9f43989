"""What a person looks at: posterior fields, diagnostics, verdict, files and figures.

`Posterior` is imported when it is first used: it takes pandas, xarray and matplotlib, for which a
command that checks a problem has no use.
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
