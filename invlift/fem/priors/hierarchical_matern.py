"""Matern prior whose correlation range, standard deviation, or both are unknown.

The field is that of :mod:`invlift.fem.priors.matern`, phi = mean + S(range, std) w, with lognormal
priors on range and standard deviation (Lindgren, Rue & Lindstrom 2011, section 2; Fuglstad et al.
2019 discuss which priors on the two are sensible).  All unknowns are standard normal coordinates,
(z, w), and phi is a smooth function of them that is not affine.

S depends on the range through K = kappa^2 M + G + c kappa E, and derivatives by log(kappa) need
K' = 2 kappa^2 M + c kappa E alone: those of a solve are solves with the same factor, as (K^-1)' =
-K^-1 K' K^-1.  Only orders alpha that are odd also need derivatives of the Cholesky factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import comb

import jax
import jax.numpy as jnp
import numpy as np

from invlift.compilation import Program
from invlift.errors import InputError
from invlift.fem import linalg
from invlift.fem.mesh.mesh import Mesh
from invlift.fem.priors.matern import (
    MaternPrior,
    Matrices,
    assemble,
    check_range,
    check_std,
    checked_mean,
    log_variance_without_tau,
    matern_alpha,
    unscaled_root,
    unscaled_root_transpose,
)
from invlift.inverse.distributions import Lognormal, as_distribution, is_distribution
from invlift.inverse.priors.base import Prior
from invlift.precision import require_float64
from invlift.pytrees import Module, aside, static

#: Points of the Gauss-Hermite rule that averages the prior variance over the range.
NUM_QUADRATURE = 16
#: Largest spread of a logarithm: a standard deviation is then a factor of 7.
MAX_SCALE = 2.0


class HierarchicalMaternPrior(Prior):
    """phi = mean + S(range, std) w, where (z, w) is standard normal.

    Build it with :func:`hierarchical_matern_prior`.  White coordinates are z of the range, if it is
    unknown, z of the standard deviation, if it is, and w: m = num_hyper + N in all.  An unknown is
    exp(location + scale z).

    Attributes
    ----------
    mean : (N,)
        Prior mean of phi.
    matrices : Matrices
        What K is made of.
    factor : linalg.Factor or None
        Of K, if the range is known.
    log_median, log_spread : (2,)
        Mean and standard deviation of the logarithms of range and std; the latter 0 if known.
    smoothness : ()
        nu.
    log_variance : ()
        Logarithm of tau^2 times the marginal variance for kappa = 1.
    alpha : int
        Order of the operator.
    unknown : tuple of str
        ``"range"`` and ``"std"``, or one of them.
    location : str
        ``"nodes"``.
    mesh : Mesh or None
        Where the field lives, for those who read its posterior.
    """

    mean: jax.Array
    matrices: Matrices
    factor: linalg.Factor | None
    log_median: jax.Array
    log_spread: jax.Array
    smoothness: jax.Array
    log_variance: jax.Array
    alpha: int = static()
    unknown: tuple[str, ...] = static()
    location: str = static(default="nodes")
    mesh: Mesh | None = aside()

    @property
    def num_hyper(self) -> int:
        """Number of unknowns besides the field, 1 or 2."""
        return len(self.unknown)

    @property
    def num_white(self) -> int:
        """Number m of white coordinates."""
        return self.num_hyper + self.mean.shape[0]

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """The unknown ones of ``prior_range`` (in the mesh's unit of length) and ``prior_std``."""
        logs = self._logs(white[: self.num_hyper])
        values = {"range": jnp.exp(logs[0]), "std": jnp.exp(logs[1])}
        return {f"prior_{name}": values[name] for name in self.unknown}

    def transform(self, white: jax.Array) -> jax.Array:
        """phi, (N,), from white coordinates, (m,): one factorisation and a few solves.

        JAX may differentiate by ``white``, in both modes and repeatedly; derivatives reuse the
        factor, for odd orders alpha but for the factor's own derivatives.  What :meth:`linearise`
        returns is faster.
        """
        matrices = self.matrices
        log_kappa, scale = self._scales(white[: self.num_hyper])
        entries = matrices.operator(jnp.exp(log_kappa))
        factor = self._factorise(entries)

        def solve(columns):
            return jax.lax.custom_linear_solve(
                partial(matrices.pattern.product, entries),
                columns,
                lambda _, right: linalg.solve(factor, right),
                symmetric=True,
            )

        if self._is_range_unknown:
            half = partial(_half_solve_transpose, 0, matrices, factor, log_kappa)
        else:
            half = partial(linalg.half_solve_transpose, factor)
        columns = unscaled_root(
            white[self.num_hyper :, None],
            alpha=self.alpha,
            noise_scale=matrices.noise_scale,
            mass=partial(matrices.pattern.product, matrices.mass),
            solve=solve,
            half_solve_transpose=half,
        )
        return self.mean + scale * columns[:, 0]

    def linearise(self, white: jax.Array) -> tuple[jax.Array, HierarchicalTangent]:
        """phi, (N,), and its derivatives at white coordinates, (m,).

        Takes one factorisation and a few solves; for odd orders alpha and an unknown range also
        two derivatives of the factor, some ten times as long (what is not used under ``jit`` is not
        computed).
        """
        hyper, noise = white[: self.num_hyper], white[self.num_hyper :, None]
        log_kappa, scale = self._scales(hyper)
        kappa = jnp.exp(log_kappa)
        if self._is_range_unknown and self.alpha % 2:
            values = (
                self.matrices.operator(kappa),
                *(self.matrices.operator_derivative(kappa, n) for n in (1, 2)),
            )
            lower = tuple(entries[self.matrices.lower] for entries in values)
            jet = linalg.factorise_jet(self.matrices.structure, lower)
        else:
            jet = linalg.FactorJet(self._factorise(self.matrices.operator(kappa)), ())
        order = 1 if self._is_range_unknown else 0
        along = _Along(self, kappa, jet, 1.0)
        stages = along.root(_pad(noise, order + 1))
        unscaled = stages[-1][..., 0]
        by_log_kappa = None
        if self._is_range_unknown:
            by_log_kappa = scale * (unscaled[1] + self.smoothness * unscaled[0])
        tangent = HierarchicalTangent(
            prior=self,
            white=noise,
            kappa=kappa,
            scale=scale,
            jet=jet,
            stages=stages,
            field=scale * unscaled[0],
            by_log_kappa=by_log_kappa,
        )
        return self.mean + tangent.field, tangent

    def given(self, hyper: jax.Array) -> MaternPrior:
        """The prior of the field for known z, (num_hyper,)."""
        log_kappa, scale = self._scales(hyper)
        entries = self.matrices.operator(jnp.exp(log_kappa))
        return MaternPrior(
            mean=self.mean,
            factor=self._factorise(entries),
            structure=self.matrices.structure,
            pattern=self.matrices.pattern,
            operator_values=entries[self.matrices.lower],
            mass_values=self.matrices.mass,
            noise_scale=self.matrices.noise_scale,
            tau=1.0 / scale,
            alpha=self.alpha,
        )

    def pointwise_std(self) -> np.ndarray:
        """Prior standard deviation at each node, (N,), over the unknown range and std as well.

        Notes
        -----
        The variance for known range and std is averaged over the range by Gauss-Hermite quadrature
        in z, 16 points, and over the std exactly: E std^2 = exp(2 location + 2 scale^2).  A vague
        prior on the range lets its largest values decide: there the field hardly varies over the
        body, and its deviation grows like range / extent.
        """
        points, weights = [0.0], [1.0]
        if self._is_range_unknown:
            points, weights = np.polynomial.hermite_e.hermegauss(NUM_QUADRATURE)
        # The exact factor over its value at the median, which z = 0 stands for.
        spread = float(self.log_spread[1])
        variance = np.zeros(self.mean.shape[0])
        for point, weight in zip(points, weights / np.sum(weights), strict=True):
            hyper = np.array([point if name == "range" else 0.0 for name in self.unknown])
            variance += weight * _given(self, hyper).pointwise_std() ** 2
        return np.sqrt(variance * math.exp(2.0 * spread**2))

    @property
    def _is_range_unknown(self) -> bool:
        return "range" in self.unknown

    def _logs(self, hyper):
        """Logarithms of range and std, (2,)."""
        places = [("range", "std").index(name) for name in self.unknown]
        everything = jnp.zeros(2).at[np.array(places)].set(hyper)
        return self.log_median + self.log_spread * everything

    def _scales(self, hyper):
        """log(kappa) and 1 / tau."""
        log_range, log_std = self._logs(hyper)
        log_kappa = 0.5 * jnp.log(8.0 * self.smoothness) - log_range
        log_scale = log_std + self.smoothness * log_kappa - 0.5 * self.log_variance
        return log_kappa, jnp.exp(log_scale)

    def _factorise(self, entries):
        if self.factor is not None:
            return self.factor
        return linalg.factorise(self.matrices.structure, entries[self.matrices.lower])


class HierarchicalTangent(Module):
    """Derivatives of phi = X(z, w) at one point; from :meth:`HierarchicalMaternPrior.linearise`.

    With l = log(kappa), S is proportional to std kappa^nu, and depends on the range by kappa alone.
    Only one or two of the m coordinates are hyperparameters: X' D takes S on k columns and one or
    two fields that are at hand.

    Attributes
    ----------
    prior : HierarchicalMaternPrior
    white : (N, 1)
        w.
    kappa, scale : ()
        kappa and 1 / tau.
    jet : linalg.FactorJet
        Factor of K; for odd alpha and an unknown range with two derivatives by l.
    stages : tuple of (q, N, 1)
        What follows from w solve by solve in tau S w, with derivatives of order 0 to q - 1 by l.
    field, by_log_kappa : (N,)
        S w, and (dS/dl) w, which is None if the range is known.
    """

    prior: HierarchicalMaternPrior
    white: jax.Array
    kappa: jax.Array
    scale: jax.Array
    jet: linalg.FactorJet
    stages: tuple
    field: jax.Array
    by_log_kappa: jax.Array | None

    def push(self, directions: jax.Array) -> jax.Array:
        """X' D, (N,) or (N, k), for D of (m,) or (m, k): as many solves as S takes."""
        hyper, white = self._split(directions)
        field = self._root(white.reshape(self.field.size, -1))
        return field.reshape(white.shape) + self._by_hyper() @ hyper

    def pull(self, values: jax.Array) -> jax.Array:
        """X'^T V, (m,) or (m, k), for V of (N,) or (N, k): as many solves as S^T takes."""
        columns = values.reshape(1, self.field.size, -1)
        white = self._along(1.0).root_transpose(columns).reshape(values.shape)
        return jnp.concatenate([self._by_hyper().T @ values, self.scale * white])

    def curvature(self, direction: jax.Array) -> jax.Array:
        """d^2 X(q + t v) / dt^2 at t = 0, (N,), for v of (m,), by two solves for each that S takes.

        With x(t) the field before its scale is applied, and the scale's logarithm growing at a
        constant rate r, it is scale (x'' + 2 r x' + r^2 x).
        """
        hyper, white = self._split(direction[:, None])
        by_kappa, by_scale = self._rates(hyper)
        if not self.prior._is_range_unknown:
            inside = self._root(white)[:, 0]
            return by_scale[0] * (2.0 * inside + by_scale[0] * self.field)
        columns = jnp.stack([self.white, white, jnp.zeros_like(white)])
        known = tuple(stage[:1] for stage in self.stages)
        x = self._along(by_kappa[0]).root(columns, known)[-1][..., 0]
        rate = by_scale[0]
        return self.scale * (x[2] + 2.0 * rate * x[1] + rate**2 * x[0])

    def pull_back(self, weights: jax.Array, directions: jax.Array, pushed: jax.Array) -> jax.Array:
        """Gradient of <A, X' D> by the white coordinates, (m,), for constant A and D.

        ``pushed`` is X' D; A and it are (N, k), D is (m, k).
        """
        prior, nu = self.prior, self.prior.smoothness
        hyper, white = self._split(directions)
        total = jnp.sum(weights * pushed)
        by_kappa, by_scale = self._rates(hyper)
        # The rates of log(std) alone; that of log(kappa) is in dS/dl.
        by_std = by_scale - nu * by_kappa
        plain = weights @ by_std
        gradient = {"std": prior.log_spread[1] * total}
        if not prior._is_range_unknown:
            by_white = self.scale * self._along(1.0).root_transpose(plain[None, :, None])[0]
            return self._joined(gradient, by_white[:, 0])
        sloped = weights @ by_kappa
        along = self._along(1.0)
        # A transposed root of a + t b along l has the derivative (S_l^T) a + S^T b.
        both = along.root_transpose(jnp.stack([sloped, plain])[:, :, None])[..., 0]
        by_white = self.scale * (both[1] + nu * both[0])
        x = along.root(_pad(self.white, 3), self.stages)[-1][..., 0]
        second = self.scale * (x[2] + 2.0 * nu * x[1] + nu**2 * x[0])
        inside = pushed - self._by_hyper() @ hyper
        known = () if len(self.stages) > 1 or prior.alpha % 2 else (inside[None] / self.scale,)
        slopes = along.root(_pad(white, 2), known)[-1][1]
        by_log_kappa = jnp.sum(weights * (self.scale * slopes + nu * inside))
        by_log_kappa += sloped @ second + plain @ self.by_log_kappa
        gradient["range"] = -prior.log_spread[0] * by_log_kappa
        return self._joined(gradient, by_white)

    def _joined(self, gradient, by_white):
        hyper = jnp.stack([gradient[name] for name in self.prior.unknown])
        return jnp.concatenate([hyper, by_white])

    def _split(self, directions):
        return directions[: self.prior.num_hyper], directions[self.prior.num_hyper :]

    def _along(self, rate):
        return _Along(self.prior, self.kappa, self.jet, rate)

    def _root(self, white):
        return self.scale * self._along(1.0).root(white[None])[-1][0]

    def _rates(self, hyper):
        """Derivatives of log(kappa) and log(scale) along directions (num_hyper, k), (k,) each."""
        rates = dict(zip(self.prior.unknown, hyper, strict=True))
        nothing = jnp.zeros(hyper.shape[1])
        by_kappa = -self.prior.log_spread[0] * rates.get("range", nothing)
        by_std = self.prior.log_spread[1] * rates.get("std", nothing)
        return by_kappa, by_std + self.prior.smoothness * by_kappa

    def _by_hyper(self):
        """dX/dz, (N, num_hyper)."""
        columns = {"std": self.prior.log_spread[1] * self.field}
        if self.by_log_kappa is not None:
            columns["range"] = -self.prior.log_spread[0] * self.by_log_kappa
        return jnp.stack([columns[name] for name in self.prior.unknown], axis=1)


@dataclass(frozen=True)
class _Along:
    """Roots tau S and tau S^T of columns that vary with t, where log(kappa) grows at a rate.

    What varies with t is given and returned as derivatives by t of order 0 to q - 1, (q, N, k).
    """

    prior: HierarchicalMaternPrior
    kappa: jax.Array
    jet: linalg.FactorJet
    rate: float | jax.Array

    def root(self, columns: jax.Array, known: tuple = ()) -> tuple[jax.Array, ...]:
        """tau S times columns, after each of its solves, (q, N, k) each; the last is the result.

        ``known`` holds the lowest orders of the first of these where they are at hand.
        """
        stages = []

        def recorded(operation: Callable):
            def apply(columns):
                at_hand = known[len(stages)] if len(stages) < len(known) else columns[:0]
                stages.append(operation(columns, at_hand))
                return stages[-1]

            return apply

        unscaled_root(
            columns,
            alpha=self.prior.alpha,
            noise_scale=self.prior.matrices.noise_scale,
            mass=self._mass,
            solve=recorded(self._solve),
            half_solve_transpose=recorded(partial(self._half, "half_solve_transpose")),
        )
        return tuple(stages)

    def root_transpose(self, columns: jax.Array) -> jax.Array:
        """tau S^T times columns, (q, N, k)."""
        return unscaled_root_transpose(
            columns,
            alpha=self.prior.alpha,
            noise_scale=self.prior.matrices.noise_scale,
            mass=self._mass,
            solve=self._solve,
            half_solve=partial(self._half, "half_solve"),
        )

    def _solve(self, columns, known=()):
        """From (K x)^(n) = f^(n): K x^(n) = f^(n) less the other terms of Leibniz's rule."""
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
        """Half-solves, whose lower orders cost little beside the highest."""
        if len(columns) == 1:
            return getattr(linalg, name)(self.jet.factor, columns[0])[None]
        return getattr(linalg, f"{name}_jet")(self.jet, columns, self.rate)

    def _mass(self, columns):
        matrices = self.prior.matrices
        return jax.vmap(partial(matrices.pattern.product, matrices.mass))(columns)


def _pad(columns, num_orders):
    """Columns that do not vary with t, (num_orders, N, k)."""
    return jnp.concatenate([columns[None], jnp.zeros((num_orders - 1, *columns.shape))])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _half_solve_transpose(order, matrices, factor, log_kappa, columns):
    """d^order (L^-T columns) / d log(kappa)^order, (N, k), where columns do not vary.

    Its derivatives of any order, in both modes, are such derivatives again: nothing is ever
    transposed through the factorisation.  The factor serves order 0.
    """
    if order == 0:
        return linalg.half_solve_transpose(factor, columns)
    jet = _factorise_jet(matrices, jnp.exp(log_kappa), order)
    return linalg.half_solve_transpose_jet(jet, _pad(columns, order + 1))[order]


@_half_solve_transpose.defjvp
def _half_solve_transpose_jvp(order, primals, tangents):
    matrices, factor, log_kappa, columns = primals
    *_, log_kappa_dot, columns_dot = tangents
    value = _half_solve_transpose(order, matrices, factor, log_kappa, columns)
    slope = _half_solve_transpose(order + 1, matrices, factor, log_kappa, columns)
    inside = _half_solve_transpose(order, matrices, factor, log_kappa, columns_dot)
    return value, inside + slope * log_kappa_dot


def _factorise_jet(matrices, kappa, order):
    """The factor of K and its derivatives by log(kappa) up to an order."""
    values = [matrices.operator(kappa)]
    values += [matrices.operator_derivative(kappa, power) for power in range(1, order + 1)]
    lower = tuple(entries[matrices.lower] for entries in values)
    return linalg.factorise_jet(matrices.structure, lower)


def _lognormal(name: str, value):
    """A number as it is, and a distribution if it is one that the prior's derivatives are for."""
    if not is_distribution(value):
        return value
    found = as_distribution(value)
    is_lognormal = isinstance(found, Lognormal) and found.shape == ()
    if not (is_lognormal and found.scale <= MAX_SCALE):
        raise InputError(
            f"prior {name}",
            f"a number or a lognormal distribution of scale at most {MAX_SCALE:g}",
            f"a scale of {found.scale}" if is_lognormal else f"{value!r}"[:80],
            "give lognormal(median=..., factor=1.6), a factor of at most 7",
        )
    return found


_given = Program(HierarchicalMaternPrior.given, "none")


def hierarchical_matern_prior(
    mesh: Mesh,
    *,
    correlation_range: float | Lognormal,
    std: float | Lognormal,
    smoothness: float,
    mean: float | np.ndarray = 0.0,
    boundary: str = "neumann",
) -> HierarchicalMaternPrior:
    """Matern prior on the nodes of a mesh with an unknown range, standard deviation, or both.

    Parameters
    ----------
    mesh : Mesh
    correlation_range : float or lognormal distribution
        Distance at which the correlation has fallen to about 0.14, in the mesh's unit of length;
        it, or its median, is between 1e-6 and 10 times the extent of the mesh.
    std : float or lognormal distribution
        Nominal standard deviation of phi (dimensionless) far from the boundary; it, or its median,
        is from 1e-9 to 50.
    smoothness : float
        nu > 0 with nu + dim/2 an integer.
    mean : float or (N,) array
        Prior mean of phi.
    boundary : {"neumann", "robin"}
        As for :func:`~invlift.fem.priors.matern.matern_prior`.

    Returns
    -------
    HierarchicalMaternPrior

    Raises
    ------
    InputError
        If a parameter is out of its range, neither range nor std has a distribution or one has
        another than a lognormal one, or JAX is not in double precision.
    """
    require_float64(points=mesh.points)
    alpha = matern_alpha(smoothness, mesh.dim)
    given = {"range": correlation_range, "std": std}
    given = {name: _lognormal(name, value) for name, value in given.items()}
    unknown = tuple(name for name, value in given.items() if isinstance(value, Lognormal))
    for name, check in (("range", partial(check_range, mesh)), ("std", check_std)):
        if name in unknown:
            check(math.exp(min(given[name].location, 700.0)), "a median of ")
        else:
            check(given[name])
    if not unknown:
        raise InputError(
            "prior range and std",
            "a lognormal distribution of at least one of them",
            f"{correlation_range!r} and {std!r}",
            "use matern_prior where both are known",
        )
    spreads = [given[name].scale if name in unknown else 0.0 for name in given]
    logs = [value.location if name in unknown else math.log(value) for name, value in given.items()]
    matrices = assemble(mesh, boundary)
    prior = HierarchicalMaternPrior(
        mean=checked_mean(mesh, mean),
        matrices=matrices,
        factor=None,
        log_median=np.array(logs),
        log_spread=np.array(spreads),
        smoothness=np.float64(smoothness),
        log_variance=np.float64(log_variance_without_tau(smoothness, alpha, mesh.dim, 0.0)),
        alpha=alpha,
        unknown=unknown,
    )
    prior = replace(jax.device_put(prior), mesh=mesh)
    if "range" in unknown:
        return prior
    return replace(prior, factor=_given(prior, np.zeros(1)).factor)
