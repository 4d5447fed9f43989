"""Linear equations on any elements: coefficients to readings, from the matrix of one element.

A(c) u = b(c) for one or several loads, where A, symmetric and positive definite, is a sum of
element matrices that are functions of the coefficients there.  The person writes this function in
JAX; scikit-fem gives elements, quadrature and degrees of freedom.  Everything else is here once for
all equations: adjoints, Jacobian and further derivatives, from one sparse factorisation for all
loads.  The residual A(c) u - b(c) is differentiated element by element, so no derivative is written
by hand.

For linear elements and -div(exp(phi) grad u) = f with one load,
:class:`invlift.fem.poisson.PoissonMap` does the same faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.derivatives import derivatives_along
from invlift.errors import InputError
from invlift.fem import linalg, sparse
from invlift.inverse.models.base import ForwardModel
from invlift.pytrees import Module, static


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
        Those of :class:`invlift.fem.equation_assembly.Form`.
    shape : (k, Q, E)
        Basis functions of the coefficient at the quadrature points.
    coefficients : (k, E) int32
        Coefficients that live on each element.
    dofs, unknowns : (m, E) int32
        Degrees of freedom of each element, and the unknown that each is; n where it is held.
    element : Element
        Of all elements, with the elements last.
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


class Expansion(NamedTuple):
    """What was computed where the equation was solved, for its derivatives there.

    Attributes
    ----------
    coefficients : (N,)
        Where.
    factor : linalg.Factor
        Of A.
    solutions : (num_dofs, L)
        u for each load.
    byproducts : dict of str to (num_nodes,)
        u of each load at the nodes of the mesh, by the names of `LinearEquation.solutions`.
    adjoint : (n, r) or None
        A^-1 times the r different readings, if the Jacobian was computed.
    jacobian : (d, N) or None
    """

    coefficients: jax.Array
    factor: linalg.Factor
    solutions: jax.Array
    byproducts: dict[str, jax.Array]
    adjoint: jax.Array | None = None
    jacobian: jax.Array | None = None


class LinearEquation(ForwardModel):
    """Readings of the solutions of A(c) u = b(c) as a function of N coefficients c.

    Build it with :func:`linear_equation`.  With n free unknowns, L loads and d readings, of which
    r are different functionals.

    Attributes
    ----------
    terms : tuple of Term
    sensitivity : sparse.Pattern
        Which of the coefficients changes the equation of which of the unknowns.
    couplings : sparse.Pattern
        Pairs of unknowns that share an element.
    free : (n,) int32
        Degrees of freedom that are unknown.
    constants : (num_constants,)
        Entries of A that no coefficient changes, behind those of the elements.
    structure : linalg.Structure
        Symbolic factorisation of A.
    load : (n, L)
        What no coefficient changes of b.
    held : (num_dofs, L)
        u where it is held, zero elsewhere.
    observation : (n, r)
        The different readings on the unknowns, as columns.
    offsets : (d,)
        What held values add to each reading.
    loads, columns : (d,) int32
        Load and column of each reading.
    by_load : (L, most) int32
        Readings of each load; d where there are no more.
    nodal : (components, num_nodes) int32
        Degrees of freedom at the nodes of the mesh.
    solutions : tuple of L * components str
        What u is called, load by load.
    """

    terms: tuple[Term, ...]
    sensitivity: sparse.Pattern
    couplings: sparse.Pattern
    free: jax.Array
    constants: jax.Array
    structure: linalg.Structure
    load: jax.Array
    held: jax.Array
    observation: jax.Array
    offsets: jax.Array
    loads: jax.Array
    columns: jax.Array
    by_load: jax.Array
    nodal: jax.Array
    solutions: tuple[str, ...] = static()

    coefficients_name: ClassVar[str] = "log_conductivity"
    max_derivative: ClassVar[int] = 3
    has_lanes: ClassVar[bool] = False

    @property
    def num_coefficients(self) -> int:
        """Number N of coefficients."""
        return self.sensitivity.by_row.sources.shape[1]

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Readings, (d,), load by load.

        Parameters
        ----------
        coefficients : (N,) float64

        Returns
        -------
        (d,) float64
            In units of u.  NaN where A is not positive definite.

        Raises
        ------
        InputError
            If the coefficients have another shape; so do all methods that take them.
        """
        return self.expand(coefficients)[0]

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N), from one factorisation."""
        return self.linearise(coefficients)[0]

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Expansion]:
        """:meth:`value_and_jacobian`, by L + r solves, and what further derivatives need.

        Reading k of load l is o_k . u, and its derivative -(A^-1 o_k) . d(A u - b), where u stays.
        """
        matrices, factor = self._factorise(coefficients)
        num_loads = self.load.shape[1]
        rhs = jnp.concatenate([self._right_hand_side(coefficients), self.observation], 1)
        solved = self._apply_inverse(factor, matrices, rhs)
        solutions, adjoint = self._extend(solved[:, :num_loads]), solved[:, num_loads:]
        rows = jax.vmap(self.sensitivity.product)(
            self._sensitivity(coefficients, solutions), self._adjoint_by_load(adjoint)
        )
        jacobian = self._by_reading(rows.swapaxes(1, 2))
        parts = coefficients, factor, solutions, self._by_name(solutions), adjoint, jacobian
        return (self._read_all(solutions), jacobian), Expansion(*parts)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Expansion]:
        """Readings, (d,), and what directional derivatives need, without the Jacobian."""
        matrices, factor = self._factorise(coefficients)
        rhs = self._right_hand_side(coefficients)
        solutions = self._extend(self._apply_inverse(factor, matrices, rhs))
        expansion = Expansion(coefficients, factor, solutions, self._by_name(solutions))
        return self._read_all(solutions), expansion

    def push_forward(
        self, expansion: Expansion, directions: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The Jacobian times directions D, (N, k) to (d, k), and D for :meth:`pull_back`."""
        return expansion.jacobian @ directions, directions

    def pull_back(
        self,
        expansion: Expansion,
        pushed: jax.Array,
        weigh: Callable[[jax.Array], jax.Array],
    ) -> jax.Array:
        """Gradient of <W, J D> by the coefficients, (N,), by r + L solves; D and W are constant.

        With v_k column k of D W, this is the sum over the readings of the gradients of
        -(A^-1 o_k) . (A' v_k u - b' v_k): by the adjoint A^-1 o_k, by u, and by A' and b'.
        """
        coefficients, factor, solutions, _, adjoint, _ = expansion
        directions = sparse.gather_or_zero(weigh(pushed).T, self.by_load).swapaxes(1, 2)
        by_load = self._adjoint_by_load(adjoint)
        entries = jax.vmap(self.sensitivity.sampled_product)(directions, by_load)
        local = [sparse.gather(coefficients, term.coefficients) for term in self.terms]
        corners = [sparse.gather(solutions, term.dofs).swapaxes(1, 2) for term in self.terms]
        by_coefficients, by_solution = [], 0.0
        for term, here, values in zip(self.terms, local, corners, strict=True):
            weights = sparse.gather_or_zero(entries.T, term.sensitivity_entries)
            weights = weights.transpose(1, 3, 0, 2)  # (m, L, k, E)

            def weighted(here, values, term=term, weights=weights):
                return jnp.sum(weights * term.rates(here, values))

            explicit, forces = jax.grad(weighted, (0, 1))(here, values)
            by_coefficients.append(explicit)
            by_solution = by_solution + self._sum_of_forces(term, forces)
        moved = jax.vmap(self.sensitivity.transposed_product)(
            self._sensitivity(coefficients, solutions), directions
        )
        by_adjoint = (
            jnp.zeros_like(adjoint).at[:, self._columns_by_load()].add(moved.transpose(1, 0, 2))
        )
        solved = linalg.solve(factor, jnp.concatenate([by_adjoint, -by_solution], axis=1))
        tangents, multipliers = jnp.split(solved, [adjoint.shape[1]], axis=1)
        pairs = self.couplings.sampled_product(tangents, adjoint)
        total = jnp.zeros(self.num_coefficients)
        for term, here, values, explicit in zip(
            self.terms, local, corners, by_coefficients, strict=True
        ):
            coupling = sparse.gather_or_zero(pairs, term.coupling_entries)
            multiplier = sparse.gather_or_zero(multipliers, term.unknowns).swapaxes(1, 2)

            def implicit(here, term=term, values=values, coupling=coupling, by=multiplier):
                by_matrix = jnp.sum(coupling * term.matrices(here))
                return by_matrix + jnp.sum(by * term.forces(here, values))

            gradient = explicit + jax.grad(implicit)(here)
            total = total - sparse.scatter_add(total.shape[0], term.coefficients, gradient)
        return total

    def derivative(self, expansion: Expansion, direction: jax.Array) -> jax.Array:
        """Derivative of the readings, (d,), along a direction, (N,), by L solves."""
        return self._read(self._bend(expansion, (direction,), (expansion.solutions,)))

    def higher_derivative(
        self, expansion: Expansion, path: tuple[jax.Array, ...], lower: tuple[jax.Array, ...] = ()
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Derivative of order n of the readings along a curve.

        The n-th derivative of A u - b along the curve is zero, and A u^(n) is what it leaves where
        u^(n) is left out.

        Parameters
        ----------
        expansion : Expansion
            From :meth:`expand` or :meth:`linearise`, where the derivative is taken.
        path : tuple of n - 1 (N,)
            Derivatives of orders 1 to n - 1 of the curve; that of order n is zero.
        lower : tuple of n - 1 (num_dofs, L), optional
            What this method returned for order n - 1; nothing for n = 2.

        Returns
        -------
        derivative : (d,)
        lower : tuple of n (num_dofs, L)
            u, u', ..., u^(n - 1).
        """
        solved = lower or (expansion.solutions,)
        newest = self._bend(expansion, path, solved)
        solved = (*solved, jnp.zeros_like(self.held).at[self.free].set(newest))
        path = (*path, jnp.zeros_like(path[0]))
        return self._read(self._bend(expansion, path, solved)), solved

    def _bend(self, expansion, path, solved):
        """u^(n) on the unknowns, (n, L), from n derivatives of the curve and u ... u^(n - 1)."""
        total = 0.0
        for term in self.terms:
            here = [expansion.coefficients, *path]
            local = [sparse.gather(each, term.coefficients) for each in here]
            corners = [sparse.gather(each, term.dofs).swapaxes(1, 2) for each in solved]
            corners.append(jnp.zeros_like(corners[0]))
            forces = derivatives_along(
                lambda both, term=term: term.forces(*both), list(zip(local, corners, strict=True))
            )
            total = total + self._sum_of_forces(term, forces[-1])
        return linalg.solve(expansion.factor, -total)

    def _factorise(self, coefficients):
        """Element matrices of each term, and the factor of A."""
        if jnp.shape(coefficients) != (self.num_coefficients,):
            raise InputError(
                "coefficients of an equation",
                f"{self.num_coefficients} values",
                f"shape {jnp.shape(coefficients)}",
                "give the equation and the prior of its coefficients one mesh and one location",
            )
        matrices = [
            term.matrices(sparse.gather(coefficients, term.coefficients)) for term in self.terms
        ]
        kept = [
            sparse.gather(jax.lax.stop_gradient(each).ravel(), term.kept)
            for term, each in zip(self.terms, matrices, strict=True)
        ]
        return matrices, linalg.factorise(self.structure, jnp.concatenate([*kept, self.constants]))

    def _apply_inverse(self, factor, matrices, rhs):
        """A^-1 rhs, whose derivatives of any order reuse the same factor."""

        def multiply(columns):
            """The part of A that coefficients change; only derivatives by these use it."""
            total = 0.0
            for term, each in zip(self.terms, matrices, strict=True):
                corners = sparse.gather_or_zero(columns, term.unknowns)
                forces = jnp.einsum("ije,jel->ile", each, corners)
                total = total + self._sum_of_forces(term, forces)
            return total

        return jax.lax.custom_linear_solve(
            multiply, rhs, lambda _, right: linalg.solve(factor, right), symmetric=True
        )

    def _right_hand_side(self, coefficients):
        """b less what held values pull, (n, L)."""
        total = self.load
        for term in self.terms:
            local = sparse.gather(coefficients, term.coefficients)
            held = sparse.gather(self.held, term.dofs).swapaxes(1, 2)
            total = total - self._sum_of_forces(term, term.forces(local, held))
        return total

    def _sensitivity(self, coefficients, solutions):
        """Entries of -d(A u - b)/dc where u stays, for each load, (L, num_entries)."""
        num_entries = self.sensitivity.rows.shape[0]
        total = 0.0
        for term in self.terms:
            local = sparse.gather(coefficients, term.coefficients)
            corners = sparse.gather(solutions, term.dofs).swapaxes(1, 2)
            rates = term.rates(local, corners).transpose(2, 0, 3, 1)  # (k, m, E, L)
            total = total - sparse.scatter_add_or_drop(num_entries, term.sensitivity_entries, rates)
        return total.T

    def _sum_of_forces(self, term, forces):
        """Forces of the elements, (m, L, E), on the unknowns, (n, L)."""
        size = self.free.shape[0]
        return sparse.scatter_add_or_drop(size, term.unknowns, forces.swapaxes(1, 2))

    def _columns_by_load(self):
        """Columns of the adjoint for the readings of each load, (L, most)."""
        return sparse.gather_or_zero(self.columns, self.by_load)

    def _adjoint_by_load(self, adjoint):
        """The adjoint, (n, r), for the readings of each load, (L, n, most)."""
        return sparse.gather(adjoint.T, self._columns_by_load()).swapaxes(1, 2)

    def _by_reading(self, by_load):
        """Rows (L, most, ...) in the order of the readings, (d, ...)."""
        rows = by_load.reshape(-1, *by_load.shape[2:])
        shape = (self.offsets.shape[0], *rows.shape[1:])
        return jnp.zeros(shape).at[self.by_load.ravel()].set(rows, mode="drop")

    def _by_name(self, solutions):
        at_nodes = sparse.gather(solutions, self.nodal).transpose(2, 0, 1)
        rows = at_nodes.reshape(-1, self.nodal.shape[1])
        return dict(zip(self.solutions, rows, strict=True))

    def _read_all(self, solutions):
        return self._read(sparse.gather(solutions, self.free)) + self.offsets

    def _read(self, unknowns):
        """Readings, (d,), of fields on the unknowns, (n, L), that are zero where u is held."""
        return (self.observation.T @ unknowns)[self.columns, self.loads]

    def _extend(self, unknowns):
        """The unknowns, (n, L), among values at all degrees of freedom, (num_dofs, L)."""
        return self.held.at[self.free].set(unknowns, unique_indices=True, mode="promise_in_bounds")
