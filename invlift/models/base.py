"""Base classes of models of the observations, with derivatives by automatic differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from invlift.models.on_mesh import OnMesh
from invlift.programs.derivatives import derivatives_along
from invlift.programs.pytrees import Module, PyTree, static
from invlift.programs.traced import loop_operations

#: Largest number of coefficients for which second derivatives are taken in forward mode if the
#: model has a branch in a loop, of which reverse mode stores both sides, or a loop without reverse
#: mode.
FEW_COEFFICIENTS = 12
#: Name of the solution of an equation on a mesh in the draws.
SOLUTION = "solution"
#: Separator of name and time in the name of a solution that is stored at one time.
AT_TIME = "_at_"


class Linearisation(NamedTuple):
    """Expansion of a model at one point, for further derivatives there.

    Attributes
    ----------
    coefficients : (N,)
    jacobian : (d, N) or None
        Derivatives of the observations, if they were computed.
    transpose : callable or None
        Transposed derivative of values and Jacobian, ((d,), (d, N)) to ((N,),), if computed.
    """

    coefficients: jax.Array
    jacobian: jax.Array | None
    transpose: Callable | None

    @property
    def byproducts(self) -> dict[str, jax.Array]:
        """By-products of the model: none."""
        return {}


class ForwardModel(Module):
    """Map from coefficients x, (N,), to noise-free observations F(x), (d,).

    Only ``__call__`` must be implemented, in operations that JAX differentiates; all else follows
    by automatic differentiation.  A subclass overrides what it computes faster:
    :class:`invlift.fem.equations.equation.LinearEquation` overrides all of it.

    Attributes
    ----------
    coefficients_name : str
        Name of the coefficients in the draws; None if ``describe`` has other names.
    max_derivative : int
        Highest order of derivative that costs less than it saves samplers, 1, 2 or 3.  By automatic
        differentiation a second derivative takes as long as several values.
    solutions : tuple of str
        Names of those by-products of :meth:`linearise` that are fields at the nodes of a mesh.
    readings : tuple of NamedReading
        Readings by name, if they have names.
    kept_axes : tuple of (str, Axes)
        Axes of other quantities that are stored with a draw.
    finer : callable or None
        Computes the readings with half the longest time step; None for a model without time steps.
    on_mesh : OnMesh
        Further properties of a model on a mesh.
    is_corrected : bool
        True if readings are corrected for the error of the mesh at one point.
    """

    coefficients_name: ClassVar[str | None] = "parameters"
    max_derivative: ClassVar[int] = 1
    solutions: ClassVar[tuple[str, ...]] = ()
    # Not annotated: as fields of a subclass they would come before its others.
    readings = kept_axes = ()
    finer = None
    on_mesh = OnMesh()
    is_corrected = False

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free observations F(x).

        Parameters
        ----------
        coefficients : (N,)
            x, each in its own unit.

        Returns
        -------
        (d,)
            In the units of the readings.
        """
        raise NotImplementedError

    def describe(self, coefficients: jax.Array) -> dict[str, jax.Array]:
        """Return the values stored with a draw beside readings, by name: the coefficients, (N,)."""
        return {self.coefficients_name: coefficients}

    def value_and_jacobian(self, coefficients: jax.Array) -> tuple[jax.Array, jax.Array]:
        """F(x), (d,), and dF/dx, (d, N), in the mode that needs fewer sweeps."""
        size = jax.eval_shape(self.__call__, coefficients).shape[0]
        if size <= coefficients.shape[0]:
            value, pull_back = jax.vjp(self.__call__, coefficients)
            return value, jax.vmap(lambda row: pull_back(row)[0])(jnp.eye(size))
        return by_columns(self.__call__, coefficients)

    def linearise(self, coefficients: jax.Array) -> tuple[tuple[jax.Array, jax.Array], PyTree]:
        """Return :meth:`value_and_jacobian`, and an expansion for further derivatives.

        Parameters
        ----------
        coefficients : (N,)

        Returns
        -------
        ((d,), (d, N))
            F(x) and dF/dx.
        expansion
            For the methods below.  Its ``byproducts`` are a dict of arrays whose posterior moments
            are stored.
        """
        size = jax.eval_shape(self.__call__, coefficients).shape[0]
        if coefficients.shape[0] <= size:
            in_loops = loop_operations(self.__call__, coefficients)
            if not in_loops:
                return self._linearise_by_columns(coefficients)
            if in_loops & {"cond", "while"} and coefficients.shape[0] <= FEW_COEFFICIENTS:
                return self._linearise_forwards(coefficients)
        linear, transpose = jax.vjp(self.value_and_jacobian, coefficients)
        return linear, Linearisation(coefficients, linear[1], transpose)

    def _linearise_by_columns(self, coefficients):
        linear = self.value_and_jacobian(coefficients)

        def transpose(weights):
            by_value, by_jacobian = weights

            def along(direction, column):
                """Derivative along a direction of the gradient of <column, F>."""

                def gradient(at):
                    return jax.vjp(self.__call__, at)[1](column)[0]

                return jax.jvp(gradient, (coefficients,), (direction,))[1]

            units = jnp.eye(coefficients.shape[0])
            second = jax.vmap(along, (0, 1))(units, by_jacobian)
            return (by_value @ linear[1] + jnp.sum(second, axis=0),)

        return linear, Linearisation(coefficients, linear[1], transpose)

    def _linearise_forwards(self, coefficients):
        def differentiate(coefficients):
            linear = self.value_and_jacobian(coefficients)
            return linear[1], linear

        second, linear = jax.jacfwd(differentiate, has_aux=True)(coefficients)

        def transpose(weights):
            by_value, by_jacobian = weights
            return (by_value @ linear[1] + jnp.einsum("dn,dnm->m", by_jacobian, second),)

        return linear, Linearisation(coefficients, linear[1], transpose)

    def expand(self, coefficients: jax.Array) -> tuple[jax.Array, PyTree]:
        """F(x), (d,), and an expansion for derivatives along directions alone."""
        return self(coefficients), Linearisation(coefficients, None, None)

    def push_forward(self, expansion: PyTree, directions: jax.Array) -> tuple[jax.Array, PyTree]:
        """Derivatives along directions, where the model was linearised.

        Parameters
        ----------
        expansion
            As :meth:`linearise` returns it.
        directions : (N, k)
            D.

        Returns
        -------
        (d, k)
            (dF/dx) D.
        pushed
            D pushed forward, for :meth:`pull_back`.
        """
        return expansion.jacobian @ directions, directions

    def pull_back(
        self, expansion: PyTree, pushed: PyTree, weigh: Callable[[jax.Array], jax.Array]
    ) -> jax.Array:
        """Gradient of <W, (dF/dx) D> by x, where D and W are constant.

        Parameters
        ----------
        expansion
            As :meth:`linearise` returns it.
        pushed
            As :meth:`push_forward` returns it for D, (N, d).
        weigh : callable
            Multiplies by the symmetric W, (d, d), from the right: (r, d) to (r, d).

        Returns
        -------
        (N,)
        """
        weights = weigh(pushed).T
        return expansion.transpose((jnp.zeros(weights.shape[0]), weights))[0]

    def alike(self) -> np.ndarray | None:
        """Return numbers of the readings, (d,), equal for equal functions; None if not known."""
        return None

    def of_readings(self, rows: np.ndarray) -> ForwardModel:
        """Return the model of the readings with these indices, (k,), if :meth:`alike` is known."""
        raise NotImplementedError

    def of_equations(
        self, fn: Callable, coefficients: jax.Array, weights: jax.Array, *parts: PyTree
    ) -> PyTree:
        """Apply a function to each equation of the model.

        Parameters
        ----------
        fn : callable
            ``fn(equation, coefficients, weights, *parts)``, with the coefficients of the equation
            and the weights of its own readings.
        coefficients : (N,)
        weights : (k, d)
            Weights of the readings in k sums.
        *parts : pytree
            Values that this method has returned; each equation gets its own.

        Returns
        -------
        pytree
            The values of the function.
        """
        raise NotImplementedError

    def combined(self, matrix: jax.Array) -> ForwardModel:
        """Return the model of k combinations of the readings, A F(x), (k,), for A of (k, d).

        Its derivatives take k sweeps or solves, where those of all readings take d.  It also has
        ``readings_at(expansion)``, which returns all readings F, (d,), where it was linearised.
        Its ``pull_back`` also takes weights of these, (d,), and adds the gradient of their weighted
        sum.
        """
        return CombinedFunction(self, matrix)

    def derivative(self, expansion: PyTree, direction: jax.Array) -> jax.Array:
        """Derivative along a direction, dF(x + t v) / dt at t = 0.

        Parameters
        ----------
        expansion
            As :meth:`linearise` or :meth:`expand` returns it at x.
        direction : (N,)
            v.

        Returns
        -------
        (d,)
        """
        if expansion.jacobian is not None:
            return expansion.jacobian @ direction
        return jax.jvp(self.__call__, (expansion.coefficients,), (direction,))[1]

    def higher_derivative(
        self, expansion: PyTree, path: tuple[jax.Array, ...], lower: PyTree = ()
    ) -> tuple[jax.Array, PyTree]:
        """d^n F / dt^n, (d,), at t = 0 along the curve x + t path[0] + ... + t^m path[m - 1] / m!.

        Parameters
        ----------
        expansion
            Expansion at x, where the derivative is taken.
        path : tuple of m (N,)
            Derivatives of the curve; n = m + 1 is the first order at which its derivative is zero.
        lower
            Second value that this returned for order n - 1; empty for n = 2.

        Returns
        -------
        derivative : (d,)
        lower
            Intermediate results for order n + 1 along the same curve; here none.
        """
        path = (expansion.coefficients, *path, jnp.zeros_like(path[0]))
        return derivatives_along(self.__call__, path)[-1], ()


