"""From pydantic's report on a problem file to one line that a person can act on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any

from pydantic import ValidationError

from invlift.app.config_schema import NOISE_DISTRIBUTIONS, TABLES, RobinSpec
from invlift.errors import InputError

# What each key expects, and what to do. "*" stands for the name of a group or subdomain.
_A_PATH = ("the path of a file, in quotes", "give it relative to the problem file, or absolute")
_LENGTH = "give the correlation length, in the length unit of the mesh"
_A_NUMBER, _A_POSITIVE = "a number from -1e50 to 1e50", "a positive number, from 1e-50 to 1e50"
_A_LOG, _A_LOG_STD = "a number from -300 to 300", "a positive number, from 1e-9 to 50"
_LOG_STD = "give the standard deviation of the log-conductivity: 1 for factors of about e"
_PER_SUBDOMAIN = "give a number, or {subdomain = number}"
KEYS: dict[str, tuple[str, str]] = {
    "mesh.file": _A_PATH,
    "pde.source": (
        f"{_A_NUMBER}, {{subdomain = number}} or the name of a field of the mesh file",
        "for example source = 100.0",
    ),
    "pde.source.*": (_A_NUMBER, "give the source in this subdomain"),
    "pde.dirichlet": ("{group = value}", "for example dirichlet = { boundary = 0.0 }"),
    "pde.dirichlet.*": (
        f"{_A_NUMBER} or the name of a point field of the mesh file",
        "give the solution on this boundary",
    ),
    "pde.neumann": ("{group = number}", "for example neumann = { inflow = 1.5 }"),
    "pde.neumann.*": (_A_NUMBER, "give the flux conductivity * du/dn into the body"),
    "pde.robin": (
        "{group = {coefficient = number, ambient = number}}",
        "for example robin = { surface = { coefficient = 10.0, ambient = 20.0 } }",
    ),
    "pde.robin.*": (
        "{coefficient = number, ambient = number}",
        "for example surface = { coefficient = 10.0, ambient = 20.0 }",
    ),
    "pde.robin.*.coefficient": (_A_POSITIVE, "for a fixed flux use neumann"),
    "pde.robin.*.ambient": (_A_NUMBER, "give the value of the solution far outside"),
    "prior.kind": ('"matern" or "independent"', 'choose one, for example kind = "matern"'),
    "prior.range": (_A_POSITIVE, _LENGTH),
    "prior.std": (_A_LOG_STD, _LOG_STD),
    "prior.smoothness": (
        "a positive number, at most 10",
        "for example 2.0 in 2-D and 0.5 or 2.5 in 3-D",
    ),
    "prior.mean": (_A_LOG, "give the mean of the log-conductivity"),
    "prior.boundary": (
        '"neumann" or "robin"',
        'choose "robin" to correct the variance near the boundary',
    ),
    "prior.per": ('"cell" or "subdomain"', "choose what has a coefficient of its own"),
    "prior.mean.*": (_A_LOG, _PER_SUBDOMAIN),
    "prior.std.*": (_A_LOG_STD, _PER_SUBDOMAIN),
    "observations.file": _A_PATH,
    "observations.outside": (
        '"error", "project" or "drop"',
        "choose what to do with sensors outside the mesh",
    ),
    "noise.sigma": (
        f'{_A_POSITIVE}, "column" or {{distribution = "lognormal" or "half-normal", ...}}',
        "give the standard deviation of a reading: as small as it is, but not 0",
    ),
    "noise.sigma.distribution": ('"lognormal" or "half-normal"', "choose one"),
    "noise.sigma.location": ("a number from -100 to 100", "give the mean of log(sigma)"),
    "noise.sigma.scale": (
        "a positive number, at most 20 if lognormal and 1e50 if half-normal",
        "give the spread: of log(sigma) if lognormal, of sigma itself if half-normal",
    ),
    "sampler.method": ('"chmc" or "chmc-nuts"', '"chmc" is the default'),
    "sampler.chains": (
        "an integer of at least 1",
        "run several, 4 for example, to see whether they agree",
    ),
    "sampler.warmup": (
        "an integer of at least 1",
        "use at least 200, so that the step size can settle",
    ),
    "sampler.draws": ("an integer of at least 1", "use 1000 per chain, for example"),
    "sampler.seed": (
        "an integer from 0 to 2^63 - 1",
        "use any such number; the same one repeats the run",
    ),
    "output.dir": ("the path of a directory", "give a text such as results/run-1"),
}
_NAMED_BY_USER = {"pde.source", "pde.dirichlet", "pde.neumann", "pde.robin"} | {
    "prior.mean",
    "prior.std",
}


def from_validation_error(
    error: ValidationError, data: Mapping, file: str, prefix: tuple[str, ...] = ()
) -> InputError:
    """Return the most telling of the errors as an `InputError`.

    Parameters
    ----------
    error : pydantic.ValidationError
    data : mapping
        What was validated, to say what was found.
    file : str
        How to call the file.
    prefix : tuple of str
        Where `data` belongs in the problem file.
    """
    errors = error.errors(include_url=False)
    # A misspelt key is also reported as missing: the misspelling is the cause.
    errors.sort(key=lambda entry: entry["type"] != "extra_forbidden")
    path, expected, found, remedy = _describe(errors[0], data, prefix)
    if len(errors) > 1:
        plural = "s" if len(errors) > 2 else ""
        remedy += f" ({len(errors) - 1} more problem{plural})"
    return InputError(where(file, path), expected, found, remedy)


def where(file: str, path: tuple[str, ...]) -> str:
    """Write "problem.toml, [prior] range"."""
    if not path:
        return file
    key = ".".join(path[1:])
    return f"{file}, [{path[0]}]" + (f" {key}" if key else "")


def did_you_mean(name: str, known: list[str]) -> str | None:
    """Return the closest known name, if one is close."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return close[0] if close else None


