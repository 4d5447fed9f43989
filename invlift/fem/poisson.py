"""The forward map: log-conductivity to sensor readings, through the Poisson equation.

-div(exp(phi) grad u) = f on linear elements (Au, Graham & Thiery 2023, section 6.5, eq. 11).
Everything that does not depend on phi is assembled beforehand (:mod:`invlift.fem.assembly`); a new
phi only rescales element tensors, and one sparse factorisation yields the readings, their Jacobian
and whatever is differentiated from these.

Arrays of what belongs to cells have the cells last, so that sums over a cell's few corners,
directions or points are loops over all cells, which the processor works on several at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, fields
from functools import partial, reduce
from operator import add
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from invlift.errors import InputError
from invlift.fem import linalg, sparse
from invlift.fem.conductivity import Conductivity
from invlift.fem.sensors import Sensors
from invlift.inverse.models.base import SOLUTION, ForwardModel, Place
from invlift.programs.pytrees import aside


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
        return {SOLUTION: self.solution}


class PushedForward(NamedTuple):
    """Directions D of the coefficients, and how the solution changes along them.

    Attributes
    ----------
    directions : (N, k)
        D.
    tangents : (n, k)
        -A^-1 (dA/dphi . D) u, on the unknowns; with the C of the Jacobian, A^-1 C^T D.
    """

    directions: jax.Array
    tangents: jax.Array


class PoissonMap(ForwardModel):
    """Observations of the solution of the Poisson equation as a function of log-conductivity.

    Build it with :func:`invlift.fem.assembly.assemble_poisson`.  A pytree: pass it
    through `jit` as an argument.  With N coefficients of phi, n free unknowns, d sensors.

    Attributes
    ----------
    conductivity : Conductivity
        phi -> element conductivities.
    gradients : (dim + 1, dim, num_cells)
        Gradients of the element's basis functions; lengths are in the unit L of the mesh: 1/L.
    volumes : (num_cells,)
        Areas or volumes of the cells, L^dim.
    cells : (dim + 1, num_cells) int32
        Node indices.
    sensitivity : sparse.Pattern
        Which of the N coefficients changes the equation of which of the n unknowns.
    sensitivity_entries : (k, dim + 1, num_cells) int32
        The entry of `sensitivity` for each coefficient and corner of a cell; its number of entries
        where the corner is held.
    couplings : sparse.Pattern
        Pairs of unknowns that share a cell.
    coupling_entries : (dim + 1, dim + 1, num_cells) int32
        Likewise, for each two corners.
    free : (n,) int32
        Nodes that carry an unknown.
    unknowns : (dim + 1, num_cells) int32
        Unknown at each corner of each cell; n where the node is held by a Dirichlet value.
    kept_cells : (num_kept,) int32
        Cells of those entries of half the element matrices that couple two unknowns.
    kept_products : (num_kept,)
        The entries at weight one: products of two basis functions' gradients, L^-2.
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
    observation_nodes : (d, c) int32
    observation_unknowns : (d, c) int32
        Their unknowns; n where the node is held.
    observation_weights : (d, c)
        Reading k is sum_i weights[k, i] u[nodes[k, i]].
    boundary_flux : callable or None
        What flows through boundary groups: see :func:`invlift.fem.experiments.boundary_flux`.
    fields, refined : tuple of Place, or None, callable or None
        See :class:`~invlift.inverse.models.base.ForwardModel`.
    sensors : Sensors or None
        Those that are read.
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
    observation_unknowns: jax.Array
    observation_weights: jax.Array
    boundary_flux: Callable | None = aside()
    sensors: Sensors | None = aside()
    fields: tuple[Place, ...] | None = aside()
    refined: Callable[[int], ForwardModel] | None = aside()

    coefficients_name: ClassVar[str] = "log_conductivity"
    max_derivative: ClassVar[int] = 3
    solutions: ClassVar[tuple[str, ...]] = (SOLUTION,)

    @property
    def num_observations(self) -> int:
        """Number d of sensor readings."""
        return self.observation_nodes.shape[0]

    @property
    def observation_load(self) -> jax.Array:
        """The transpose of the observation matrix on the unknowns, B^T, (n, d)."""
        size, num = self.free.shape[0], self.num_observations
        load = jnp.zeros((size + 1, num), self.observation_weights.dtype)
        each = jnp.arange(num)[:, None]
        return load.at[self.observation_unknowns, each].add(self.observation_weights)[:-1]

    @property
    def num_coefficients(self) -> int:
        """Number N of coefficients of phi."""
        return self.sensitivity.by_row.sources.shape[1]

    def __call__(self, log_conductivity: jax.Array) -> jax.Array:
        """Readings F(phi).

        Parameters
        ----------
        log_conductivity : (N,) float64

        Returns
        -------
        (d,) float64
            In units of u.  NaN where exp(phi) overflows.

        Raises
        ------
        InputError
            If phi has another shape; so do all methods that take it.
        """
        return self.observe(self.solve(log_conductivity))

    def solve(self, log_conductivity: jax.Array) -> jax.Array:
        """The solution u at the nodes, (num_nodes,), for phi of shape (N,)."""
        weights, factor = self._factorise(log_conductivity)
        unknowns = self._apply_inverse(factor, weights, self._right_hand_side(weights))
        return self._extend(unknowns, self.dirichlet)

    def observe(self, solution: jax.Array) -> jax.Array:
        """Readings B u, (d,), of a solution at the nodes, (num_nodes,)."""
        return self._interpolate(sparse.gather(solution, self.observation_nodes))

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
        solution = self._extend(solved[:, 0], self.dirichlet)
        adjoint = solved[:, 1:]
        entries = self._sensitivity(*self._sensitivity_factors(log_conductivity, solution))
        columns = self.sensitivity.product(entries, adjoint)
        expansion = Expansion(log_conductivity, factor, solution, adjoint)
        return (self.observe(solution), columns.T), expansion

    def expand(self, log_conductivity: jax.Array) -> tuple[jax.Array, Expansion]:
        """Readings F(phi), (d,), and what directional derivatives need, without the Jacobian."""
        weights, factor = self._factorise(log_conductivity)
        rhs = self._right_hand_side(weights)
        solution = self._extend(self._apply_inverse(factor, weights, rhs), self.dirichlet)
        return self.observe(solution), Expansion(log_conductivity, factor, solution, None)

    def push_forward(
        self, expansion: Expansion, directions: jax.Array
    ) -> tuple[jax.Array, PushedForward]:
        """(dF/dphi) D by one solve with k right-hand sides.

        Parameters
        ----------
        expansion : Expansion
            From :meth:`linearise`, where the derivatives are taken.
        directions : (N, k) float64
            D.

        Returns
        -------
        products : (d, k)
            In units of u.
        pushed : PushedForward
            For :meth:`pull_back`.
        """
        log_conductivity, factor, solution, _ = expansion
        entries = self._sensitivity(*self._sensitivity_factors(log_conductivity, solution))
        rhs = self.sensitivity.transposed_product(entries, directions)
        tangents = linalg.solve(factor, rhs)
        return self._read(tangents), PushedForward(directions, tangents)

    def pull_back(
        self,
        expansion: Expansion,
        pushed: PushedForward,
        weigh: Callable[[jax.Array], jax.Array],
        by_readings: jax.Array | None = None,
    ) -> jax.Array:
        """Gradient of <W, (dF/dphi) D> by phi, by one solve with a single right-hand side.

        Parameters
        ----------
        expansion : Expansion
            From :meth:`linearise`, where the gradient is taken.
        pushed : PushedForward
            What :meth:`push_forward` made of D, (N, d), there; D is constant.
        weigh : callable
            (n, d) to (n, d): products with a constant symmetric W, (d, d), from the right.
        by_readings : (d,), optional
            Weights of readings: the gradient of their sum is added, in the same solve.

        Returns
        -------
        (N,) float64
        """
        log_conductivity, factor, solution, adjoint = expansion
        directions, tangents = pushed
        # <W, (dF/dphi) D> = <C, D (Lambda W)^T>: by the entries of C, by phi and u, ...
        weighted = weigh(adjoint)
        by_entries = self.sensitivity.sampled_product(directions, weighted)
        at_cells = sparse.gather_or_zero(by_entries, self.sensitivity_entries)
        chain, forces = self._sensitivity_factors(log_conductivity, solution)
        by_chain = -_contract(at_cells.swapaxes(0, 1), forces) * self.volumes
        by_forces = -_contract(at_cells, chain)
        by_solution = self._divergence(_contract(self.gradients, by_forces))
        if by_readings is not None:
            by_solution = by_solution + self._spread(by_readings)
        solved = linalg.solve(factor, by_solution)
        # ... and by Lambda.  A depends on phi in A u = b, where u may be held, and A Lambda = B^T.
        pairs = self.couplings.sampled_product(tangents, weighted)
        at_cells = sparse.gather_or_zero(pairs, self.coupling_entries)
        fluxes = _contract(at_cells.swapaxes(0, 1)[:, :, None], self.gradients[:, None])
        along = self._flux_of_unknowns(solved) * self._flux(solution)
        by_tensor = reduce(add, _contract(fluxes, self.gradients) + along)
        by_coefficients = self.conductivity.pull_back_derivative(log_conductivity, by_chain)
        by_coefficients = by_coefficients - by_tensor * chain
        nodes = self.conductivity.nodes
        return sparse.scatter_add(log_conductivity.shape[0], nodes, by_coefficients)

    def combined(self, matrix: jax.Array) -> CombinedPoissonMap:
        """As :meth:`ForwardModel.combined`, by k solves."""
        held = self.observe(self.dirichlet)
        parts = {each.name: getattr(self, each.name) for each in fields(PoissonMap)}
        return CombinedPoissonMap(
            **parts, combination_load=self._spread(matrix.T), combination_held=matrix @ held
        )

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
        (rate,) = self._rates(expansion, (direction,), 1)
        return self._read(self._bend(expansion, (rate,), (self._flux(expansion.solution),)))

    def higher_derivative(
        self, expansion: Expansion, path: tuple[jax.Array, ...], lower: tuple[jax.Array, ...] = ()
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Derivative of order n of the readings along a curve, by one or two solves.

        With A^(k) and u^(k) the derivatives of A and u along the curve,
        A u^(n) = -sum_k binom(n, k) A^(k) u^(n - k), k = 1 ... n.  One solve is for u^(n - 1), from
        the lower ones; Lambda saves that for u^(n).

        Parameters
        ----------
        expansion : Expansion
            From :meth:`expand` or :meth:`linearise`, where the derivative is taken.
        path : tuple of n - 1 (N,) float64
            Derivatives of orders 1 to n - 1 of the curve; that of order n is zero.
        lower : tuple of n - 1 (dim, num_cells), optional
            What this method returned for order n - 1 along the same curve; nothing for n = 2.

        Returns
        -------
        derivative : (d,) float64
            d^n F / dt^n at t = 0, in units of u.
        lower : tuple of n (dim, num_cells)
            Gradients of u, u', ..., u^(n - 1).
        """
        order = len(path) + 1
        rates = self._rates(expansion, path, order)
        fluxes = lower or (self._flux(expansion.solution),)
        fluxes = (*fluxes, self._flux_of_unknowns(self._bend(expansion, rates[:-1], fluxes)))
        if expansion.adjoint is None:
            return self._read(self._bend(expansion, rates, fluxes)), fluxes
        return self._pull(rates, fluxes) @ expansion.adjoint, fluxes

    def _rates(self, expansion, path, order):
        """Derivatives of the weights of A along a curve, (num_cells,) each."""
        rates = self.conductivity.along(expansion.log_conductivity, path, order)
        return [rate * self.volumes for rate in rates]

    def _bend(self, expansion, rates, fluxes):
        """u^(n) on the unknowns, (n,), from n rates and the fluxes of the lower derivatives."""
        return linalg.solve(expansion.factor, self._pull(rates, fluxes))

    def _pull(self, rates, fluxes):
        """-sum_k binom(n, k) A^(k) u^(n - k), (n,)."""
        n = len(rates)
        terms = [math.comb(n, k) * rate * fluxes[n - k] for k, rate in enumerate(rates, 1)]
        return -self._divergence(reduce(add, terms))

    def _read(self, unknowns):
        """Readings (d, ...) of fields on the unknowns, (n, ...), that are zero where u is held."""
        return self._interpolate(sparse.gather_or_zero(unknowns, self.observation_unknowns))

    def _spread(self, by_readings):
        """B^T times weights of the readings, (d,) or (d, k)."""
        at_corners = (self.observation_weights.T * by_readings.T[..., None, :]).T
        size = self.free.shape[0]
        return sparse.scatter_add_or_drop(size, self.observation_unknowns, at_corners)

    def _interpolate(self, at_corners):
        """Values (d, ...) at the sensors from those at their nodes, (d, c, ...)."""
        return jnp.sum(at_corners.T * self.observation_weights.T, axis=-2).T

    def _factorise(self, log_conductivity):
        """Conductivity times volume per cell, and the factor of the stiffness matrix."""
        if jnp.shape(log_conductivity) != (self.num_coefficients,):
            raise InputError(
                "log-conductivity",
                f"{self.num_coefficients} values, as the forward map was assembled",
                f"shape {jnp.shape(log_conductivity)}",
                "use prior and map of one mesh, both for nodes or both for cells (location)",
            )
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
        corners = sparse.gather_or_zero(columns.reshape(self.free.shape[0], -1), self.unknowns)
        gradients = self.gradients[..., None]
        fluxes = _contract(gradients, corners[:, None]) * weights[:, None]
        forces = _contract(gradients.swapaxes(0, 1), fluxes)
        sums = sparse.scatter_add_or_drop(self.free.shape[0], self.unknowns, forces)
        return sums.reshape(columns.shape)

    def _right_hand_side(self, weights):
        """Load minus what the Dirichlet values pull, (n,)."""
        held = self.held_cells
        gradients = self.gradients[:, :, held]
        flux = _contract(gradients, self.dirichlet[self.cells[:, held]][:, None]) * weights[held]
        forces = _contract(gradients.swapaxes(0, 1), flux)
        return self.load - sparse.scatter_add_or_drop(
            self.load.shape[0], self.unknowns[:, held], forces
        )

    def _sensitivity(self, chain, forces):
        """Entries of the matrix C of -(dA/dphi_j) u, (num_entries,)."""
        size = self.sensitivity.rows.shape[0]
        return sparse.scatter_add_or_drop(size, self.sensitivity_entries, -chain[:, None] * forces)

    def _sensitivity_factors(self, log_conductivity, solution):
        """Weight by each coefficient, (k, num_cells), and force per weight at each corner."""
        chain = self.conductivity.derivative(log_conductivity) * self.volumes
        return chain, self._forces(self._flux(solution))

    def _flux(self, solution):
        """Gradient in each cell, (dim, num_cells), of a nodal vector, (num_nodes,)."""
        return _contract(self.gradients, sparse.gather(solution, self.cells))

    def _flux_of_unknowns(self, unknowns):
        """The same of the unknowns, (n,), zero where u is held."""
        return _contract(self.gradients, sparse.gather_or_zero(unknowns, self.unknowns))

    def _divergence(self, fluxes):
        """Integrals of the basis functions' gradients times fluxes (dim, num_cells), (n,)."""
        return sparse.scatter_add_or_drop(self.free.shape[0], self.unknowns, self._forces(fluxes))

    def _forces(self, fluxes):
        """Fluxes (dim, num_cells) times the gradients at each corner, (dim + 1, num_cells)."""
        return _contract(self.gradients.swapaxes(0, 1), fluxes)

    def _extend(self, unknowns, held):
        """The unknowns, (n,), among values at all nodes, (num_nodes,), which hold elsewhere."""
        return held.at[self.free].set(unknowns, unique_indices=True, mode="promise_in_bounds")


class CombinedPoissonMap(PoissonMap):
    """Combinations A F(phi), (k,), of the readings of a map: see :meth:`PoissonMap.combined`.

    Attributes
    ----------
    combination_load : (n, k)
        B^T A^T.
    combination_held : (k,)
        What held values give.
    """

    combination_load: jax.Array = field(kw_only=True)
    combination_held: jax.Array = field(kw_only=True)

    @property
    def observation_load(self) -> jax.Array:
        """What the solution weighs in the combinations, (n, k)."""
        return self.combination_load

    def observe(self, solution: jax.Array) -> jax.Array:
        """Combinations, (k,), of a solution at the nodes, (num_nodes,)."""
        return self._read(sparse.gather(solution, self.free)) + self.combination_held

    def readings_at(self, expansion: Expansion) -> jax.Array:
        """All readings F, (d,), where the map was linearised."""
        return super().observe(expansion.solution)

    def _read(self, unknowns):
        return self.combination_load.T @ unknowns


def _contract(left, right):
    """Sum of products over the first axis; unrolled, to become one loop over the cells."""
    return reduce(add, [one * other for one, other in zip(left, right, strict=True)])
