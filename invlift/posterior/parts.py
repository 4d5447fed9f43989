"""The parts a posterior is made of: their names, and whether they fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invlift.errors import InputError
from invlift.posterior.blocks import check_draws

#: Names of the draws of a field problem, of a user's own model, of the forward map of either, and
#: of the noise's scale.
FIELD, PARAMETERS, PREDICTED, SIGMA = "log_conductivity", "parameters", "predicted", "sigma"


@dataclass(frozen=True, eq=False)
class Readings:
    """What the sensors said, for posteriors that do not come with a sensor table.

    Attributes
    ----------
    values : (d,) array
        Readings.
    sigma : (d,) array or None
        Standard deviation of the noise where it is known.
    points : (d, dim) array or None
        Positions, for models that have any.
    """

    values: np.ndarray
    sigma: np.ndarray | None = None
    points: np.ndarray | None = None


def kept(chains: Sequence[Any], name: str) -> list[Mapping[str, Any]]:
    """What each chain keeps as `stats`, `warmup_stats` or `moments`; empty where it has none."""
    return [getattr(chain, name, None) or {} for chain in chains]


def check_chains(chains: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    """Check that the draws of all chains can be read as one sample.

    Parameters
    ----------
    chains : sequence
        Objects with `draws`, name -> (num_draws, ...) array.

    Returns
    -------
    dict of str to tuple
        Shape of one draw of each quantity.

    Raises
    ------
    InputError
        If there is no chain or no draw, or chains differ in what they hold.
    """
    if not chains:
        raise InputError(
            "posterior", "at least one chain", "none", "run the sampler before asking for it"
        )
    known = [set(chain.draws) for chain in chains]
    if any(names != known[0] for names in known):
        raise InputError(
            "posterior",
            "draws of the same quantities in every chain",
            "; ".join(str(sorted(names)) for names in known),
            "combine chains of one problem only",
        )
    if not known[0]:
        raise InputError("posterior", "draws in every chain", "none", "run the sampler for longer")
    num_draws, shapes = {}, {}
    for name in chains[0].draws:
        draws = [chain.draws[name] for chain in chains]
        _, num_draws[name], shapes[name] = check_draws(draws, name)
    if len(set(num_draws.values())) > 1:
        raise InputError(
            "posterior",
            "equally many draws of every quantity",
            str(num_draws),
            "thin all quantities alike",
        )
    return shapes


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


def check_sensors(shapes: Mapping[str, tuple[int, ...]], sensors: Any) -> None:
    """Check that there is a reading for each prediction, where there are both.

    Parameters
    ----------
    shapes : mapping of str to tuple
        From `check_chains`.
    sensors : object or None
        With `values` (d,).

    Raises
    ------
    InputError
        If their numbers differ.
    """
    if sensors is None or PREDICTED not in shapes:
        return
    observed, predicted = np.shape(sensors.values), shapes[PREDICTED]
    if observed != predicted:
        raise InputError(
            "sensors",
            f"one reading for each of the predictions {predicted}",
            f"readings {observed}",
            "pass the sensors that were used in the run",
        )
