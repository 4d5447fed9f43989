"""The tables sampler and output, of problem files and of problems in Python files."""

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

from invlift.errors import printable
from invlift.files.tables import (
    Table,
    chosen,
    integer,
    json_schema,
    number,
    problem,
    table_of_dataclass,
)
from invlift.samplers.kernels import KERNELS, Kernel

#: Value of draws with which chains run until the verdict is good.
UNTIL_CONVERGED = "converged"
#: Largest size of a number: enough for any unit, and its square and cube do not overflow.
SIZE = 1e50


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
            expected="a path whose name is text in the encoding of this system",
            found=printable(f"{path}"),
            remedy="set PYTHONUTF8=1 if the name is text in UTF-8, else rename the folder or file",
        ) from error
    return path


AbsolutePath = Annotated[Path, BeforeValidator(_resolve)]


def _is_a_method(name: str) -> str:
    if name not in KERNELS:
        raise PydanticCustomError("name", "not a registered name")
    return name


class SamplerTable(Table):
    """[sampler]: the method, how much to run, and in [sampler.options] the method's own keys."""

    method: Annotated[str, AfterValidator(_is_a_method)] = "chmc"
    """The sampling method."""
    chains: integer(1, 10_000) = 4
    """The number of chains: several, 4 for example, to see whether they agree."""
    warmup: integer(0) = 200
    """The warm-up iterations of each chain: at least 200, so that the step size can settle; 0 for a
    method without one."""
    draws: integer(1) | Literal[UNTIL_CONVERGED] = 1000
    """The draws of each chain: a number such as 1000, or "converged"."""
    budget: number(above=0.0) = None
    """The time after which the chains end, in seconds."""
    seed: integer(0, 2**63 - 1) = 20260101
    """The seed of the random numbers: the same one repeats the run."""
    starts: Literal["prior", "laplace"] = "prior"
    """What the starts are drawn from: chains that start far apart show whether they agree."""
    options: dict[str, Any] = {}
    """The options of the method."""

    @field_validator("warmup")
    @classmethod
    def _is_there_where_a_step_size_is_tuned(cls, warmup, info):
        method = info.data.get("method")
        if not warmup and method is not None and KERNELS[method]().adaptation.is_tuned:
            raise problem(
                expected="at least 1 iteration, in which the step size is tuned",
                found="0",
                remedy="take 200, for example",
            )
        return warmup

    @field_validator("options")
    @classmethod
    def _are_those_of_the_method(cls, options, info):
        if "method" not in info.data:  # reported separately
            return options
        table = table_of_dataclass(KERNELS[info.data["method"]])
        return table.model_validate(options).model_dump(exclude_unset=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema, handler):
        table = handler.resolve_ref_schema(handler(schema))
        forms = {}
        for name, kernel in KERNELS.items():
            options = json_schema(table_of_dataclass(kernel))
            described = options | {"description": table["properties"]["options"]["description"]}
            text = options.get("description", "")
            forms[name] = {"description": text, "properties": {"options": described}}
        return chosen(table, forms, "method", table["properties"]["method"]["default"])

    @property
    def num_draws(self) -> int | None:
        """Number of draws of each chain; None if chains run until they have converged."""
        return None if self.draws == UNTIL_CONVERGED else self.draws

    def kernel(self) -> Kernel:
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

    dir: AbsolutePath = Field(
        "results", validate_default=True, json_schema_extra={"default": "results/NAME"}
    )
    """The directory of the results, relative to the problem file: the default has its NAME."""
    max_field_megabytes: number(above=0.0) = 200.0
    """The memory and disk space for the draws of the fields, in megabytes."""
    exceedance: Annotated[list[number(1 / SIZE, SIZE)], AfterValidator(_all_different)] = []
    """Values of the conductivity, in its unit, for example exceedance = [2.0, 5.0]: the probability
    of being above each is a field."""

    times: Annotated[list[number(-SIZE, SIZE)], AfterValidator(_all_different)] = []
    """Times at which the solution of a field in time is kept, also after the last reading, in its
    unit of time, for example times = [60.0, 600.0]: maps, and an animation for ParaView."""

    report: bool = True
    """Whether pictures and report.html are made: invlift report makes the report later."""

    @model_validator(mode="before")
    @classmethod
    def _is_named_like_the_problem_file(cls, data: Any, info: ValidationInfo) -> Any:
        name = (info.context or {}).get("name")
        return {"dir": f"results/{name}", **data} if name and isinstance(data, Mapping) else data
