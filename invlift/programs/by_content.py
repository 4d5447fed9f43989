"""A user's function as part of a structure, by what it computes."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable
from typing import Any

import jax

from invlift.programs.digest import digest, is_of_library


class ByContent:
    """A function that is equal to any other that had the same digest when it was wrapped.

    By itself a function is equal to itself alone, also where what it refers to has changed since a
    program was compiled of it: a table that a notebook has loaded anew, an attribute of an object.
    """

    def __init__(self, fn: Callable) -> None:
        while isinstance(fn, type(jax.jit(len))):  # which keeps what it has traced by itself
            fn = fn.__wrapped__
        functools.update_wrapper(self, fn, updated=())
        try:
            self._content = digest(fn)
        except Exception:  # it holds what has no digest, such as values that are being traced
            self._content = secrets.token_hex()

    def __call__(self, /, *arguments, **named) -> Any:
        """As the function."""
        return self.__wrapped__(*arguments, **named)

    def __eq__(self, other: object) -> bool:
        """Whether the other is such a function of the same content."""
        return isinstance(other, ByContent) and self._content == other._content

    def __hash__(self) -> int:
        """Of the content."""
        return hash(self._content)


def by_content(value: Any) -> Any:
    """A user's function by its content, a library's function and anything else as it is."""
    is_function = callable(value) and not isinstance(value, type | ByContent)
    return ByContent(value) if is_function and not is_of_library(value) else value
