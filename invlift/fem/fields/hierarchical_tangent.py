"""Derivatives of the Matern prior with unknown range or standard deviation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import comb

import jax
import jax.numpy as jnp

from invlift.fem import linalg
from invlift.fem.fields.matern import Root
from invlift.programs.pytrees import Module
from invlift.unknowns.priors.base import Prior


class HierarchicalTangent(Module):
    """Derivatives of phi = X(z, w) at one point; from :meth:`HierarchicalMaternPrior.linearise`.

    Let l = log(kappa).  S is proportional to std kappa^nu, and depends on the range only through
    kappa.  Only one or two of the m coordinates are hyperparameters: X' D takes S on k columns, and
    one or two fields that are stored here.

    Attributes
    ----------
    prior : HierarchicalMaternPrior
    slopes : two (num_hyper,)
        First and second derivatives of the unknown logarithms by z.
    white : (N, 1)
        w.
    kappa, scale : ()
        kappa and 1 / tau.
    jet : linalg.FactorJet
        Factor of K; for odd alpha and an unknown range also two derivatives by l.
    stages : tuple of (q, N, 1)
        Results after each solve in tau S w, with derivatives of order 0 to q - 1 by l.
    field, by_log_kappa : (N,)
        S w, and (dS/dl) w, which is None if the range is known.
    """

    prior: Prior
    slopes: tuple[jax.Array, jax.Array]
    white: jax.Array
    kappa: jax.Array
    scale: jax.Array
    jet: linalg.FactorJet
    stages: tuple
    field: jax.Array
    by_log_kappa: jax.Array | None

    def push(self, directions: jax.Array) -> jax.Array:
        """Return X' D, (N,) or (N, k), for D of (m,) or (m, k), with as many solves as S."""
        hyper, white = self._split(directions)
        field = self._root(white.reshape(self.field.size, -1))
        return field.reshape(white.shape) + self._by_hyper() @ hyper

    def pull(self, values: jax.Array) -> jax.Array:
        """Return X'^T V, (m,) or (m, k), for V of (N,) or (N, k), with as many solves as S^T."""
        columns = values.reshape(1, self.field.size, -1)
        white = self._along(1.0).root_transpose(columns).reshape(values.shape)
        return jnp.concatenate([self._by_hyper().T @ values, self.scale * white])

    def curvature(self, direction: jax.Array) -> jax.Array:
        """Return d^2 X(q + t v) / dt^2 at t = 0, (N,), for v of (m,), with twice the solves of S.

        Let x(t) be the field without its scale, and let the logarithm of the scale grow at a
        constant rate r.  The result is scale (x'' + 2 r x' + r^2 x), plus the terms with the second
        derivatives of the logarithms of range and std.
        """
        hyper, white = self._split(direction[:, None])
        bent = self._by_logs(self.slopes[1]) @ hyper[:, 0] ** 2
        by_kappa, by_scale = self._rates(hyper)
        if not self.prior._is_range_unknown:
            inside = self._root(white)[:, 0]
            return bent + by_scale[0] * (2.0 * inside + by_scale[0] * self.field)
        columns = jnp.stack([self.white, white, jnp.zeros_like(white)])
        known = tuple(stage[:1] for stage in self.stages)
        x = self._along(by_kappa[0]).root(columns, known)[-1][..., 0]
        rate = by_scale[0]
        return bent + self.scale * (x[2] + 2.0 * rate * x[1] + rate**2 * x[0])

    def pull_back(self, weights: jax.Array, directions: jax.Array, pushed: jax.Array) -> jax.Array:
        """Return the gradient of <A, X' D> by the white coordinates, (m,), for constant A and D.

        ``weights`` is A, (N, k), ``directions`` is D, (m, k), and ``pushed`` is X' D, (N, k).
        """
        prior, nu = self.prior, self.prior.smoothness
        hyper, white = self._split(directions)
        total = jnp.sum(weights * pushed)
        by_kappa, by_scale = self._rates(hyper)
        # Only the rates of log(std); the rate of log(kappa) is part of dS/dl.
        by_std = by_scale - nu * by_kappa
        plain = weights @ by_std
        by_logs = {"std": total}
        bent = jnp.sum((self._by_logs(self.slopes[1]).T @ weights) * hyper, axis=1)
        if not prior._is_range_unknown:
            by_white = self.scale * self._along(1.0).root_transpose(plain[None, :, None])[0]
            return self._joined(by_logs, bent, by_white[:, 0])
        sloped = weights @ by_kappa
        along = self._along(1.0)
        # A transposed root of a + t b along l has the derivative (S_l^T) a + S^T b.
        both = along.root_transpose(jnp.stack([sloped, plain])[:, :, None])[..., 0]
        by_white = self.scale * (both[1] + nu * both[0])
        x = along.root(pad(self.white, 3), self.stages)[-1][..., 0]
        second = self.scale * (x[2] + 2.0 * nu * x[1] + nu**2 * x[0])
        inside = pushed - self._by_hyper() @ hyper
        known = () if len(self.stages) > 1 or prior.alpha % 2 else (inside[None] / self.scale,)
        slopes = along.root(pad(white, 2), known)[-1][1]
        by_log_kappa = jnp.sum(weights * (self.scale * slopes + nu * inside))
        by_log_kappa += sloped @ second + plain @ self.by_log_kappa
        by_logs["range"] = -by_log_kappa
        return self._joined(by_logs, bent, by_white)

    def _joined(self, by_logs, bent, by_white):
        hyper = jnp.stack([by_logs[name] for name in self.prior.unknown])
        return jnp.concatenate([self.slopes[0] * hyper + bent, by_white])

    def _split(self, directions):
        return directions[: self.prior.num_hyper], directions[self.prior.num_hyper :]

    def _along(self, rate):
        return Along(self.prior, self.kappa, self.jet, rate)

    def _root(self, white):
        return self.scale * self._along(1.0).root(white[None])[-1][0]

    def _rates(self, hyper):
        """Return the rates of log(kappa) and log(scale) along directions (num_hyper, k), (k,)."""
        rates = dict(zip(self.prior.unknown, self.slopes[0][:, None] * hyper, strict=True))
        nothing = jnp.zeros(hyper.shape[1])
        by_kappa = -rates.get("range", nothing)
        by_std = rates.get("std", nothing)
        return by_kappa, by_std + self.prior.smoothness * by_kappa

    def _by_hyper(self):
        """Return dX/dz, (N, num_hyper)."""
        return self._by_logs(self.slopes[0])

    def _by_logs(self, factors):
        """Return derivatives by the unknown logarithms, each times its factor, (N, num_hyper)."""
        columns = {"std": self.field}
        if self.by_log_kappa is not None:
            columns["range"] = -self.by_log_kappa
        return jnp.stack([columns[name] for name in self.prior.unknown], axis=1) * factors