def _describe(entry: Mapping, data: Mapping, prefix: tuple[str, ...]):
    """Return the path in the file and the expected, found and remedy of one pydantic error."""
    kind, context = entry["type"], entry.get("ctx", {})
    path, value = _walk(entry["loc"], data)
    path = prefix + path
    if kind == "extra_forbidden":
        return _describe_unknown(path, data)
    if kind == "input_error":
        return path, context["expected"], context["found"], context["remedy"]
    if kind.startswith("union_tag") and isinstance(
        value, Mapping
    ):  # the key that tells the variants apart is absent or wrong
        key = context["discriminator"].strip("'")
        path += (key,)
        value = value.get(key, _ABSENT)
    if len(path) == 1:
        found = "no such table" if value is _ABSENT else show(value)
        return path, f"a table [{path[0]}]", found, f"add it: {_example_of(path[0])}"
    while _pattern(path) not in KEYS:  # keys of the user's with the names of variants
        path = path[:-1]
        value = reduce(getitem, path[len(prefix) :], data)
    expected, remedy = KEYS[_pattern(path)]
    if _pattern(path) in ("prior.mean", "prior.std") and _prior_kind(data) == "independent":
        expected += " or {subdomain = number}"
    if kind == "missing":
        return path, expected, "no such key", f"add it: {remedy}"
    if isinstance(value, str) and "number" in expected and _is_number(value):
        return path, expected, show(value), "write it without quotes"
    choices = [choice.strip('",') for choice in expected.split() if choice.startswith('"')]
    close = did_you_mean(value, choices) if isinstance(value, str) else None
    return path, expected, show(value), f'did you mean "{close}"?' if close else remedy


class _Absent:
    """Stands for a key that is not there."""


_ABSENT = _Absent()


def _walk(loc: tuple, data: Any) -> tuple[tuple[str, ...], Any]:
    """Return the keys of the file in a pydantic location, and the value there.

    pydantic puts the variants of a union among the keys; they are not in the data.
    """
    path, value = [], data
    for position, part in enumerate(loc):
        if isinstance(value, Mapping) and part in value:
            path.append(str(part))
            value = value[part]
        elif isinstance(value, Mapping) and position == len(loc) - 1 and not _is_variant(part):
            path.append(str(part))
            value = _ABSENT
    return tuple(path), value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_variant(part: Any) -> bool:
    return part in ("number", "name", "table", *TABLES["prior"], *NOISE_DISTRIBUTIONS)


def _pattern(path: tuple[str, ...]) -> str:
    """Return the path with the names that users choose replaced by "*"."""
    keys = list(path)
    if len(keys) > 2 and ".".join(keys[:2]) in _NAMED_BY_USER:
        keys[2] = "*"
    return ".".join(keys)


def _prior_kind(data: Mapping) -> str | None:
    prior = data.get("prior")
    return prior.get("kind") if isinstance(prior, Mapping) else None


def _known_keys(parent: tuple[str, ...], data: Mapping) -> list[str]:
    """Return the keys that the table at `parent` may have."""
    if not parent:
        return list(TABLES)
    if len(parent) == 1:
        model = TABLES[parent[0]]
        if isinstance(model, Mapping):
            model = model[_prior_kind(data)]
    elif parent[:2] == ("noise", "sigma"):
        model = NOISE_DISTRIBUTIONS[data["noise"]["sigma"]["distribution"]]
    else:
        model = RobinSpec
    return list(model.model_fields)


def _describe_unknown(path: tuple[str, ...], data: Mapping):
    """Return what to say of a key that does not exist: the closest, or the table it belongs to."""
    *parent, key = path
    known = _known_keys(tuple(parent), data)
    close = did_you_mean(key, known)
    if not parent:
        remedy = f"did you mean [{close}]?" if close else _move(key) or "remove it"
        tables = ", ".join(f"[{table}]" for table in known)
        return path, f"one of the tables {tables}", "an unknown table", remedy
    remedy = f"did you mean {close!r}?" if close else _move(key) or "remove it"
    return path, f"one of the keys {', '.join(known)}", f"an unknown key {key!r}", remedy


def _move(key: str) -> str | None:
    """Return advice if the key exists in another table."""
    for table, model in TABLES.items():
        models = model.values() if isinstance(model, Mapping) else [model]
        if any(key in variant.model_fields for variant in models):
            return f"it belongs in [{table}]" + (" of another kind" if table == "prior" else "")
    return None


def _example_of(table: str) -> str:
    examples = {
        "mesh": 'file = "body.msh"',
        "pde": "source = 100.0, dirichlet = { boundary = 0.0 }",
        "prior": 'kind = "matern", range = 1.0, std = 1.0, smoothness = 2.0',
        "observations": 'file = "sensors.csv"',
        "noise": "sigma = 0.01",
        "sampler": "draws = 1000",
        "output": 'dir = "results"',
    }
    return examples[table]


def show(value: Any) -> str:
    """Write a value as in a TOML file, cut short."""
    if isinstance(value, _Absent):
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the text "{value[:60]}"' if value else "an empty text"
    if isinstance(value, Mapping):
        return "a table with " + (", ".join(map(str, value)) or "no keys")
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "an integer beyond 2^63"
    return str(value)
