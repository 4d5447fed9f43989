"""[prior] kind = "matern" of a problem file."""

from __future__ import annotations

import math
from typing import Literal

from invlift.fem.mesh.mesh import Mesh
from invlift.fem.priors.base import Mean, PriorTable, Std
from invlift.fem.priors.hierarchical_matern import (
    HierarchicalMaternPrior,
    hierarchical_matern_prior,
)
from invlift.fem.priors.hyperpriors import log_median, mean_square
from invlift.fem.priors.matern import MaternPrior, matern_prior
from invlift.inverse.distributions.tables import DISTRIBUTIONS
from invlift.tables import Table, number, one_of


class MaternTable(PriorTable):
    """[prior] kind = "matern": a Gaussian field with Matern covariance."""

    range: number(1e-50, 1e50) | one_of(DISTRIBUTIONS, "distribution")
    """The correlation length, in the length unit of the mesh."""
    std: Std | one_of(DISTRIBUTIONS, "distribution")
    """The standard deviation of the log-conductivity: 1 for factors of about e."""
    smoothness: number(above=0.0, high=10.0)
    """The smoothness nu, for example 2.0 in 2-D and 0.5 or 2.5 in 3-D."""
    mean: Mean = 0.0
    """The mean of the log-conductivity."""
    boundary: Literal["neumann", "robin"] = "neumann"
    """The boundary condition: "robin" corrects the variance near the boundary."""

    def typical(self) -> tuple[float, float]:
        """Return the range, or its median, and the root of the mean square of the std.

        Of a std without a mean square the median.
        """
        length, spread = self.range, self.std
        if isinstance(length, Table):
            length = math.exp(log_median(length.build()))
        if isinstance(spread, Table):
            known = spread.build()
            square = mean_square(known)
            spread = math.sqrt(square) if math.isfinite(square) else math.exp(log_median(known))
        return length, spread

    def build(self, mesh: Mesh, where) -> MaternPrior | HierarchicalMaternPrior:
        """Build the prior on a mesh: see :class:`PriorTable`."""
        del where
        values = {"correlation_range": self.range, "std": self.std}
        is_unknown = any(isinstance(value, Table) for value in values.values())
        build = hierarchical_matern_prior if is_unknown else matern_prior
        return build(
            mesh,
            **{
                name: value.build() if isinstance(value, Table) else value
                for name, value in values.items()
            },
            smoothness=self.smoothness,
            mean=self.mean,
            boundary=self.boundary,
        )
