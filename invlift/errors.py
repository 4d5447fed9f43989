"""The one error that bad input raises, always in the same four parts."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line reports errors before it imports anything large
    import numpy as np

#: A place in what was given: names of tables, keys and arguments, and numbers, from the outermost.
KeyPath = tuple[str | int, ...]
#: Names behind which the next one follows without a comma: "prior std", "observed, index 3".
_HEADINGS = "prior", "noise", "experiment", "unknown", "quantity", "readings", "state", "index"
#: Characters of each of the four parts that are shown: a file may hold anything.
MAX_LENGTH = 400


class InputError(ValueError):
    """Input that invlift cannot work with.

    The message is one line of printable characters: ``where: expected ..., found ...; remedy``.

    Parameters
    ----------
    where : str or tuple of str and int
        File, key, row or argument at fault, for example ``"sensors.csv, row 4, column value"``; or
        its path, ``("robin", "top", "ambient")``, which each front end renders in its own way.
    expected : str
        What would have been right.
    found : str
        What was there.
    remedy : str
        What the reader can do about it, as an instruction.
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
        """The path as Python's front end writes it."""
        return as_text(self.path)

    def at(self, where: str | KeyPath) -> InputError:
        """The same error of another place: of what the user wrote, say."""
        return InputError(where, self.expected, self.found, self.remedy)

    def __reduce__(self):
        return type(self), (self.path, self.expected, self.found, self.remedy)


def as_path(where: str | KeyPath) -> KeyPath:
    """A place as a path."""
    return (where,) if isinstance(where, str) else where


def as_text(where: str | KeyPath) -> str:
    """A place in the words of Python's front end: "robin, top, ambient", "prior std"."""
    path = as_path(where)
    commas = ["", *(" " if each in _HEADINGS else ", " for each in path)]
    return "".join(f"{comma}{each}" for comma, each in zip(commas, path, strict=False))


#: What helps where a function that is traced asks for values.
USE_JAX = "take jax.numpy in place of numpy, and jnp.where or jax.lax.cond in place of if"


@contextmanager
def as_input_error(where: str | KeyPath, expected: str, remedy: str) -> Iterator[None]:
    """Tell what a user's function raises as bad input; an InputError stays as it is.

    Parameters
    ----------
    where, expected, remedy
        As of :class:`InputError`.  Where values are asked for while JAX traces, the remedy is to
        write the function in JAX.
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
    """Let an InputError be of another place, or of what a function makes of its path."""
    try:
        yield
    except InputError as error:
        raise error.at(place(error.path) if callable(place) else place) from None


def is_integer(value: Any) -> bool:
    """Whether an argument is an integer, of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def checked_integer(
    where: str | KeyPath,
    value: Any,
    least: int,
    most: float = math.inf,
    remedy: str = "correct it",
) -> int:
    """An argument that is an integer within limits.

    Raises
    ------
    InputError
        If it is none, or outside of them.
    """
    if not is_integer(value) or not least <= value <= most:
        limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        raise InputError(where, f"an integer {limits}", f"{value!r}"[:80], remedy)
    return int(value)


def as_numbers(
    where: str | KeyPath, given: Any, expected: str = "numbers", remedy: str = "correct it"
) -> np.ndarray:
    """What was given as an array of float64, NaN where it is masked.

    Raises
    ------
    InputError
        If it has no such form, as text and complex numbers: with what was ``expected``, and the
        ``remedy``.  Dates have none, as nobody knows in which unit of time they would count.
    """
    import numpy as np

    try:
        array = np.asarray(given)
        kind = array.dtype.kind
        # NumPy would read text, and drop imaginary parts.
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
    """A number of Python, NumPy or JAX, in an array of no axes too; NaN for anything else.

    True and False are no numbers, as for :func:`is_integer`.
    """
    import numpy as np

    try:
        is_number = np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf"
        return float(value) if is_number else np.nan
    except (TypeError, ValueError):
        return np.nan


def closest(name: str, known: Collection[str], least: float = 0.6) -> str | None:
    """The known name most like one that is unknown, in any case; None if none is, to a ratio."""
    lower = {each.lower(): each for each in known}
    return next((lower[k] for k in difflib.get_close_matches(name.lower(), lower, 1, least)), None)


def first_line(error: Exception) -> str:
    """An exception in a line: its type, and the first line of what it says."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _cut(text: str) -> str:
    """The beginning of a text that is too long to be read."""
    return text if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}..."


def printable(text: str) -> str:
    """Text from a file or a file's name, with escapes for what a terminal might act on."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
