"""What a person looks at: posterior fields, diagnostics, verdict, files and figures."""

from invlift.posterior.diagnostics import Diagnostics, diagnose, diagnose_field
from invlift.posterior.parts import Readings
from invlift.posterior.posterior import Posterior
from invlift.posterior.statistics import (
    MergedMoments,
    SensorStatistics,
    field_statistics,
    merge_moments,
    sensor_statistics,
    variance_reduction,
)
from invlift.posterior.verdict import Verdict, judge

__all__ = [
    "Diagnostics",
    "MergedMoments",
    "Posterior",
    "Readings",
    "SensorStatistics",
    "Verdict",
    "diagnose",
    "diagnose_field",
    "field_statistics",
    "judge",
    "merge_moments",
    "sensor_statistics",
    "variance_reduction",
]
