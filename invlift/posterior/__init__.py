"""What a person looks at: posterior fields, diagnostics, verdict, files and figures."""

from invlift.posterior.diagnostics import Diagnostics, diagnose, diagnose_field
from invlift.posterior.leave_one_out import LeaveOneOut
from invlift.posterior.posterior import Posterior
from invlift.posterior.readings import Readings
from invlift.posterior.standards import Standards
from invlift.posterior.statistics import (
    SensorStatistics,
    field_statistics,
    normal_scores,
    sensor_statistics,
    variance_reduction,
)
from invlift.posterior.verdict import Verdict, judge

__all__ = [
    "Diagnostics",
    "LeaveOneOut",
    "Posterior",
    "Readings",
    "SensorStatistics",
    "Standards",
    "Verdict",
    "diagnose",
    "diagnose_field",
    "field_statistics",
    "judge",
    "normal_scores",
    "sensor_statistics",
    "variance_reduction",
]
