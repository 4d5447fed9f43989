"""Terms of a linear equation: forms on all elements, and affine loads and held values."""

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
    """Data of one element: m basis functions at Q quadrature points.

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
    """A form on all E elements, with their coefficients and degrees of freedom.

    A subclass has the ``matrix`` of the form.  In all arrays the elements are the last axis.  Sums
    over the few degrees of freedom of an element are then loops over all elements, which the
    processor vectorises.

    Attributes
    ----------
    shape : (k, Q, E) or (k, Q, 1)
        Basis functions of the coefficient at the quadrature points; one entry if all are equal.
    coefficients : (k, E) int32
        Coefficients of each element; indices from N on are known coefficients.
    dofs, unknowns : (m, E) int32
        Degrees of freedom of each element, and their indices among the unknowns; n if held.
    tests : (p, m, E)
        Weights of the residual of each element in p reactions.
    sensitivity_entries : (k, m, E) int32
        Entry of `LinearEquation.sensitivity` for each coefficient and degree of freedom.
    coupling_entries : (m, m, E) int32
        Entry of `LinearEquation.couplings` for each pair of degrees of freedom.
    kept : (num_kept,) int32
        Indices in the ravelled element matrices, (m, m, E), of the entries in the lower half that
        couple two unknowns.
    given : (num_given,) int32
        Elements with a load, or with nonzero held values.
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

    # Names of the arrays that the computation of forces uses.
    _of_elements: ClassVar[tuple[str, ...]] = "shape", "coefficients", "dofs", "unknowns", "tests"

    def at_given(self) -> Term:
        """Return the form on the elements ``given`` only."""
        num = self.coefficients.shape[1]
        if self.given.size == num:
            return self
        of_elements = {name: getattr(self, name) for name in self._of_elements}
        return replace(self, **jax.tree.map(self._taken, of_elements))

    def _taken(self, array):
        """Select the elements ``given`` from an array of all elements, (..., E) or (..., 1)."""
        return array if array.shape[-1] == 1 else sparse.gather(array.T, self.given).T

    def matrices(self, local: jax.Array) -> jax.Array:
        """Return the element matrices, (m, m, E), for coefficients (k, E)."""
        raise NotImplementedError

    def forces(self, local: jax.Array, solution: jax.Array) -> jax.Array:
        """Return A u - b of each element, (m, L, E), for u of (m, L, E)."""
        raise NotImplementedError

    def rates(self, local: jax.Array, solution: jax.Array) -> jax.Array:
        """Return the derivatives of :meth:`forces` by the coefficients, (m, L, k, E)."""
        raise NotImplementedError

    def forces_along(self, local: Sequence[jax.Array], solution: Sequence[jax.Array]) -> jax.Array:
        """Return the derivative of order n of :meth:`forces` along a curve, (m, L, E).

        The arguments are the derivatives of orders 0 to n of the coefficients and of u.  Orders of
        u that are left out at the end are zero.
        """
        none = [jnp.zeros_like(solution[0])] * (len(local) - len(solution))
        path = list(zip(local, [*solution, *none], strict=True))
        return derivatives_along(lambda both: self.forces(*both), path)[-1]

    def pull_back_rates(self, local, solution, weights) -> tuple[jax.Array, jax.Array]:
        """Return the gradients of <W, rates> by the coefficients, (k, E), and by u, (m, L, E)."""

        def weighted(local, solution):
            return jnp.sum(weights * self.rates(local, solution))

        return jax.grad(weighted, (0, 1))(local, solution)

    def pull_back(self, local, solution, by_matrices, by_forces) -> jax.Array:
        """Return the gradient of <by_matrices, matrices> + <by_forces, forces>, (k, E)."""

        def weighted(local):
            by_matrix = jnp.sum(by_matrices * self.matrices(local))
            return by_matrix + jnp.sum(by_forces * self.forces(local, solution))

        return jax.grad(weighted)(local)

    def reactions(self, forces):
        """Return the reactions, (p, ...), to forces of the elements, (m, ..., E)."""
        return jnp.einsum("pme,m...e->p...", self.tests, forces)


