"""Densities with respect to a manifold's own measure."""

from __future__ import annotations

from collections.abc import Callable

import jax

from invlift.inverse.jacobians import Factor, Structure
from invlift.inverse.targets.manifold import ManifoldTarget
from invlift.pytrees import static


class ExplicitManifold(ManifoldTarget):
    """A density on a manifold {q : c(q) = 0} with respect to its own measure.

    No Gram matrix enters the density: it is given on the manifold itself, a sphere say (Brubaker,
    Salzmann & Urtasun 2012).

    Attributes
    ----------
    constraint_fn : callable
        c, (Q,) to (d,), with a Jacobian of full rank where it vanishes.
    logdensity_fn : callable
        Log density with respect to the manifold's own measure, (Q,) to (), up to a constant.
    structure : Structure or None
        Of the derivatives of c by the last variables; None: dense.
    """

    constraint_fn: Callable = static()
    logdensity_fn: Callable = static()
    structure: Structure | None = static(default=None)

    def constraint(self, position: jax.Array) -> jax.Array:
        """c(q), (d,)."""
        return self.constraint_fn(position)

    def logdensity(self, position: jax.Array, gram: Factor) -> jax.Array:
        """Log density relative to the standard normal one, ()."""
        del gram
        return self.logdensity_fn(position) + 0.5 * position @ position
