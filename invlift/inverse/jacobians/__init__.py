"""Jacobians of constraints by their structure, factors of their products, and systems of products.

A structure is a module with three classes: what a person chooses (:class:`Structure`), the blocks
(:class:`ConstraintJacobian`), and the factor of a product of two such (:class:`Factor`).
"""

from invlift.inverse.jacobians.base import ConstraintJacobian, Factor, Structure
from invlift.inverse.jacobians.block_bidiagonal import BlockBidiagonal
from invlift.inverse.jacobians.block_diagonal import BlockDiagonal
from invlift.inverse.jacobians.bordered import BorderedJacobian, differentiate
from invlift.inverse.jacobians.dense import Dense
from invlift.inverse.jacobians.diagonal import Diagonal
from invlift.inverse.jacobians.grouped import Grouped
from invlift.inverse.jacobians.triangular import Triangular

__all__ = [
    "BlockBidiagonal",
    "BlockDiagonal",
    "BorderedJacobian",
    "ConstraintJacobian",
    "Dense",
    "Diagonal",
    "Factor",
    "Grouped",
    "Structure",
    "Triangular",
    "differentiate",
]
