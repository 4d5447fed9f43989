"""The record of a run, read back from ``run.json``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from invlift.errors import InputError


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class RecordedVerdict(_Part):
    """The verdict as it was written: see `invlift.posterior.Verdict`."""

    is_converged: bool
    headline: str
    reasons: list[str] = []
    warnings: list[str] = []
    advice: list[str] = []


class Record(_Part):
    """What a report shows of ``run.json``; docs/outputs.md says what each entry is.

    Entries that a run does not know are None or empty, and those not shown are passed over.
    """

    verdict: RecordedVerdict
    num_chains: int
    num_draws: int
    num_draws_requested: int | None = None
    num_warmup: int | None = None
    is_interrupted: bool | None = None
    step_size: list[float | None] = []
    acceptance_rate: list[float | None] = []
    warmup_seconds: list[float | None] = []
    sampling_seconds: list[float | None] = []
    compile_seconds: float | None = None
    num_steps: int | None = None
    num_factorisations: int | None = None
    num_solves: int | None = None
    num_projection_failures: int | None = None
    num_divergences: int | None = None
    method: str | None = None
    options: dict[str, Any] = {}
    seed: int | None = None
    versions: dict[str, str] = {}
    mesh_sha256: str | None = None


def read_record(text: str, name: str) -> Record:
    """Read the record of a run.

    Parameters
    ----------
    text : str
        Content of ``run.json``.
    name : str
        How an error message calls the file.

    Raises
    ------
    InputError
        If it is not JSON, or an entry is missing or of the wrong kind.
    """
    try:
        return Record.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{name}{key and ', '}{key}",
            "the record of a run, as invlift run writes it",
            first["msg"],
            "take the file from a copy of the run, or run again",
        ) from None
