"""Units in names of columns and after numbers: parsing and conversion factors.

Simple factors are sufficient here. The import of a library for units would take longer than reading
a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Units of time in seconds, as written in headers; a year is a Julian year of 365.25 days.
TIMES = {
    **dict.fromkeys(["s", "sec", "second", "seconds"], 1.0),
    **dict.fromkeys(["min", "mins", "minute", "minutes"], 60.0),
    **dict.fromkeys(["h", "hr", "hour", "hours"], 3600.0),
    **dict.fromkeys(["d", "day", "days"], 86400.0),
    **dict.fromkeys(["week", "weeks"], 604800.0),
    **dict.fromkeys(["year", "years", "yr", "a"], 31557600.0),
}
#: Base units: factor to SI, and exponents of metre, kilogram, second, ampere and kelvin.
_BASES = {
    "m": (1.0, (1, 0, 0, 0, 0)), "g": (1e-3, (0, 1, 0, 0, 0)), "s": (1.0, (0, 0, 1, 0, 0)),
    "A": (1.0, (0, 0, 0, 1, 0)), "K": (1.0, (0, 0, 0, 0, 1)), "N": (1.0, (1, 1, -2, 0, 0)),
    "Pa": (1.0, (-1, 1, -2, 0, 0)), "J": (1.0, (2, 1, -2, 0, 0)), "W": (1.0, (2, 1, -3, 0, 0)),
    "V": (1.0, (2, 1, -3, -1, 0)), "S": (1.0, (-2, -1, 3, 2, 0)), "l": (1e-3, (3, 0, 0, 0, 0)),
    "L": (1e-3, (3, 0, 0, 0, 0)), "bar": (1e5, (-1, 1, -2, 0, 0)),
    **dict.fromkeys(["ohm", "Ohm", "Ω", "Ω"], (1.0, (2, 1, -3, -2, 0))),
}  # fmt: skip
#: Units without prefixes.
_WHOLE = {
    "ft": (0.3048, (1, 0, 0, 0, 0)), "in": (0.0254, (1, 0, 0, 0, 0)),
    **{name: (TIMES[name], (0, 0, 1, 0, 0))
       for name in ("min", "h", "hr", "d", "day", "days", "a", "yr", "sec")},
    "%": (1e-2, (0, 0, 0, 0, 0)),
    "ohmm": (1.0, (3, 1, -3, -2, 0)), "Ohmm": (1.0, (3, 1, -3, -2, 0)),
    "Ωm": (1.0, (3, 1, -3, -2, 0)),
    "psi": (6894.757293168361, (-1, 1, -2, 0, 0)),
    **dict.fromkeys(["°C", "degC", "C", "℃"], (1.0, (0, 0, 0, 0, 1))),
    **dict.fromkeys(["°F", "degF", "℉"], (5.0 / 9.0, (0, 0, 0, 0, 1))),
}  # fmt: skip
#: Temperature scales with another zero than kelvin, which a factor cannot convert.
_CELSIUS, _FAHRENHEIT = {"°C", "degC", "C", "℃"}, {"°F", "degF", "℉"}
_PREFIXES = {"": 1.0, "G": 1e9, "M": 1e6, "k": 1e3, "h": 1e2, "d": 0.1, "c": 1e-2, "m": 1e-3,
             "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}  # fmt: skip
_UNITS = {
    prefix + base: (factor * size, powers)
    for prefix, factor in _PREFIXES.items()
    for base, (size, powers) in _BASES.items()
} | _WHOLE
_TOKEN = re.compile(r"\s*([/*·()]|([^\W\d_]+|[°%℃℉][^\W\d_]*)\s*(?:\^?([-+]?\d))?)")
_EXPONENTS = str.maketrans("²³⁻¹", "23-1")
#: A unit in brackets after the name of a column.
_BEHIND = re.compile(r"\s*(?:\[([^\]]*)\]|\(([^()]*(?:\([^()]*\))?[^()]*)\))$")


#: Unit of a logarithm in the notation of UDUNITS.
_LOGARITHMIC = "ln(re 1 {})"


def with_unit(name: str, unit: str) -> str:
    """Return a name followed by its unit, if there is one."""
    return f"{name} [{unit}]" if unit else name


def logarithmic(unit: str) -> str:
    """Return the unit of the natural logarithm of a quantity: "ln(re 1 S/m)"."""
    return _LOGARITHMIC.format(unit)


def of_logarithm(text: str) -> str:
    """Return the unit inside the unit of a logarithm; "" if the text is not such a unit."""
    start, _, end = _LOGARITHMIC.partition("{}")
    return text.removeprefix(start).removesuffix(end) if text.startswith(start) else ""


def without_unit(column: str) -> tuple[str, str]:
    """Split the name of a column from its unit: "x [m]" and "x (m)" are x in m."""
    match = _BEHIND.search(column)
    if match is None or not match.start():
        return column, ""
    return column[: match.start()], (match[1] or match[2] or "").strip()


def size_of(unit: str) -> tuple[float, tuple[int, ...]] | None:
    """Return the SI factor of a unit and its exponents of m, kg, s, A and K; None if unknown.

    A slash applies to all units after it: W/m K is W/(m K).
    """
    parts = _parts(unit)
    if not parts:
        return None
    size, powers = 1.0, [0] * 5
    for base, exponent in parts:
        factor, own = _UNITS[base]
        size *= factor**exponent
        powers = [each + exponent * other for each, other in zip(powers, own, strict=True)]
    return size, tuple(powers)


def _parts(unit: str) -> list[tuple[str, int]] | None:
    """Return the parts of a unit as written, each with its exponent; None if one is unknown."""
    text, found, sign, place = unit.translate(_EXPONENTS).strip(), [], 1, 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        place, (token, base, power) = match.end(), match.groups()
        if token == "/":
            sign = -1
        elif base is not None:
            if base not in _UNITS:
                return None
            found.append((base, sign * int(power or 1)))
    return found


def product(powers: Sequence[tuple[str | None, int]]) -> str:
    """Return the unit of a product of powers of units, such as "W/m^3".

    It is "" if a unit is None or unknown.  Degree Celsius becomes kelvin, as in a difference.
    """
    used = [(unit, power) for unit, power in powers if power]
    if len(used) == 1 and used[0][1] == 1:
        return used[0][0] or ""
    total: dict[str, int] = {}
    for unit, power in used:
        parts = _parts(unit or "")
        if not parts:
            return ""
        for base, exponent in parts:
            name = "K" if base in _CELSIUS else base
            total[name] = total.get(name, 0) + power * exponent
    above, below = (
        [f"{base}^{abs(each)}" if abs(each) > 1 else base
         for base, each in total.items() if sign * each > 0]
        for sign in (1, -1)
    )  # fmt: skip
    under = below[0] if len(below) == 1 else f"({' '.join(below)})"
    return (" ".join(above) or "1") + (f"/{under}" if below else "")


def factor_between(given: str, wanted: str) -> float | None:
    """Return the factor that converts numbers from one unit to another.

    None if a unit is unknown, the dimensions differ, or only one is a scale with another zero.
    """
    if given == wanted:
        return 1.0
    sizes = size_of(given), size_of(wanted)
    has_other_zero = any((given in each) != (wanted in each) for each in (_CELSIUS, _FAHRENHEIT))
    if None in sizes or sizes[0][1] != sizes[1][1] or has_other_zero:
        return None
    return sizes[0][0] / sizes[1][0]
