"""Posteriors of two parameters and their noise on a grid, from densities of SciPy alone."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.stats
from monte_carlo import assert_mean_within, stacked

TIMES = np.array([0.2, 0.7, 1.5, 2.5])
#: Readings that no decay fits, so that the noise's scale is bounded below.
OBSERVED = np.array([1.3, 0.5, 0.42, 0.15])


def decay(theta):
    """An exponential decay seen at four times: amplitude and rate are lognormal."""
    amplitude, rate = jnp.exp(0.5 * theta[0]), jnp.exp(0.7 * theta[1])
    return amplitude * jnp.exp(-rate * jnp.asarray(TIMES))


class Marginal(NamedTuple):
    """Values on an even grid, ascending, and their probabilities."""

    values: np.ndarray
    mass: np.ndarray

    @property
    def mean(self):
        return self.mass @ self.values

    @property
    def variance(self):
        return self.mass @ (self.values - self.mean) ** 2

    @property
    def tail(self):
        """An edge between grid points near one standard deviation up, and what is above it."""
        index = np.searchsorted(self.values, self.mean + np.sqrt(self.variance))
        edge = 0.5 * (self.values[index - 1] + self.values[index])
        return edge, self.mass[index:].sum()


class Density(NamedTuple):
    """A density of the noise, in words of SciPy.

    Attributes
    ----------
    log_pdf : callable
        Of the residuals (n, d), the scale and, if it has one, the shape.
    scale, shape : frozen distribution or None
        Priors of the unknown scale and shape.
    relative : bool
    groups : (d,) int
        Index of each reading's scale.
    """

    log_pdf: Callable
    scale: object
    shape: object = None
    relative: bool = False
    groups: np.ndarray = np.zeros(4, int)


def _log_grid(prior, num):
    """Logs of an unknown, evenly spaced over all of its prior, and their log probabilities."""
    logs = np.linspace(*np.log(prior.ppf([1e-6, 1.0 - 1e-6])), num)
    return logs, prior.logpdf(np.exp(logs)) + logs


def posterior_on_grid(density: Density, num=111, num_noise=None) -> dict[str, Marginal]:
    """Marginals of theta, log sigma (of each group) and log shape, by the trapezoid rule."""
    num_noise = num_noise or (101 if density.shape is None else 33)
    axis = np.linspace(-4.5, 4.5, num)
    first, second = (part.ravel() for part in np.meshgrid(axis, axis, indexing="ij"))
    predicted = np.exp(0.5 * first[:, None] - np.exp(0.7 * second)[:, None] * TIMES)
    residuals = np.log(OBSERVED / predicted) if density.relative else OBSERVED - predicted
    log_scales, scale_mass = _log_grid(density.scale, num_noise)
    log_shapes, shape_mass = np.zeros(1), np.zeros(1)
    if density.shape is not None:
        log_shapes, shape_mass = _log_grid(density.shape, num_noise)
    # Given theta the groups are independent: (theta, scale, shape) for each.
    groups = []
    for index in range(density.groups.max() + 1):
        own = residuals[:, density.groups == index]
        log_mass = np.empty((len(first), len(log_scales), len(log_shapes)))
        for i, scale in enumerate(np.exp(log_scales)):
            for j, shape in enumerate(np.exp(log_shapes)):
                known = (scale,) if density.shape is None else (scale, shape)
                log_mass[:, i, j] = np.sum(density.log_pdf(own, *known), axis=1)
        log_mass += scale_mass[:, None] + shape_mass
        groups.append(np.exp(log_mass - log_mass.max()))
    evidence = np.array([mass.sum(axis=(1, 2)) for mass in groups])
    theta = np.exp(-0.5 * (first**2 + second**2)) * evidence.prod(axis=0)
    total = theta.sum()
    theta = (theta / total).reshape(num, num)
    marginals = {
        "theta[0]": Marginal(axis, theta.sum(axis=1)),
        "theta[1]": Marginal(axis, theta.sum(axis=0)),
    }
    for index, mass in enumerate(groups):
        others = np.exp(-0.5 * (first**2 + second**2))
        others = others * np.delete(evidence, index, axis=0).prod(axis=0) / total
        noise = np.einsum("n,nij->ij", others, mass)
        marginals[f"log sigma[{index}]"] = Marginal(log_scales, noise.sum(axis=1))
        if density.shape is not None:
            marginals["log shape"] = Marginal(log_shapes, noise.sum(axis=0))
    return marginals


def unknowns(run, density: Density) -> dict[str, np.ndarray]:
    """Draws (chains, draws) of the same names."""
    theta, sigma = stacked(run, "parameters"), stacked(run, "sigma")
    sigma = sigma[..., None] if sigma.ndim == 2 else sigma
    draws = {"theta[0]": theta[..., 0], "theta[1]": theta[..., 1]}
    for index in range(density.groups.max() + 1):
        draws[f"log sigma[{index}]"] = np.log(sigma[..., index])
    if density.shape is not None:
        draws["log shape"] = np.log(stacked(run, "degrees_of_freedom"))
    return draws


def assert_posterior(draws, marginals, min_ess=400):
    """Mean, variance and a tail's probability of every unknown of both, in standard errors."""
    for name in draws.keys() & marginals.keys():
        exact = marginals[name]
        edge, above = exact.tail
        features = [draws[name], (draws[name] - exact.mean) ** 2, 1.0 * (draws[name] > edge)]
        expected = np.array([exact.mean, exact.variance, above])
        try:
            assert_mean_within(np.stack(features, axis=-1), expected, min_ess=min_ess)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


# Densities, by SciPy -----------------------------------------------------------------------------


def normal(residuals, scale):
    return -0.5 * (residuals / scale) ** 2 - np.log(scale)


def laplace(residuals, scale):
    return -np.abs(residuals / scale) - np.log(scale)


def quartic(residuals, scale):
    return -0.25 * (residuals / scale) ** 4 - np.log(scale)


def student_t(residuals, scale, shape=2.0):
    constant = scipy.stats.t.logpdf(0.0, shape)
    return (
        constant - 0.5 * (shape + 1.0) * np.log1p((residuals / scale) ** 2 / shape) - np.log(scale)
    )


def lognormal(location, scale):
    return scipy.stats.lognorm(s=scale, scale=np.exp(location))
