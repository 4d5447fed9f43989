"""Structured Jacobians of constraints, factorised products of two, and iterative solvers.

A structure is a module with three classes: the structure that a user chooses
(:class:`JacobianStructure`), its blocks (:class:`ConstraintJacobian`), and a factorised product of
two Jacobians (:class:`GramFactor`).
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
