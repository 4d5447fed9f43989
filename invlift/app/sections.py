"""The sections of a problem file: names, types, defaults and ranges of their keys.

The tables of priors, noises and kernels are in the modules of what they choose; here are those of
everything else. Length units are those of the mesh, solution units those of the sensor table.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from invlift.app.sampling import MAX_CHAINS, UNTIL_CONVERGED
from invlift.errors import printable
from invlift.fem.priors import PRIORS
from invlift.inverse.noise import NOISES
from invlift.samplers.kernels import KERNELS
from invlift.tables import (
    Table,
    chosen,
    integer,
    number,
    one_of,
    problem,
    table_of_dataclass,
)


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
        raise problem(
            expected="a path whose name is text in UTF-8, as a problem file must be",
            found=printable(f"{path}"),
            remedy="rename the folder or file, or choose another",
        ) from error
    return path


_AbsolutePath = Annotated[Path, BeforeValidator(_resolve)]
_File = Annotated[_AbsolutePath, Field(title="the path of a file, in quotes")]
#: Largest size of a number: wide enough for any unit, and its square and cube are numbers too.
_SIZE = 1e50
_Number = number(-_SIZE, _SIZE)


def _name_of(what: str):
    """The type of a text that is the name of something of the mesh file."""
    return Annotated[str, Field(min_length=1, title=f"the name of a {what} of the mesh file")]


class MeshTable(Table):
    """[mesh]: the body."""

    file: _File = Field(description="The mesh file, relative to the problem file or absolute.")


class RobinTable(Table):
    """conductivity * du/dn = coefficient * (ambient - u) on a boundary group."""

    coefficient: number(
        1 / _SIZE,
        _SIZE,
        description="The transfer coefficient, in the unit of conductivity over length (for a fixed "
        "flux use neumann).",
    )
    ambient: number(
        -_SIZE, _SIZE, description="The solution far outside, in the unit of the solution."
    ) = 0.0


class PdeTable(Table):
    """[pde]: -div(conductivity grad u) = source with its boundary conditions.

    Where a boundary has no condition, nothing flows through it.
    """

    source: (
        _Number
        | Annotated[dict[str, _Number], Field(min_length=1, title="{subdomain = number}")]
        | _name_of("field")
    ) = Field(
        0.0,
        description="The source, for example source = 100.0, in the unit of conductivity times "
        "solution over squared length.",
    )
    dirichlet: dict[str, _Number | _name_of("point field")] = Field(
        {},
        title="{group = value}",
        description="The solution on boundary groups, for example dirichlet = { boundary = 0.0 }, "
        "in the unit of the solution.",
    )
    neumann: dict[str, _Number] = Field(
        {},
        title="{group = number}",
        description="The flux conductivity * du/dn into the body through boundary groups, for "
        "example neumann = { inflow = 1.5 }, in the unit of conductivity times solution over "
        "length.",
    )
    robin: dict[str, RobinTable] = Field(
        {},
        title="{group = {coefficient = number, ambient = number}}",
        description="The Robin conditions on boundary groups, for example robin = { surface = { "
        "coefficient = 10.0, ambient = 20.0 } }.",
    )

    @model_validator(mode="after")
    def _has_one_condition_for_each_group(self) -> PdeTable:
        kinds = {"dirichlet": self.dirichlet, "neumann": self.neumann, "robin": self.robin}
        for group in {**self.dirichlet, **self.neumann, **self.robin}:
            given = [kind for kind, groups in kinds.items() if group in groups]
            if len(given) > 1:
                raise problem(
                    expected="one condition for each boundary group",
                    found=f"{' and '.join(given)} for {group!r}",
                    remedy="keep one of them (a Robin condition contains a flux: "
                    "coefficient * ambient)",
                )
        return self


def _is_a_method(name: str) -> str:
    if name not in KERNELS:
        raise PydanticCustomError("name", "not a registered name")
    return name


class ObservationsTable(Table):
    """[observations]: the sensor table and what to do with sensors outside the mesh."""

    file: _File = Field(description="The sensor table, relative to the problem file or absolute.")
    outside: Literal["error", "project", "drop"] = Field(
        "error", description="What to do with sensors outside the mesh."
    )


class SamplerTable(Table):
    """[sampler]: the method, how much to run, and in [sampler.options] the method's own keys."""

    method: Annotated[str, AfterValidator(_is_a_method)] = Field(
        "chmc", description="The sampling method."
    )
    chains: integer(
        1,
        MAX_CHAINS,
        description="The number of chains: several, 4 for example, show whether they agree.",
    ) = 4
    warmup: integer(
        1,
        description="The number of warm-up iterations of each chain, at least 200, so that the "
        "step size can settle.",
    ) = 200
    draws: integer(1) | Literal[UNTIL_CONVERGED] = Field(
        1000, description='The number of draws of each chain, or "converged".'
    )
    budget: number(
        above=0.0, description="The time after which the chains end, in seconds."
    ) = None
    seed: integer(
        0, 2**63 - 1, description="Any such number; the same one repeats the run."
    ) = 20260101
    starts: Literal["prior", "laplace"] = Field(
        "prior",
        description="What the chains' starts are drawn from: far apart, as from the prior, they "
        "show whether the chains agree.",
    )
    options: dict[str, Any] = Field(
        {}, title="a table [sampler.options]", description="The options of the method."
    )

    @field_validator("options")
    @classmethod
    def _are_those_of_the_method(cls, options, info):
        if "method" not in info.data:  # which is an error of its own
            return options
        table = table_of_dataclass(KERNELS[info.data["method"]])
        return table.model_validate(options).model_dump(exclude_unset=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema, handler):
        described = handler.resolve_ref_schema(handler(schema))
        keys = described["properties"]
        keys["method"]["enum"] = list(KERNELS)
        forms = {}
        for name, kernel in KERNELS.items():
            options = handler(table_of_dataclass(kernel).__pydantic_core_schema__)
            forms[name] = {"properties": {"options": {**keys["options"], **options}}}
        return described | chosen(forms, "method", keys["method"]["default"])

    def kernel(self) -> Any:
        """Return the method with its options: an instance of the dataclass in `KERNELS`."""
        return KERNELS[self.method](**self.options)


