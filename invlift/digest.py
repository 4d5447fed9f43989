"""A digest of anything that decides a computation: arrays, settings, and a user's functions.

Two functions have the same digest if they compute the same: their code, constants, defaults,
closures and the globals they refer to are looked at, however deep, but not their names or where
they stand.  What belongs to an installed library goes by its name and the library's version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import inspect
import sys
import sysconfig
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib", "stdlib")
)


def digest(*things: Any) -> str:
    """Hexadecimal digest of things, 64 characters.

    Parameters
    ----------
    *things
        Numbers, text, arrays, containers, dataclasses, functions, ``functools.partial``, objects
        with attributes, and whatever these hold.
    """
    walk = _Walk({}, {})
    walk.add(things)
    return walk.hexdigest()


class _Walk:
    """A pass over one thing; others, over what it holds, are begun from it.

    Equal things have equal digests whether or not they share what they hold: a structure that was
    saved and loaded shares other parts than one just made.

    Parameters
    ----------
    known : dict
        Of things that were passed over: the thing, which must live on or its number could be given
        out again, and its digest, by number.
    under_way : dict
        Depth of those that this one is within, by number: structures may refer to themselves.
    """

    def __init__(self, known: dict[int, tuple[Any, str]], under_way: dict[int, int]) -> None:
        self._collected = hashlib.sha256()
        self._known, self._under_way = known, under_way

    def hexdigest(self) -> str:
        """Digest of what was taken in."""
        return self._collected.hexdigest()

    def add(self, thing: Any) -> None:
        """Take a thing and all it holds into the digest."""
        number = id(thing)
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
            self._put(type(thing).__name__, repr(thing))
        elif isinstance(thing, np.ndarray | np.generic | jax.Array):
            self._array(thing)
        elif number in self._under_way:
            self._put("within", str(len(self._under_way) - self._under_way[number]))
        else:
            if number not in self._known:
                inner = _Walk(self._known, self._under_way | {number: len(self._under_way)})
                inner._compound(thing)
                self._known[number] = thing, inner.hexdigest()
            self._put("compound", self._known[number][1])

    def _put(self, *words: str) -> None:
        for word in words:
            encoded = word.encode("utf-8", errors="surrogatepass")
            self._collected.update(f"{len(encoded)}:".encode() + encoded)

    def _array(self, array) -> None:
        if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            array = jax.random.key_data(array)
        array = np.ascontiguousarray(array)
        self._put("array", str(array.dtype), str(array.shape))
        if array.dtype == object:
            self.add(array.tolist())
        else:
            self._collected.update(array.tobytes())

    def _compound(self, thing: Any) -> None:
        if isinstance(thing, functools.partial):
            self._put("partial")
            self.add((thing.func, thing.args, thing.keywords))
        elif isinstance(thing, types.MethodType):
            self._put("method")
            self.add((thing.__func__, thing.__self__))
        elif isinstance(thing, Mapping):
            self._put("mapping", str(len(thing)))
            for key in sorted(thing, key=repr):
                self.add((key, thing[key]))
        elif isinstance(thing, set | frozenset):
            self._put("set", str(len(thing)))
            for each in sorted(thing, key=repr):
                self.add(each)
        elif isinstance(thing, list | tuple):
            self._put(type(thing).__name__, str(len(thing)))
            for each in thing:
                self.add(each)
        elif isinstance(thing, types.CodeType):
            self._code(thing)
        elif isinstance(thing, types.ModuleType):
            self._put("module", thing.__name__, _version(thing.__name__))
        elif _is_of_library(thing):
            self._put("library", thing.__module__, thing.__qualname__, _version(thing.__module__))
            self.add(_enclosed(thing))  # as jax.vmap(fn) encloses a user's fn
        elif isinstance(thing, types.FunctionType):
            self._function(thing)
        elif isinstance(thing, type):
            self._put("class")
            self.add((thing.__bases__, _own(vars(thing))))
        else:
            self._object(thing)

    def _function(self, function: types.FunctionType) -> None:
        self._put("function")
        names = _names(function.__code__) & set(function.__globals__)
        known = {name: function.__globals__[name] for name in names}
        defaults = (function.__defaults__, function.__kwdefaults__)
        self.add((function.__code__, defaults, _enclosed(function), known))

    def _code(self, code: types.CodeType) -> None:
        self._put(
            "code", str(code.co_flags & ~inspect.CO_NESTED), *code.co_names, *code.co_varnames
        )
        self._collected.update(code.co_code)
        self.add(code.co_consts)

    def _object(self, thing: Any) -> None:
        self._put("object")
        self.add(type(thing))
        if inner := getattr(thing, "__wrapped__", None):  # jax.jit and other decorators
            self.add(inner)
        elif dataclasses.is_dataclass(thing):
            known = [x for x in dataclasses.fields(thing) if not x.metadata.get("aside")]
            self.add({each.name: getattr(thing, each.name) for each in known})
        elif hasattr(thing, "__dict__"):
            self.add(_own(vars(thing)))
        leaves, structure = jax.tree.flatten(thing)
        if not (len(leaves) == 1 and leaves[0] is thing):
            self._put(str(structure.num_leaves))
            self.add(leaves)


def _enclosed(function: Any) -> list:
    """What the closure of a function holds."""
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not filled yet
            found.append(cell.cell_contents)
    return found


def _names(code: types.CodeType) -> set[str]:
    """Names that code, and code within it, may look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _own(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes without what Python adds by itself."""
    ignored = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"}
    return {
        name: value
        for name, value in attributes.items()
        if name not in ignored and not isinstance(value, types.GetSetDescriptorType)
    }


def _is_of_library(thing: Any) -> bool:
    """Whether a function or class belongs to Python or to an installed library."""
    if not (hasattr(thing, "__qualname__") and isinstance(getattr(thing, "__module__", None), str)):
        return False
    return isinstance(thing, types.BuiltinFunctionType) or _is_library(thing.__module__)


@functools.cache
def _is_library(name: str) -> bool:
    """Whether a module is Python's, an installed library's or this library's, installed or not."""
    if name.split(".")[0] == __name__.split(".")[0]:
        return True
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None:
        return module is not None and name != "__main__"
    return str(Path(file).resolve()).startswith(_LIBRARIES)


@functools.cache
def _version(module: str) -> str:
    """Version of the library that a module belongs to; empty if it has none."""
    try:
        return importlib.metadata.version(module.split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return ""
