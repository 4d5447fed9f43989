"""Linear equations on any elements: coefficients to readings, from the matrix of one element.

A(c) u = b(c) for one or several loads, where A, symmetric and positive definite, is a sum of
element matrices that are functions of the coefficients there.  The person writes this function in
JAX; scikit-fem gives elements, quadrature and degrees of freedom.  Everything else is here once for
all equations: adjoints, Jacobian and further derivatives, from one sparse factorisation for all
loads.  The residual A(c) u - b(c) is differentiated element by element, so no derivative is written
by hand.

Loads and held values may be affine in some of the coefficients, and a reading is a weighted sum of
u, of coefficients and of reactions: what the residual is where u is held, a flux or a force.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.fem import linalg
from invlift.fem.equations.combined_equation import combined_equation
from invlift.fem.equations.terms import Inputs, Term
from invlift.fem.linalg import sparse
from invlift.models.base import ForwardModel, first_of_same
from invlift.models.joined import CombinedReadings
from invlift.models.on_mesh import OnMesh
from invlift.programs.pytrees import aside, static


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
    observation : (n, r)
        The different readings on the unknowns, as columns.
    adjoint : (n, r) or None
        A^-1 times these, if the Jacobian was computed.
    jacobian : (d, N) or None
    by_inputs : (K, n, L) or None
        Derivatives by the inputs of what u solves for.
    """

    coefficients: jax.Array
    factor: linalg.Factor
    solutions: jax.Array
    byproducts: dict[str, jax.Array]
    observation: jax.Array
    adjoint: jax.Array | None = None
    jacobian: jax.Array | None = None
    by_inputs: jax.Array | None = None


