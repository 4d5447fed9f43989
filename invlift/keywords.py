"""Earlier names of arguments and functions, accepted with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from invlift.errors import InputError, as_path, as_text

Function = TypeVar("Function", bound=Callable)


def with_names_of_today(
    where: str, given: Mapping[str, Any], earlier: Mapping[str, str], *, depth: int = 2
) -> dict[str, Any]:
    """Return arguments with earlier names replaced by present ones.

    Parameters
    ----------
    where : str
        Name of the function or table of the arguments.
    given : mapping of str to value
    earlier : mapping of str to str
        Present names by earlier ones. Each use of an earlier name gives a ``FutureWarning``.
    depth : int
        Number of calls above this one at which the warning is shown.

    Raises
    ------
    InputError
        If an argument is given with both names.
    """
    renamed = dict(given)
    for old in earlier.keys() & given.keys():
        new = earlier[old]
        if new in given:
            raise InputError(
                (*as_path(where), old), f"one of {new} and {old}", "both", f"keep {new}"
            )
        warnings.warn(
            f"{as_text(where)}: {old} is called {new} now", FutureWarning, stacklevel=depth + 1
        )
        renamed[new] = renamed.pop(old)
    return renamed


def earlier_names(**earlier: str) -> Callable[[Function], Function]:
    """Decorate a function to accept earlier argument names: ``earlier_names(kernel="method")``."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args, **given):
            return function(*args, **with_names_of_today(function.__name__, given, earlier))

        return call

    return decorate


def renamed(old: str, function: Function) -> Function:
    """Return a function for its earlier name, ``renamed("hierarchical_matern_prior", ...)``."""

    @wraps(function)
    def call(*args, **given):
        message = f"{old} is called {function.__name__} now"
        warnings.warn(message, FutureWarning, stacklevel=2)
        return function(*args, **given)

    return call
