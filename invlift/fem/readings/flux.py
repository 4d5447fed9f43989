"""Readings of the total flux into the body through a boundary group: integral of exp(phi) du/dn."""

from __future__ import annotations

import numpy as np

from invlift.errors import InputError
from invlift.fem.mesh import functionals
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.readings.base import FLUXES, Kind, Located, Weights, at_row, shown_at
from invlift.fem.readings.sensors import Sensors


def _locate(mesh: Mesh, sensors: Sensors, outside: str) -> Located:
    middles = []
    for row, group in enumerate(sensors.over.tolist()):
        where = at_row(sensors, row, "over")
        if not group:
            expected, remedy = "a boundary group", "name the one that the flux goes through"
            raise InputError(where, expected, "an empty entry", remedy)
        corners = mesh.points[mesh.facets(group, where)]
        sizes = functionals.facet_sizes(corners)
        middles.append(sizes @ corners.mean(axis=1) / sizes.sum())
    size = len(sensors.values)
    parts = {FLUXES: Weights(sensors.over[:, None], np.ones((size, 1)))}
    points = shown_at(sensors, np.array(middles))
    return Located(parts, points, np.zeros(size), np.ones(size, dtype=bool))


FLUX = Kind(_locate, ("over",))