class LinearEquation(ForwardModel):
    """Readings of the solutions of A(c) u = b(c) as a function of N coefficients c.

    Build it with :func:`linear_equation`.  With n free unknowns, L loads and d readings, of which
    r are different functionals of u and of p reactions.

    Attributes
    ----------
    terms : tuple of Term
    sensitivity : sparse.Pattern
        Which of the coefficients changes the equation of which of the unknowns.
    couplings : sparse.Pattern
        Degrees of freedom and unknowns that share an element.
    free : (n,) int32
        Degrees of freedom that are unknown.
    constants : (num_constants,)
        Entries of A that no coefficient changes, behind those of the elements.
    known : (num_known,)
        Values of coefficients that are known: the numbers from N on.
    structure : linalg.Structure
        Symbolic factorisation of A.
    inputs : Inputs
        Loads and held values.
    observation : (n, r)
        The different readings of u on the unknowns, as columns.
    of_reactions : (p, r)
        Likewise of the reactions.
    own : tuple of (num_own,) int32, int32 and float64
        Readings, coefficients and weights of what readings have of coefficients themselves.
    loads, columns : (d,) int32
        Load and column of each reading.
    by_load : (L, most) int32
        Readings of each load; d where there are no more.
    nodal : (components, num_nodes) int32
        Degrees of freedom at the nodes of the mesh.
    solutions : tuple of L * components str
        What u is called, load by load.
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
    structure: linalg.Structure
    inputs: Inputs
    observation: jax.Array
    of_reactions: jax.Array
    own: tuple[jax.Array, jax.Array, jax.Array]
    loads: jax.Array
    columns: jax.Array
    by_load: jax.Array
    nodal: jax.Array
    solutions: tuple[str, ...] = static()
    coefficients_name: str = static()
    on_mesh: OnMesh = aside(OnMesh())

    max_derivative: ClassVar[int] = 3

    @property
    def num_coefficients(self) -> int:
        """Number N of coefficients."""
        return self.sensitivity.by_row.sources.shape[1]

    @property
    def num_loads(self) -> int:
        """Number L of loads."""
        return self.by_load.shape[0]

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Readings, (d,), load by load.

        Parameters
        ----------
        coefficients : (N,) float64

        Returns
        -------
        (d,) float64
            In units of what is read.  NaN where A is not positive definite.

        Raises
        ------
        InputError
            If the coefficients have another shape; so do all methods that take them.
        """
        return self.expand(coefficients)[0]

    def readings_of(self, coefficients: jax.Array, at_nodes: jax.Array) -> jax.Array:
        """Readings, (d,), of solutions that are known, without a factorisation.

        Parameters
        ----------
        coefficients : (N,) float64
            Those that the solutions belong to.
        at_nodes : (L * components, num_nodes) float64
            Each of the ``solutions``, of elements whose unknowns are all at nodes.
        """
        _, held, reactions, offsets = self.inputs.at(coefficients)
        values = at_nodes.reshape(self.num_loads, *self.nodal.shape).transpose(1, 2, 0)
        values = held.at[self.nodal].set(values)  # what is outside the body is held
        reactions = -reactions
        for term, local in zip(self.terms, self._local(coefficients), strict=True):
            corners = sparse.gather(values, term.dofs).swapaxes(1, 2)
            reactions = reactions + term.reactions(term.forces(local, corners))
        unknowns = sparse.gather(values, self.free)
        return self._read(self.observation, unknowns, (reactions, offsets), coefficients)

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N), from one factorisation."""
        return self.linearise(coefficients)[0]

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Expansion]:
        """:meth:`value_and_jacobian`, by L + r solves, and what further derivatives need.

        A reading has the derivative psi . d(A u - b), where u stays.  With o what it reads of the
        unknowns and t the weights of residuals in its reactions, psi is t less A^-1 (o + A t).
        """
        matrices, factor = self._factorise(coefficients)
        observation, num_loads = self._observation(matrices), self.num_loads
        rhs, held, at_held = self._given(coefficients)
        solved = self._apply_inverse(factor, matrices, jnp.concatenate([rhs, observation], 1))
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
            columns = jnp.einsum("lnm,knl->lmk", by_load, by_inputs)
            columns = columns + jnp.einsum("plm,kpl->lmk", reactions, reactions_by_inputs)
            jacobian = jacobian.at[:, self.inputs.coefficients].add(
                self._by_reading(columns) + self.inputs.offsets[1:].T
            )
        of_readings, of_coefficients, weights = self.own
        jacobian = jacobian.at[of_readings, of_coefficients].add(weights)
        value = self._read(observation, solved[:, :num_loads], at_held, coefficients)
        named = self._by_name(solutions)
        parts = coefficients, factor, solutions, named, observation, adjoint, jacobian, by_inputs
        return (value, jacobian), Expansion(*parts)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Expansion]:
        """Readings, (d,), and what directional derivatives need, without the Jacobian."""
        matrices, factor = self._factorise(coefficients)
        observation = self._observation(matrices)
        rhs, held, at_held = self._given(coefficients)
        unknowns = self._apply_inverse(factor, matrices, rhs)
        solutions = self._extend(unknowns, held)
        parts = coefficients, factor, solutions, self._by_name(solutions), observation
        return self._read(observation, unknowns, at_held, coefficients), Expansion(*parts)

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
        on_unknowns: jax.Array | None = None,
    ) -> jax.Array:
        """Gradient of <W, J D> by the coefficients, (N,), by r + L solves; D and W are constant.

        In the same solves that of <u, `on_unknowns`> is added, for weights (n, L) of the unknowns.

        With v_k column k of D W, this is the sum over the readings of the gradients of
        psi_k . (A' v_k u - b' v_k): by psi (see :meth:`linearise`), by u, and by A' and b'.
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
        """As :meth:`ForwardModel.alike`: of one load, weights and coefficients."""
        readings, coefficients, weights = map(np.asarray, self.own)
        order = np.lexsort([coefficients, readings])
        readings = readings[order]
        counts = np.bincount(readings, minlength=self.loads.size)
        behind = np.arange(readings.size) - (np.cumsum(counts) - counts)[readings]
        own = np.zeros((2, self.loads.size, counts.max(initial=0)))
        own[:, readings, behind] = coefficients[order] + 1, weights[order]
        offsets = np.asarray(self.inputs.offsets).T
        return first_of_same(self.loads, self.columns, *own, offsets)[1]

    def of_readings(self, rows: np.ndarray) -> LinearEquation:
        """As :meth:`ForwardModel.of_readings`, without the table of sensors."""
        readings, coefficients, weights = map(np.asarray, self.own)
        place = np.full(self.loads.size, -1)
        place[rows] = np.arange(rows.size)
        kept = place[readings] >= 0
        own = place[readings[kept]], coefficients[kept], weights[kept]
        loads = np.asarray(self.loads)[rows]
        return replace(
            self,
            inputs=replace(self.inputs, offsets=self.inputs.offsets[:, rows]),
            own=(*map(sparse.as_index, own[:2]), jax.device_put(own[2])),
            loads=sparse.as_index(loads),
            columns=self.columns[rows],
            by_load=sparse.as_index(readings_by_load(loads, self.num_loads)),
            on_mesh=self.on_mesh._replace(sensors=None),
        )

    def combined(self, matrix: jax.Array) -> ForwardModel:
        """As :meth:`ForwardModel.combined`, by k solves for each load, or all readings' r."""
        num_columns = self.observation.shape[1]
        is_of_solution = not (self.of_reactions.shape[0] or self.own[0].size)
        if is_of_solution and len(matrix) * self.num_loads < num_columns:
            return combined_equation(self, matrix)
        return CombinedReadings(self, matrix)

    def readings_at(self, expansion: Expansion) -> jax.Array:
        """Readings, (d,), of the solutions of an expansion; of solutions alone."""
        _, _, reactions, offsets = self.inputs.at(expansion.coefficients)
        unknowns = sparse.gather(expansion.solutions, self.free)
        at_held = reactions, offsets
        return self._read(self.observation, unknowns, at_held, expansion.coefficients)

    def derivative(self, expansion: Expansion, direction: jax.Array) -> jax.Array:
        """Derivative of the readings, (d,), along a direction, (N,), by L solves or the adjoint."""
        return self._read_bent(expansion, (direction,), (expansion.solutions,))

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
        rhs, held, _ = self._pull(expansion, path, solved)
        solved = (*solved, self._extend(linalg.solve(expansion.factor, rhs), held))
        path = (*path, jnp.zeros_like(path[0]))
        return self._read_bent(expansion, path, solved), solved

    def _read_bent(self, expansion, path, solved):
        """Readings of order n, (d,), from n derivatives of the curve and from u ... u^(n - 1)."""
        rhs, _, at_held = self._pull(expansion, path, solved)
        if expansion.adjoint is not None:  # which saves the solve
            return self._read(expansion.adjoint, rhs, at_held, path[-1])
        unknowns = linalg.solve(expansion.factor, rhs)
        return self._read(expansion.observation, unknowns, at_held, path[-1])

    def _pull(self, expansion, path, solved):
        """What u^(n) solves for, (n, L), what it is where u is held, and (reactions, offsets)."""
        rhs, held, reactions, offsets = self.inputs.along(path[-1])
        reactions = -reactions
        if self.inputs.coefficients.size:  # else what is held does not move
            solved = (*solved, held)
        for term, here in zip(self.terms, self._local(expansion.coefficients), strict=True):
            padded = (self._with_known(each, 0.0) for each in path)
            local = [here, *(sparse.gather(each, term.coefficients) for each in padded)]
            corners = [sparse.gather(u, term.dofs).swapaxes(1, 2) for u in solved]
            forces = term.forces_along(local, corners)
            rhs = rhs - self._sum_of_forces(term, forces)
            reactions = reactions + term.reactions(forces)
        return rhs, held, (reactions, offsets)

    def _with_known(self, values, known):
        """Values (N, ...) of coefficients, followed by those of the known ones."""
        if not self.known.size:
            return values
        shape = (self.known.size, *values.shape[1:])
        return jnp.concatenate([values, jnp.broadcast_to(known, shape)])

    def _local(self, coefficients, terms=None):
        """Coefficients on the elements of each term, (k, E)."""
        every = self._with_known(coefficients, self.known)
        return [sparse.gather(every, term.coefficients) for term in terms or self.terms]

    def _factorise(self, coefficients):
        """Element matrices of each term, and the factor of A."""
        if jnp.shape(coefficients) != (self.num_coefficients,):
            raise InputError(
                "coefficients of an equation",
                f"{self.num_coefficients} values",
                f"shape {jnp.shape(coefficients)}",
                "give the equation and the prior of its coefficients one mesh and one location",
            )
        local = self._local(coefficients)
        matrices = [term.matrices(here) for term, here in zip(self.terms, local, strict=True)]
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

    def _given(self, coefficients):
        """b less what held values pull, (n, L), and u where it is held, (num_dofs, L).

        And reactions, (p, L), and parts of readings, (d,), that do not depend on the unknowns.
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
        """The different readings on the unknowns, (n, r), those of reactions included."""
        tested = 0.0
        for term, each in zip(self.terms, matrices, strict=True):
            forces = jnp.einsum("ije,pje->ipe", each, term.tests)
            tested = tested + self._sum_of_forces(term, forces)
        return self.observation + tested @ self.of_reactions

    def _by_inputs(self, matrices):
        """Derivatives of the given, (K, n, L), and of reactions where the unknowns stay, (K, p, L).

        By the inputs.
        """
        load, held = self.inputs.load[1:], self.inputs.held[1:]
        columns = jnp.concatenate([jnp.zeros((held.shape[1], 0)), *held], axis=1)
        rhs, reactions = load, -self.inputs.reactions[1:]
        for term, each in zip(self.terms, matrices, strict=True):
            forces = jnp.einsum("ije,jec->ice", each, sparse.gather(columns, term.dofs))
            pulled = self._sum_of_forces(term, forces).reshape(load.swapaxes(0, 1).shape)
            rhs = rhs - pulled.swapaxes(0, 1)
            found = term.reactions(forces).reshape(reactions.swapaxes(0, 1).shape)
            reactions = reactions + found.swapaxes(0, 1)
        return rhs, reactions

    def _sensitivity(self, coefficients, solutions):
        """Entries of -d(A u - b)/dc where u stays, for each load, (L, num_entries)."""
        num_entries = self.sensitivity.rows.shape[0]
        total = 0.0
        for term, rates in zip(self.terms, self._rates(coefficients, solutions), strict=True):
            by_entry = rates.transpose(2, 0, 3, 1)  # (k, m, E, L)
            total = total - sparse.scatter_add_or_drop(
                num_entries, term.sensitivity_entries, by_entry
            )
        return total.T

    def _reaction_rates(self, coefficients, solutions):
        """Derivatives of the reactions where u stays, (p, L, N)."""
        size, total = self.num_coefficients + self.known.size, 0.0
        for term, rates in zip(self.terms, self._rates(coefficients, solutions), strict=True):
            tested = jnp.einsum("pme,mlke->kepl", term.tests, rates)
            total = total + sparse.scatter_add(size, term.coefficients, tested)
        return total[: self.num_coefficients].transpose(1, 2, 0)

    def _rates(self, coefficients, solutions):
        """Derivatives of A u - b of the elements of each term, (m, L, k, E), where u stays."""
        return [
            term.rates(local, sparse.gather(solutions, term.dofs).swapaxes(1, 2))
            for term, local in zip(self.terms, self._local(coefficients), strict=True)
        ]

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

    def _reactions_by_load(self):
        """What the readings of each load have of the reactions, (p, L, most)."""
        return jnp.moveaxis(sparse.gather(self.of_reactions.T, self._columns_by_load()), -1, 0)

    def _by_reading(self, by_load):
        """Rows (L, most, ...) in the order of the readings, (d, ...)."""
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
        """Readings, (d,), of the unknowns, (n, L), of what is given and of coefficients, (N,).

        All of the same order of derivative.
        """
        reactions, offsets = at_held
        different = observation.T @ unknowns + self.of_reactions.T @ reactions
        of_readings, of_coefficients, weights = self.own
        values = different[self.columns, self.loads] + offsets
        return values.at[of_readings].add(weights * sparse.gather(coefficients, of_coefficients))

    def _extend(self, unknowns, held):
        """The unknowns, (n, L), among values at all degrees of freedom, (num_dofs, L)."""
        return held.at[self.free].set(unknowns, unique_indices=True, mode="promise_in_bounds")


def readings_by_load(loads: np.ndarray, num_loads: int) -> np.ndarray:
    """Readings of each load, (L, most); the number of readings where there are no more."""
    counts = np.bincount(loads, minlength=num_loads)
    found = np.full((num_loads, counts.max()), loads.size)
    for each, count in enumerate(counts):
        found[each, :count] = np.flatnonzero(loads == each)
    return found
