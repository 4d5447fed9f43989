"""Differences between readings of a body and of a reference body of uniform conductivity.

Errors that both readings share cancel in the difference: offsets of pairs of electrodes, and most
of the errors from impedances, positions and elements near the electrodes (time difference imaging).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial

import jax
import numpy as np
from scipy.sparse import csr_array, eye_array

from invlift.errors import InputError, positive_number
from invlift.fem.electrodes.quadrupoles import patterns_of
from invlift.fem.equations.linearly_mapped import LinearlyMapped
from invlift.fem.linalg import sparse
from invlift.fem.readings.sensors import Sensors
from invlift.models.base import ForwardModel
from invlift.models.corrected import AffineModel, Shifted
from invlift.models.joined import Joined
from invlift.models.on_mesh import OnMesh
from invlift.programs.compilation import Program
from invlift.programs.pytrees import aside
from invlift.unknowns.distributions import Lognormal, Normal

#: Name of the logarithm of the reference body's conductivity among the draws.
LOG_REFERENCE = "log_reference_conductivity"
#: Tolerance of equal currents and weights of two tables, relative to the largest.
_SAME = 1e-6


class _Moved(LinearlyMapped):
    """The readings of a model at the coefficients P x + origin; origin is () or (M,)."""

    origin: jax.Array = field(kw_only=True)

    def at(self, coefficients):
        return self._mapped(coefficients) + self.origin


class ReferenceDifference(Joined):
    """Differences between readings of a body and of a reference body, (d,).

    Attributes
    ----------
    body, reference : LinearlyMapped
        Two models of the same coefficients.
    on_mesh : OnMesh
    """

    body: LinearlyMapped
    reference: LinearlyMapped
    on_mesh: OnMesh = aside(OnMesh())

    def alike(self) -> np.ndarray | None:
        """Return those of the body: the reference body has the same readings."""
        return self.body.alike()

    def of_readings(self, rows: np.ndarray) -> ReferenceDifference:
        """As :meth:`ForwardModel.of_readings`, without the table of sensors."""
        parts = {"body": self.body.of_readings(rows), "reference": self.reference.of_readings(rows)}
        return replace(self, on_mesh=self.on_mesh._replace(sensors=None), **parts)

    @property
    def _models(self):
        return self.body, self.reference

    def _join(self, parts):
        return parts[0] - parts[1]

    def _weights(self, weighed):
        return weighed, -weighed


def difference_to_reference(model: ForwardModel, conductivity: float | Lognormal) -> ForwardModel:
    """Model F(phi, z) - F(log s, z): readings less those of a body of uniform conductivity s.

    Where the conductivity of the model is known, the reference body has the same.

    Parameters
    ----------
    model : ForwardModel
        F, from :func:`invlift.electrode_model`, a function of the field phi and, if these are
        unknown, of the impedances z.  Both bodies have the same impedances.
    conductivity : float or Lognormal
        s, in the unit of the body's conductivity.  With a distribution, log s is the last unknown,
        ``log_reference_conductivity``.

    Returns
    -------
    ForwardModel
        A model with the same number of readings.

    Raises
    ------
    InputError
        If a known conductivity is not positive.
    """
    is_unknown = isinstance(conductivity, Lognormal)
    if not is_unknown:
        conductivity = positive_number(("reference", "conductivity"), conductivity)
    known = model.on_mesh
    size, rest = len(known.fields[0].points), known.num_further
    again = known.refined

    def refined(times: int = 1) -> ForwardModel:
        return difference_to_reference(again(times), conductivity)

    known = known._replace(refined=again and refined)
    if not is_unknown and not known.further:
        centre = np.full(size, math.log(conductivity))
        values = np.asarray(_readings(model, centre))
        added = AffineModel(*jax.device_put((-values, np.zeros((values.size, 1)), np.float64(0.0))))
        return Shifted(model, added, known)
    impedances = np.arange(size, size + rest)
    total = size + rest + is_unknown
    whole = sparse.sparse_matrix(csr_array(eye_array(size + rest, total)))
    rows, cols, origin = impedances, impedances, np.zeros(size + rest)
    if is_unknown:
        further = {LOG_REFERENCE: Normal(conductivity.location, conductivity.scale)}
        known = known._replace(further=known.further | further)
        rows = np.concatenate([np.arange(size), rows])
        cols = np.concatenate([np.full(size, total - 1), cols])
    else:
        origin[:size] = math.log(conductivity)
    of_reference = csr_array((np.ones(len(rows)), (rows, cols)), shape=(size + rest, total))
    origin = jax.device_put(origin)
    return ReferenceDifference(
        _Moved(model, whole, origin=0.0 * origin),
        _Moved(model, sparse.sparse_matrix(of_reference), origin=origin),
        on_mesh=known,
    )


@partial(Program, effort="some")
def _readings(model: ForwardModel, coefficients: jax.Array) -> jax.Array:
    return model(coefficients)


def less_reference(sensors: Sensors, reference: Sensors, names: Sequence[str]) -> Sensors:
    """Subtract the readings of a reference body with the same currents and electrodes.

    Repeated readings are paired in the order of the tables, within a survey if both have surveys.

    Parameters
    ----------
    sensors, reference : Sensors
        Tables of voltages; ``sigma`` of the first is that of the difference.
    names : sequence of K str
        Names of the electrodes.

    Returns
    -------
    Sensors
        The differences; its ``reference`` holds the values that were subtracted.

    Raises
    ------
    InputError
        As :func:`patterns_of`; if a reading is missing in the other table, or is there less often:
        errors would not be independent if a reading were subtracted twice.
    """
    rows = []
    parts = [np.hstack(patterns_of(each, names)) for each in (sensors, reference)]
    num = len(names)
    sizes = [max(np.abs(each[:, part]).max() for each in parts)
             for part in (slice(num), slice(num, None))]  # fmt: skip
    keys = [np.round(each / (_SAME * np.repeat(sizes, num))).astype(int) for each in parts]
    surveys = [each.surveys for each in (sensors, reference)]
    if any(each is None for each in surveys):
        surveys = [[""] * len(each) for each in keys]
    places: dict[tuple[str, bytes], list[int]] = {}
    for place, (survey, key) in enumerate(zip(surveys[1], keys[1], strict=True)):
        places.setdefault((survey, key.tobytes()), []).append(place)
    for row, (survey, key) in enumerate(zip(surveys[0], keys[0], strict=True)):
        found = places.get((survey, key.tobytes()))
        if not found:
            where = f"{sensors.name}, row {sensors.rows[row]}"
            expected = f"a reading of the same currents and electrodes in {reference.name}"
            remedy = "give a reference that has each reading as often as this table"
            raise InputError(where, expected, "none" if found is None else "no further", remedy)
        rows.append(found.pop(0))
    values = reference.values[rows]
    return replace(sensors, values=sensors.values - values, reference=values)
