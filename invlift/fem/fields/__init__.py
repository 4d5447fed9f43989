"""Priors of fields on a mesh, one module each, and the names they have in a problem file."""

from invlift.fem.fields.base import PriorTable
from invlift.fem.fields.inclusions import InclusionsTable
from invlift.fem.fields.independent import IndependentTable
from invlift.fem.fields.layered import LayersTable
from invlift.fem.fields.matern_table import MaternTable

#: What [prior] can be, by its key ``kind``: looked up whenever a problem file is read.
PRIORS: dict[str, type[PriorTable]] = {
    "matern": MaternTable,
    "layers": LayersTable,
    "inclusions": InclusionsTable,
    "independent": IndependentTable,
}
