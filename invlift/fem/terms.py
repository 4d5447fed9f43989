"""What a linear equation is made of: forms on all elements, and loads that are affine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from invlift.fem import sparse
from invlift.programs.pytrees import Module, static


class Element(NamedTuple):
    """What is known of one element: m basis functions at Q quadrature points.

    Attributes
    ----------
    value : (m, Q), or (m, components, Q) for vector fields
        The basis functions.
    gradient : (m, dim, Q), or (m, components, dim, Q)
        Their gradients, in 1/L for a mesh in the unit L.
    weight : (Q,)
        Weights of the quadrature, in L^dim (on facets L^(dim - 1)).
    place : (dim, Q)
        Coordinates of the points, in L.
    """

    value: jax.Array
    gradient: jax.Array
    weight: jax.Array
    place: jax.Array


class Term(Module):
    """A form on all E elements.

    Attributes
    ----------
    matrix, load : callable
        Those of :class:`invlift.fem.form_assembly.Form`.
    shape : (k, Q, E)
        Basis functions of the coefficient at the quadrature points.
    coefficients : (k, E) int32
        Coefficients that live on each element; those from N on are known ones.
    dofs, unknowns : (m, E) int32
        Degrees of freedom of each element, and the unknown that each is; n where it is held.
    element : Element
        Of all elements, with the elements last.
    tests : (p, m, E)
        Weights of the residual of each element in p reactions.
    sensitivity_entries : (k, m, E) int32
        Entry of `LinearEquation.sensitivity` for each coefficient and degree of freedom.
    coupling_entries : (m, m, E) int32
        Likewise of `LinearEquation.couplings`.
    kept : (num_kept,) int32
        Entries of half the element matrices, (m, m, E) ravelled, that couple two unknowns.
    """

    matrix: Callable = static()
    load: Callable | None = static()
    shape: jax.Array
    coefficients: jax.Array
    dofs: jax.Array
    unknowns: jax.Array
    element: Element
    tests: jax.Array
    sensitivity_entries: jax.Array
    coupling_entries: jax.Array
    kept: jax.Array

    def matrices(self, local):
        """Element matrices, (m, m, E), for coefficients (k, E)."""
        return self._each(self._matrix)(local, self.shape, self.element)

    def loads(self, local):
        """b of each element, (m, L, E) or (m, 1, E), for coefficients (k, E), if they change it."""
        return self._each(self._load)(local, self.shape, self.element)

    def forces(self, local, solution):
        """A u - b of each element, (m, L, E), for u of (m, L, E)."""
        return self._each(self._force)(local, solution, self.shape, self.element)

    def rates(self, local, solution):
        """Derivatives of :meth:`forces` by the coefficients, (m, L, k, E)."""
        return self._each(jax.jacfwd(self._force))(local, solution, self.shape, self.element)

    def reactions(self, forces):
        """The reactions, (p, ...), to forces of the elements, (m, ..., E)."""
        return jnp.einsum("pme,m...e->p...", self.tests, forces)

    def _matrix(self, local, shape, element):
        return self.matrix(local @ shape, element)

    def _force(self, local, solution, shape, element):
        force = self._matrix(local, shape, element) @ solution
        return force if self.load is None else force - self._load(local, shape, element)

    def _load(self, local, shape, element):
        return self.load(local @ shape, element)

    @staticmethod
    def _each(fn):
        """The function of one element for all of them, which come last: see `poisson.py`."""
        return jax.vmap(fn, in_axes=-1, out_axes=-1)


class Inputs(Module):
    """What is affine in K of the coefficients: first what none of them changes, then by each.

    Attributes
    ----------
    coefficients : (K,) int32
        Their numbers.
    load : (1 + K, n, L)
        The part of b on the unknowns that no element gives.
    held : (1 + K, num_dofs, L)
        u where it is held, zero elsewhere.
    reactions : (1 + K, p, L)
        What this load takes from the reactions.
    offsets : (1 + K, d)
        What held values add to each reading.
    """

    coefficients: jax.Array
    load: jax.Array
    held: jax.Array
    reactions: jax.Array
    offsets: jax.Array

    def at(self, coefficients, constant=1.0):
        """All of these but the first, at coefficients (N,); with constant 0 rates along these."""
        own = sparse.gather(coefficients, self.coefficients)
        weights = jnp.concatenate([jnp.full(1, constant), own])
        parts = self.load, self.held, self.reactions, self.offsets
        return [jnp.tensordot(weights, part, 1) for part in parts]
