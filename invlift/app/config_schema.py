"""The tables of a problem file: names, types, defaults and ranges of their keys.

Types are strict: a quoted number, `true` for 1 or 1.0 for an integer is an error, never converted.
Length units are those of the mesh, solution units those of the sensor table.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from invlift.errors import printable


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _resolve(value: Any, info: ValidationInfo) -> Path:
    """Return an absolute path; a relative one starts at the problem file's directory."""
    if not isinstance(value, str | Path) or not str(value).strip():
        raise PydanticCustomError("path_type", "not a path")
    base = (info.context or {}).get("base", Path.cwd())
    try:
        path = (base / Path(value).expanduser()).resolve()
    except (RuntimeError, ValueError) as error:  # "~somebody" unknown, or a null character
        raise PydanticCustomError("path_type", "not a path") from error
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _problem(
            expected="a path whose name is text in UTF-8, as a problem file must be",
            found=printable(f"{path}"),
            remedy="rename the folder or file, or choose another",
        ) from error
    return path


def _form(value: Any) -> str:
    """Tell a number, a name and a table apart."""
    if isinstance(value, Mapping):
        return "table"
    return "name" if isinstance(value, str) else "number"


_AbsolutePath = Annotated[Path, BeforeValidator(_resolve)]
# Wide enough for any unit, and their squares and cubes are numbers too.
_Number = Annotated[float, Field(ge=-1e50, le=1e50)]
_Positive = Annotated[float, Field(ge=1e-50, le=1e50)]
# Of a logarithm: its exponential must be a number, and differences of it not beyond all resolution.
_Log = Annotated[float, Field(ge=-300.0, le=300.0)]
_LogSpread = Annotated[float, Field(ge=1e-9, le=50.0)]
_Name = Annotated[str, Field(min_length=1)]
_Numbers = Annotated[dict[str, _Number], Field(min_length=1)]
_Logs = Annotated[dict[str, _Log], Field(min_length=1)]
_LogSpreads = Annotated[dict[str, _LogSpread], Field(min_length=1)]

Source = Annotated[
    Annotated[_Number, Tag("number")]
    | Annotated[_Name, Tag("name")]
    | Annotated[_Numbers, Tag("table")],
    Discriminator(_form),
]
BoundaryValue = Annotated[
    Annotated[_Number, Tag("number")] | Annotated[_Name, Tag("name")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "number"),
]
MeanPerSubdomain = Annotated[
    Annotated[_Log, Tag("number")] | Annotated[_Logs, Tag("table")],
    Discriminator(lambda value: "table" if isinstance(value, Mapping) else "number"),
]
StdPerSubdomain = Annotated[
    Annotated[_LogSpread, Tag("number")] | Annotated[_LogSpreads, Tag("table")],
    Discriminator(lambda value: "table" if isinstance(value, Mapping) else "number"),
]


class MeshSpec(_Table):
    """[mesh]: the body."""

    file: _AbsolutePath


class RobinSpec(_Table):
    """conductivity * du/dn = coefficient * (ambient - u) on a boundary group."""

    coefficient: _Positive
    ambient: _Number = 0.0


class PdeSpec(_Table):
    """[pde]: -div(conductivity grad u) = source with its boundary conditions.

    Where a boundary has no condition, nothing flows through it.
    """

    source: Source = 0.0
    dirichlet: dict[str, BoundaryValue] = Field(default_factory=dict)
    neumann: dict[str, _Number] = Field(default_factory=dict)
    robin: dict[str, RobinSpec] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_unique_solution(self) -> PdeSpec:
        if not self.dirichlet and not self.robin:
            raise _problem(
                expected="a boundary with a Dirichlet or Robin condition",
                found="neither, so the solution is determined only up to a constant",
                remedy="add, for example, dirichlet = { boundary = 0.0 }",
            )
        kinds = {"dirichlet": self.dirichlet, "neumann": self.neumann, "robin": self.robin}
        for group in {**self.dirichlet, **self.neumann, **self.robin}:
            given = [kind for kind, groups in kinds.items() if group in groups]
            if len(given) > 1:
                raise _problem(
                    expected="one condition for each boundary group",
                    found=f"{' and '.join(given)} for {group!r}",
                    remedy="keep one of them (a Robin condition contains a flux: "
                    "coefficient * ambient)",
                )
        return self


class MaternSpec(_Table):
    """[prior] kind = "matern": a Gaussian field with Matern covariance."""

    kind: Literal["matern"]
    range: _Positive
    std: _LogSpread
    smoothness: Annotated[float, Field(gt=0.0, le=10.0)]
    mean: _Log = 0.0
    boundary: Literal["neumann", "robin"] = "neumann"


class IndependentSpec(_Table):
    """[prior] kind = "independent": one Normal coefficient per cell or per subdomain."""

    kind: Literal["independent"]
    per: Literal["cell", "subdomain"] = "cell"
    mean: MeanPerSubdomain = 0.0
    std: StdPerSubdomain


PriorSpec = Annotated[MaternSpec | IndependentSpec, Field(discriminator="kind")]


class ObservationsSpec(_Table):
    """[observations]: the sensor table and what to do with sensors outside the mesh."""

    file: _AbsolutePath
    outside: Literal["error", "project", "drop"] = "error"


class LognormalSpec(_Table):
    """sigma = exp(location + scale zeta), zeta ~ Normal(0, 1)."""

    distribution: Literal["lognormal"]
    location: Annotated[float, Field(ge=-100.0, le=100.0)]
    scale: Annotated[float, Field(ge=1e-9, le=20.0)]


class HalfNormalSpec(_Table):
    """sigma is distributed as scale |Normal(0, 1)|."""

    distribution: Literal["half-normal"]
    scale: _Positive


NoiseDistribution = Annotated[LognormalSpec | HalfNormalSpec, Field(discriminator="distribution")]


class NoiseSpec(_Table):
    """[noise]: standard deviation of the readings; by default the sensor table's column."""

    sigma: Annotated[
        Annotated[_Positive, Tag("number")]
        | Annotated[Literal["column"], Tag("name")]
        | Annotated[NoiseDistribution, Tag("table")],
        Discriminator(_form),
    ] = "column"


class SamplerSpec(_Table):
    """[sampler]: the method and how much to run."""

    method: Literal["chmc", "chmc-nuts"] = "chmc"
    chains: int = Field(default=4, ge=1)
    warmup: int = Field(default=200, ge=1)
    draws: int = Field(default=1000, ge=1)
    seed: int = Field(default=20260101, ge=0, lt=2**63)


class OutputSpec(_Table):
    """[output]: where the results go; by default results/<name of the problem file>."""

    dir: _AbsolutePath


def _problem(expected: str, found: str, remedy: str) -> PydanticCustomError:
    """Return an error that carries the parts of an `InputError`."""
    parts = {"expected": expected, "found": found, "remedy": remedy}
    return PydanticCustomError("input_error", "{expected}", parts)


TABLES = {
    "mesh": MeshSpec,
    "pde": PdeSpec,
    "prior": {"matern": MaternSpec, "independent": IndependentSpec},
    "observations": ObservationsSpec,
    "noise": NoiseSpec,
    "sampler": SamplerSpec,
    "output": OutputSpec,
}
"""The tables by name; `prior` by its key `kind`."""

NOISE_DISTRIBUTIONS = {"lognormal": LognormalSpec, "half-normal": HalfNormalSpec}
"""The tables that [noise] sigma can be, by their key `distribution`."""