def _all_different(values: list[float]) -> list[float]:
    repeated = next((value for value in values if values.count(value) > 1), None)
    if repeated is not None:
        raise problem(
            expected="different numbers", found=f"{repeated:g} twice", remedy="give each once"
        )
    return values


class OutputTable(Table):
    """[output]: where the results go, and what is asked of the conductivity."""

    dir: Annotated[_AbsolutePath, Field(title="the path of a directory")] = Field(
        "results",
        validate_default=True,
        description="The directory of the results, relative to the problem file, such as "
        "results/run-1; by default results/<name of the problem file>.",
    )
    max_field_megabytes: number(
        above=0.0,
        description="Memory and disk space for the draws of the fields, in megabytes.",
    ) = 200.0
    exceedance: Annotated[
        list[number(1 / _SIZE, _SIZE, description="A value of the conductivity, in its unit.")],
        AfterValidator(_all_different),
    ] = Field(
        [],
        title="a list of positive numbers",
        description="The values of the conductivity, in its unit, of which the probability of being "
        "above is asked, for example exceedance = [2.0, 5.0].",
    )

    @model_validator(mode="before")
    @classmethod
    def _is_named_like_the_problem_file(cls, data: Any, info: ValidationInfo) -> Any:
        name = (info.context or {}).get("name")
        return {"dir": f"results/{name}", **data} if name and isinstance(data, Mapping) else data


class Sections(Table):
    """All sections of a problem file."""

    mesh: MeshTable = Field(description='The mesh, for example file = "body.msh".')
    pde: PdeTable = Field(
        description="The equation, for example source = 100.0, dirichlet = { boundary = 0.0 }."
    )
    prior: one_of(PRIORS, "kind") = Field(
        description="The prior of the log-conductivity, for example "
        'kind = "matern", range = 1.0, std = 1.0, smoothness = 2.0.'
    )
    observations: ObservationsTable = Field(
        description='The sensor table, for example file = "sensors.csv".'
    )
    noise: one_of(NOISES, "kind", default="gaussian") = Field(
        {}, validate_default=True, description="The noise, for example sigma = 0.01."
    )
    sampler: SamplerTable = Field(
        SamplerTable(), description="The sampler, for example draws = 1000."
    )
    output: OutputTable = Field(
        {}, validate_default=True, description='The output, for example dir = "results".'
    )
