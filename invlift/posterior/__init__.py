"""What a person looks at: posterior fields, diagnostics, verdict, files and figures."""

from invlift.posterior.parts import Readings
from invlift.posterior.posterior import Posterior
from invlift.posterior.quantity import Quantity

__all__ = ["Posterior", "Quantity", "Readings"]
