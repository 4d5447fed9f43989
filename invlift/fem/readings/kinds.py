"""Kinds of readings by name."""

from invlift.fem.readings.average import AVERAGE
from invlift.fem.readings.base import Kind
from invlift.fem.readings.flux import FLUX
from invlift.fem.readings.log_conductivity import LOG_CONDUCTIVITY
from invlift.fem.readings.point import DIFFERENCE, POINT

#: Kinds of readings by their name in the column ``kind`` of the sensor table; read whenever
#: readings are located.
KINDS: dict[str, Kind] = {
    "point": POINT,
    "difference": DIFFERENCE,
    "average": AVERAGE,
    "flux": FLUX,
    "log_conductivity": LOG_CONDUCTIVITY,
}