@dataclass(frozen=True)
class Along:
    """Products of tau S and tau S^T with columns along t, where log(kappa) grows at a rate.

    Functions of t are represented by their derivatives of order 0 to q - 1, (q, N, k).
    """

    prior: Prior
    kappa: jax.Array
    jet: linalg.FactorJet
    rate: float | jax.Array

    def root(self, columns: jax.Array, known: tuple = ()) -> tuple[jax.Array, ...]:
        """Return the results after each solve of tau S columns, (q, N, k); the last is the product.

        ``known`` holds the lowest orders of the first results, if they were computed before.
        """
        stages = []

        def recorded(operation: Callable):
            def apply(columns):
                at_hand = known[len(stages)] if len(stages) < len(known) else columns[:0]
                stages.append(operation(columns, at_hand))
                return stages[-1]

            return apply

        self._root(recorded).times(columns)
        return tuple(stages)

    def root_transpose(self, columns: jax.Array) -> jax.Array:
        """Return tau S^T times columns, (q, N, k)."""
        return self._root(lambda operation: operation).transposed(columns)

    def _root(self, of_solves: Callable[[Callable], Callable]) -> Root:
        """Return the root whose solves are changed by a function."""
        halves = (partial(self._half, name) for name in ("half_solve", "half_solve_transpose"))
        solves = map(of_solves, (self._solve, *halves))
        return Root(self.prior.alpha, self.prior.matrices.noise_scale, self._mass, *solves)

    def _solve(self, columns, known=()):
        """Solve (K x)^(n) = f^(n) for x^(n), where Leibniz's rule gives the lower-order terms."""
        matrices = self.prior.matrices
        solved = list(known)
        for order in range(len(solved), len(columns)):
            right = columns[order]
            for lower in range(order):
                power = order - lower
                entries = matrices.operator_derivative(self.kappa, power)
                entries = comb(order, lower) * self.rate**power * entries
                right = right - matrices.pattern.product(entries, solved[lower])
            solved.append(linalg.solve(self.jet.factor, right))
        return jnp.stack(solved)

    def _half(self, name, columns, known=()):
        """Apply half-solves to all orders; the lower orders cost little beside the highest."""
        if len(columns) == 1:
            return getattr(linalg, name)(self.jet.factor, columns[0])[None]
        return getattr(linalg, f"{name}_jet")(self.jet, columns, self.rate)

    def _mass(self, columns):
        matrices = self.prior.matrices
        return jax.vmap(partial(matrices.pattern.product, matrices.mass))(columns)


def pad(columns, num_orders):
    """Append zero derivatives to constant columns, (N, k); return (num_orders, N, k)."""
    return jnp.concatenate([columns[None], jnp.zeros((num_orders - 1, *columns.shape))])
