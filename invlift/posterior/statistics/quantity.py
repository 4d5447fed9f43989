"""Description of the quantities that are drawn: axes, unit and prior."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from invlift.errors import InputError
from invlift.posterior.names import NOISE_SCORE, PREDICTED

#: Longer vectors have no statistics of single entries.
MAX_ENTRIES = 1000
#: Axes that run over a mesh.
PLACES = ("node", "cell")


@dataclass(frozen=True, eq=False)
class Quantity:
    """Description of a quantity that is drawn.

    Attributes
    ----------
    name : str
    axes : mapping of str to sequence or None
        Names of the axes of one draw, in their order, with coordinates along them. A quantity with
        the axis "node" or "cell" is a field on the mesh, one with the axis "sensor" has a value for
        each reading, one without axes is a scalar.
    unit : str
        The unit as text; "" if there is none.
    axis_units : mapping of str to str
        Units of the coordinates along axes, such as time, by name, if there are any.
    is_derived : bool
        Whether it follows from other quantities that are drawn. It is then not in the summary and
        the diagnostics.
    prior_sd : array, number or None
        Prior standard deviation, with the shape of a draw; 0 where the value is known.
    prior_density : (2, k) array or None
        Increasing values, and the prior density at each, in one over their unit: of a scalar, or
        of each entry of a vector.
    known_cells : (num_cells,) array or None
        For a field on nodes: its value in cells where it is known, independent of the values at
        their nodes; NaN elsewhere.
    is_linear : bool
        Whether a field on nodes is linear between them.
    """

    name: str
    axes: Mapping[str, Sequence | None] = field(default_factory=dict)
    unit: str = ""
    is_derived: bool = False
    prior_sd: np.ndarray | float | None = None
    prior_density: np.ndarray | None = None
    known_cells: np.ndarray | None = None
    is_linear: bool = True
    axis_units: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """The axis "node" or "cell" of a field; None for other quantities."""
        return next((axis for axis in self.axes if axis in PLACES), None)

    def is_unknown(self, num: int) -> np.ndarray:
        """Return which of `num` entries are not fixed by the prior, (num,) of bool."""
        spread = 1.0 if self.prior_sd is None else np.asarray(self.prior_sd)
        return np.broadcast_to(spread != 0.0, num)

    def entries(self, shape: Sequence[int]) -> list[str]:
        """Return names of the entries of an array: `rate[hare]`, `rate[0]`, `hand[left, x]`.

        A scalar has the name of the quantity. The second entry with one coordinate is `rate[hare
        (2)]`.
        """
        if not shape:
            return [self.name]
        pairs = zip(self.axes.values(), shape, strict=True)
        labels = [range(num) if given is None else _distinct(given) for given, num in pairs]
        return [f"{self.name}[{', '.join(map(str, each))}]" for each in product(*labels)]


def _distinct(labels: Sequence) -> list[str]:
    """Return coordinates as text; repeated ones are numbered."""
    counts: Counter = Counter()
    names = []
    for label in map(str, labels):
        counts[label] += 1
        names.append(label if counts[label] == 1 else f"{label} ({counts[label]})")
    return names


def described(
    shapes: Mapping[str, tuple[int, ...]], given: Iterable[Quantity] = ()
) -> dict[str, Quantity]:
    """Describe every quantity that is drawn, by name; `shapes` are those of one draw.

    A quantity without a description has axes `{name}_dim_0`, ... without coordinates. Raises an
    InputError if a description does not fit the draws.
    """
    known = {quantity.name: quantity for quantity in given}
    for name in shapes.keys() & known.keys():
        _check(known[name], shapes[name])
    return {name: known.get(name) or _undescribed(name, shape) for name, shape in shapes.items()}


def _undescribed(name: str, shape: tuple[int, ...]) -> Quantity:
    if name in (PREDICTED, NOISE_SCORE) and len(shape) == 1:
        return Quantity(name, {"sensor": None}, is_derived=True)
    return Quantity(name, numbered_axes(name, len(shape)))


def numbered_axes(name: str, num: int) -> dict[str, None]:
    """Return default axes, without coordinates, for a quantity with unknown axes."""
    return {f"{name}_dim_{axis}": None for axis in range(num)}


def _check(quantity: Quantity, shape: tuple[int, ...]) -> None:
    known = {axis: len(at) for axis, at in quantity.axes.items() if at is not None}
    sizes = dict(zip(quantity.axes, shape, strict=False))
    if len(quantity.axes) == len(shape) and sizes | known == sizes:
        return
    axes = ", ".join(f"{x} ({known[x]})" if x in known else x for x in quantity.axes)
    expected = f"axes {axes}" if axes else "a scalar"
    remedy = "describe each axis, with as many coordinates as it has values"
    raise InputError(f"draws of {quantity.name}", expected, f"shape {shape}", remedy)
