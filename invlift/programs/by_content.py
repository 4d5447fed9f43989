"""Equality of a user's functions by content, for functions in the structure of a pytree."""

from __future__ import annotations

import functools
import secrets
import types
from collections.abc import Callable
from typing import Any

import jax

from invlift.programs.digest import digest, is_of_library


class ByContent:
    """Wrapper of a function that compares by the digest at the time of wrapping.

    A plain function is equal only to itself.  It stays equal if the values that it refers to change
    after a program was compiled from it: a table that a notebook has loaded again, or an attribute
    of an object.
    """

    def __init__(self, fn: Callable) -> None:
        while isinstance(fn, type(jax.jit(len))):  # a jitted function caches its own traces
            fn = fn.__wrapped__
        functools.update_wrapper(self, fn, updated=())
        try:
            self._content = digest(fn)
        except Exception:  # it holds values without a digest, such as traced values
            self._content = secrets.token_hex()

    def __call__(self, /, *arguments, **named) -> Any:
        """Call the function."""
        return self.__wrapped__(*arguments, **named)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a wrapped function with the same digest."""
        return isinstance(other, ByContent) and self._content == other._content

    def __hash__(self) -> int:
        """Return the hash of the digest."""
        return hash(self._content)


def by_content(value: Any) -> Any:
    """Wrap a user's function, or a method of an object; return any other value unchanged.

    Python takes the methods of two objects as different, even if the objects are equal.
    """
    is_function = callable(value) and not isinstance(value, type | ByContent)
    is_method = isinstance(value, types.MethodType)
    return ByContent(value) if is_function and (is_method or not is_of_library(value)) else value
