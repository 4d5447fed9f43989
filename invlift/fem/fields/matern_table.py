"""[prior] kind = "matern" of a problem file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from invlift.fem.fields.base import (
    Between,
    Mean,
    PriorTable,
    Std,
    check_is_said_once,
    mean_and_std_between,
)
from invlift.fem.fields.hierarchical_matern import HierarchicalMaternPrior, some_matern_prior
from invlift.fem.fields.matern import MaternPrior
from invlift.fem.mesh.mesh import Mesh
from invlift.files.tables import Table, number, one_of, problem
from invlift.unknowns.distributions.tables import DISTRIBUTIONS


def built(value: Any) -> Any:
    """A number, or what a table in its place makes, a distribution for example."""
    return value.build() if isinstance(value, Table) else value


class MaternKeys(Table):
    """A Gaussian field with Matern covariance."""

    range: number(1e-50, 1e50) | one_of(DISTRIBUTIONS, "distribution")
    """The correlation length, in the length unit of the mesh."""
    std: Std | one_of(DISTRIBUTIONS, "distribution") = None
    """The standard deviation of the log-conductivity: 1 for factors of about e."""
    smoothness: number(above=0.0, high=10.0)
    """The smoothness nu, for example 2.0 in 2-D and 0.5 or 2.5 in 3-D."""
    mean: Mean | Annotated[str, Field(min_length=1)] = 0.0
    """The mean of the log-conductivity: a number, the name of a point field of the mesh file, or an
    expression in x, y and z."""
    median: number(1e-130, 1e130) = None
    """The median of the conductivity, in its unit, in place of the mean of its logarithm."""
    between: Between = None
    """In place of std and mean: the conductivities that 5 % and 95 % of the values are below, in
    its unit, for example between = [1e-5, 1e-3]."""
    boundary: Literal["neumann", "robin"] = "neumann"
    """The boundary condition: "robin" corrects the variance near the boundary."""

    @model_validator(mode="after")
    def _has_mean_or_median(self) -> MaternTable:
        check_is_said_once(self)
        if self.between is not None:
            self.__dict__["mean"] = None
        if self.median is not None:
            if "mean" in self.model_fields_set:
                expected, found = "one of the keys mean and median", "both"
                raise problem(expected, found, "keep one: the median is exp(mean)")
            self.__dict__["mean"] = None  # not the default, which a saved file would hold as well
        return self

    def settings(self, mesh: Mesh, where: Callable[..., str]) -> dict[str, Any]:
        """Return the arguments of :func:`some_matern_prior`; raises as :meth:`build`."""
        mean, std = self.mean if self.median is None else math.log(self.median), self.std
        if self.between is not None:
            mean, std = mean_and_std_between(self.between)
        if isinstance(mean, str):
            mean = mesh.point_field(mean, where("mean"))
        return {
            "range": built(self.range),
            "std": built(std),
            "smoothness": self.smoothness,
            "mean": mean,
            "boundary": self.boundary,
        }


class MaternTable(MaternKeys, PriorTable):
    """[prior] kind = "matern": a Gaussian field with Matern covariance."""

    def build(self, mesh: Mesh, where) -> MaternPrior | HierarchicalMaternPrior:
        """Build the prior on a mesh: see :class:`PriorTable`."""
        return some_matern_prior(mesh, **self.settings(mesh, where))
