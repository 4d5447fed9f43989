"""Digests of everything that determines a computation: arrays, settings and a user's functions.

The digest of a function includes its code, constants, defaults, closure and the globals to which it
refers, recursively, but not its name or file.  Functions and classes of an installed library enter
by their name and the library's version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import inspect
import pickle
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

_LIBRARIES = tuple(
    str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib", "stdlib")
)
#: Names of folders with installed libraries, anywhere on Python's path.
_FOLDERS = {"site-packages", "dist-packages"}
#: Module names of the libraries that this one uses; they may be in any folder.
_KNOWN = {"jax", "jaxlib", "numpy", "scipy", "numpyro", "blackjax", "skfem", "pandas", "xarray"}


def digest(*things: Any) -> str:
    """Return the hexadecimal digest of things, 64 characters.

    Things are numbers, text, arrays, containers, dataclasses, functions, ``functools.partial``,
    objects with attributes, and the things that these hold.  Equal things have equal digests,
    whether or not their parts are shared: a structure loaded from disk shares other parts than a
    new one.
    """
    return _digest(things, {}, {}).hex()


def _digest(thing: Any, known: dict[int, tuple[Any, bytes]], within: dict[int, int]) -> bytes:
    """Return the digest of a thing within others.

    ``within`` maps the ``id`` of each enclosing thing to its depth, as there may be cycles.
    ``known`` holds the digests of things seen before.  It also holds the things themselves, so that
    no new object reuses their ``id``.
    """
    number = id(thing)
    if number in within:
        return _hash("within", str(len(within) - within[number]))
    if number not in known:
        words, parts = _content(thing)
        inner = within | {number: len(within)}
        known[number] = thing, _hash(*words, *(_digest(part, known, inner) for part in parts))
    return known[number][1]


def _hash(*words: str | bytes) -> bytes:
    collected = hashlib.sha256()
    for word in words:
        encoded = word.encode(errors="surrogatepass") if isinstance(word, str) else word
        collected.update(f"{len(encoded)}:".encode())
        collected.update(encoded)
    return collected.digest()


def _content(thing: Any) -> tuple[tuple[str | bytes, ...], Iterable]:
    """Return the words that identify a thing among others of its type, and the parts it holds."""
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        return (type(thing).__name__, repr(thing)), ()
    if isinstance(thing, np.ndarray | np.generic | jax.Array):
        return _of_array(thing)
    if isinstance(thing, functools.partial):
        return ("partial",), (thing.func, thing.args, thing.keywords)
    if isinstance(thing, types.MethodType):
        return ("method",), (thing.__func__, thing.__self__)
    if isinstance(thing, Mapping):
        return ("mapping",), [(key, thing[key]) for key in sorted(thing, key=repr)]
    if isinstance(thing, set | frozenset):
        return ("set",), sorted(thing, key=repr)
    if isinstance(thing, list | tuple):
        return (type(thing).__name__,), thing
    if isinstance(thing, types.CodeType):
        words = "code", str(thing.co_flags & ~inspect.CO_NESTED), thing.co_code
        return words, (thing.co_names, thing.co_varnames, thing.co_consts)
    if isinstance(thing, types.ModuleType):
        return ("module", thing.__name__, _version(thing.__name__)), ()
    if is_of_library(thing):
        words = "library", thing.__module__, thing.__qualname__, _version(thing.__module__)
        return words, _enclosed(thing)  # as jax.vmap(fn) encloses a user's fn
    if isinstance(thing, types.FunctionType):
        known = _known(thing.__globals__, _names(thing.__code__))
        defaults = thing.__defaults__, thing.__kwdefaults__
        return ("function",), (thing.__code__, defaults, _enclosed(thing), known)
    if isinstance(thing, type):
        return ("class",), (thing.__bases__, _own(vars(thing)))
    return ("object",), _parts_of_object(thing)


def _of_array(array) -> tuple[tuple[str | bytes, ...], Iterable]:
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    mask = [np.ma.getmaskarray(array)] if isinstance(array, np.ma.MaskedArray) else []
    array = np.asarray(array)
    words = "array", str(array.dtype), str(array.shape)
    if array.dtype == object:
        return words, [array.tolist()]
    return (*words, array.tobytes()), mask


def _parts_of_object(thing: Any) -> Iterator:
    yield type(thing)
    leaves = jax.tree.leaves(thing)
    is_leaf = len(leaves) == 1 and leaves[0] is thing
    if inner := getattr(thing, "__wrapped__", None):  # jax.jit and other decorators
        yield inner
    elif dataclasses.is_dataclass(thing):
        fields = (each for each in dataclasses.fields(thing) if not each.metadata.get("aside"))
        yield {each.name: getattr(thing, each.name) for each in fields}
    elif (state := _state(thing)) is not None:
        yield state
    elif hasattr(thing, "__dict__"):
        yield _own(vars(thing))
    if not is_leaf:
        yield leaves


def _state(thing: Any) -> list | None:
    """Return pickle's reduced form of an object, slots included, or None if there is none."""
    try:
        reduced = thing.__reduce_ex__(4)
    except (TypeError, AttributeError, pickle.PicklingError):
        return None
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if isinstance(part, Iterator) else part for part in reduced]


def _enclosed(function: Any) -> list:
    """Return the values in the closure of a function."""
    values = []
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not filled yet
            values.append(cell.cell_contents)
    return values


def _known(variables: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Select variables by name; of a user's module take its variables with these names."""
    enclosed = {name: variables[name] for name in names & set(variables)}
    return {
        name: _known(vars(thing), names - {name})
        if isinstance(thing, types.ModuleType) and not _is_library(thing.__name__)
        else thing
        for name, thing in enclosed.items()
    }


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code, and code nested in it, may look up."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _own(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes without those that Python adds."""
    ignored = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"}
    ignored |= {"__slotnames__"}  # which pickle adds when an object is first reduced
    added = types.GetSetDescriptorType
    return {k: x for k, x in attributes.items() if k not in ignored and not isinstance(x, added)}


def is_of_library(thing: Any) -> bool:
    """Return whether a function or class belongs to Python or to an installed library."""
    if not (hasattr(thing, "__qualname__") and isinstance(getattr(thing, "__module__", None), str)):
        return False
    return isinstance(thing, types.BuiltinFunctionType) or _is_library(thing.__module__)


@functools.cache
def _is_library(name: str) -> bool:
    """Return whether a module belongs to Python, an installed library or this library."""
    if name.split(".")[0] in _KNOWN | {__name__.split(".")[0]}:
        return True
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None:
        return module is not None and name != "__main__"
    path = Path(file).resolve()
    return str(path).startswith(_LIBRARIES) or not _FOLDERS.isdisjoint(path.parts)


@functools.cache
def _version(module: str) -> str:
    """Return the version of the library of a module; empty if it has none."""
    try:
        return importlib.metadata.version(module.split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return ""
