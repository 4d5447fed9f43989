"""Tables of the section [prior] of a problem file, and of random boundary values."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from invlift.fem.fields.base import MAX_STD, MIN_STD
from invlift.fem.fields.hierarchical_matern import HierarchicalMaternPrior
from invlift.fem.fields.inclusions import MAX_WIDTH, MIN_WIDTH, InclusionPrior, inclusion_prior
from invlift.fem.fields.independent import IndependentPrior, independent_prior
from invlift.fem.fields.layered import LayeredPrior, layered_prior
from invlift.fem.fields.matern import MaternPrior
from invlift.fem.fields.matern_prior import matern_prior
from invlift.fem.fields.random_field import RandomField, random_field
from invlift.fem.mesh.mesh import Mesh
from invlift.files.tables import Table, number, one_of, problem
from invlift.tables.distributions import DISTRIBUTIONS, REAL_DISTRIBUTIONS, NormalTable
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.priors.base import Prior

#: Largest size of the mean of the log-conductivity: its exponential must not overflow.
MAX_MEAN = 300.0
Mean, Std = number(-MAX_MEAN, MAX_MEAN), number(MIN_STD, MAX_STD)


def _is_ascending(pair: list[float]) -> list[float]:
    if not pair[0] < pair[1]:
        found = f"{pair[0]:g} and {pair[1]:g}"
        raise problem("the lower and the higher of two numbers", found, "swap or correct them")
    return pair


#: The 5 % and 95 % points of the conductivity under the prior.
Between = Annotated[
    list[number(1e-130, 1e130)],
    Field(min_length=2, max_length=2),
    AfterValidator(_is_ascending),
]
#: The 95 % point of the standard normal distribution.
_POINT = 1.6448536269514722


def mean_and_std_between(between: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation of a log-conductivity from its 5 % and 95 % points."""
    low, high = np.log(between)
    return 0.5 * (low + high), 0.5 * (high - low) / _POINT


def check_is_said_once(table: Table) -> None:
    """Refuse a table with both ``between`` and other keys of mean or spread, or with no spread.

    Raises the error of tables: see :func:`invlift.files.tables.problem`.
    """
    keys = [key for key in ("mean", "median", "std") if key in table.model_fields_set]
    if table.between is not None and keys:
        expected = "between alone, or the key std with mean or median"
        raise problem(expected, f"between and {' and '.join(keys)}", "keep one of both")
    if table.between is None and table.std is None:
        expected = "std, or between in its place"
        raise problem(expected, "neither", "give the standard deviation, or 5 % and 95 % points")
    if table.between is not None:
        table.__dict__["mean"] = None  # else a saved file would have the default mean too


class PriorTable(Table):
    """[prior]: a prior of the log-conductivity. A subclass adds its own keys."""

    kind: str
    """The kind of prior."""

    def build(self, mesh: Mesh, where: Callable[..., str]) -> Prior:
        """Build the prior on a mesh.

        Parameters
        ----------
        mesh : Mesh
        where : callable
            Name of a key -> its name in error messages: ``where("std")`` is
            "problem.toml, [prior] std".

        Returns
        -------
        prior
            With the members that docs/extending.md lists.

        Raises
        ------
        InputError
            If the keys do not fit the mesh. The caller translates the place "prior KEY" of the
            library's errors to that key.
        """
        raise NotImplementedError


def built(value: Any) -> Any:
    """Build the value of a table, for example a distribution; any other value is unchanged."""
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
        if self.median is not None:
            if "mean" in self.model_fields_set:
                expected, found = "one of the keys mean and median", "both"
                raise problem(expected, found, "keep one: the median is exp(mean)")
            self.__dict__["mean"] = None  # else a saved file would have the default mean too
        return self

    def settings(self, mesh: Mesh, where: Callable[..., str]) -> dict[str, Any]:
        """Return the arguments of :func:`invlift.matern_prior`; raises as :meth:`build`."""
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
        return matern_prior(mesh, **self.settings(mesh, where))


class LayersTable(PriorTable):
    """[prior] kind = "layers": a Matern field in each layer, which jumps where layers meet."""

    layer: Annotated[dict[str, MaternKeys], Field(min_length=1)]
    """The layers by the names of subdomains, which share out the body, for example
    [prior.layer.clay] range = 2.0, std = 0.5, smoothness = 1.0."""

    def build(self, mesh: Mesh, where) -> LayeredPrior:
        """Build the prior on a mesh: see :class:`PriorTable`."""
        layers = {
            name: table.settings(mesh, partial(where, "layer", name))
            for name, table in self.layer.items()
        }
        return layered_prior(mesh, layers)


