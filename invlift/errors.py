"""The error for bad input, with four parts: where, expected, found, remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line reports errors before it imports large packages
    import numpy as np

#: Path of a place in the input: names of tables, keys and arguments, and numbers, outermost first.
KeyPath = tuple[str | int, ...]
#: Names after which the next one follows without a comma: "prior std", "observed, index 3".
_HEADINGS = "prior", "noise", "experiment", "unknown", "quantity", "readings", "state", "index"
#: Largest number of characters shown of each part, as a file may contain any text.
MAX_LENGTH = 400


class InputError(ValueError):
    """Invalid input.

    The message is one line of printable characters: ``where: expected ..., found ...; remedy``.

    Parameters
    ----------
    where : str or tuple of str and int
        The wrong file, key, row or argument, for example ``"sensors.csv, row 4, column value"``; or
        its path, ``("robin", "top", "ambient")``, which each front end formats as text.
    expected : str
        The valid values.
    found : str
        The value in the input.
    remedy : str
        An instruction that corrects the error.
    """

    def __init__(self, where: str | KeyPath, expected: str, found: str, remedy: str) -> None:
        self.path: KeyPath = as_path(where)
        self.expected, self.found, self.remedy = expected, found, remedy
        where = self.where
        where, expected, found, remedy = map(_cut, (where, expected, found, remedy))
        message = f"{where}: expected {expected}, found {found}; {remedy}"
        super().__init__(printable(" ".join(message.split())))

    @property
    def where(self) -> str:
        """The path as text in the form of the Python interface."""
        return as_text(self.path)

    def at(self, where: str | KeyPath) -> InputError:
        """Return the same error at another place, for example at the key that the user wrote."""
        return InputError(where, self.expected, self.found, self.remedy)

    def __reduce__(self):
        return type(self), (self.path, self.expected, self.found, self.remedy)


def as_path(where: str | KeyPath) -> KeyPath:
    """Return a place as a path."""
    return (where,) if isinstance(where, str) else where


def as_text(where: str | KeyPath) -> str:
    """Return a place as text for the Python interface: "robin, top, ambient", "prior std"."""
    path = as_path(where)
    commas = ["", *(" " if each in _HEADINGS else ", " for each in path)]
    return "".join(f"{comma}{each}" for comma, each in zip(commas, path, strict=False))


#: Remedy if a function needs values while JAX traces it.
USE_JAX = "take jax.numpy in place of numpy, and jnp.where or jax.lax.cond in place of if"


@contextmanager
def as_input_error(where: str | KeyPath, expected: str, remedy: str) -> Iterator[None]:
    """Convert exceptions of a function of the user to an InputError, and pass on InputErrors.

    Parameters
    ----------
    where, expected, remedy
        As for :class:`InputError`.  If the function needs values while JAX traces it, the remedy is
        to write it in JAX.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        import jax.errors  # commands report errors that they find before JAX can be imported

        traced = jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError
        remedy = USE_JAX if isinstance(error, traced) else remedy
        raise InputError(where, expected, first_line(error), remedy) from error


@contextmanager
def errors_at(place: str | KeyPath | Callable[[KeyPath], str | KeyPath]) -> Iterator[None]:
    """Move an InputError to another place, which may be a function of its path."""
    try:
        yield
    except InputError as error:
        raise error.at(place(error.path) if callable(place) else place) from None


def is_integer(value: Any) -> bool:
    """Return whether an argument is an integer of Python or NumPy; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def checked_integer(
    where: str | KeyPath,
    value: Any,
    least: int,
    most: float = math.inf,
    remedy: str = "correct it",
) -> int:
    """Return an argument as an integer; it must be within limits.

    Raises
    ------
    InputError
        If it is not an integer, or outside the limits.
    """
    if not is_integer(value) or not least <= value <= most:
        limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        raise InputError(where, f"an integer {limits}", f"{value!r}"[:80], remedy)
    return int(value)


def as_numbers(
    where: str | KeyPath, given: Any, expected: str = "numbers", remedy: str = "correct it"
) -> np.ndarray:
    """Convert an argument to an array of float64, with NaN where it is masked.

    Raises
    ------
    InputError
        If it cannot be converted, such as text and complex numbers, with ``expected`` and
        ``remedy``.  Dates are refused, as the unit of time is unknown.
    """
    import numpy as np

    try:
        array = np.asarray(given)
        kind = array.dtype.kind
        # NumPy would convert text, and drop imaginary parts.
        has_text = kind == "O" and any(isinstance(entry, str | bytes) for entry in array.flat)
        if has_text or kind in "cSUT":
            raise TypeError
        if isinstance(given, np.ma.MaskedArray):
            given = given.astype(float).filled(np.nan)
        numbers = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise InputError(where, expected, f"{given!r}"[:80], remedy) from None
    if kind in "mM":
        raise InputError(where, expected, "dates", "count from a start, in the unit of the model")
    return numbers


def as_number(value: Any) -> float:
    """Return a number of Python, NumPy or JAX (or array without axes) as float, otherwise NaN.

    True and False are not numbers, as for :func:`is_integer`.
    """
    import numpy as np

    try:
        is_number = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
        return float(value) if is_number else np.nan
    except (TypeError, ValueError):
        return np.nan


def positive_number(where: str | KeyPath, value: Any, remedy: str = "correct it") -> float:
    """Return an argument as a positive, finite number.

    Raises
    ------
    InputError
        If it is anything else.
    """
    if not 0.0 < as_number(value) < math.inf:
        raise InputError(where, "a positive number", f"{value!r}"[:80], remedy)
    return float(value)


def closest(name: str, known: Collection[str], least: float = 0.6) -> str | None:
    """Return the known name most similar to an unknown one, ignoring case.

    None if no similarity ratio is at least `least`.
    """
    lower = {each.lower(): each for each in known}
    return next((lower[k] for k in difflib.get_close_matches(name.lower(), lower, 1, least)), None)


def names_in(given: Any) -> str:
    """Return the names of a dict, or "none", or the type of what should have been one."""
    if isinstance(given, Mapping):
        return ", ".join(map(str, given)) or "none"
    return type(given).__name__


def first_line(error: Exception) -> str:
    """Return the type of an exception and the first line of its message."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _cut(text: str) -> str:
    """Shorten a text to `MAX_LENGTH` characters."""
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def printable(text: str) -> str:
    """Return text with escapes for characters that could control a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
