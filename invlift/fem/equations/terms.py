"""What a linear equation is made of: forms on all elements, and loads that are affine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.fem.linalg import sparse
from invlift.programs.derivatives import derivatives_along, second_directional
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
    """A form on all E elements: where its coefficients and degrees of freedom are.

    A subclass has the ``matrix`` of the form.  Arrays have the elements last, so that sums over the
    few degrees of freedom of one are loops over all elements, of which the processor works on
    several at a time.

    Attributes
    ----------
    shape : (k, Q, E) or (k, Q, 1)
        Basis functions of the coefficient at the quadrature points; one for all if they are alike.
    coefficients : (k, E) int32
        Coefficients that live on each element; those from N on are known ones.
    dofs, unknowns : (m, E) int32
        Degrees of freedom of each element, and the unknown that each is; n where it is held.
    tests : (p, m, E)
        Weights of the residual of each element in p reactions.
    sensitivity_entries : (k, m, E) int32
        Entry of `LinearEquation.sensitivity` for each coefficient and degree of freedom.
    coupling_entries : (m, m, E) int32
        Likewise of `LinearEquation.couplings`.
    kept : (num_kept,) int32
        Entries of half the element matrices, (m, m, E) ravelled, that couple two unknowns.
    given : (num_given,) int32
        Elements with a load, or with held values that are not zero.
    """

    shape: jax.Array
    coefficients: jax.Array
    dofs: jax.Array
    unknowns: jax.Array
    tests: jax.Array
    sensitivity_entries: jax.Array
    coupling_entries: jax.Array
    kept: jax.Array
    given: jax.Array

    # Names of the arrays that forces are computed of.
    _of_elements: ClassVar[tuple[str, ...]] = "shape", "coefficients", "dofs", "unknowns", "tests"

    def at_given(self) -> Term:
        """The form on the elements ``given`` alone."""
        num = self.coefficients.shape[1]
        if self.given.size == num:
            return self
        of_elements = {name: getattr(self, name) for name in self._of_elements}
        return replace(self, **jax.tree.map(self._taken, of_elements))

    def _taken(self, array):
        """Of what belongs to all elements, (..., E) or (..., 1), those that are given."""
        return array if array.shape[-1] == 1 else sparse.gather(array.T, self.given).T

    def matrices(self, local: jax.Array) -> jax.Array:
        """Element matrices, (m, m, E), for coefficients (k, E)."""
        raise NotImplementedError

    def forces(self, local: jax.Array, solution: jax.Array) -> jax.Array:
        """A u - b of each element, (m, L, E), for u of (m, L, E)."""
        raise NotImplementedError

    def rates(self, local: jax.Array, solution: jax.Array) -> jax.Array:
        """Derivatives of :meth:`forces` by the coefficients, (m, L, k, E)."""
        raise NotImplementedError

    def forces_along(self, local: Sequence[jax.Array], solution: Sequence[jax.Array]) -> jax.Array:
        """Derivative of order n of :meth:`forces` along a curve, (m, L, E).

        By the derivatives of orders 0 to n of the coefficients, and of u, of which all that are
        left out behind the last are zero.
        """
        none = [jnp.zeros_like(solution[0])] * (len(local) - len(solution))
        path = list(zip(local, [*solution, *none], strict=True))
        return derivatives_along(lambda both: self.forces(*both), path)[-1]

    def pull_back_rates(self, local, solution, weights) -> tuple[jax.Array, jax.Array]:
        """Gradients of <W, rates> by the coefficients, (k, E), and by u, (m, L, E)."""

        def weighted(local, solution):
            return jnp.sum(weights * self.rates(local, solution))

        return jax.grad(weighted, (0, 1))(local, solution)

    def pull_back(self, local, solution, by_matrices, by_forces) -> jax.Array:
        """Gradient of <by_matrices, matrices> + <by_forces, forces> by the coefficients, (k, E)."""

        def weighted(local):
            by_matrix = jnp.sum(by_matrices * self.matrices(local))
            return by_matrix + jnp.sum(by_forces * self.forces(local, solution))

        return jax.grad(weighted)(local)

    def reactions(self, forces):
        """The reactions, (p, ...), to forces of the elements, (m, ..., E)."""
        return jnp.einsum("pme,m...e->p...", self.tests, forces)


class WeightedTerm(Term):
    """A form whose matrices are weights of the coefficient times constant ones.

    Attributes
    ----------
    weight : callable
        Of the form, a function of the coefficient at points:
        :class:`invlift.fem.equations.forms.Weighted`.
    integrals : (P, m, m, E)
        The constant matrices: at each of P = Q points, or P = 1 where those of all points differ by
        a factor, the point's share.
    shares : (Q, E) or (Q, 1)
        These shares, which sum to one.
    """

    weight: Callable = static()
    integrals: jax.Array
    shares: jax.Array

    _of_elements = *Term._of_elements, "integrals", "shares"

    def scaled(self, factor: jax.Array) -> WeightedTerm:
        """The form times a factor."""
        return replace(self, integrals=factor * self.integrals)

    def matrices(self, local):
        """As of :class:`Term`."""
        return contract(self.integrals, self._weights(local)[:, None, None])

    def forces(self, local, solution):
        """As of :class:`Term`."""
        return contract(self._at_weight_one(solution), self._weights(local)[:, None, None])

    def forces_along(self, local, solution):
        """As of :class:`Term`, by Leibniz' rule."""
        along = derivatives_along(self.weight, [self._at_points(each) for each in local])
        weights = [self._mean(each) for each in along][::-1]
        order = len(weights) - 1
        terms = [
            contract(math.comb(order, k) * self._at_weight_one(each), weight[:, None, None])
            for k, (each, weight) in enumerate(zip(solution, weights, strict=False))
        ]
        return reduce(add, terms)

    def rates(self, local, solution):
        """As of :class:`Term`."""
        slopes = self._slopes(local)[:, None, None]
        return contract(self._at_weight_one(solution)[:, :, :, None], slopes)

    def pull_back_rates(self, local, solution, weights):
        """As of :class:`Term`."""
        by_slopes, by_solution = [], []
        at_one, by_coefficient = self._at_weight_one(solution), jnp.moveaxis(weights, 2, 0)
        for matrix, force, slopes in zip(self.integrals, at_one, self._slopes(local), strict=True):
            by_slopes.append(_total(contract(force[:, :, None], weights)))
            by_force = contract(slopes[:, None, None], by_coefficient)
            by_solution.append(contract(matrix[:, :, None], by_force[:, None]))
        return self._pull_back_slopes(local, jnp.stack(by_slopes)), _total(by_solution)

    def pull_back(self, local, solution, by_matrices, by_forces):
        """As of :class:`Term`."""
        by_weights = [
            _total(contract(matrix, by_matrices)) + _total(contract(force, by_forces))
            for matrix, force in zip(self.integrals, self._at_weight_one(solution), strict=True)
        ]
        return contract(by_weights, self._slopes(local))

    def _at_weight_one(self, solution):
        """Forces of each element where the weight is one at a point alone, (P, m, L, E)."""
        columns = jnp.moveaxis(self.integrals, 2, 0)[:, :, :, None]
        return contract(columns, solution[:, None, None])

    def _weights(self, local):
        """Weights at the P points, or their mean, (P, E)."""
        return self._mean(self.weight(self._at_points(local)))

    def _slopes(self, local):
        """Derivatives of the weights by the coefficients, (P, k, E)."""
        points = self._at_points(local)
        _, slopes = jax.jvp(self.weight, (points,), (jnp.ones_like(points),))
        return self._mean(self.shape.swapaxes(0, 1) * slopes[:, None])

    def _pull_back_slopes(self, local, by_slopes):
        """Gradient of <X, slopes> by the coefficients, (k, E), for X of (P, k, E)."""
        points = self._at_points(local)
        ones = jnp.ones_like(points)
        curvature = second_directional(self.weight, (points,), (ones,))
        by_points = contract(self.shape, by_slopes.swapaxes(0, 1)) * curvature
        if len(by_slopes) != len(points):
            by_points = by_points * self.shares
        return contract(self.shape.swapaxes(0, 1), by_points[:, None])

    def _at_points(self, local):
        """The coefficient at the quadrature points, (Q, E)."""
        return contract(self.shape, local[:, None])

    def _mean(self, values):
        """Of values at Q points, (Q, ..., E), what belongs to P: all of them, or their mean."""
        if self.integrals.shape[0] == values.shape[0]:
            return values
        axes = tuple(range(1, values.ndim - 1))
        return contract(jnp.expand_dims(self.shares, axes), values)[None]


