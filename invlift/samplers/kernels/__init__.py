"""Kernels by name.  A new one is a module and a line here."""

from invlift.samplers.kernels.base import Kernel
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.samplers.kernels.chmc_fixed import (
    ConstrainedLangevin,
    ConstrainedRandomWalk,
    FixedConstrainedHMC,
)
from invlift.samplers.kernels.chmc_nuts import ConstrainedNUTS
from invlift.samplers.kernels.elliptical_slice import EllipticalSlice
from invlift.samplers.kernels.euclidean import HMC, NUTS

KERNELS: dict[str, type[Kernel]] = {
    "chmc": ConstrainedHMC,
    "chmc-fixed": FixedConstrainedHMC,
    "chmc-nuts": ConstrainedNUTS,
    "constrained-langevin": ConstrainedLangevin,
    "constrained-rwm": ConstrainedRandomWalk,
    "elliptical-slice": EllipticalSlice,
    "hmc": HMC,
    "nuts": NUTS,
}
