"""Prior of parameters that are standard normal."""

from __future__ import annotations

from typing import ClassVar

import jax

from invlift.unknowns.priors.base import AffinePrior


class StandardNormalPrior(AffinePrior):
    """theta ~ Normal(0, I): a user's function maps these to its own parameters.

    Attributes
    ----------
    mean : (N,)
        Zeros; their number is the number of parameters.
    """

    is_identity: ClassVar[bool] = True

    mean: jax.Array

    @property
    def num_white(self) -> int:
        """Number N of parameters."""
        return self.mean.shape[0]

    def sqrt(self, white: jax.Array) -> jax.Array:
        """Identity, on (N,) or (N, k)."""
        return white

    def sqrt_transpose(self, values: jax.Array) -> jax.Array:
        """Identity, on (N,) or (N, k)."""
        return values
