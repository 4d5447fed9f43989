"""Student's t as a transformation of a standard normal variable.

The quantile function of t has no closed form.  T is the inverse of Wallace's (1959) normalising
transformation,

    T(eta)^2 = nu (exp(u) - 1),    u = (g eta)^2 / nu,    g = (8 nu + 3) / (8 nu + 1),

and the density of eta corrects the difference, which is about 2 % for nu of at least 2 and |eta| up
to 2 (further out eta has lighter tails).  With C the constant of the density of t, its log relative
to the normal one is

    log(sqrt(2 pi) g C) + (1 - g^2) eta^2 / 2 + u / 4 - log(sinh(u / 2) / (u / 2)) / 2.

T is finite for |eta| up to 30 if nu is at least 1, as a known nu must be.  A prior may allow
smaller nu: for nu = 0.25, T is finite for |eta| up to 7.

References
----------
D. L. Wallace (1959), Bounds on normal approximations to Student's and the chi-square
distributions, Annals of Mathematical Statistics 30.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy.special import ndtri

#: Coefficients, highest power first, of log(sinh(x) / x) in x^2 for x to 0.3: the logarithm of
#: prod(1 + (x / (k pi))^2).  And of log(1 + v) / v in v for v to 0.01.
_POWERS = np.arange(9, 0, -1)
_LOG_SINHC = np.append(
    -((-1.0) ** _POWERS) * scipy.special.zeta(2.0 * _POWERS) / _POWERS / np.pi ** (2.0 * _POWERS),
    0.0,
)
_LOG1P = (-1.0) ** (_POWERS - 1) / _POWERS
#: log(Gamma(x + 1/2) / Gamma(x)) = log(x) / 2 + these times x^-11, x^-9, ..., x^-1.
_GAMMA_RATIO = (691 / 180224, -31 / 18432, 17 / 14336, -1 / 640, 1 / 192, -1 / 8)
#: Shift of the argument for this series.
_SHIFT = 12
#: Quadrature of the density beyond a value.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def transform(eta: jax.Array, nu: jax.Array) -> jax.Array:
    """T(eta) = g eta sqrt((exp(u) - 1) / u), which is smooth at 0."""
    slope = 1.0 + _excess(nu)
    exponent = (slope * eta) ** 2 / nu
    return slope * eta * jnp.exp(0.25 * exponent + 0.5 * _log_sinhc(0.5 * exponent))


def inverse_transform(value: jax.Array, nu: jax.Array) -> jax.Array:
    """Eta = T^-1(value), which is +-sqrt(nu log(1 + value^2 / nu)) / g."""
    ratio = value / jnp.sqrt(nu)
    size = jnp.abs(ratio)
    is_small = size < 0.1
    series = jnp.sqrt(jnp.polyval(_LOG1P, jnp.where(is_small, ratio, 0.0) ** 2))
    log_size = jnp.log(jnp.where(is_small, 1.0, size))
    far = jnp.sign(ratio) * jnp.sqrt(nu * jnp.logaddexp(0.0, 2.0 * log_size))
    return jnp.where(is_small, value * series, far) / (1.0 + _excess(nu))


def log_ratio(eta: jax.Array, nu: jax.Array) -> jax.Array:
    """Log density of each eta relative to the standard normal one."""
    excess = _excess(nu)
    exponent = ((1.0 + excess) * eta) ** 2 / nu
    constant = 0.5 * np.log(2.0) - 0.5 * jnp.log(nu) + _log_gamma_ratio(0.5 * nu)
    quadratic = -0.5 * excess * (2.0 + excess) * eta**2
    curved = 0.25 * exponent - 0.5 * _log_sinhc(0.5 * exponent)
    return constant + jnp.log1p(excess) + quadratic + curved


def normal_score(eta: jax.Array, nu: jax.Array) -> jax.Array:
    """Standard normal variable with the probability of each eta, which is nearly eta itself."""
    size = jnp.abs(eta)
    width = 12.0 / (1.0 + size / 3.0)
    beyond = 0.5 * width[..., None] * (_NODES + 1.0)
    # Density behind eta, relative to the normal one at eta.
    log_density = log_ratio(size[..., None] + beyond, nu) - beyond * (
        size[..., None] + 0.5 * beyond
    )
    share = jnp.exp(log_density) @ (0.5 * _WEIGHTS) * width
    tail = share * jnp.exp(-0.5 * size**2) / np.sqrt(2.0 * np.pi)
    score = -ndtri(jnp.clip(tail, 1e-300, 0.5))
    return jnp.where(eta < 0.0, -score, score)


def _excess(nu):
    """g - 1 of the module's notes."""
    return 2.0 / (8.0 * nu + 1.0)


def _log_sinhc(x):
    """log(sinh(x) / x) for x of at least 0, to full accuracy with its derivatives."""
    is_small = x < 0.3
    series = jnp.polyval(_LOG_SINHC, jnp.where(is_small, x, 0.0) ** 2)
    large = jnp.where(is_small, 1.0, x)
    return jnp.where(
        is_small, series, large + jnp.log1p(-jnp.exp(-2.0 * large)) - jnp.log(2.0 * large)
    )


def _log_gamma_ratio(x):
    """log(Gamma(x + 1/2) / Gamma(x)) for positive x.

    The difference of two log Gammas loses its digits for large x, and their derivatives are costly
    to compile.
    """
    shifted = x + _SHIFT
    series = jnp.polyval(np.array(_GAMMA_RATIO), shifted**-2.0) / shifted
    below = math.prod(1.0 + 0.5 / (x + k) for k in range(_SHIFT))
    return 0.5 * jnp.log(shifted) + series - jnp.log(below)