class AroundModel(ForwardModel):
    """Base class of models around another one, ``model``, with coefficients of the same name."""

    @property
    def coefficients_name(self) -> str | None:
        """As of the model."""
        return self.model.coefficients_name

    @property
    def max_derivative(self) -> int:
        """As of the model."""
        return self.model.max_derivative

    @property
    def solutions(self) -> tuple[str, ...]:
        """As of the model."""
        return self.model.solutions

    @property
    def is_corrected(self) -> bool:
        """As of the model."""
        return self.model.is_corrected


class CombinedFunction(AroundModel):
    """Combinations A F(x), (k,), of the readings of a model by automatic differentiation.

    Attributes
    ----------
    model : ForwardModel
    matrix : (k, d)
        A.
    """

    model: ForwardModel
    matrix: jax.Array

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """A F(x), (k,)."""
        return self.matrix @ self.model(coefficients)

    def readings_at(self, expansion: Linearisation) -> jax.Array:
        """All readings F, (d,), where the model was linearised."""
        return self.model(expansion.coefficients)

    def pull_back(self, expansion, pushed, weigh, by_readings: jax.Array | None = None):
        """As :meth:`ForwardModel.pull_back`, with the gradient of <by_readings, F> added."""
        gradient = super().pull_back(expansion, pushed, weigh)
        if by_readings is None:
            return gradient
        return gradient + jax.vjp(self.model, expansion.coefficients)[1](by_readings)[0]


