"""Constant errors that readings between electrodes share: offsets of pairs, of injections, ...

Each offset o_j is an additional unknown, and readings are A F(x) + B o.  They are weighted sums of
F and o alike, so the lifted readings are chosen as without offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from scipy.sparse import csr_array, eye_array

from invlift.fem.electrodes.quadrupoles import shared_names, shares
from invlift.fem.equations.experiments import Experiments
from invlift.fem.equations.linearly_mapped import LinearlyMapped
from invlift.fem.linalg import sparse
from invlift.fem.readings.locate import offset_name, rows_with_offset
from invlift.fem.readings.sensors import Sensors
from invlift.models.base import ForwardModel
from invlift.models.corrected import AffineModel
from invlift.models.joined import Combinations
from invlift.unknowns.distributions import Distribution, repeated
from invlift.unknowns.named import Unknown

#: Kinds with one offset for each pair, injection or electrode; any other name is a group of rows.
_OF_EACH = "pair", "injection", "electrode"


class Offset(NamedTuple):
    """Offsets of one kind.

    Attributes
    ----------
    of : str
        The kind: "pair", "injection", "electrode", or the name of a group.
    unknown : Unknown
        The m offsets, or the one offset of a group.
    """

    of: str
    unknown: Unknown

    def in_readings(self, sensors: Sensors, weights: np.ndarray) -> np.ndarray:
        """Return the coefficients of each offset in each reading, (d, m).

        ``weights``, (d, K), are those of the electrodes' potentials in d readings.
        """
        if self.of == "electrode":
            return weights
        if self.of in _OF_EACH:
            return shares(sensors, self.of, self.unknown.axes[self.of])
        return (sensors.groups == self.of).astype(float)[:, None]


def electrode_offsets(
    sensors: Sensors, distributions: Mapping[str, Distribution], names: Sequence[str]
) -> dict[str, Offset]:
    """Return the unknown offsets of readings between K electrodes.

    Parameters
    ----------
    sensors : Sensors
        All readings, of all surveys.
    distributions : mapping of str to Distribution
        The distribution of one offset, in the unit of the readings.  With "pair" each pair m, n has
        an offset, which changes its sign if m and n are swapped; with "injection" each pair a, b
        has one; with "electrode" an offset is added to the potential of each electrode.  Any other
        key is a group of the table, which has one offset.
    names : sequence of K str
        Names of the electrodes.

    Returns
    -------
    dict of str to Offset
        Keys are the names of the unknowns, ``offset_pair`` for example.

    Raises
    ------
    InputError
        If the table has no group of a given name.
    """
    rows_with_offset(sensors, [key for key in distributions if key not in _OF_EACH])
    offsets = {}
    for key, law in distributions.items():
        unknown = Unknown(law)
        if key in _OF_EACH:
            axis = names if key == "electrode" else shared_names(sensors, key)
            unknown = Unknown(repeated(law, len(axis)), axes={key: axis})
        offsets[offset_name(key)] = Offset(key, unknown)
    return offsets


def with_offsets(
    model: ForwardModel,
    offsets: Mapping[str, Offset],
    matrix: np.ndarray,
    sensors: Sensors,
    weights: np.ndarray,
) -> Combinations:
    """Add offsets to the readings: A F(x) + B o.

    Parameters
    ----------
    model : ForwardModel
        F, of N coefficients, on a mesh.
    offsets : mapping of str to Offset
        One or more; keys are the names of the unknowns o.
    matrix : (d, r) array
        A.
    sensors, weights : Sensors, (d, K) array
        The readings, and their weights of the electrodes' potentials.

    Returns
    -------
    Combinations
        A model of the coefficients x and o.
    """
    laws = {name: each.unknown for name, each in offsets.items()}
    parts = [each.in_readings(sensors, weights) for each in offsets.values()]
    every = jax.device_put(np.hstack([matrix, *parts]))
    return Combinations(_with_numbers(model, laws, matrix.shape[1]), every)


def _with_numbers(model: ForwardModel, laws: Mapping[str, Unknown], num: int) -> Experiments:
    """Return the model of F(x), (num,), followed by the offsets o, (m,)."""
    known, refined = model.on_mesh, model.on_mesh.refined
    whole = known._replace(
        further={**known.further, **laws},
        refined=refined and (lambda times=1: _with_numbers(refined(times), laws, num)),
    )
    size, total = (len(known.fields[0].points) + each.num_further for each in (known, whole))
    numbers = np.arange(num + total - size)
    zeros, select = np.zeros(total - size), np.eye(total - size, total, size)
    return Experiments(
        equations=(
            LinearlyMapped(model, sparse.sparse_matrix(csr_array(eye_array(size, total)))),
            AffineModel(*jax.device_put((zeros, select, np.float64(0.0)))),
        ),
        places=tuple(map(sparse.as_index, np.split(numbers, [num]))),
        solutions=(),
        on_mesh=whole,
    )
