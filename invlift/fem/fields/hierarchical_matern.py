"""Matern prior with unknown correlation range, unknown standard deviation, or both.

The field is that of :mod:`invlift.fem.fields.matern`, phi = mean + S(range, std) w, where range
and standard deviation have prior distributions (Lindgren, Rue & Lindstrom 2011, section 2;
Fuglstad et al. 2019 discuss the choice).  All unknowns are coordinates (z, w).  They are standard
normal, except for the log density `log_reference` of a distribution relative to it.  phi is a
smooth function of them, but not affine.

S depends on the range through K = kappa^2 M + G + c kappa E.  Derivatives with respect to
log(kappa) need only K' = 2 kappa^2 M + c kappa E: derivatives of a solve are solves with the same
factor, because (K^-1)' = -K^-1 K' K^-1.  Only odd orders alpha also need derivatives of the
Cholesky factor.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from invlift.fem import linalg
from invlift.fem.fields.base import Nominal
from invlift.fem.fields.hierarchical_tangent import Along, HierarchicalTangent, pad
from invlift.fem.fields.hyperpriors import log_at_zero, log_moments, log_value
from invlift.fem.fields.matern import (
    MaternPrior,
    Matrices,
    Root,
)
from invlift.fem.mesh.mesh import Mesh
from invlift.programs.compilation import program
from invlift.programs.pytrees import aside, static
from invlift.unknowns.distributions import Distribution
from invlift.unknowns.priors.base import Prior

#: Points of the Gauss-Hermite rule that averages the prior variance over the range.
NUM_QUADRATURE = 16


class HierarchicalMaternPrior(Prior):
    """Prior phi = mean + S(range, std) w, where (z, w) is standard normal.

    Build it with :func:`invlift.matern_prior`.  The white coordinates are z of an unknown range, z
    of an unknown standard deviation, and w: in total m = num_hyper + N.

    Attributes
    ----------
    mean : (N,)
        Prior mean of phi.
    matrices : Matrices
        Terms of K.
    factor : linalg.Factor or None
        Factor of K, if the range is known.
    correlation_range, std : () or Distribution
        The value if it is known, else its distribution, a transformation of its z.
    smoothness : ()
        nu.
    log_variance : ()
        Logarithm of tau^2 times the marginal variance for kappa = 1.
    alpha : int
        Order of the operator.
    location : str
        ``"nodes"``.
    mesh : Mesh or None
        Mesh of the field, for results of the posterior.
    nominal : tuple of Nominal
        Requested properties of the field.
    """

    mean: jax.Array
    matrices: Matrices
    factor: linalg.Factor | None
    correlation_range: jax.Array | Distribution
    std: jax.Array | Distribution
    smoothness: jax.Array
    log_variance: jax.Array
    alpha: int = static()
    location: str = static(default="nodes")
    mesh: Mesh | None = aside()
    nominal: tuple[Nominal, ...] | None = aside()

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the unknown hyperparameters, "range" and "std" or one of them."""
        return tuple(self._distributions)

    @property
    def _distributions(self) -> dict[str, Distribution]:
        parts = {"range": self.correlation_range, "std": self.std}
        return {name: part for name, part in parts.items() if isinstance(part, Distribution)}

    @property
    def num_hyper(self) -> int:
        """Number of unknowns besides the field, 1 or 2."""
        return len(self.unknown)

    @property
    def num_white(self) -> int:
        """Number m of white coordinates."""
        return self.num_hyper + self.mean.shape[0]

    def parameters(self, white: jax.Array) -> dict[str, jax.Array]:
        """Return the unknown hyperparameters, ``prior_range`` (in length units), ``prior_std``."""
        logs = self._logs(white[: self.num_hyper])
        return {f"prior_{name}": jnp.exp(logs[name]) for name in self.unknown}

    @property
    def distributions(self) -> dict[str, Distribution]:
        """As :attr:`Prior.distributions`."""
        return {f"prior_{name}": part for name, part in self._distributions.items()}

    def log_reference(self, white: jax.Array) -> jax.Array:
        """As :meth:`Prior.log_reference`, summed over the distributions."""
        pairs = zip(self._distributions.values(), white[: self.num_hyper], strict=True)
        return sum((part.log_reference(z[None]) for part, z in pairs), jnp.zeros(()))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`Prior.sample`."""
        hyper = [part.sample(rng) for part in self._distributions.values()]
        return np.concatenate([*hyper, rng.standard_normal(self.mean.shape[0])])

    def transform(self, white: jax.Array) -> jax.Array:
        """Return phi, (N,), from white coordinates, (m,), by one factorisation and a few solves.

        JAX can differentiate it with respect to ``white``, in both modes and repeatedly.
        Derivatives reuse the factor; for odd orders alpha they also differentiate the factor.  The
        result of :meth:`linearise` is faster.
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
        mass = partial(matrices.pattern.product, matrices.mass)
        root = Root(self.alpha, matrices.noise_scale, mass, solve, None, half)
        columns = root.times(white[self.num_hyper :, None])
        return self.mean + scale * columns[:, 0]

    def linearise(self, white: jax.Array) -> tuple[jax.Array, HierarchicalTangent]:
        """Return phi, (N,), and its derivatives at white coordinates, (m,).

        It takes one factorisation and a few solves.  For odd orders alpha and an unknown range, it
        also takes two derivatives of the factor, which take about ten times as long (``jit`` omits
        results that are not used).
        """
        hyper, noise = white[: self.num_hyper], white[self.num_hyper :, None]
        log_kappa, scale = self._scales(hyper)
        kappa = jnp.exp(log_kappa)
        if self._is_range_unknown and self.alpha % 2:
            jet = _factorise_jet(self.matrices, kappa, 2)
        else:
            jet = linalg.FactorJet(self._factorise(self.matrices.operator(kappa)), ())
        order = 1 if self._is_range_unknown else 0
        along = Along(self, kappa, jet, 1.0)
        stages = along.root(pad(noise, order + 1))
        unscaled = stages[-1][..., 0]
        by_log_kappa = None
        if self._is_range_unknown:
            by_log_kappa = scale * (unscaled[1] + self.smoothness * unscaled[0])
        tangent = HierarchicalTangent(
            prior=self,
            slopes=self._slopes(hyper),
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
        """Return the prior of the field conditional on z, (num_hyper,)."""
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

    def pointwise_std(self, corners: np.ndarray | None = None) -> np.ndarray:
        """Return the marginal prior standard deviation at each node, (N,), over all unknowns.

        If nodes (k, c) are given, return it for the means over these nodes, (k,).

        Notes
        -----
        The variance for known range and std is averaged over the range by Gauss-Hermite quadrature
        in z with 16 points, and is proportional to the mean of std^2.  With a vague prior on the
        range, the largest ranges dominate: there the field hardly varies over the body, and its
        deviation grows like range / extent.  For a distribution with an infinite mean square, such
        as a half-Cauchy, the value at z = 0, about the median, is used instead.
        """
        points, weights, factor = np.zeros(1), np.ones(1), 1.0
        given = self._distributions
        if "range" in given and math.isfinite(log_moments(given["range"]).mean_square):
            points, weights = np.polynomial.hermite_e.hermegauss(NUM_QUADRATURE)
            weights = weights * np.exp([float(_reference(given["range"], z)) for z in points])
        if "std" in given and math.isfinite(square := log_moments(given["std"]).mean_square):
            factor = square / math.exp(2.0 * log_at_zero(given["std"]))
        variance = 0.0
        for point, weight in zip(points, weights / np.sum(weights), strict=True):
            hyper = np.array([point if name == "range" else 0.0 for name in self.unknown])
            variance += weight * of_known_parameters(self, hyper).pointwise_std(corners) ** 2
        return np.sqrt(variance * factor)

    @property
    def _is_range_unknown(self) -> bool:
        return "range" in self.unknown

    def _logs(self, hyper):
        """Return the logarithms of range and std by name, () each."""
        given = dict(zip(self.unknown, hyper, strict=True))
        parts = {"range": self.correlation_range, "std": self.std}
        return {
            name: log_value(part, given[name]) if name in given else jnp.log(part)
            for name, part in parts.items()
        }

    def _slopes(self, hyper):
        """Return first and second derivatives of the unknown logarithms by z, (num_hyper,) each."""
        first, second = [], []
        for part, z in zip(self._distributions.values(), hyper, strict=True):
            slope = jax.grad(partial(log_value, part))
            first.append(slope(z))
            second.append(jax.grad(slope)(z))
        return jnp.stack(first), jnp.stack(second)

    def _scales(self, hyper):
        """Return log(kappa) and 1 / tau."""
        logs = self._logs(hyper)
        log_kappa = 0.5 * jnp.log(8.0 * self.smoothness) - logs["range"]
        log_scale = logs["std"] + self.smoothness * log_kappa - 0.5 * self.log_variance
        return log_kappa, jnp.exp(log_scale)

    def _factorise(self, entries):
        if self.factor is not None:
            return self.factor
        entries = jax.lax.stop_gradient(entries)  # the solves are differentiated instead
        return linalg.factorise(self.matrices.structure, entries[self.matrices.lower])


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _half_solve_transpose(order, matrices, factor, log_kappa, columns):
    """Return d^order (L^-T columns) / d log(kappa)^order, (N, k), for constant columns.

    Its derivatives of any order, in both modes, are again of this form, so that JAX never
    transposes through the factorisation.  The given factor is used for order 0.
    """
    if order == 0:
        return linalg.half_solve_transpose(factor, columns)
    jet = _factorise_jet(matrices, jnp.exp(log_kappa), order)
    return linalg.half_solve_transpose_jet(jet, pad(columns, order + 1))[order]


@_half_solve_transpose.defjvp
def _half_solve_transpose_jvp(order, primals, tangents):
    matrices, factor, log_kappa, columns = primals
    *_, log_kappa_dot, columns_dot = tangents
    value = _half_solve_transpose(order, matrices, factor, log_kappa, columns)
    slope = _half_solve_transpose(order + 1, matrices, factor, log_kappa, columns)
    inside = _half_solve_transpose(order, matrices, factor, log_kappa, columns_dot)
    return value, inside + slope * log_kappa_dot


def _factorise_jet(matrices, kappa, order):
    """Factorise K, with derivatives of the factor by log(kappa) up to an order."""
    values = [matrices.operator(kappa)]
    values += [matrices.operator_derivative(kappa, power) for power in range(1, order + 1)]
    lower = tuple(entries[matrices.lower] for entries in values)
    return linalg.factorise_jet(matrices.structure, lower)


@program
def _reference(part: Distribution, z):
    return part.log_reference(jnp.reshape(z, (1,)))


#: The prior of the field conditional on z: :meth:`HierarchicalMaternPrior.given`, compiled.
of_known_parameters = program(HierarchicalMaternPrior.given)
