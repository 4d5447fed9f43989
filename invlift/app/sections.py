"""The sections of a problem file: names, types, defaults and ranges of their keys.

The tables of priors, noises and kernels are in the modules of what they choose; here are those of
everything else. Length units are those of the mesh, solution units those of the sensor table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    Key,
    Table,
    by_form,
    choice,
    integer,
    name_in,
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
_File = Annotated[
    _AbsolutePath,
    Key("the path of a file, in quotes", "give it relative to the problem file, or absolute"),
]
#: Largest size of a number: wide enough for any unit, and its square and cube are numbers too.
_SIZE = 1e50


def _number(remedy: str):
    return number(-_SIZE, _SIZE, remedy=remedy)


_Source = by_form(
    number=_number("give the source"),
    table=Annotated[
        dict[str, _number("give the source in this subdomain")],
        Field(min_length=1),
        Key("{subdomain = number}", "name at least one subdomain"),
    ],
    name=Annotated[
        str,
        Field(min_length=1),
        Key("the name of a field of the mesh file", "name one"),
    ],
    remedy="for example source = 100.0",
)
_BoundaryValue = by_form(
    number=_number("give the solution on this boundary"),
    name=Annotated[
        str,
        Field(min_length=1),
        Key("the name of a point field of the mesh file", "name one"),
    ],
    remedy="give the solution on this boundary",
)


class MeshTable(Table):
    """[mesh]: the body."""

    file: _File


class RobinTable(Table):
    """conductivity * du/dn = coefficient * (ambient - u) on a boundary group."""

    coefficient: number(1 / _SIZE, _SIZE, remedy="for a fixed flux use neumann")
    ambient: _number("give the value of the solution far outside") = 0.0


class PdeTable(Table):
    """[pde]: -div(conductivity grad u) = source with its boundary conditions.

    Where a boundary has no condition, nothing flows through it.
    """

    source: _Source = 0.0
    dirichlet: Annotated[
        dict[str, _BoundaryValue],
        Key("{group = value}", "for example dirichlet = { boundary = 0.0 }"),
    ] = Field(default_factory=dict)
    neumann: Annotated[
        dict[str, _number("give the flux conductivity * du/dn into the body")],
        Key("{group = number}", "for example neumann = { inflow = 1.5 }"),
    ] = Field(default_factory=dict)
    robin: Annotated[
        dict[
            str,
            Annotated[
                RobinTable,
                Key(
                    "{coefficient = number, ambient = number}",
                    "for example surface = { coefficient = 10.0, ambient = 20.0 }",
                ),
            ],
        ],
        Key(
            "{group = {coefficient = number, ambient = number}}",
            "for example robin = { surface = { coefficient = 10.0, ambient = 20.0 } }",
        ),
    ] = Field(default_factory=dict)

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


class ObservationsTable(Table):
    """[observations]: the sensor table and what to do with sensors outside the mesh."""

    file: _File
    outside: choice(
        "error", "project", "drop", remedy="choose what to do with sensors outside the mesh"
    ) = "error"


class SamplerTable(Table):
    """[sampler]: the method, how much to run, and in [sampler.options] the method's own keys."""

    method: name_in(KERNELS, remedy='"chmc" is the default') = "chmc"
    chains: integer(
        1, MAX_CHAINS, remedy="run several, 4 for example, to see whether they agree"
    ) = 4
    warmup: integer(1, remedy="use at least 200, so that the step size can settle") = 200
    draws: by_form(
        number=integer(1, remedy="use 1000 per chain, for example"),
        name=choice(UNTIL_CONVERGED, remedy="or give a number of draws, 1000 for example"),
        remedy='for example draws = 1000, or draws = "converged"',
    ) = 1000
    budget: number(above=0.0, remedy="give the time after which the chains end, in seconds") = None
    seed: integer(0, 2**63 - 1, remedy="use any such number; the same one repeats the run") = (
        20260101
    )
    starts: choice(
        "prior",
        "laplace",
        remedy='"prior" is the default: chains that start far apart show whether they agree',
    ) = "prior"
    options: Annotated[
        dict[str, Any], Key("a table [sampler.options]", "give the options of the method in it")
    ] = Field(default_factory=dict)

    @field_validator("options")
    @classmethod
    def _are_those_of_the_method(cls, options, info):
        if "method" not in info.data:  # which is an error of its own
            return options
        table = table_of_dataclass(KERNELS[info.data["method"]])
        return table.model_validate(options).model_dump(exclude_unset=True)

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
    """[output]: where the results go, and what is asked of the conductivity.

    The directory is by default results/<name of the problem file>. For each threshold of
    `exceedance`, in the unit of the conductivity, the probability of being above it is a field.
    """

    dir: Annotated[
        _AbsolutePath, Key("the path of a directory", "give a text such as results/run-1")
    ]
    max_field_megabytes: number(
        above=0.0, remedy="200 is the default: memory and disk space for the draws of the fields"
    ) = 200.0
    exceedance: Annotated[
        list[number(1 / _SIZE, _SIZE, remedy="give a value of the conductivity, in its unit")],
        AfterValidator(_all_different),
        Key("a list of positive numbers", "for example exceedance = [2.0, 5.0]"),
    ] = Field(default_factory=list)


def _section(table: Any, name: str, example: str):
    """Return the type of a section, with what to write if it is missing."""
    return Annotated[table, Key(f"a table [{name}]", f"write, for example, {example}")]


class Sections(Table):
    """All sections of a problem file."""

    mesh: _section(MeshTable, "mesh", 'file = "body.msh"')
    pde: _section(PdeTable, "pde", "source = 100.0, dirichlet = { boundary = 0.0 }")
    prior: _section(
        one_of(PRIORS, "kind"),
        "prior",
        'kind = "matern", range = 1.0, std = 1.0, smoothness = 2.0',
    )
    observations: _section(ObservationsTable, "observations", 'file = "sensors.csv"')
    noise: _section(one_of(NOISES, "kind", default="gaussian"), "noise", "sigma = 0.01") = Field(
        default_factory=dict, validate_default=True
    )
    sampler: _section(SamplerTable, "sampler", "draws = 1000") = Field(default_factory=SamplerTable)
    output: _section(OutputTable, "output", 'dir = "results"')