class GeneralTerm(Term):
    """A form whose matrix is any function of the coefficient.

    Attributes
    ----------
    matrix, load : callable
        Those of :class:`invlift.fem.equations.form_assembly.Form`.
    element : Element
        Of all elements, with the elements last.
    """

    matrix: Callable = static()
    load: Callable | None = static()
    element: Element

    _of_elements = *Term._of_elements, "element"

    def matrices(self, local):
        """As of :class:`Term`."""
        return self._each(self._matrix)(local, self.shape, self.element)

    def loads(self, local):
        """b of each element, (m, L, E) or (m, 1, E), for coefficients (k, E), if they change it."""
        return self._each(self._load)(local, self.shape, self.element)

    def forces(self, local, solution):
        """As of :class:`Term`."""
        return self._each(self._force)(local, solution, self.shape, self.element)

    def rates(self, local, solution):
        """As of :class:`Term`."""
        return self._each(jax.jacfwd(self._force))(local, solution, self.shape, self.element)

    def _matrix(self, local, shape, element):
        return self.matrix(local @ shape, element)

    def _force(self, local, solution, shape, element):
        force = self._matrix(local, shape, element) @ solution
        return force if self.load is None else force - self._load(local, shape, element)

    def _load(self, local, shape, element):
        return self.load(local @ shape, element)

    def _each(self, fn):
        """The function of one element for all of them, which come last."""
        num = self.coefficients.shape[1]

        def of_all(*given):
            *others, shape, element = given
            shape = jnp.broadcast_to(shape, (*shape.shape[:2], num))
            return jax.vmap(fn, in_axes=-1, out_axes=-1)(*others, shape, element)

        return of_all


def _total(parts):
    """Sum over the first axis, unrolled likewise."""
    return reduce(add, [*parts])


def contract(left: jax.Array, right: jax.Array) -> jax.Array:
    """Sum of products over the first axis; unrolled, to become one loop over the elements."""
    return reduce(add, [one * other for one, other in zip(left, right, strict=True)])


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

    def at(self, coefficients):
        """All of these but the first, at coefficients (N,)."""
        parts = self.load, self.held, self.reactions, self.offsets
        if not self.coefficients.size:
            return [part[0] for part in parts]
        return [part[0] + rate for part, rate in zip(parts, self.along(coefficients), strict=True)]

    def along(self, direction):
        """How these change along a direction (N,) of the coefficients."""
        own = sparse.gather(direction, self.coefficients)
        parts = self.load, self.held, self.reactions, self.offsets
        if not self.coefficients.size:
            return [jnp.zeros(part.shape[1:]) for part in parts]
        return [jnp.tensordot(own, part[1:], 1) for part in parts]