def by_columns(fn: Callable, at: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Value, (d,), and Jacobian, (d, N), of a function at (N,), by forward mode."""
    # The value comes with the derivatives: it is not computed once more.
    push_forward = jax.vmap(lambda direction: jax.jvp(fn, (at,), (direction,)), out_axes=-1)
    values, jacobian = push_forward(jnp.eye(at.shape[0]))
    return values[:, 0], jacobian


def first_of_same(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each set of equal rows, (r,), and the set of each row, (d,).

    Both are indices.  Columns are (d,) or (d, k) arrays of numbers.
    """
    rows = np.column_stack([np.asarray(each, dtype=float) for each in columns])
    _, first, numbers = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return first[order], place[numbers.ravel()]


class JaxFunction(ForwardModel):
    """Any differentiable JAX function as a model.

    Attributes
    ----------
    fn : callable
        ``fn(parameters, *arguments) -> observations``, (N,) to (d,), written in JAX operations.
    arguments : tuple of pytrees
        Data the function needs; arrays given here are not baked into the compiled program.
    """

    fn: Callable = static()
    arguments: tuple = ()

    def __call__(self, coefficients: jax.Array) -> jax.Array:
        """Noise-free observations, (d,), for parameters of shape (N,)."""
        return self.fn(coefficients, *self.arguments)
