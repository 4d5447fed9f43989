"""Kernels by name.  A new one is a module and a line here."""

from invlift.samplers.kernels.base import Kernel
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.samplers.kernels.chmc_nuts import ConstrainedNUTS
from invlift.samplers.kernels.elliptical_slice import EllipticalSlice
from invlift.samplers.kernels.euclidean import HMC, NUTS

KERNELS: dict[str, type[Kernel]] = {
    "chmc": ConstrainedHMC,
    "chmc-nuts": ConstrainedNUTS,
    "elliptical-slice": EllipticalSlice,
    "hmc": HMC,
    "nuts": NUTS,
}