class MaterialsTable(Table):
    """Inclusions of two materials."""

    known_by: ClassVar[tuple[str, ...]] = ("resistive", "conductive")

    resistive: number(1e-130, 1e130) | one_of(DISTRIBUTIONS, "distribution")
    """The conductivity of what conducts less than the background, in its unit."""
    conductive: number(1e-130, 1e130) | one_of(DISTRIBUTIONS, "distribution")
    """The conductivity of what conducts more."""

    def build(self) -> dict[str, float | Distribution]:
        """Return the conductivities by the names of the materials."""
        return {"resistive": built(self.resistive), "conductive": built(self.conductive)}


class InclusionsTable(PriorTable):
    """[prior] kind = "inclusions": one or two materials in another, edges in unknown places."""

    background: number(1e-130, 1e130) | one_of(DISTRIBUTIONS, "distribution")
    """The conductivity around the inclusions, in its unit."""
    inclusion: number(1e-130, 1e130) | one_of(DISTRIBUTIONS, "distribution", other=MaterialsTable)
    """The conductivity of the inclusions, in its unit; or of two materials, for example
    inclusion = { resistive = 1e-4, conductive = 10.0 }."""
    range: number(1e-50, 1e50)
    """About the size of an inclusion, in the length unit of the mesh: the range of the field that
    is compared with a threshold."""
    smoothness: number(above=0.0, high=10.0)
    """The smoothness nu of that field, for example 2.0 in 2-D and 2.5 in 3-D: edges are ragged for
    1.0 and 0.5."""
    share: number(0.001, 0.999) = 0.5
    """The share of the body that is inclusions, before the readings; of two materials half of it
    each."""
    width: number(MIN_WIDTH, MAX_WIDTH) = 0.5
    """The width of the step from one material to the other, in standard deviations of the field."""

    def build(self, mesh: Mesh, where) -> InclusionPrior:
        """Build the prior on a mesh: see :class:`PriorTable`."""
        return inclusion_prior(
            mesh,
            background=built(self.background),
            inclusion=built(self.inclusion),
            range=self.range,
            smoothness=self.smoothness,
            share=self.share,
            width=self.width,
        )


def _or_per_subdomain(kind):
    return kind | Annotated[dict[str, kind], Field(min_length=1)]


class IndependentTable(PriorTable):
    """[prior] kind = "independent": one Normal coefficient per cell or per subdomain."""

    per: Literal["cell", "subdomain"] = "cell"
    """The parts of the body that have one coefficient each: cells or subdomains."""
    mean: _or_per_subdomain(Mean) = 0.0
    """The mean of the log-conductivity: a number, or one for each subdomain."""
    std: _or_per_subdomain(Std) = None
    """The standard deviation of the log-conductivity: a number, or one for each subdomain."""
    between: _or_per_subdomain(Between) = None
    """In place of std and mean: the conductivities that 5 % and 95 % of the values are below, in
    its unit, for example between = { sand = [1e-5, 1e-3], clay = [1e-9, 1e-7] }."""

    @model_validator(mode="after")
    def _has_std_or_between(self) -> IndependentTable:
        check_is_said_once(self)
        return self

    def build(self, mesh: Mesh, where) -> IndependentPrior:
        """Build the prior on a mesh: see :class:`PriorTable`."""
        mean, std = self.mean, self.std
        if isinstance(self.between, dict):
            both = {name: mean_and_std_between(pair) for name, pair in self.between.items()}
            mean, std = ({name: pair[k] for name, pair in both.items()} for k in (0, 1))
        elif self.between is not None:
            mean, std = mean_and_std_between(self.between)
        return independent_prior(mesh, per=self.per, mean=mean, std=std)


#: Key ``kind`` of [prior] -> its table; used whenever a problem file is read.
PRIORS: dict[str, type[PriorTable]] = {
    "matern": MaternTable,
    "layers": LayersTable,
    "inclusions": InclusionsTable,
    "independent": IndependentTable,
}


class BoundaryNormalTable(NormalTable):
    """Normally distributed."""

    mean: number(-1e50, 1e50) | Annotated[str, Field(min_length=1)]
    """The mean, in the unit of the number; of boundary values also the name of a point field of the
    mesh file."""
    range: number(1e-50, 1e50) = None
    """Of boundary values the distance at which the correlation of their errors has fallen to about
    0.14, in the length unit of the mesh; left out, all nodes of a group have the same error."""

    def build(self) -> Distribution | RandomField:
        """Build the distribution or the random field of the values of a boundary group."""
        if self.range is not None or isinstance(self.mean, str):
            return random_field(self.mean, self.sd, self.range)
        return super().build()


#: Key ``distribution`` of boundary values -> its table.
BOUNDARY_DISTRIBUTIONS = ChainMap({"normal": BoundaryNormalTable}, REAL_DISTRIBUTIONS)
