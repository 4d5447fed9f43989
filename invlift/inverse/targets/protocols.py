"""What targets offer to samplers along the normal space of a manifold."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax


class LocalConstraint(NamedTuple):
    """A constraint on a normal space, lambda -> c(origin - J^T lambda), around one lambda.

    Attributes
    ----------
    residual : (d,)
        c there.
    solve : callable
        ``solve(rhs, tolerance)``, (d,) to (d,): M^-1 rhs with M = J(q_lambda) J^T, exactly or to a
        relative tolerance.
    curvature : callable
        ``curvature(v)``, (d,) to (d,): second derivative of c along J^T v.
    """

    residual: jax.Array
    solve: Callable[[jax.Array, float], jax.Array]
    curvature: Callable[[jax.Array], jax.Array]
