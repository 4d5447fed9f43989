"""Names of columns and fields in result files, followed by the unit if it is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from invlift.posterior.names import AT_TIME, CONDUCTIVITY, FIELD, SECOND_PLACE, vector_of
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.units import of_logarithm, with_unit

#: Statistics that have the unit of their quantity.
_ENDS = ("mean", "sd", "q05", "q50", "q95", "mcse_mean", "mcse_sd", "prior_sd")
_OF_READINGS = "observed", "predicted_mean", "predicted_sd"


def units_of_fields(posterior: PosteriorStatistics) -> dict[str, str]:
    """Return the units of fields and of their statistics by name.

    Logarithms and quantities without a unit are not among them.
    """
    units = {each.name: each.unit for each in posterior.quantities} | {
        name: each.unit for name, each in posterior.described.items()
    }
    units = {name.partition(AT_TIME)[0]: unit for name, unit in units.items()} | units
    units[CONDUCTIVITY] = of_logarithm(units.get(FIELD, ""))
    known = {name: unit for name, unit in units.items() if unit and not of_logarithm(unit)}
    return known | {f"{name}_{end}": unit for name, unit in known.items() for end in _ENDS}


def fields_with_units(
    fields: Mapping[str, np.ndarray], posterior: PosteriorStatistics
) -> dict[str, np.ndarray]:
    """Return fields with names such as "conductivity_mean [W/(m K)]".

    ParaView shows this name at the colour scale. Names of logarithms and of quantities without a
    unit are unchanged.
    """
    units = units_of_fields(posterior)
    return {with_unit(name, units.get(name, "")): values for name, values in fields.items()}


def readings_with_units(table: pd.DataFrame, posterior: PosteriorStatistics) -> pd.DataFrame:
    """Return the table of readings with units in the names of coordinate and solution columns."""
    units = dict.fromkeys(
        [*"xyz", *SECOND_PLACE, "radius"], posterior.mesh.unit if posterior.mesh else ""
    )
    units |= dict.fromkeys(_OF_READINGS, posterior.fit.unit)
    units |= posterior.fit.predicted.axis_units
    return table.rename(columns={name: with_unit(name, unit) for name, unit in units.items()})


def scalars_with_units(table: pd.DataFrame, posterior: PosteriorStatistics) -> pd.DataFrame:
    """Return the summary with a last column of units, if any unit is known."""
    units = {name: each.unit for name, each in posterior.described.items()}
    column = [units.get(vector_of(name), "") for name in table.index]
    return table.assign(unit=column) if any(column) else table
