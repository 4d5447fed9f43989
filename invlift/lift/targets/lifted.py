"""The lifted posterior: on its manifold, the density stays diffuse as the noise vanishes.

The state is q = (zeta, w, eta), on the manifold where the data hold exactly.  Let g(zeta, eta) be
the noise-free observations that the data imply for the noise (zeta, eta).  The manifold is then
c(q) = F(X(w)) - g(zeta, eta) = 0; for additive noise g = y - sigma(zeta) eta.  With J = Dc and the
Gram matrix G = J J^T, the density with respect to the manifold's own measure is

    exp(-|q|^2/2 + r(zeta, w, eta)) |det dg/dy| det(G)^(-1/2)

(Au, Graham & Thiery 2023, section 3, eq. 4; the factor |det dg/dy| arises as c is solved for F, and
r is for noise and priors whose coordinates are not standard normal).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from invlift.lift.jacobians import BorderedJacobian, GramFactor
from invlift.lift.jacobians.diagonal import DiagonalJacobian
from invlift.lift.jacobians.krylov import conjugate_residuals
from invlift.lift.targets.lifted_form import Lifted
from invlift.programs.derivatives import derivatives_along
from invlift.targets import Described, LocalConstraint, Slopes

#: Largest number of observations for which the projection factorises a dense matrix: with 100 it
#: takes as long as products on 469 nodes, and longer on 1,801.
MAX_DENSE = 64
#: Maximum number of products.  An accepted step takes 7 or 8; one that needs more than the maximum
#: is not worth its cost.
MAX_KRYLOV = 20


class LiftedPoint(NamedTuple):
    """Values that an integrator needs at one position on the manifold.

    Attributes
    ----------
    position : (h + m + d,)
        q = (zeta, w, eta).
    constraint : (d,)
        c(q), zero up to the solver's tolerance; units of the observations.
    predicted : (d,)
        F, the noise-free observations; all of them where combinations of them are lifted.
    coefficients : (N,)
        x = X(w).
    byproducts : dict of arrays
        Further results of the model, such as the solution of the equation.
    jacobian : BorderedJacobian
        J: blocks of columns by zeta and by w, stored transposed, (h, d) and (m, d), and the
        diagonal by eta.
    pushed : (N, d) or None
        X'(w) times the block by w; None if X is the identity, so that no large array is stored
        twice.
    gram : GramFactor
        Factor of J J^T.
    logdensity : ()
        Relative to the standard normal one.
    logdensity_grad : (h + m + d,)
    """

    position: jax.Array
    constraint: jax.Array
    predicted: jax.Array
    coefficients: jax.Array
    byproducts: dict[str, jax.Array]
    jacobian: BorderedJacobian
    pushed: jax.Array | None
    gram: GramFactor
    logdensity: jax.Array
    logdensity_grad: jax.Array

    @property
    def gradients(self) -> jax.Array:
        """Gradients of the noise-free observations by w, (m, d): a block of J, transposed."""
        return self.jacobian.transposed[1]

    @property
    def normal_coefficients(self) -> jax.Array:
        """Derivatives of the coefficients along the columns of J^T, (N, d)."""
        return self.gradients if self.pushed is None else self.pushed


class LiftedPosterior(Lifted):
    """The general lifted posterior, from the derivatives that model and prior provide.

    If only some combinations of readings are lifted, the other readings are in the density: see
    :mod:`invlift.problems.choice.partly_lifted`.

    """

    #: Name of the function that :meth:`slopes` differentiates.
    differentiated: ClassVar[str] = "forward map"
    is_dense: ClassVar[bool] = True
    order: ClassVar[tuple[int, ...]] = ()

    def jacobian(self, position: jax.Array, by_white: jax.Array) -> BorderedJacobian:
        """Assemble J at q from the derivatives of the noise-free observations by w, (d, m)."""
        zeta, _, eta = self.split(position)
        by_eta, by_zeta = self._by_noise(zeta, eta)
        return _jacobian(by_zeta, by_white.T, by_eta)

    @jax.jit  # traced once for all programs
    def point(self, position: jax.Array) -> LiftedPoint:
        """Evaluate constraint, Jacobian, density and its gradient at q, from one factorisation.

        With U the derivatives by w, G is U U^T plus the part of the noise.  U U^T = F' X' U^T are
        derivatives of the observations along the columns of X' U^T, the normal coefficients; at
        constant U^T the gradient of <G^-1, F' X' U^T> is that of (1/2) log det G by w, as
        d log det G = 2 <G^-1, dJ J^T>.
        """
        zeta, white, eta = self.split(position)
        model, prior = self.problem.model, self.problem.prior
        coefficients, tangent = prior.linearise(white)
        (predicted, by_coefficients), expansion = model.linearise(coefficients)
        (by_eta, by_zeta), pull_back_noise = jax.vjp(self._by_noise, zeta, eta)
        white_transpose = tangent.pull(by_coefficients.T)
        normal_coefficients = tangent.push(white_transpose)
        product, pushed = model.push_forward(expansion, normal_coefficients)
        jacobian = _jacobian(by_zeta, white_transpose, by_eta)
        gram = jacobian.inner(product=product + by_zeta @ by_zeta.T)
        weigh, directions, along = gram.solve_right, white_transpose, normal_coefficients
        if not jacobian.is_wide:  # G^-1 at U^T: one product, where a general solution takes four
            directions = gram.solve_columns().T[zeta.shape[0] :]
            along = tangent.push(directions)
        is_along = pushed is normal_coefficients and not jacobian.is_wide
        weigh_pushed = (lambda _: along) if is_along else weigh
        readings, by_readings = predicted, ()
        correction, by_correction = jax.value_and_grad(self.problem.log_reference, (0, 1, 2))(
            zeta, white, eta
        )
        if self.problem.has_factor:
            readings = model.readings_at(expansion)
            log_factor = jax.value_and_grad(self.problem.log_density_of_rest, (0, 1))
            factor, (by_factor, by_zeta_of_factor) = log_factor(readings, zeta)
            correction, by_readings = correction + factor, (-by_factor,)
            by_correction = (by_correction[0] + by_zeta_of_factor, *by_correction[1:])
        by_field = model.pull_back(expansion, pushed, weigh_pushed, *by_readings)
        grad_white = tangent.pull(by_field)
        if not prior.is_affine:
            weights = weigh(by_coefficients.T) if jacobian.is_wide else by_coefficients.T
            grad_white = grad_white + tangent.pull_back(weights, directions, along)
        grad_zeta, grad_eta = pull_back_noise(
            (gram.inverse_diagonal() * by_eta, gram.solve(by_zeta))
        )
        return LiftedPoint(
            position=position,
            constraint=predicted + self._of_noise(zeta, eta),
            predicted=readings,
            coefficients=coefficients,
            byproducts=expansion.byproducts,
            jacobian=jacobian,
            pushed=None if prior.is_identity else normal_coefficients,
            gram=gram,
            logdensity=correction - 0.5 * gram.log_determinant(),
            logdensity_grad=jnp.concatenate(by_correction)
            - jnp.concatenate([grad_zeta, grad_white, grad_eta]),
        )

    def on_normal_space(self, point: LiftedPoint, origin: jax.Array) -> NormalSpace:
        """Return the constraint on the normal space of a point through ``origin``, (h + m + d,)."""
        # Copied once: products with transposes of tall arrays take twice as long.
        transposed = jax.lax.optimization_barrier(point.normal_coefficients.T)
        white = self.split(origin)[1]
        is_affine = self.problem.prior.is_affine
        coefficients = self.problem.prior.transform(white) if is_affine else None
        return NormalSpace(self, point, origin, coefficients, transposed)

    def slopes(self, position: jax.Array, direction: jax.Array) -> Slopes:
        """Differentiate the readings at q along a direction, (h + m + d,), scaled for Taylor tests.

        No coefficient changes by more than the larger of 1 and its own size, as some have large
        units.  The slope of the readings is from the Jacobian of the point.  The other derivatives
        are those of the model along the direction.
        """
        point, problem = self.point(position), self.problem
        _, along, _ = self.split(direction)
        _, tangent = problem.prior.linearise(self.split(position)[1])
        direction = tangent.push(along)
        # Under a wide prior the unscaled step would be too long to show the order.
        sizes = jnp.maximum(1.0, jnp.abs(point.coefficients))
        scale = 1.0 / jnp.maximum(1.0, jnp.max(jnp.abs(direction) / sizes))
        direction, along = scale * direction, scale * along
        (value, _), expansion = problem.model.linearise(point.coefficients)
        first = problem.model.derivative(expansion, direction)
        second = problem.model.higher_derivative(expansion, (direction,))[0]
        if not problem.prior.is_affine:
            second += problem.model.derivative(expansion, tangent.curvature(along))
        return Slopes(point, value, along @ point.gradients, first, second, scale)

    def describe(self, point: LiftedPoint) -> Described:
        """Return by name the values stored with a draw, and those stored only as moments."""
        whole, theta = self.problem.whole, self.unknowns(point)
        predicted = self.problem.readings_of_whole(point.predicted)
        return whole.describe(theta, point.coefficients, predicted), point.byproducts

    def _of_noise(self, zeta, eta):
        """-g(zeta, eta), (d,)."""
        return -self.problem.noise.predicted(self.problem.observed, zeta, eta)

    def _by_noise(self, zeta, eta):
        """Derivatives of -g by eta, a diagonal, (d,), and by zeta, (d, h)."""
        along = jnp.ones_like(eta)
        by_eta = jax.jvp(lambda eta: self._of_noise(zeta, eta), (eta,), (along,))[1]
        return by_eta, jax.jacfwd(self._of_noise)(zeta, eta)


class NormalSpace(NamedTuple):
    """The map lambda -> c(origin - J^T lambda), with J at a point on the manifold.

    Under an affine prior the coefficients are affine in lambda as well, so that the prior is
    applied once.

    Attributes
    ----------
    target : LiftedPosterior
    point : LiftedPoint
    origin : (h + m + d,)
    coefficients : (N,) or None
        Coefficients at the origin, if the prior is affine.
    transposed : (d, N)
        The point's normal coefficients.
    """

    target: LiftedPosterior
    point: LiftedPoint
    origin: jax.Array
    coefficients: jax.Array | None
    transposed: jax.Array

    @property
    def max_derivative(self) -> int:
        """Highest derivative: that of the model, or 2 if the third costs more than it saves.

        The third does under a prior that is not affine, and if systems are solved by iteration.
        """
        problem = self.target.problem
        is_cheap = problem.prior.is_affine and not self._is_iterative
        return problem.model.max_derivative if is_cheap else min(problem.model.max_derivative, 2)

    @property
    def _is_iterative(self) -> bool:
        """True if systems are solved by iteration, without the Jacobian."""
        return self.point.jacobian.is_wide and self.point.constraint.shape[0] > MAX_DENSE

    def _at(self, multiplier):
        """zeta (h,), w (m,) and eta (d,) at lambda."""
        moved = self.origin - self.point.jacobian.apply_transpose(multiplier)
        return self.target.split(moved)

    def residual(self, multiplier: jax.Array) -> jax.Array:
        """The constraint at lambda, (d,) to (d,), without derivatives."""
        zeta, white, eta = self._at(multiplier)
        coefficients, _ = self._coefficients(white, multiplier)
        return self.target.problem.model(coefficients) + self.target._of_noise(zeta, eta)

    def linearise(self, multiplier: jax.Array) -> LocalConstraint:
        """The constraint at lambda, (d,), and its derivatives along the normal space there.

        Systems have the matrix M = J(q_lambda) J^T.  With few observations M is factorised, which
        takes d solves beside the factorisation of the equation.  With more than MAX_DENSE,
        conjugate residuals are used, preconditioned by G, with one solve for each of the few
        products with M (Knoll & Keyes 2004, section 2).  With more observations than unknowns, the
        Woodbury identity is used, as for G.
        """
        target, problem = self.target, self.target.problem
        zeta, white, eta = self._at(multiplier)
        coefficients, tangent = self._coefficients(white, multiplier)
        jacobian = self.point.jacobian
        by_white = self.point.gradients
        along = self.point.normal_coefficients if tangent is None else tangent.push(by_white)
        by_eta, by_zeta = target._by_noise(zeta, eta)
        if self._is_iterative:
            predicted, expansion = problem.model.expand(coefficients)
            solve = self._krylov_solver(expansion, along, by_zeta, by_eta)
        else:
            if self.max_derivative > 1:
                linear, expansion = problem.model.linearise(coefficients)
            else:  # without second derivatives: the compiler would not move them out of a loop
                linear = problem.model.value_and_jacobian(coefficients)
                _, expansion = problem.model.expand(coefficients)
            predicted, by_coefficients = linear
            solve = self._dense_solver(tangent, by_coefficients, along, by_zeta, by_eta)

        def derivative(path, lower):
            # The product is negated, not the matrix, which would be copied for it.
            fields = tuple(-(along @ each) for each in path)
            by_model, lower = problem.model.higher_derivative(expansion, fields, lower)
            if tangent is not None:  # the order is 2: see ``max_derivative``
                bend = tangent.curvature(by_white @ path[0])
                by_model = by_model + problem.model.derivative(expansion, bend)
            along_zeta, along_eta = jacobian.transposed[0], jacobian.core.entries
            moves = [(-(along_zeta @ each), -along_eta * each) for each in path]
            still = jax.tree.map(jnp.zeros_like, (zeta, eta))
            by_noise = derivatives_along(
                lambda at: target._of_noise(*at), ((zeta, eta), *moves, still)
            )
            return by_model + by_noise[-1], lower

        return LocalConstraint(predicted + target._of_noise(zeta, eta), solve, derivative)

    def _coefficients(self, white, multiplier) -> tuple[jax.Array, Any]:
        """Return coefficients at lambda, and the prior's derivatives if they are not constant."""
        if self.target.problem.prior.is_identity:
            return white, None
        if self.coefficients is not None:
            return self.coefficients - self.point.normal_coefficients @ multiplier, None
        return self.target.problem.prior.linearise(white)

    def _dense_solver(self, tangent, by_coefficients, along, by_zeta, by_eta):
        """Return a direct solver with M; its solutions are exact, and it ignores the tolerance."""
        here, product, by_white = self.point.jacobian, None, jnp.zeros((0, by_eta.size))
        if here.is_wide:  # through the coefficients: no columns by w are needed
            transposed = self.transposed if tangent is None else along.T
            product = (transposed @ by_coefficients.T + here.transposed[0].T @ by_zeta.T).T
        else:
            if tangent is None:  # it is the same everywhere
                _, tangent = self.target.problem.prior.linearise(self.target.split(self.origin)[1])
            by_white = tangent.pull(by_coefficients.T)
        factor = _jacobian(by_zeta, by_white, by_eta).inner(here, product)
        return lambda rhs, _: factor.solve(rhs)

    def _krylov_solver(self, expansion, along, by_zeta, by_eta):
        """Return an iterative solver with M to a relative tolerance, by products with M alone.

        With G = L L^T its unknowns are L^T lambda, whose length is that of the move J^T lambda.
        The tolerance is then independent of the units of the observations.
        """
        jacobian, lower = self.point.jacobian, self.point.gram.lower
        along_zeta, along_eta = jacobian.transposed[0].T, jacobian.core.entries
        model = self.target.problem.model

        def to_move(rhs):
            return solve_triangular(lower, rhs, lower=True)

        def to_multiplier(move):
            return solve_triangular(lower, move, lower=True, trans=1)

        def product(move):
            multiplier = to_multiplier(move)
            by_field = model.derivative(expansion, along @ multiplier)
            by_noise = by_zeta @ (multiplier @ along_zeta) + by_eta * along_eta * multiplier
            return to_move(by_field + by_noise)

        def solve(rhs, tolerance):
            return to_multiplier(conjugate_residuals(product, to_move(rhs), tolerance, MAX_KRYLOV))

        return solve


def _jacobian(by_zeta, white_transpose, by_eta) -> BorderedJacobian:
    """Assemble J from derivatives (d, h), (m, d) and (d,)."""
    return BorderedJacobian((by_zeta.T, white_transpose), DiagonalJacobian(by_eta))
