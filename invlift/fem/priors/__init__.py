"""Priors of fields on a mesh, one module each, and the names they have in a problem file."""

from invlift.fem.priors.base import PriorTable
from invlift.fem.priors.inclusions import InclusionsTable
from invlift.fem.priors.independent import IndependentTable
from invlift.fem.priors.layered import LayersTable
from invlift.fem.priors.matern_table import MaternTable

#: What [prior] can be, by its key ``kind``: looked up whenever a problem file is read.
PRIORS: dict[str, type[PriorTable]] = {
    "matern": MaternTable,
    "layers": LayersTable,
    "inclusions": InclusionsTable,
    "independent": IndependentTable,
}
