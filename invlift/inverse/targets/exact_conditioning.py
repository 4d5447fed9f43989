"""Generators conditioned on their exact output."""

from __future__ import annotations

import jax

from invlift.inverse.jacobians import Factor, Structure
from invlift.inverse.models.base import ForwardModel
from invlift.inverse.priors.base import Prior
from invlift.inverse.targets.manifold import ManifoldPoint, ManifoldTarget
from invlift.pytrees import static


class ExactConditioning(ManifoldTarget):
    """A generator's inputs, conditioned on its output: data without noise.

    c(u) = F(X(u)) - y, density exp(-|u|^2/2 + r(u)) det(J J^T)^(-1/2) with respect to the
    manifold's own measure (Graham & Storkey 2017, section 4), r for inputs that are not quite
    standard normal.

    Attributes
    ----------
    model : ForwardModel
        Coefficients (N,) to observations (d,).
    prior : Prior
        Inputs u (m,), m > d, to coefficients (N,).
    observed : (d,)
        y.
    structure : Structure or None
        Of the derivatives of the observations by the last inputs: ``Diagonal()`` where each has
        noise of its own (the same, appendix C).  None: dense.
    """

    model: ForwardModel
    prior: Prior
    observed: jax.Array
    structure: Structure | None = static(default=None)

    @property
    def dimension(self) -> int:
        """Number m of inputs."""
        return self.prior.num_white

    def constraint(self, position: jax.Array) -> jax.Array:
        """F(X(u)) - y, (d,)."""
        return self.model(self.prior.transform(position)) - self.observed

    def logdensity(self, position: jax.Array, gram: Factor) -> jax.Array:
        """r(u) - (1/2) log det J J^T, ()."""
        return self.prior.log_reference(position) - 0.5 * gram.log_determinant()

    def describe(self, point: ManifoldPoint) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """Coefficients, under the model's name for them, and the prior's unknown parameters."""
        kept = self.model.describe(self.prior.transform(point.position))
        return kept | self.prior.parameters(point.position), {}
