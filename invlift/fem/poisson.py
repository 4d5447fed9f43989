"""The forward map: log-conductivity to sensor readings, through the Poisson equation.

-div(exp(phi) grad u) = f on linear elements (Au, Graham & Thiery 2023, section 6.5, eq. 11).
Everything that does not depend on phi is assembled beforehand (:mod:`invlift.fem.assembly`); a new
phi only rescales element tensors, and one sparse factorisation yields the readings, their Jacobian
and whatever is differentiated from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.fem import linalg, sparse


@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True)
class Conductivity:
    """Element mean of exp(phi) for phi given at the nodes or in the cells.

    Attributes
    ----------
    nodes : (num_cells, k) int32
        Coefficients of phi that live on each cell: k = dim + 1 nodes, or k = 1 the cell itself.
    basis : (num_points, k)
        Values of the basis functions at the quadrature points of the reference simplex.
    weights : (num_points,)
        Quadrature weights, summing to one.
    """

    nodes: jax.Array
    basis: jax.Array
    weights: jax.Array

    def __call__(self, log_conductivity: jax.Array) -> jax.Array:
        """Conductivity per cell, (num_cells,), from phi of shape (N,)."""
        return self._at_points(log_conductivity) @ self.weights

    def derivative(self, log_conductivity: jax.Array) -> jax.Array:
        """Derivative of each cell's conductivity by each of its coefficients, (num_cells, k)."""
        return (self._at_points(log_conductivity) * self.weights) @ self.basis

    def directional(
        self, log_conductivity: jax.Array, direction: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """First and second derivative of each cell's conductivity along a direction (N,)."""
        at_points = self._at_points(log_conductivity)
        along = sparse.gather(direction, self.nodes) @ self.basis.T
        return (at_points * along) @ self.weights, (at_points * along**2) @ self.weights

    def pull_back_derivative(self, log_conductivity: jax.Array, cotangent: jax.Array) -> jax.Array:
        """Gradient of <X, derivative> by each cell's coefficients, for X of (num_cells, k)."""
        at_points = self._at_points(log_conductivity)
        return (at_points * (cotangent @ self.basis.T) * self.weights) @ self.basis

    def _at_points(self, log_conductivity):
        """exp(phi) at the quadrature points, (num_cells, num_points)."""
        return jnp.exp(sparse.gather(log_conductivity, self.nodes) @ self.basis.T)


class Expansion(NamedTuple):
    """What was computed where the forward map was evaluated, for use by its derivatives there.

    Attributes
    ----------
    log_conductivity : (N,)
        Where.
    factor : linalg.Factor
        Of the stiffness matrix.
    solution : (num_nodes,)
        u.
    adjoint : (n, d) or None
        Lambda = A^-1 B^T, if the Jacobian was computed.
    """

    log_conductivity: jax.Array
    factor: linalg.Factor
    solution: jax.Array
    adjoint: jax.Array | None

    @property
    def byproducts(self) -> dict[str, jax.Array]:
        """The ``solution``, (num_nodes,), whose posterior moments are worth having."""
        return {"solution": self.solution}


@partial(jax.tree_util.register_dataclass)
@dataclass(frozen=True)
class PoissonMap:
    """Observations of the solution of the Poisson equation as a function of log-conductivity.

    Build it with :func:`invlift.fem.assembly.assemble_poisson`.  A pytree: pass it
    through `jit` as an argument.  With N coefficients of phi, n free unknowns, d sensors.

    Attributes
    ----------
    conductivity : Conductivity
        phi -> element conductivities.
    gradients : (num_cells, dim + 1, dim)
        Gradients of the element's basis functions, 1/m.
    volumes : (num_cells,)
        Areas or volumes of the cells, m^dim.
    cells : (num_cells, dim + 1) int32
        Node indices.
    sensitivity : sparse.Pattern
        Which of the N coefficients changes the equation of which of the n unknowns.
    sensitivity_entries : (num_cells, k, dim + 1) int32
        The entry of `sensitivity` for each coefficient and corner of a cell; its number of entries
        where the corner is held.
    couplings : sparse.Pattern
        Pairs of unknowns that share a cell.
    coupling_entries : (num_cells, dim + 1, dim + 1) int32
        Likewise, for each two corners.
    free : (n,) int32
        Nodes that carry an unknown.
    unknowns : (num_cells, dim + 1) int32
        Unknown at each corner of each cell; n where the node is held by a Dirichlet value.
    kept_cells : (num_kept,) int32
        Cells of those entries of half the element matrices that couple two unknowns.
    kept_products : (num_kept,)
        The entries at weight one: products of two basis functions' gradients, m^-2.
    robin_values : (num_robin,)
        Entries of the Robin boundary matrix, behind the element entries.
    structure : linalg.Structure
        Symbolic factorisation of the stiffness matrix.
    load : (n,)
        Source, Neumann and Robin ambient terms.
    dirichlet : (num_nodes,)
        Dirichlet values at held nodes, zero elsewhere.
    held_cells : (num_held,) int32
        Cells that touch a non-zero Dirichlet value.
    observation_nodes : (d, dim + 1) int32
    observation_weights : (d, dim + 1)
        Reading k is sum_i weights[k, i] u[nodes[k, i]].
    observation_load : (n, d)
        The transpose of the observation matrix on the unknowns, B^T.
    """

    conductivity: Conductivity
    gradients: jax.Array
    volumes: jax.Array
    cells: jax.Array
    sensitivity: sparse.Pattern
    sensitivity_entries: jax.Array
    couplings: sparse.Pattern
    coupling_entries: jax.Array
    free: jax.Array
    unknowns: jax.Array
    kept_cells: jax.Array
    kept_products: jax.Array
    robin_values: jax.Array
    structure: linalg.Structure
    load: jax.Array
    dirichlet: jax.Array
    held_cells: jax.Array
    observation_nodes: jax.Array
    observation_weights: jax.Array
    observation_load: jax.Array

    coefficients_name: ClassVar[str] = "log_conductivity"

    @property
    def num_observations(self) -> int:
        """Number d of sensor readings."""
        return self.observation_nodes.shape[0]

    def __call__(self, log_conductivity: jax.Array) -> jax.Array:
        """Readings F(phi).

        Parameters
        ----------
        log_conductivity : (N,) float64

        Returns
        -------
        (d,) float64
            In units of u.  NaN where exp(phi) overflows.
        """
        return self.observe(self.solve(log_conductivity))

    def solve(self, log_conductivity: jax.Array) -> jax.Array:
        """The solution u at the nodes, (num_nodes,), for phi of shape (N,)."""
        weights, factor = self._factorise(log_conductivity)
        return self._extend(self._apply_inverse(factor, weights, self._right_hand_side(weights)))

    def observe(self, solution: jax.Array) -> jax.Array:
        """Readings B u, (d,), of a solution at the nodes, (num_nodes,)."""
        at_corners = sparse.gather(solution, self.observation_nodes)
        return jnp.sum(at_corners * self.observation_weights, axis=1)

    def value_and_jacobian(self, log_conductivity: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings and their derivatives from one factorisation.

        Solves A [v, Lambda] = [b, B^T] at once; then dF/dphi = C Lambda transposed, with the
        sparse N x n matrix C of -(dA/dphi_j) u.

        Parameters
        ----------
        log_conductivity : (N,) float64

        Returns
        -------
        value : (d,)
            F(phi), in units of u.
        jacobian : (d, N)
            dF / dphi, in units of u (phi is dimensionless).
        """
        return self.linearise(log_conductivity)[0]

    def linearise(
        self, log_conductivity: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], Expansion]:
        """:meth:`value_and_jacobian`, and what further derivatives need."""
        weights, factor = self._factorise(log_conductivity)
        rhs = jnp.concatenate([self._right_hand_side(weights)[:, None], self.observation_load], 1)
        solved = self._apply_inverse(factor, weights, rhs)
        solution = self._extend(solved[:, 0])
        adjoint = solved[:, 1:]
        entries = self._sensitivity(log_conductivity, solution)
        columns = self.sensitivity.product(entries, adjoint)
        expansion = Expansion(log_conductivity, factor, solution, adjoint)
        return (self.observe(solution), columns.T), expansion

    def expand(self, log_conductivity: jax.Array) -> tuple[jax.Array, Expansion]:
        """Readings F(phi), (d,), and what directional derivatives need, without the Jacobian."""
        weights, factor = self._factorise(log_conductivity)
        rhs = self._right_hand_side(weights)
        solution = self._extend(self._apply_inverse(factor, weights, rhs))
        return self.observe(solution), Expansion(log_conductivity, factor, solution, None)

    def pull_back(self, expansion: Expansion, cotangent: jax.Array) -> jax.Array:
        """Gradient of <X, dF/dphi> by phi, by one solve with d + 1 right-hand sides.

        Parameters
        ----------
        expansion : Expansion
            From :meth:`linearise`, where the gradient is taken.
        cotangent : (d, N) float64
            X, constant.

        Returns
        -------
        (N,) float64
        """
        log_conductivity, factor, solution, adjoint = expansion
        columns = cotangent.T
        # <X, dF/dphi> = <C, X^T Lambda^T>: by the entries of C, which depend on phi and u, ...
        by_entries = self.sensitivity.sampled_product(columns, adjoint)
        at_cells = self._at_entries(by_entries, self.sensitivity_entries)
        chain, forces = self._sensitivity_factors(log_conductivity, solution)
        by_chain = -jnp.einsum("eic,ec->ei", at_cells, forces) * self.volumes[:, None]
        by_forces = -jnp.einsum("eic,ei->ec", at_cells, chain)
        by_solution = self._divergence(jnp.einsum("ec,eck->ek", by_forces, self.gradients))
        # ... and by Lambda.
        entries = self._sensitivity(log_conductivity, solution)
        by_adjoint = self.sensitivity.transposed_product(entries, columns)
        solved = linalg.solve(factor, jnp.concatenate([by_solution[:, None], by_adjoint], 1))
        # A depends on phi in A u = b, where u may be held, and in A Lambda = B^T.
        pairs = self.couplings.sampled_product(solved[:, 1:], adjoint)
        padded = self._at_entries(pairs, self.coupling_entries)
        by_tensor = jnp.einsum("ebc,ebk,eck->e", padded, self.gradients, self.gradients)
        flux_along = self._flux_of_unknowns(solved[:, 0])
        by_tensor = by_tensor + jnp.sum(flux_along * self._flux(solution), axis=1)
        by_coefficients = self.conductivity.pull_back_derivative(log_conductivity, by_chain)
        by_coefficients = by_coefficients - by_tensor[:, None] * chain
        nodes = self.conductivity.nodes
        return sparse.scatter_add(log_conductivity.shape[0], nodes, by_coefficients)

    def derivative(self, expansion: Expansion, direction: jax.Array) -> jax.Array:
        """Derivative of the readings along a direction, by one solve with the factor.

        Parameters
        ----------
        expansion : Expansion
            From :meth:`expand` or :meth:`linearise`, where the derivative is taken.
        direction : (N,) float64
            v.

        Returns
        -------
        (d,) float64
            d F(phi + t v) / dt at t = 0, in units of u.
        """
        first, _ = self.conductivity.directional(expansion.log_conductivity, direction)
        return self._read(self._along(expansion, first * self.volumes))

    def second_derivative(self, expansion: Expansion, direction: jax.Array) -> jax.Array:
        """Second derivative of the readings along a direction, by one or two solves.

        With A' and A'' the derivatives of A along v and A u' = -A' u, it is
        -B A^-1 (A'' u + 2 A' u'), where Lambda saves the second solve.

        Parameters
        ----------
        expansion : Expansion
            From :meth:`expand` or :meth:`linearise`, where the derivative is taken.
        direction : (N,) float64
            v.

        Returns
        -------
        (d,) float64
            d^2 F(phi + t v) / dt^2 at t = 0, in units of u.
        """
        first, second = self.conductivity.directional(expansion.log_conductivity, direction)
        first, second = first * self.volumes, second * self.volumes
        flux_along = self._flux_of_unknowns(self._along(expansion, first))
        flux = self._flux(expansion.solution)
        forces = -self._divergence(second[:, None] * flux + 2.0 * first[:, None] * flux_along)
        if expansion.adjoint is None:
            return self._read(linalg.solve(expansion.factor, forces))
        return forces @ expansion.adjoint

    def _along(self, expansion, weights):
        """u' = -A^-1 A' u on the unknowns, (n,), where A' has weights (num_cells,)."""
        flux = self._flux(expansion.solution)
        return linalg.solve(expansion.factor, -self._divergence(weights[:, None] * flux))

    def _read(self, unknowns):
        """Readings (d,) of a field that is zero where u is held, given on the unknowns (n,)."""
        field = jnp.zeros_like(self.dirichlet)
        field = field.at[self.free].set(unknowns, unique_indices=True, mode="promise_in_bounds")
        return self.observe(field)

    def _factorise(self, log_conductivity):
        """Conductivity times volume per cell, and the factor of the stiffness matrix."""
        weights = self.conductivity(log_conductivity) * self.volumes
        kept = sparse.gather(jax.lax.stop_gradient(weights), self.kept_cells) * self.kept_products
        values = jnp.concatenate([kept, self.robin_values])
        return weights, linalg.factorise(self.structure, values)

    def _apply_inverse(self, factor, weights, rhs):
        """A^-1 rhs, whose derivatives of any order reuse the same factor."""
        return jax.lax.custom_linear_solve(
            partial(self._stiffness, weights),
            rhs,
            lambda _, right: linalg.solve(factor, right),
            symmetric=True,
        )

    def _stiffness(self, weights, columns):
        """The weight-dependent part of A times columns (n,) or (n, k).

        Serves derivatives with respect to the weights only, so constant Robin terms stay out.
        """
        corners = self._at_corners(columns.reshape(self.free.shape[0], -1))
        flux = jnp.einsum("ecd,eck->ekd", corners, self.gradients) * weights[:, None, None]
        forces = jnp.einsum("ekd,eck->ecd", flux, self.gradients)
        return self._gather_forces(self.unknowns, forces).reshape(columns.shape)

    def _right_hand_side(self, weights):
        """Load minus what the Dirichlet values pull, (n,)."""
        held = self.held_cells
        gradients = self.gradients[held]
        flux = jnp.einsum("ec,eck->ek", self.dirichlet[self.cells[held]], gradients)
        forces = jnp.einsum("e,ek,eck->ec", weights[held], flux, gradients)
        return self.load - self._gather_forces(self.unknowns[held], forces[..., None])[:, 0]

    def _sensitivity(self, log_conductivity, solution):
        """Entries of the matrix C of -(dA/dphi_j) u, (num_entries,)."""
        chain, forces = self._sensitivity_factors(log_conductivity, solution)
        contributions = -chain[:, :, None] * forces[:, None, :]
        size = self.sensitivity.rows.shape[0] + 1
        return sparse.scatter_add(size, self.sensitivity_entries, contributions)[:-1]

    def _sensitivity_factors(self, log_conductivity, solution):
        """Weight by each coefficient, (num_cells, k), and force per weight at each corner."""
        chain = self.conductivity.derivative(log_conductivity) * self.volumes[:, None]
        return chain, jnp.einsum("ek,eck->ec", self._flux(solution), self.gradients)

    def _at_entries(self, values, entries):
        """Values (num_entries,) of a matrix at entries, zero at those beyond the last."""
        return sparse.gather(jnp.concatenate([values, jnp.zeros(1, values.dtype)]), entries)

    def _flux(self, solution):
        """Gradient in each cell, (num_cells, dim), of a nodal vector, (num_nodes,)."""
        return jnp.einsum("ec,eck->ek", sparse.gather(solution, self.cells), self.gradients)

    def _flux_of_unknowns(self, column):
        """The same of the unknowns, (n,), zero where u is held."""
        corners = self._at_corners(column[:, None])[:, :, 0]
        return jnp.einsum("ec,eck->ek", corners, self.gradients)

    def _divergence(self, fluxes):
        """Integrals of the basis functions' gradients times fluxes (num_cells, dim), (n,)."""
        forces = jnp.einsum("ek,eck->ec", fluxes, self.gradients)
        return self._gather_forces(self.unknowns, forces[..., None])[:, 0]

    def _gather_forces(self, unknowns, forces):
        """Sum corner forces (m, dim + 1, k) into the unknowns, (n, k)."""
        return sparse.scatter_add(self.free.shape[0] + 1, unknowns, forces)[:-1]

    def _at_corners(self, columns):
        """Values (n, k) of the unknowns at the corners of the cells, (num_cells, dim + 1, k)."""
        padded = jnp.concatenate([columns, jnp.zeros((1, columns.shape[1]), columns.dtype)])
        return sparse.gather(padded, self.unknowns)

    def _extend(self, unknowns):
        """The full nodal vector from the free one: (n,) to (num_nodes,)."""
        return self.dirichlet.at[self.free].set(
            unknowns, unique_indices=True, mode="promise_in_bounds"
        )
