"""Noise with a density that the user defines."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from invlift.errors import InputError, as_input_error
from invlift.noise.base import Noise
from invlift.noise.scales import Scale, as_scale
from invlift.programs.pytrees import static
from invlift.unknowns.distributions import Distribution

#: The density is tabulated at sinh(s) for even s from -END to END, as far out as tails may matter.
_END, _NUM_POINTS = 40.0, 2**17 + 1
#: Largest density at the ends of the table, relative to its maximum.
_LEFT = 1e-6
#: Up to this value, on both sides, the density must be positive.
_NEAR = 10.0


class PotentialNoise(Noise):
    """Independent noise of density exp(-U(r / sigma)) up to a constant: T is the identity.

    eta is then not normal, and its density relative to the normal one is
    exp(eta^2 / 2 - U(eta)) (Au, Graham & Thiery 2023, section 3).

    Attributes
    ----------
    potential : callable
        U, elementwise on an array.
    log_constant : ()
        Log of the integral of exp(-U), by quadrature.  U has no parameters, so that draws do not
        depend on it.
    normal_scores : (num_points,)
        Phi^-1 of the distribution function, at sinh(s) for even s from -END to END.
    """

    potential: Callable = static()
    log_constant: jax.Array
    normal_scores: jax.Array

    def scores(self, eta: jax.Array) -> jax.Array:
        """As :meth:`Noise.scores`: eta itself is not normal."""
        nodes = jnp.linspace(-_END, _END, self.normal_scores.size)
        return jnp.interp(jnp.arcsinh(eta), nodes, self.normal_scores)

    def log_ratio(self, eta: jax.Array) -> jax.Array:
        """Log density of each eta relative to the standard normal one."""
        return 0.5 * eta**2 - self.potential(eta) + (0.5 * np.log(2.0 * np.pi) - self.log_constant)

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of eta, (size,), by the inverse distribution function, interpolated in a table.

        It resolves structures wider than about 0.01.
        """
        nodes, density, _ = _tabulate(self.potential)
        probability = np.cumsum(0.5 * (density[1:] + density[:-1]))
        probability = np.append(0.0, probability / probability[-1])
        return np.sinh(np.interp(rng.random(size), probability, nodes))


def _normal_scores(density: np.ndarray) -> np.ndarray:
    """Return Phi^-1 of the distribution function at every 16th node, from tabulated densities."""
    middles = 0.5 * (density[1:] + density[:-1])
    below = np.append(0.0, np.cumsum(middles))[::16]
    above = np.append(0.0, np.cumsum(middles[::-1]))[::-1][::16]  # accurate in the upper tail
    low, high = (ndtri(np.maximum(part / middles.sum(), 1e-300)) for part in (below, above))
    return np.where(below < above, low, -high)


def _tabulate(potential):
    """Return s, (num_points,), its density with eta = sinh(s), scaled to 1, and the log scale."""
    nodes = np.linspace(-_END, _END, _NUM_POINTS)
    values = np.asarray(potential(jax.device_put(np.sinh(nodes))))
    log_density = (
        np.logaddexp(nodes, -nodes) - np.log(2.0) - np.where(np.isnan(values), np.inf, values)
    )
    largest = np.max(log_density)
    return nodes, np.exp(log_density - largest), largest


def potential_noise(
    scale: Scale | Distribution | float | np.ndarray,
    potential_fn: Callable,
    *,
    relative: bool = False,
) -> PotentialNoise:
    """Independent noise with a density that the user defines.

    Parameters
    ----------
    scale : number, (d,) array, Distribution or Scale
        Sigma, by which r is divided: known, in units of the readings, or unknown: see
        :func:`gaussian_noise`.
    potential_fn : callable
        ``potential_fn(x)``: the negative log density of x = r / sigma up to a constant, for x of
        any shape, elementwise; a twice differentiable JAX function, finite everywhere.
    relative : bool
        If true, r is log(y / F), else y - F.

    Returns
    -------
    PotentialNoise
        For :func:`inverse_problem`.

    Raises
    ------
    InputError
        If a known scale is not finite and positive, or the function is not elementwise or not
        finite, or the density cannot be normalised (or hardly: tails heavier than |x|^-1.3).
    """
    scale = as_scale(scale)
    where, points = ("noise", "potential"), np.linspace(-_NEAR, _NEAR, 201)
    with as_input_error(where, "a JAX function of an array", "make it elementwise"):
        values = np.asarray(potential_fn(jax.device_put(points)))
    if values.shape != points.shape or values.dtype != np.float64:
        raise InputError(
            where,
            f"{points.size} float64 values for as many arguments",
            f"{values.dtype} of shape {values.shape}",
            "return one value for each argument",
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InputError(
            where,
            "finite values",
            f"{values[bad[0]]} at {points[bad[0]]:g}",
            "give a density that is positive everywhere",
        )
    nodes, density, largest = _tabulate(potential_fn)
    if not np.isfinite(largest) or max(density[0], density[-1]) > _LEFT:
        raise InputError(
            where,
            "a density that can be normalised",
            "one that does not fall off",
            "the potential must grow faster than log(|x|) on both sides",
        )
    log_constant = largest + np.log(np.sum(density) * (nodes[1] - nodes[0]))
    parts = jax.device_put((log_constant, _normal_scores(density)))
    return PotentialNoise(scale, potential_fn, *parts, relative=relative)
