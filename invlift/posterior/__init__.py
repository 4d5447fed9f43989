"""What a person looks at: posterior fields, diagnostics, verdict, files and figures."""

from invlift.posterior.diagnostics import Diagnostics, diagnose, diagnose_field
from invlift.posterior.fields import field_statistics, variance_reduction
from invlift.posterior.leave_one_out import LeaveOneOut
from invlift.posterior.parts import Readings, Standards
from invlift.posterior.posterior import Posterior
from invlift.posterior.quantity import Quantity
from invlift.posterior.sensor_fit import SensorStatistics, sensor_statistics
from invlift.posterior.verdict import Verdict

__all__ = [
    "Diagnostics",
    "LeaveOneOut",
    "Posterior",
    "Quantity",
    "Readings",
    "SensorStatistics",
    "Standards",
    "Verdict",
    "diagnose",
    "diagnose_field",
    "field_statistics",
    "sensor_statistics",
    "variance_reduction",
]
