"""Several experiments on one body: one field of conductivity, and readings of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.errors import InputError
from invlift.fem import sparse
from invlift.fem.conditions import Conditions, assemble_conditions
from invlift.fem.discretisation import cell_basis
from invlift.fem.equation import LinearEquation
from invlift.fem.equation_assembly import Form, linear_equation
from invlift.fem.forms import conduction
from invlift.fem.mesh.functionals import rows_of
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.sensors import Observation
from invlift.inverse.models.base import ForwardModel
from invlift.precision import require_float64
from invlift.pytrees import static


class Experiment(NamedTuple):
    """One of several experiments.

    Attributes
    ----------
    name : str
        Part of the name of its solution.
    observation : Observation
        Its d_e sensors, from :func:`invlift.locate`.
    conditions : mapping
        Source and boundary conditions, as :func:`invlift.assemble_poisson` takes them; without a
        source it is zero.
    """

    name: str
    observation: Observation
    conditions: Mapping[str, Any]


class Experiments(ForwardModel):
    """Readings of several equations with the same coefficients, each with a matrix of its own.

    Attributes
    ----------
    equations : tuple of LinearEquation
    places : tuple of (d_e,) int32
        Where the readings of each equation are among all d.
    solutions : tuple of str
        Names of all solutions.
    """

    equations: tuple[LinearEquation, ...]
    places: tuple[jax.Array, ...]
    solutions: tuple[str, ...] = static()

    coefficients_name = LinearEquation.coefficients_name
    max_derivative = LinearEquation.max_derivative
    has_lanes = LinearEquation.has_lanes

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Readings, (d,), for coefficients (N,)."""
        return self._together([equation(coefficients) for equation in self.equations])

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Readings, (d,), and their derivatives, (d, N)."""
        return self.linearise(coefficients)[0]

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], Expansions]:
        """:meth:`value_and_jacobian`, and what each equation's further derivatives need."""
        linear, expansions = zip(
            *(each.linearise(coefficients) for each in self.equations), strict=True
        )
        values, jacobians = zip(*linear, strict=True)
        return (self._together(values), self._together(jacobians)), Expansions(expansions)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, Expansions]:
        """Readings, (d,), and what directional derivatives need."""
        values, expansions = zip(
            *(each.expand(coefficients) for each in self.equations), strict=True
        )
        return self._together(values), Expansions(expansions)

    def push_forward(
        self, expansion: Expansions, directions: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The Jacobian times directions, (N, k) to (d, k), and these for :meth:`pull_back`."""
        products = [each.jacobian @ directions for each in expansion.parts]
        return self._together(products), directions

    def pull_back(
        self,
        expansion: Expansions,
        pushed: jax.Array,
        weigh: Callable[[jax.Array], jax.Array],
    ) -> jax.Array:
        """Gradient of <W, J D> by the coefficients, (N,): the sum of those of the equations."""
        weighed = weigh(pushed)
        parts = zip(self.equations, expansion.parts, self.places, strict=True)
        return sum(
            equation.pull_back(own, pushed, lambda _, at=at: sparse.gather(weighed.T, at).T)
            for equation, own, at in parts
        )

    def derivative(self, expansion: Expansions, direction: jax.Array) -> jax.Array:
        """Derivative of the readings, (d,), along a direction, (N,)."""
        pairs = zip(self.equations, expansion.parts, strict=True)
        return self._together([each.derivative(own, direction) for each, own in pairs])

    def higher_derivative(
        self, expansion: Expansions, path: tuple[jax.Array, ...], lower: tuple = ()
    ) -> tuple[jax.Array, tuple]:
        """Derivative of the readings along a curve: see :class:`LinearEquation`."""
        lower = lower or ((),) * len(self.equations)
        parts = zip(self.equations, expansion.parts, lower, strict=True)
        found, lower = zip(
            *(each.higher_derivative(own, path, low) for each, own, low in parts), strict=True
        )
        return self._together(found), lower

    def _together(self, parts):
        """What belongs to readings, (d_e, ...) of each equation, in the order of all, (d, ...)."""
        size = sum(at.shape[0] for at in self.places)
        total = jnp.zeros((size, *parts[0].shape[1:]))
        return total.at[jnp.concatenate(self.places)].set(
            jnp.concatenate(parts), unique_indices=True, mode="promise_in_bounds"
        )


class Expansions(NamedTuple):
    """Where the equations were solved.

    Attributes
    ----------
    parts : tuple of invlift.fem.equation.Expansion
    """

    parts: tuple

    @property
    def byproducts(self) -> dict[str, jax.Array]:
        """The solutions of all by name, (num_nodes,) each."""
        return {name: field for part in self.parts for name, field in part.byproducts.items()}


def assemble_experiments(
    mesh: Mesh, experiments: Sequence[Experiment], *, location: str = "nodes"
) -> LinearEquation | Experiments:
    """Readings of several experiments as a function of one log-conductivity.

    Experiments of which u is held at the same nodes, and that have the same Robin coefficients,
    share a matrix: their readings take one factorisation.

    Parameters
    ----------
    mesh : Mesh
    experiments : sequence of Experiment
        With different names.
    location : {"nodes", "cells"}
        Where the coefficients live.

    Returns
    -------
    LinearEquation or Experiments
        The readings of one experiment after those of the other.

    Raises
    ------
    InputError
        As :func:`invlift.assemble_poisson`, with the experiment's name in front of what is wrong;
        if there are no experiments, or two of one name.
    """
    require_float64(points=mesh.points)
    names = [each.name for each in experiments]
    if not names or len(set(names)) < len(names):
        expected, found = "one or more with different names", ", ".join(names) or "none"
        raise InputError("experiments", expected, found, "give each its own name")
    basis = cell_basis(mesh)
    assembled = []
    for each in experiments:
        try:
            assembled.append(assemble_conditions(mesh, basis, **each.conditions))
        except InputError as error:
            raise error.at(f"experiment {each.name}, {error.where}") from None
    equations, places, form = [], [], Form(basis, conduction, location=location)
    sizes = [len(each.observation.nodes) for each in experiments]
    ends = np.cumsum(sizes)
    for group in _groups(assembled):
        first = assembled[group[0]]
        equations.append(
            linear_equation(
                form,
                readings=[_rows(experiments[k].observation, mesh.num_nodes) for k in group],
                load=np.stack([assembled[k].load for k in group], axis=1),
                held=first.held,
                values=np.stack([assembled[k].values[first.held] for k in group], axis=1),
                constant=first.robin,
                experiments=[names[k] for k in group],
            )
        )
        own = [np.arange(ends[k] - sizes[k], ends[k]) for k in group]
        places.append(sparse.as_index(np.concatenate(own)))
    if len(equations) == 1:
        return equations[0]
    solutions = tuple(name for each in equations for name in each.solutions)
    return Experiments(equations=tuple(equations), places=tuple(places), solutions=solutions)


def _groups(assembled: Sequence[Conditions]) -> list[list[int]]:
    """Numbers of the experiments that share a matrix."""
    groups: list[list[int]] = []
    for k, each in enumerate(assembled):
        for group in groups:
            first = assembled[group[0]]
            is_same = np.array_equal(each.held, first.held)
            if is_same and (each.robin != first.robin).nnz == 0:
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


def _rows(observation: Observation, num_nodes: int):
    return rows_of(observation.nodes, observation.weights, num_nodes)
