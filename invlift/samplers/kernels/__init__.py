"""Kernels, one module for each family, and their names in a problem file."""

from invlift.samplers.kernels.base import Kernel
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.samplers.kernels.chmc_nuts import ConstrainedNUTS
from invlift.samplers.kernels.constrained_riemannian import ConstrainedRiemannianHMC
from invlift.samplers.kernels.euclidean import HMC, NUTS
from invlift.samplers.kernels.laplace import GeneralisedCrankNicolson, Laplace, LaplaceMALA
from invlift.samplers.kernels.reference.chmc_fixed import (
    ConstrainedLangevin,
    ConstrainedRandomWalk,
    FixedConstrainedHMC,
)
from invlift.samplers.kernels.reference.elliptical_slice import EllipticalSlice
from invlift.samplers.kernels.reference.langevin import MALA
from invlift.samplers.kernels.reference.microcanonical import MAMS
from invlift.samplers.kernels.reference.position_dependent import (
    PositionDependentMALA,
    PositionDependentRandomWalk,
    SimplifiedManifoldMALA,
)
from invlift.samplers.kernels.reference.random_walk import PreconditionedCrankNicolson, RandomWalk
from invlift.samplers.kernels.reference.riemannian import RiemannianHMC

#: Methods to choose from: docs/which_sampler.md says when.
METHODS: dict[str, type[Kernel]] = {
    "chmc": ConstrainedHMC,
    "chmc-nuts": ConstrainedNUTS,
    "constrained-rmhmc": ConstrainedRiemannianHMC,
    "gpcn": GeneralisedCrankNicolson,
    "hmc": HMC,
    "laplace": Laplace,
    "laplace-mala": LaplaceMALA,
    "nuts": NUTS,
}
#: Methods for comparison.
REFERENCE: dict[str, type[Kernel]] = {
    "chmc-fixed": FixedConstrainedHMC,
    "constrained-langevin": ConstrainedLangevin,
    "constrained-rwm": ConstrainedRandomWalk,
    "elliptical-slice": EllipticalSlice,
    "mala": MALA,
    "mams": MAMS,
    "pcn": PreconditionedCrankNicolson,
    "pd-mala": PositionDependentMALA,
    "pd-rwm": PositionDependentRandomWalk,
    "rmhmc": RiemannianHMC,
    "rwm": RandomWalk,
    "smmala": SimplifiedManifoldMALA,
}
#: All values of [sampler] method; the fields of a kernel are the keys of [sampler.options].
KERNELS: dict[str, type[Kernel]] = METHODS | REFERENCE
