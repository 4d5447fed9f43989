"""Jacobians of constraints by their structure, factors of their products, and systems of products.

A structure is a module with three classes: what a person chooses (:class:`Structure`), the blocks
(:class:`ConstraintJacobian`), and the factor of a product of two such (:class:`Factor`).
"""

from invlift.lift.jacobians.base import ConstraintJacobian, Factor, Structure
from invlift.lift.jacobians.block_bidiagonal import BlockBidiagonal
from invlift.lift.jacobians.block_diagonal import BlockDiagonal
from invlift.lift.jacobians.bordered import BorderedJacobian, differentiate
from invlift.lift.jacobians.dense import Dense
from invlift.lift.jacobians.diagonal import Diagonal
from invlift.lift.jacobians.grouped import Grouped
from invlift.lift.jacobians.triangular import Triangular

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
