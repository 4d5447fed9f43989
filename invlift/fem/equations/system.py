"""The linear system of an equation: matrices, loads, held values and readings."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.fem import linalg
from invlift.fem.equations.terms import Inputs, Term
from invlift.fem.linalg import sparse
from invlift.models.base import ForwardModel
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import aside, static


class Solved(NamedTuple):
    """Solution of the equation at a point, with data for derivatives there.

    Attributes
    ----------
    coefficients : (N,)
        The point.
    factor : linalg.Factor
        Factor of A.
    solutions : (num_dofs, L)
        u for each load.
    byproducts : dict of str to (num_nodes,)
        u of each load at the nodes of the mesh, by the names of `LinearEquation.solutions`.
    observation : (n, r) array or sparse.SparseMatrix
        Weights of the unknowns in the different readings, as columns.
    adjoint : (n, r) or None
        A^-1 times these columns, if the Jacobian was computed.
    jacobian : (d, N) or None
    by_inputs : (K, n, L) or None
        Derivatives of the right-hand side by the inputs.
    """

    coefficients: jax.Array
    factor: linalg.Factor
    solutions: jax.Array
    byproducts: dict[str, jax.Array]
    observation: jax.Array | sparse.SparseMatrix
    adjoint: jax.Array | None = None
    jacobian: jax.Array | None = None
    by_inputs: jax.Array | None = None


class EquationSystem(ForwardModel):
    """The system A(c) u = b(c) and its readings, for N coefficients c.

    It has n free unknowns, L loads and d readings.  These have r different functionals of u and of
    p reactions.

    Attributes
    ----------
    terms : tuple of Term
    sensitivity : sparse.Pattern
        Pattern of the derivatives of the unknowns' equations by the coefficients.
    couplings : sparse.Pattern
        Degrees of freedom and unknowns that share an element.
    free : (n,) int32
        Degrees of freedom that are unknown.
    constants : (num_constants,)
        Entries of A that do not depend on coefficients, after those of the elements.
    known : (num_known,)
        Values of the known coefficients, whose indices start at N.
    structure : linalg.SymbolicAnalysis
        Symbolic factorisation of A.
    inputs : Inputs
        Loads and held values.
    observation : (n, r) array or sparse.SparseMatrix
        Weights of the unknowns in the different readings, as columns.
    of_reactions : (p, r)
        Weights of the reactions in the different readings.
    own : tuple of (num_own,) int32, int32 and float64
        Readings, coefficients and weights of the direct terms of coefficients in readings.
    loads, columns : (d,) int32
        Load and column of each reading.
    by_load : (L, most) int32
        Readings of each load; d for padding.
    nodal : (components, num_nodes) int32
        Degrees of freedom at the nodes of the mesh.
    solutions : tuple of L * components str
        Names of u, load by load.
    coefficients_name : str
        See :class:`~invlift.models.base.ForwardModel`.
    on_mesh : OnMesh
    """

    terms: tuple[Term, ...]
    sensitivity: sparse.Pattern
    couplings: sparse.Pattern
    free: jax.Array
    constants: jax.Array
    known: jax.Array
    structure: linalg.SymbolicAnalysis
    inputs: Inputs
    observation: jax.Array | sparse.SparseMatrix
    of_reactions: jax.Array
    own: tuple[jax.Array, jax.Array, jax.Array]
    loads: jax.Array
    columns: jax.Array
    by_load: jax.Array
    nodal: jax.Array
    solutions: tuple[str, ...] = static()
    coefficients_name: str = static()
    on_mesh: OnMesh = aside(OnMesh())

    @property
    def num_coefficients(self) -> int:
        """Number N of coefficients."""
        return self.sensitivity.by_row.sources.shape[1]

    @property
    def num_loads(self) -> int:
        """Number L of loads."""
        return self.by_load.shape[0]

    def with_adjoints(self, coefficients: jax.Array, weights: jax.Array) -> tuple:
        """Return u of each load, (num_dofs, L), and adjoints of weighted readings, (num_dofs, Q L).

        It takes L + Q L solves, for weights (Q, d).  Adjoints are zero where u is held, and for
        readings of reactions.
        """
        coefficients = self._checked(coefficients)
        matrices, factor = self._factorise(coefficients)
        rhs, held, at_held = self._given(coefficients)

        def weighted(unknowns, weights):
            return weights @ self._read(self.observation, unknowns, at_held, coefficients)

        read = jax.vmap(jax.grad(weighted), (None, 0), 1)(rhs, weights)
        read = read.reshape(rhs.shape[0], -1)
        solved = self._apply_inverse(factor, matrices, jnp.concatenate([rhs, read], axis=1))
        solutions, adjoints = jnp.split(solved, [self.num_loads], axis=1)
        return self._extend(solutions, held), self._extend(
            adjoints, jnp.zeros((held.shape[0], read.shape[1]))
        )

    def of_equations(self, fn, coefficients, weights, *parts):
        """As :meth:`ForwardModel.of_equations`: this one."""
        return fn(self, coefficients, weights, *parts)

    def tested(
        self,
        coefficients: jax.Array,
        adjoints: jax.Array,
        solutions: jax.Array,
        less: jax.Array | None = None,
    ) -> list[jax.Array]:
        """Return adjoints times element forces of the solutions, (Q, E) for each term.

        Adjoints are (num_dofs, Q L), solutions (num_dofs, L).  Forces are A u - b of the elements.
        The forces of another solution, ``less``, are subtracted.
        """
        tested = []
        for term, local in zip(self.terms, self._local(coefficients), strict=True):
            forces = term.forces(local, sparse.gather(solutions, term.dofs).swapaxes(1, 2))
            if less is not None:
                forces -= term.forces(local, sparse.gather(less, term.dofs).swapaxes(1, 2))
            corners = sparse.gather(adjoints, term.dofs)
            corners = corners.reshape(*term.dofs.shape, -1, solutions.shape[1])
            tested.append(jnp.einsum("meql,mle->qe", corners, forces))
        return tested

    def _with_known(self, values, known):
        """Append values for the known coefficients to values (N, ...)."""
        if not self.known.size:
            return values
        shape = (self.known.size, *values.shape[1:])
        return jnp.concatenate([values, jnp.broadcast_to(known, shape)])

    def _local(self, coefficients, terms=None):
        """Return the coefficients on the elements of each term, (k, E)."""
        every = self._with_known(coefficients, self.known)
        return [sparse.gather(every, term.coefficients) for term in terms or self.terms]

    def _checked(self, coefficients):
        """Return the coefficients as an array; an InputError tells of another shape."""
        if np.shape(coefficients) != (self.num_coefficients,):
            raise InputError(
                "coefficients of an equation",
                f"{self.num_coefficients} values",
                f"shape {np.shape(coefficients)}",
                "give the equation and the prior of its coefficients one mesh and one location",
            )
        return jnp.asarray(coefficients)

    def _factorise(self, coefficients):
        """Return the element matrices of each term, and the factor of A."""
        local = self._local(coefficients)
        matrices = [term.matrices(here) for term, here in zip(self.terms, local, strict=True)]
        kept = [
            sparse.gather(jax.lax.stop_gradient(each).ravel(), term.kept)
            for term, each in zip(self.terms, matrices, strict=True)
        ]
        return matrices, linalg.factorise(self.structure, jnp.concatenate([*kept, self.constants]))

    def _apply_inverse(self, factor, matrices, rhs):
        """Return A^-1 rhs; its derivatives of any order reuse the same factor."""

        def multiply(columns):
            """Apply the part of A that depends on coefficients; only derivatives use it."""
            total = 0.0
            for term, each in zip(self.terms, matrices, strict=True):
                corners = sparse.gather_or_zero(columns, term.unknowns)
                forces = jnp.einsum("ije,jel->ile", each, corners)
                total = total + self._sum_of_forces(term, forces)
            return total

        return jax.lax.custom_linear_solve(
            multiply, rhs, lambda _, right: linalg.solve(factor, right), symmetric=True
        )

    def _given(self, coefficients):
        """Return the right-hand side, held values, and the parts without unknowns.

        The right-hand side, (n, L), is b minus A times the held values.  The held values are
        (num_dofs, L).  The last result is a tuple: the parts of reactions, (p, L), and of readings,
        (d,), that do not depend on the unknowns.
        """
        rhs, held, reactions, offsets = self.inputs.at(coefficients)
        reactions = -reactions
        terms = [term.at_given() for term in self.terms]
        for term, local in zip(terms, self._local(coefficients, terms), strict=True):
            corners = sparse.gather(held, term.dofs).swapaxes(1, 2)
            forces = term.forces(local, corners)
            rhs = rhs - self._sum_of_forces(term, forces)
            reactions = reactions + term.reactions(forces)
        return rhs, held, (reactions, offsets)

    def _observation(self, matrices):
        """Return weights of the unknowns in the different readings, (n, r), with reactions."""
        if not self.of_reactions.shape[0]:
            return self.observation
        return sparse.dense(self.observation) + self._tested(matrices) @ self.of_reactions

    def _tested(self, matrices):
        """Return the weights of the unknowns in the reactions, (n, p)."""
        tested = 0.0
        for term, each in zip(self.terms, matrices, strict=True):
            forces = jnp.einsum("ije,pje->ipe", each, term.tests)
            tested = tested + self._sum_of_forces(term, forces)
        return tested

    def _by_inputs(self, matrices):
        """Return derivatives by the inputs at constant unknowns.

        These are derivatives of the right-hand side, (K, n, L), and of the reactions, (K, p, L).
        """
        load, held = self.inputs.load[1:], self.inputs.held[1:]
        columns = jnp.concatenate([jnp.zeros((held.shape[1], 0)), *held], axis=1)
        rhs, reactions = load, -self.inputs.reactions[1:]
        for term, each in zip(self.terms, matrices, strict=True):
            forces = jnp.einsum("ije,jec->ice", each, sparse.gather(columns, term.dofs))
            pulled = self._sum_of_forces(term, forces).reshape(load.swapaxes(0, 1).shape)
            rhs = rhs - pulled.swapaxes(0, 1)
            of_term = term.reactions(forces).reshape(reactions.swapaxes(0, 1).shape)
            reactions = reactions + of_term.swapaxes(0, 1)
        return rhs, reactions

    def _sensitivity(self, coefficients, solutions):
        """Return the entries of -d(A u - b)/dc at constant u, for each load, (L, num_entries)."""
        num_entries = self.sensitivity.rows.shape[0]
        total = 0.0
        for term, rates in zip(self.terms, self._rates(coefficients, solutions), strict=True):
            by_entry = rates.transpose(2, 0, 3, 1)  # (k, m, E, L)
            total = total - sparse.scatter_add_or_drop(
                num_entries, term.sensitivity_entries, by_entry
            )
        return total.T

    def _reaction_rates(self, coefficients, solutions):
        """Return the derivatives of the reactions at constant u, (p, L, N)."""
        size, total = self.num_coefficients + self.known.size, 0.0
        for term, rates in zip(self.terms, self._rates(coefficients, solutions), strict=True):
            tested = jnp.einsum("pme,mlke->kepl", term.tests, rates)
            total = total + sparse.scatter_add(size, term.coefficients, tested)
        return total[: self.num_coefficients].transpose(1, 2, 0)

    def _rates(self, coefficients, solutions):
        """Return derivatives of each term's element forces at constant u, (m, L, k, E)."""
        return [
            term.rates(local, sparse.gather(solutions, term.dofs).swapaxes(1, 2))
            for term, local in zip(self.terms, self._local(coefficients), strict=True)
        ]

    def _sum_of_forces(self, term, forces):
        """Assemble element forces, (m, L, E), on the unknowns, (n, L)."""
        size = self.free.shape[0]
        return sparse.scatter_add_or_drop(size, term.unknowns, forces.swapaxes(1, 2))

    def _columns_by_load(self):
        """Return the columns of the adjoint for the readings of each load, (L, most)."""
        return sparse.gather_or_zero(self.columns, self.by_load)

    def _adjoint_by_load(self, adjoint):
        """Return the adjoint, (n, r), for the readings of each load, (L, n, most)."""
        return sparse.gather(adjoint.T, self._columns_by_load()).swapaxes(1, 2)

    def _reactions_by_load(self):
        """Return the weights of the reactions in the readings of each load, (p, L, most)."""
        return jnp.moveaxis(sparse.gather(self.of_reactions.T, self._columns_by_load()), -1, 0)

    def _by_reading(self, by_load):
        """Reorder rows (L, most, ...) in the order of the readings, (d, ...)."""
        if self.num_loads == 1:
            return by_load[0]
        rows = by_load.reshape(self.by_load.size, *by_load.shape[2:])
        shape = (self.loads.shape[0], *rows.shape[1:])
        return jnp.zeros(shape).at[self.by_load.ravel()].set(rows, mode="drop")

    def _by_name(self, solutions):
        at_nodes = sparse.gather(solutions, self.nodal).transpose(2, 0, 1)
        rows = at_nodes.reshape(-1, self.nodal.shape[1])
        return dict(zip(self.solutions, rows, strict=True))

    def _read(self, observation, unknowns, at_held, coefficients):
        """Return readings, (d,), from unknowns, (n, L), parts without them, and coefficients, (N,).

        All arguments are derivatives of the same order.
        """
        reactions, offsets = at_held
        different = observation.T @ unknowns + self.of_reactions.T @ reactions
        of_readings, of_coefficients, weights = self.own
        values = different[self.columns, self.loads] + offsets
        return values.at[of_readings].add(weights * sparse.gather(coefficients, of_coefficients))

    def _extend(self, unknowns, held):
        """Insert the unknowns, (n, L), into values at all degrees of freedom, (num_dofs, L)."""
        return held.at[self.free].set(unknowns, unique_indices=True, mode="promise_in_bounds")


def readings_by_load(loads: np.ndarray, num_loads: int) -> np.ndarray:
    """Return the indices of each load's readings, (L, most), padded with the total number."""
    counts = np.bincount(loads, minlength=num_loads)
    numbers = np.full((num_loads, counts.max()), loads.size)
    for each, count in enumerate(counts):
        numbers[each, :count] = np.flatnonzero(loads == each)
    return numbers
