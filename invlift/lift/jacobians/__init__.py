"""Jacobians of constraints by their structure, factors of their products, and systems of products.

A structure is a module with three classes: what a person chooses (:class:`JacobianStructure`), the
blocks (:class:`ConstraintJacobian`), and the factor of a product of two such (:class:`GramFactor`).
"""

from invlift.lift.jacobians.base import ConstraintJacobian, GramFactor, JacobianStructure
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
    "GramFactor",
    "Grouped",
    "JacobianStructure",
    "Triangular",
    "differentiate",
]
