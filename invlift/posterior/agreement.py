"""Whether the parts of a posterior fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from invlift.errors import InputError
from invlift.posterior.names import FIELD, NOISE_SCORE, PARAMETERS, PREDICTED
from invlift.posterior.readings import SensorTable


def check_mesh(
    shapes: Mapping[str, tuple[int, ...]],
    location: str,
    points: np.ndarray | None,
    cells: np.ndarray | None,
) -> None:
    """Check that the draws of the log-conductivity live on the mesh.

    Parameters
    ----------
    shapes : mapping of str to tuple
        From `check_chains`.
    location : "nodes" or "cells"
    points : (num_nodes, dim) array or None
    cells : (num_cells, dim + 1) array or None

    Raises
    ------
    InputError
        If the location is unknown, or mesh or draws are missing or differ in size.
    """
    if location not in ("nodes", "cells"):
        raise InputError(
            "posterior, location", '"nodes", "cells" or None', repr(location), "fix it"
        )
    if points is None or cells is None or FIELD not in shapes:
        raise InputError(
            "posterior",
            f"points, cells and draws of {FIELD}",
            f"location {location!r} without them",
            "pass the mesh, or location=None for a model without one",
        )
    size = len(points) if location == "nodes" else len(cells)
    if shapes[FIELD] != (size,):
        raise InputError(
            f"draws of {FIELD}",
            f"one value for each of the {size} {location}",
            f"shape {shapes[FIELD]}",
            "pass the mesh that was used in the run",
        )


def check_names(shapes: Mapping[str, tuple[int, ...]], names: Sequence[str] | None) -> None:
    """Check that there is a name for each parameter, or none at all.

    Parameters
    ----------
    shapes : mapping of str to tuple
        From `check_chains`.
    names : sequence of str or None

    Raises
    ------
    InputError
        If their numbers differ.
    """
    size = shapes[PARAMETERS][0] if PARAMETERS in shapes else 0
    if names is not None and len(names) != size:
        raise InputError(
            "posterior, names", f"{size} names", f"{len(names)}", "name each parameter"
        )


def check_readings(shapes: Mapping[str, tuple[int, ...]], sensors: SensorTable | None) -> None:
    """Check that there is a reading for each prediction and each noise variable.

    Parameters
    ----------
    shapes : mapping of str to tuple
        From `check_chains`.
    sensors : SensorTable or None

    Raises
    ------
    InputError
        If their numbers differ.
    """
    for name in (PREDICTED, NOISE_SCORE):
        if sensors is not None and name in shapes and np.shape(sensors.values) != shapes[name]:
            raise InputError(
                "sensors",
                f"one reading for each of the draws of {name} {shapes[name]}",
                f"readings {np.shape(sensors.values)}",
                "pass the sensors that were used in the run",
            )
