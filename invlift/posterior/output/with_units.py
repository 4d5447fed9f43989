"""Names of columns and fields in files of results, with the unit behind them if one is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from invlift.posterior.names import AT_TIME, CONDUCTIVITY, FIELD, PREDICTED, vector_of
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import of_solution
from invlift.units import of_logarithm

#: Statistics that have the unit of what they are of.
_ENDS = ("mean", "sd", "q05", "q50", "q95", "mcse_mean", "mcse_sd", "prior_sd")
_OF_READINGS = "observed", "predicted_mean", "predicted_sd"


def fields_with_units(
    fields: Mapping[str, np.ndarray], posterior: PosteriorStatistics
) -> dict[str, np.ndarray]:
    """Fields by names such as "conductivity_mean [W/(m K)]", which ParaView shows at its colours.

    Of a logarithm, and of what has no unit, the name is as it was.
    """
    units = {each.name: each.unit for each in posterior.quantities} | {
        name: each.unit for name, each in posterior.described.items()
    }
    units = {name.partition(AT_TIME)[0]: unit for name, unit in units.items()} | units
    units[CONDUCTIVITY] = of_logarithm(units.get(FIELD, ""))
    known = {name: unit for name, unit in units.items() if unit and not of_logarithm(unit)}
    behind = known | {f"{name}_{end}": unit for name, unit in known.items() for end in _ENDS}
    return {_named(name, behind.get(name, "")): values for name, values in fields.items()}


def readings_with_units(table: pd.DataFrame, posterior: PosteriorStatistics) -> pd.DataFrame:
    """The table of readings; columns of places and of the solution have their units in the name."""
    known = posterior.described.get(PREDICTED)
    is_one = known is not None and np.all(of_solution(posterior.sensors))
    units = dict.fromkeys("xyz", getattr(posterior.mesh, "unit", ""))
    units |= dict.fromkeys(_OF_READINGS, known.unit if is_one else "")
    units |= known.axis_units if known is not None else {}
    return table.rename(columns={name: _named(name, unit) for name, unit in units.items()})


def scalars_with_units(table: pd.DataFrame, posterior: PosteriorStatistics) -> pd.DataFrame:
    """The summary with a last column of units, if one is known."""
    units = {name: each.unit for name, each in posterior.described.items()}
    column = [units.get(vector_of(name), "") for name in table.index]
    return table.assign(unit=column) if any(column) else table


def _named(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name