class WeightedTerm(Term):
    """A form with the element matrix sum_p weight(coefficient at point p) times constant matrices.

    Attributes
    ----------
    weight : callable
        Function of the coefficient at points: see :class:`invlift.fem.equations.forms.Weighted`.
    integrals : (P, m, m, E)
        The constant matrices at P = Q points.  If the matrices of all points are multiples of one
        matrix, P = 1.
    shares : (Q, E) or (Q, 1)
        The factors of the points for P = 1, with sum one.
    """

    weight: Callable = static()
    integrals: jax.Array
    shares: jax.Array

    _of_elements = *Term._of_elements, "integrals", "shares"

    @property
    def _num_points(self) -> int:
        return self.integrals.shape[0]

    def scaled(self, factor: jax.Array) -> WeightedTerm:
        """Return the form times a factor."""
        return replace(self, integrals=factor * self.integrals)

    def matrices(self, local):
        """As :meth:`Term.matrices`."""
        return contract(self.integrals, self._weights(local)[:, None, None])

    def forces(self, local, solution):
        """As :meth:`Term.forces`."""
        return contract(self._at_weight_one(solution), self._weights(local)[:, None, None])

    def forces_along(self, local, solution):
        """As :meth:`Term.forces_along`, by Leibniz' rule."""
        weights = self._weights_along(local)[::-1]
        order = len(weights) - 1
        terms = [
            contract(math.comb(order, k) * self._at_weight_one(each), weight[:, None, None])
            for k, (each, weight) in enumerate(zip(solution, weights, strict=False))
        ]
        return reduce(add, terms)

    def rates(self, local, solution):
        """As :meth:`Term.rates`."""
        slopes = self._slopes(local)[:, None, None]
        return contract(self._at_weight_one(solution)[:, :, :, None], slopes)

    def pull_back_rates(self, local, solution, weights):
        """As :meth:`Term.pull_back_rates`."""
        by_slopes, by_solution = [], []
        at_one, by_coefficient = self._at_weight_one(solution), jnp.moveaxis(weights, 2, 0)
        for matrix, force, slopes in zip(self.integrals, at_one, self._slopes(local), strict=True):
            by_slopes.append(_total(contract(force[:, :, None], weights)))
            by_force = contract(slopes[:, None, None], by_coefficient)
            by_solution.append(contract(matrix[:, :, None], by_force[:, None]))
        return self._pull_back_slopes(local, jnp.stack(by_slopes)), _total(by_solution)

    def pull_back(self, local, solution, by_matrices, by_forces):
        """As :meth:`Term.pull_back`."""
        by_weights = [
            _total(contract(matrix, by_matrices)) + _total(contract(force, by_forces))
            for matrix, force in zip(self.integrals, self._at_weight_one(solution), strict=True)
        ]
        return contract(by_weights, self._slopes(local))

    def _at_weight_one(self, solution):
        """Return the forces of each element for a unit weight at one point, (P, m, L, E)."""
        columns = jnp.moveaxis(self.integrals, 2, 0)[:, :, :, None]
        return contract(columns, solution[:, None, None])

    def _weights(self, local):
        """Return the weights at the P points, or their mean, (P, E)."""
        return self._mean(self.weight(self._at_points(local)))

    def _weights_along(self, local):
        """Return the derivatives of the weights along a curve of coefficients."""
        along = derivatives_along(self.weight, [self._at_points(each) for each in local])
        return [self._mean(each) for each in along]

    def _slopes(self, local):
        """Return the derivatives of the weights by the coefficients, (P, k, E)."""
        points = self._at_points(local)
        _, slopes = jax.jvp(self.weight, (points,), (jnp.ones_like(points),))
        return self._mean(self.shape.swapaxes(0, 1) * slopes[:, None])

    def _pull_back_slopes(self, local, by_slopes):
        """Return the gradient of <X, slopes> by the coefficients, (k, E), for X of (P, k, E)."""
        points = self._at_points(local)
        ones = jnp.ones_like(points)
        curvature = second_directional(self.weight, (points,), (ones,))
        by_points = contract(self.shape, by_slopes.swapaxes(0, 1)) * curvature
        if self._num_points != len(points):
            by_points = by_points * self.shares
        return contract(self.shape.swapaxes(0, 1), by_points[:, None])

    def _at_points(self, local):
        """Return the coefficient at the quadrature points, (Q, E)."""
        return contract(self.shape, local[:, None])

    def _mean(self, values):
        """Return values at Q points, (Q, ..., E), unchanged if P = Q, else their mean."""
        if self._num_points == values.shape[0]:
            return values
        axes = tuple(range(1, values.ndim - 1))
        return contract(jnp.expand_dims(self.shares, axes), values)[None]


