"""Linear equations on any elements: from coefficients to readings, given the element matrix.

The equation is A(c) u = b(c), for one or several loads.  A is symmetric and positive definite, and
a sum of element matrices that are functions of the element's coefficients.  The user writes this
function in JAX; scikit-fem provides elements, quadrature and degrees of freedom.  This module
provides the rest for all equations: adjoints, Jacobian and higher derivatives, from one sparse
factorisation for all loads.  The residual A(c) u - b(c) is differentiated element by element, so
no derivative is written by hand.

Loads and held values may be affine in some of the coefficients.  A reading is a weighted sum of u,
of coefficients, and of reactions.  Reactions are residuals where u is held: a flux or a force.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from invlift.fem import linalg
from invlift.fem.equations.combined_equation import combined_equation
from invlift.fem.equations.system import EquationSystem, Solved, readings_by_load
from invlift.fem.linalg import sparse
from invlift.models.base import ForwardModel, first_of_same
from invlift.models.joined import CombinedReadings, Joined
from invlift.programs.pytrees import PyTree


class LinearEquation(EquationSystem):
    """Forward model of readings of the solutions of A(c) u = b(c), with N coefficients c.

    Build it with :func:`linear_equation`.  For its attributes see
    :class:`~invlift.fem.equations.system.EquationSystem`.
    """

    max_derivative: ClassVar[int] = 3

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Return the readings, (d,), load by load.

        Parameters
        ----------
        coefficients : (N,) float64

        Returns
        -------
        (d,) float64
            Readings, in their units; NaN if A is not positive definite.

        Raises
        ------
        InputError
            If the coefficients have another shape, as in all methods that take them.
        """
        return self.expand(coefficients)[0]

    def readings_of(self, coefficients: jax.Array, at_nodes: jax.Array) -> jax.Array:
        """Return the readings, (d,), of known solutions, without a factorisation.

        Parameters
        ----------
        coefficients : (N,) float64
            Coefficients of the solutions.
        at_nodes : (L * components, num_nodes) float64
            All ``solutions``, for elements with all unknowns at nodes.
        """
        _, held, *_ = self.inputs.at(coefficients)
        values = at_nodes.reshape(self.num_loads, *self.nodal.shape).transpose(1, 2, 0)
        # Entries outside the body are fixed.
        return self._read_solutions(coefficients, held.at[self.nodal].set(values))

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return readings, (d,), and their derivatives, (d, N), from one factorisation."""
        return self.linearise(coefficients)[0]

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Solved]:
        """Return :meth:`value_and_jacobian`, by L + r solves, and data for further derivatives.

        The derivative of a reading is psi . d(A u - b) at constant u.  Let o be the reading's
        weights of the unknowns, and t the weights of residuals in its reactions.  Then psi is
        t - A^-1 (o + A t).
        """
        return self._linearise(self._checked(coefficients))

    @jax.jit  # traced once for all programs
    def _linearise(self, coefficients):
        matrices, factor = self._factorise(coefficients)
        observation, num_loads = self._observation(matrices), self.num_loads
        rhs, held, at_held = self._given(coefficients)
        columns = jnp.concatenate([rhs, sparse.dense(observation)], axis=1)
        solved = self._apply_inverse(factor, matrices, columns)
        solutions, adjoint = self._extend(solved[:, :num_loads], held), solved[:, num_loads:]
        by_load, reactions = self._adjoint_by_load(adjoint), self._reactions_by_load()
        by_inputs, reactions_by_inputs = self._by_inputs(matrices)
        rows = jax.vmap(self.sensitivity.product)(
            self._sensitivity(coefficients, solutions), by_load
        )
        rows = rows + jnp.einsum(
            "plm,pln->lnm", reactions, self._reaction_rates(coefficients, solutions)
        )
        jacobian = self._by_reading(rows.swapaxes(1, 2))
        if self.inputs.coefficients.size:
            by_own = jnp.einsum("lnm,knl->lmk", by_load, by_inputs)
            by_own = by_own + jnp.einsum("plm,kpl->lmk", reactions, reactions_by_inputs)
            jacobian = jacobian.at[:, self.inputs.coefficients].add(
                self._by_reading(by_own) + self.inputs.offsets[1:].T
            )
        of_readings, of_coefficients, weights = self.own
        jacobian = jacobian.at[of_readings, of_coefficients].add(weights)
        value = self._read(observation, solved[:, :num_loads], at_held, coefficients)
        named = self._by_name(solutions)
        parts = coefficients, factor, solutions, named, observation, adjoint, jacobian, by_inputs
        return (value, jacobian), Solved(*parts)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Solved]:
        """Return readings, (d,), and data for directional derivatives, without the Jacobian."""
        return self._expand(self._checked(coefficients))

    @jax.jit  # as above
    def _expand(self, coefficients):
        matrices, factor = self._factorise(coefficients)
        observation = self._observation(matrices)
        rhs, held, at_held = self._given(coefficients)
        unknowns = self._apply_inverse(factor, matrices, rhs)
        solutions = self._extend(unknowns, held)
        parts = coefficients, factor, solutions, self._by_name(solutions), observation
        return self._read(observation, unknowns, at_held, coefficients), Solved(*parts)

    def pull_back(
        self,
        expansion: Solved,
        pushed: jax.Array,
        weigh: Callable[[jax.Array], jax.Array],
        on_unknowns: jax.Array | None = None,
    ) -> jax.Array:
        """Return the gradient of <W, J D> by the coefficients, (N,), by r + L solves.

        D and W are constant.  The same solves add the gradient of <u, `on_unknowns`>, for weights
        (n, L) of the unknowns.

        With v_k column k of D W, this is the sum over the readings of the gradients of
        psi_k . (A' v_k u - b' v_k): with respect to psi (see :meth:`linearise`), to u, and to A'
        and b'.
        """
        coefficients, factor, solutions, _, _, adjoint, _, by_inputs = expansion
        directions = sparse.gather_or_zero(weigh(pushed).T, self.by_load).swapaxes(1, 2)
        by_load, columns = self._adjoint_by_load(adjoint), self._columns_by_load()
        of_inputs = directions[:, self.inputs.coefficients]  # (L, K, most)
        on_reactions = jnp.einsum("lnm,plm->npl", directions, self._reactions_by_load())
        entries = jax.vmap(self.sensitivity.sampled_product)(directions, by_load)
        local = self._local(coefficients)
        corners = [sparse.gather(solutions, term.dofs).swapaxes(1, 2) for term in self.terms]
        by_coefficients, by_solution = [], 0.0
        for term, here, values in zip(self.terms, local, corners, strict=True):
            weights = sparse.gather_or_zero(entries.T, term.sensitivity_entries)
            weights = weights.transpose(1, 3, 0, 2)  # (m, L, k, E)
            tested = sparse.gather(self._with_known(on_reactions, 0.0), term.coefficients)
            weights = weights - jnp.einsum("pme,kepl->mlke", term.tests, tested)

            explicit, forces = term.pull_back_rates(here, values, weights)
            by_coefficients.append(explicit)
            by_solution = by_solution + sparse.scatter_add(
                solutions.shape[0], term.dofs, forces.swapaxes(1, 2)
            )
        moved = jax.vmap(self.sensitivity.transposed_product)(
            self._sensitivity(coefficients, solutions), directions
        )
        moved = moved + jnp.einsum("knl,lkm->lnm", by_inputs, of_inputs)
        by_adjoint = jnp.zeros_like(adjoint).at[:, columns].add(moved.transpose(1, 0, 2))
        by_unknowns = -sparse.gather(by_solution, self.free)
        if on_unknowns is not None:
            by_unknowns = by_unknowns + on_unknowns
        rhs = jnp.concatenate([by_adjoint, by_unknowns], axis=1)
        solved = linalg.solve(factor, rhs)
        tangents, multipliers = jnp.split(solved, [adjoint.shape[1]], axis=1)
        held = self.inputs.held[1:]
        of_held = jnp.einsum("kdl,lkm->dlm", held, of_inputs)
        of_held = jnp.zeros((held.shape[1], adjoint.shape[1])).at[:, columns].add(of_held)
        tangents = self._extend(tangents, of_held)
        pairs = self.couplings.sampled_product(tangents, adjoint)
        on_tests = tangents @ self.of_reactions.T
        total = jnp.zeros(self.num_coefficients + self.known.size)
        for term, here, values, explicit in zip(
            self.terms, local, corners, by_coefficients, strict=True
        ):
            coupling = sparse.gather_or_zero(pairs, term.coupling_entries)
            tested = sparse.gather(on_tests, term.dofs)
            coupling = coupling - jnp.einsum("iep,pje->ije", tested, term.tests)
            multiplier = sparse.gather_or_zero(multipliers, term.unknowns).swapaxes(1, 2)

            gradient = explicit + term.pull_back(here, values, coupling, multiplier)
            total = total - sparse.scatter_add(total.shape[0], term.coefficients, gradient)
        gradient = jnp.einsum("knl,nl->k", by_inputs, multipliers)
        gradient = gradient - jnp.einsum("kdl,dl->k", held, by_solution)
        return total[: self.num_coefficients].at[self.inputs.coefficients].add(gradient)

    def alike(self) -> np.ndarray:
        """As :meth:`ForwardModel.alike`: readings with the same load, weights and coefficients."""
        readings, coefficients, weights = map(np.asarray, self.own)
        order = np.lexsort([coefficients, readings])
        readings = readings[order]
        counts = np.bincount(readings, minlength=self.loads.size)
        behind = np.arange(readings.size) - (np.cumsum(counts) - counts)[readings]
        weights_of_coefficients = np.zeros((2, self.loads.size, counts.max(initial=0)))
        weights_of_coefficients[:, readings, behind] = coefficients[order] + 1, weights[order]
        offsets = np.asarray(self.inputs.offsets).T
        return first_of_same(self.loads, self.columns, *weights_of_coefficients, offsets)[1]

    def of_readings(self, rows: np.ndarray) -> LinearEquation:
        """As :meth:`ForwardModel.of_readings`, without the table of sensors."""
        readings, coefficients, weights = map(np.asarray, self.own)
        place = np.full(self.loads.size, -1)
        place[rows] = np.arange(rows.size)
        kept = place[readings] >= 0
        of_coefficients = place[readings[kept]], coefficients[kept], weights[kept]
        loads = np.asarray(self.loads)[rows]
        return replace(
            self,
            inputs=replace(self.inputs, offsets=self.inputs.offsets[:, rows]),
            own=(*map(sparse.as_index, of_coefficients[:2]), jax.device_put(of_coefficients[2])),
            loads=sparse.as_index(loads),
            columns=self.columns[rows],
            by_load=sparse.as_index(readings_by_load(loads, self.num_loads)),
            on_mesh=self.on_mesh._replace(sensors=None),
        )

    def combined(self, matrix: jax.Array) -> ForwardModel:
        """As :meth:`ForwardModel.combined`, by k solves for each load, or by r solves if fewer."""
        if len(matrix) * self.num_loads < self.observation.shape[1]:
            return combined_equation(self, matrix)
        return CombinedReadings(self, matrix)

    def readings_at(self, expansion: Solved) -> jax.Array:
        """Return the readings, (d,), of the solutions of an expansion."""
        return self._read_solutions(expansion.coefficients, expansion.solutions)

    def _read_solutions(self, coefficients, solutions):
        """Return the readings, (d,), of values at all degrees of freedom, (num_dofs, L)."""
        _, _, reactions, offsets = self.inputs.at(coefficients)
        reactions = -reactions
        for term, local in zip(self.terms, self._local(coefficients), strict=True):
            corners = sparse.gather(solutions, term.dofs).swapaxes(1, 2)
            reactions = reactions + term.reactions(term.forces(local, corners))
        unknowns = sparse.gather(solutions, self.free)
        return self._read(self.observation, unknowns, (reactions, offsets), coefficients)

    def pull_back_reactions(
        self, expansion: Solved, on_unknowns: jax.Array, on_reactions: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Pull weights of reactions, (p, L), back to unknowns and coefficients.

        Return the weights of the unknowns, (n, L), with those of the reactions added, and the
        gradient of the weighted reactions by the coefficients at constant u, (N,).
        """
        if not self.of_reactions.shape[0]:
            return on_unknowns, jnp.zeros(self.num_coefficients)
        coefficients, solutions = expansion.coefficients, expansion.solutions
        matrices = [
            term.matrices(local)
            for term, local in zip(self.terms, self._local(coefficients), strict=True)
        ]
        rates = self._reaction_rates(coefficients, solutions)
        gradient = jnp.einsum("pl,pln->n", on_reactions, rates)
        _, by_inputs = self._by_inputs(matrices)
        of_inputs = jnp.einsum("pl,kpl->k", on_reactions, by_inputs)
        gradient = gradient.at[self.inputs.coefficients].add(of_inputs)
        return on_unknowns + self._tested(matrices) @ on_reactions, gradient

    def derivative(self, expansion: Solved, direction: jax.Array) -> jax.Array:
        """Return the derivative of the readings, (d,), along a direction, (N,).

        It takes L solves, or none if the expansion has the adjoint.
        """
        return self._read_bent(expansion, (direction,), (expansion.solutions,))

    def higher_derivative(
        self, expansion: Solved, path: tuple[jax.Array, ...], lower: tuple[jax.Array, ...] = ()
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """Return the derivative of order n of the readings along a curve.

        The n-th derivative of A u - b along the curve is zero.  This gives A u^(n) as minus the
        terms without u^(n).

        Parameters
        ----------
        expansion : Solved
            From :meth:`expand` or :meth:`linearise`, at the point of the derivative.
        path : tuple of n - 1 (N,)
            Derivatives of orders 1 to n - 1 of the curve; that of order n is zero.
        lower : tuple of n - 1 (num_dofs, L), optional
            Second result of this method for order n - 1; empty for n = 2.

        Returns
        -------
        derivative : (d,)
        lower : tuple of n (num_dofs, L)
            u, u', ..., u^(n - 1).
        """
        solved = lower or (expansion.solutions,)
        rhs, held, _ = self._pull(expansion, path, solved)
        solved = (*solved, self._extend(linalg.solve(expansion.factor, rhs), held))
        path = (*path, jnp.zeros_like(path[0]))
        return self._read_bent(expansion, path, solved), solved

    def _read_bent(self, expansion, path, solved):
        """Return the n-th derivative of the readings, (d,), from the curve and u ... u^(n - 1)."""
        rhs, _, at_held = self._pull(expansion, path, solved)
        if expansion.adjoint is not None:  # the adjoint saves the solve
            return self._read(expansion.adjoint, rhs, at_held, path[-1])
        unknowns = linalg.solve(expansion.factor, rhs)
        return self._read(expansion.observation, unknowns, at_held, path[-1])

    def _pull(self, expansion, path, solved):
        """Return right-hand side, (n, L), and held values of u^(n), and (reactions, offsets)."""
        rhs, held, reactions, offsets = self.inputs.along(path[-1])
        reactions = -reactions
        if self.inputs.coefficients.size:  # else given values are constant
            solved = (*solved, held)
        for term, here in zip(self.terms, self._local(expansion.coefficients), strict=True):
            padded = (self._with_known(each, 0.0) for each in path)
            local = [here, *(sparse.gather(each, term.coefficients) for each in padded)]
            corners = [sparse.gather(u, term.dofs).swapaxes(1, 2) for u in solved]
            forces = term.forces_along(local, corners)
            rhs = rhs - self._sum_of_forces(term, forces)
            reactions = reactions + term.reactions(forces)
        return rhs, held, (reactions, offsets)


class EquationFamily(Joined):
    """Readings that depend linearly on the readings of K equations of one structure.

    A subclass has an ``equation``, and defines :attr:`_parameters`, :meth:`_member` and the
    abstract methods of :class:`~invlift.models.joined.Joined`.  Data of the equations are arrays
    (K, ...).
    """

    @property
    def _parameters(self) -> PyTree:
        """Parameters in which the equations differ: arrays (K, ...)."""
        raise NotImplementedError

    def _member(self, parameters: PyTree) -> LinearEquation:
        """Return the equation of one entry of the parameters."""
        raise NotImplementedError

    @property
    def _models(self):
        return (self.equation,)

    def _kept(self, expansion):
        """Drop the Jacobian: only that of the joined readings is used."""
        return expansion._replace(jacobian=None)

    def _each(self, fn, *parts):
        """Apply fn to each equation and its parts, one after another; return results (K, ...)."""

        def one(given):
            parameters, *own = given
            return fn(self._member(parameters), *own)

        return jax.lax.map(one, (self._parameters, *parts))
