"""Kernels, one module a family, and the names they have in a problem file."""

from invlift.samplers.kernels.base import Kernel
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.samplers.kernels.chmc_fixed import (
    ConstrainedLangevin,
    ConstrainedRandomWalk,
    FixedConstrainedHMC,
)
from invlift.samplers.kernels.chmc_nuts import ConstrainedNUTS
from invlift.samplers.kernels.constrained_riemannian import ConstrainedRiemannianHMC
from invlift.samplers.kernels.elliptical_slice import EllipticalSlice
from invlift.samplers.kernels.euclidean import HMC, NUTS
from invlift.samplers.kernels.langevin import MALA
from invlift.samplers.kernels.laplace import GeneralisedCrankNicolson, Laplace, LaplaceMALA
from invlift.samplers.kernels.microcanonical import MAMS
from invlift.samplers.kernels.position_dependent import (
    PositionDependentMALA,
    PositionDependentRandomWalk,
    SimplifiedManifoldMALA,
)
from invlift.samplers.kernels.random_walk import PreconditionedCrankNicolson, RandomWalk
from invlift.samplers.kernels.riemannian import RiemannianHMC

#: What [sampler] method can be; the fields of a kernel are the keys of [sampler.options].
KERNELS: dict[str, type[Kernel]] = {
    "chmc": ConstrainedHMC,
    "chmc-fixed": FixedConstrainedHMC,
    "chmc-nuts": ConstrainedNUTS,
    "constrained-langevin": ConstrainedLangevin,
    "constrained-rmhmc": ConstrainedRiemannianHMC,
    "constrained-rwm": ConstrainedRandomWalk,
    "elliptical-slice": EllipticalSlice,
    "gpcn": GeneralisedCrankNicolson,
    "hmc": HMC,
    "laplace": Laplace,
    "laplace-mala": LaplaceMALA,
    "mala": MALA,
    "mams": MAMS,
    "nuts": NUTS,
    "pcn": PreconditionedCrankNicolson,
    "pd-mala": PositionDependentMALA,
    "pd-rwm": PositionDependentRandomWalk,
    "rmhmc": RiemannianHMC,
    "rwm": RandomWalk,
    "smmala": SimplifiedManifoldMALA,
}