class FactoredTerm(WeightedTerm):
    """A sum of forms that share one weight, each times a factor of further coefficients.

    The coefficients of an element are those of the field, followed by the further ones.

    Attributes
    ----------
    factors : callable
        Of :class:`invlift.fem.equations.forms.Factored`.
    """

    factors: Callable = static()

    @property
    def _num_points(self) -> int:
        return 1

    def _weights(self, local):
        field, further = self._split(local)
        return self.factors(further) * super()._weights(field)

    def _weights_along(self, local):
        return derivatives_along(self._weights, list(local))

    def _slopes(self, local):
        field, further = self._split(local)
        factors, weight = self.factors(further), super()._weights(field)
        by_field = factors[:, None] * super()._slopes(field)

        def along(row):
            tangent = jnp.zeros_like(further).at[row].set(1.0)
            return jax.jvp(self.factors, (further,), (tangent,))[1]

        by_further = [along(row) * weight for row in range(len(further))]
        return jnp.concatenate([by_field, jnp.stack(by_further, axis=1)], axis=1)

    def _pull_back_slopes(self, local, by_slopes):
        return jax.grad(lambda at: jnp.sum(by_slopes * self._slopes(at)))(local)

    def _split(self, local):
        """Return the coefficients of the field, (k, E), and the further ones."""
        return local[: len(self.shape)], local[len(self.shape) :]


class GeneralTerm(Term):
    """A form whose matrix is any function of the coefficient.

    Attributes
    ----------
    matrix, load : callable
        Functions of :class:`invlift.fem.equations.form_assembly.Form`.
    element : Element
        Data of all elements, with the elements last.
    """

    matrix: Callable = static()
    load: Callable | None = static()
    element: Element

    _of_elements = *Term._of_elements, "element"

    def matrices(self, local):
        """As :meth:`Term.matrices`."""
        return self._each(self._matrix)(local, self.shape, self.element)

    def loads(self, local):
        """Return b of each element, (m, L, E) or (m, 1, E), for coefficients (k, E)."""
        return self._each(self._load)(local, self.shape, self.element)

    def forces(self, local, solution):
        """As :meth:`Term.forces`."""
        return self._each(self._force)(local, solution, self.shape, self.element)

    def rates(self, local, solution):
        """As :meth:`Term.rates`."""
        return self._each(jax.jacfwd(self._force))(local, solution, self.shape, self.element)

    def _matrix(self, local, shape, element):
        return self.matrix(local @ shape, element)

    def _force(self, local, solution, shape, element):
        force = self._matrix(local, shape, element) @ solution
        return force if self.load is None else force - self._load(local, shape, element)

    def _load(self, local, shape, element):
        return self.load(local @ shape, element)

    def _each(self, fn):
        """Map a function of one element over all elements, the last axis."""
        num = self.coefficients.shape[1]

        def of_all(*given):
            *others, shape, element = given
            shape = jnp.broadcast_to(shape, (*shape.shape[:2], num))
            return jax.vmap(fn, in_axes=-1, out_axes=-1)(*others, shape, element)

        return of_all


def _total(parts):
    """Return the sum over the first axis, unrolled as in :func:`contract`."""
    return reduce(add, [*parts])


def contract(left: jax.Array, right: jax.Array) -> jax.Array:
    """Sum products over the first axis; it is unrolled, to compile to one loop over elements."""
    return reduce(add, [one * other for one, other in zip(left, right, strict=True)])


class Inputs(Module):
    """Loads and held values, affine in K of the coefficients: constant parts first, then rates.

    Attributes
    ----------
    coefficients : (K,) int32
        Indices of the K coefficients.
    load : (1 + K, n, L)
        The part of b on the unknowns that is not from elements.
    held : (1 + K, num_dofs, L)
        Held values of u, zero elsewhere.
    reactions : (1 + K, p, L)
        Contribution of this load to the reactions, which is subtracted.
    offsets : (1 + K, d)
        Contribution of held values to each reading.
    """

    coefficients: jax.Array
    load: jax.Array
    held: jax.Array
    reactions: jax.Array
    offsets: jax.Array

    def at(self, coefficients):
        """Return load, held, reactions and offsets at coefficients (N,)."""
        parts = self.load, self.held, self.reactions, self.offsets
        if not self.coefficients.size:
            return [part[0] for part in parts]
        return [part[0] + rate for part, rate in zip(parts, self.along(coefficients), strict=True)]

    def along(self, direction):
        """Return the derivatives of load, held, reactions and offsets along a direction, (N,)."""
        moves = sparse.gather(direction, self.coefficients)
        parts = self.load, self.held, self.reactions, self.offsets
        if not self.coefficients.size:
            return [jnp.zeros(part.shape[1:]) for part in parts]
        return [jnp.tensordot(moves, part[1:], 1) for part in parts]
