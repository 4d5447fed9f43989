"""Matrices of one element for common equations, for :func:`invlift.linear_equation`.

Each is a function of the coefficient at the element's Q quadrature points, (Q,), and of its
:class:`~invlift.fem.terms.Element`, and gives the symmetric matrix (m, m).  Coefficients of
fields are logarithms, so that what they stand for is positive; numbers stand for themselves.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from invlift.errors import InputError
from invlift.fem.terms import Element
from invlift.programs.pytrees import Module


def conduction(log_conductivity: jax.Array, element: Element) -> jax.Array:
    """Integrals of exp(phi) grad v_i . grad v_j, of -div(exp(phi) grad u)."""
    weight = jnp.exp(log_conductivity) * element.weight
    return jnp.einsum("idq,jdq,q->ij", element.gradient, element.gradient, weight)


def reaction(log_rate: jax.Array, element: Element) -> jax.Array:
    """Integrals of exp(c) v_i v_j, of the term exp(c) u.

    On facets the part of a Robin condition or of a contact whose coefficient is unknown.
    """
    weight = jnp.exp(log_rate) * element.weight
    return jnp.einsum("iq,jq,q->ij", element.value, element.value, weight)


def storage(rate: jax.Array, element: Element) -> jax.Array:
    """Integrals of S v_i v_j, of the term S u, with S itself as the coefficient."""
    return jnp.einsum("iq,jq,q->ij", element.value, element.value, rate * element.weight)


def exchange(coefficient: jax.Array, element: Element) -> jax.Array:
    """Integrals of h (v_i - V)(v_j - V) over a facet, (m + 1, m + 1).

    What flows in through it is h (U - u) where U, the last degree of freedom, of the function V, is
    what lies outside: a potential, or the ambient value of a Robin condition.
    """
    jump = jnp.concatenate([element.value, -jnp.ones((1, element.value.shape[1]))])
    return jnp.einsum("iq,jq,q->ij", jump, jump, coefficient * element.weight)


class Elasticity(Module, settings=True):
    """A linear elastic body with exp(c) as Young's modulus, for displacements u.

    Integrals of exp(c) (2 mu eps_i : eps_j + lambda div v_i div v_j), where eps is the symmetric
    gradient, mu = 1 / (2 (1 + nu)) and lambda = nu / ((1 + nu) (1 - 2 nu)); in two dimensions this
    is plane strain, and lambda = nu / (1 - nu^2) plane stress.

    Attributes
    ----------
    poisson_ratio : float
        nu, between -1 and 0.5.
    is_plane_stress : bool
        Of a thin plate, in two dimensions.

    Raises
    ------
    InputError
        If nu is not between these.
    """

    poisson_ratio: float = 0.3
    is_plane_stress: bool = False

    def __post_init__(self) -> None:
        if not -1.0 < self.poisson_ratio < 0.5:
            expected, found = "a number between -1 and 0.5", f"{self.poisson_ratio}"
            remedy = "give that of the material, such as 0.3 of steel"
            raise InputError("poisson_ratio", expected, found, remedy)

    def __call__(self, log_modulus: jax.Array, element: Element) -> jax.Array:
        """The matrix of one element, (m, m)."""
        ratio = self.poisson_ratio
        shear = 1.0 / (2.0 * (1.0 + ratio))
        lame = ratio / ((1.0 + ratio) * (1.0 - 2.0 * ratio))
        lame = ratio / (1.0 - ratio**2) if self.is_plane_stress else lame
        gradient, weight = element.gradient, jnp.exp(log_modulus) * element.weight
        strain = 0.5 * (gradient + gradient.swapaxes(1, 2))
        divergence = jnp.einsum("iccq->iq", gradient)
        return 2.0 * shear * jnp.einsum("icdq,jcdq,q->ij", strain, strain, weight) + (
            lame * jnp.einsum("iq,jq,q->ij", divergence, divergence, weight)
        )
