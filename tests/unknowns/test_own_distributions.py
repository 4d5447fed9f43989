"""Distributions of a user's own classes, made from NumPyro's."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from own_distributions import ByQuantiles

import invlift
from invlift.errors import InputError
from invlift.unknowns.distributions import as_distribution, is_distribution, repeated
from invlift.unknowns.distributions.base import log_normal
from invlift.unknowns.distributions.of_numpyro import Coordinate, Exact, Quantiles

RATE = 2.0


class ByDensity(ByQuantiles):
    """The same by draws and density."""

    icdf = dist.Distribution.icdf

    def sample(self, key, sample_shape=()):
        return jax.random.exponential(key, sample_shape + self.batch_shape) / self.rate

    def log_prob(self, value):
        return jnp.log(self.rate) - self.rate * value


class Normal(ByDensity):
    """The same, called as something else is."""


class Moved(dist.TransformedDistribution):
    """A standard normal variable, moved and stretched."""

    def __init__(self, at):
        super().__init__(dist.Normal(0.0, 1.0), [dist.transforms.AffineTransform(at, 3.0)])


class Tilted(Moved):
    """The same with a density of its own, on which the transforms say nothing."""

    def log_prob(self, value):
        return jax.scipy.stats.norm.logpdf(value, 1.0, 0.5)

    def sample(self, key, sample_shape=()):
        return 1.0 + 0.5 * jax.random.normal(key, sample_shape)


STRETCH = [dist.transforms.AffineTransform(1.0, 3.0)]
EXPONENTIAL = scipy.stats.expon(scale=1.0 / RATE)


class _Falling:
    cdf = staticmethod(lambda x: EXPONENTIAL.sf(-np.asarray(x)))
    logpdf = staticmethod(lambda x: EXPONENTIAL.logpdf(-np.asarray(x)))
    ppf = staticmethod(lambda q: -EXPONENTIAL.isf(q))


OWN = {
    "quantiles": (lambda: ByQuantiles(RATE), Quantiles, EXPONENTIAL),
    "another name": (lambda: Normal(RATE), Coordinate, EXPONENTIAL),
    "transformed quantiles": (
        lambda: dist.TransformedDistribution(ByQuantiles(RATE), STRETCH),
        Quantiles,
        scipy.stats.expon(1.0, 3.0 / RATE),
    ),
    "falling quantiles": (
        lambda: dist.TransformedDistribution(
            ByQuantiles(RATE), [dist.transforms.AffineTransform(0.0, -1.0)]
        ),
        Quantiles,
        _Falling,
    ),
    "own transformed": (lambda: Moved(1.0), Exact, scipy.stats.norm(1.0, 3.0)),
    "own transformed, of another density": (
        lambda: Tilted(1.0), Coordinate, scipy.stats.norm(1.0, 0.5)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OWN)
def test_a_class_of_ones_own_is_the_law_that_it_says(case):
    make, kind, law = OWN[case]
    given = make()
    assert is_distribution(given)
    found = as_distribution(given)
    assert isinstance(found, kind)
    rng = np.random.default_rng(5)
    white = np.stack([found.sample(rng) for _ in range(400)])
    values = np.asarray(jax.jit(jax.vmap(found.transform))(white)).ravel()
    assert scipy.stats.kstest(values, law.cdf).pvalue > 0.01
    assert scipy.stats.kstest(values, lambda x: law.cdf(x) ** 2).pvalue < 1e-6  # negative control
    at = law.ppf(np.array([0.01, 0.3, 0.5, 0.9, 0.999]))
    density = jax.jit(jax.vmap(found.log_density))(at)
    np.testing.assert_allclose(density, law.logpdf(at), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found.transform(jnp.asarray(found.whiten(at[1]))).item(), at[1])


class Joined(dist.Independent):
    """Neighbours are alike."""

    def log_prob(self, value):
        return super().log_prob(value) - 2.0 * jnp.sum(jnp.diff(value, axis=-1) ** 2, axis=-1)


class Pulled(dist.EulerMaruyama):
    """Paths that are far from zero are less likely."""

    def log_prob(self, value):
        return super().log_prob(value) - jnp.sum(value**2)


class Narrowed(dist.MaskedDistribution):
    def log_prob(self, value):
        return super().log_prob(value) - value**2


class Tripled(dist.ExpandedDistribution):
    def log_prob(self, value):
        return 3.0 * super().log_prob(value)


#: Subclasses with a density of their own of classes that mean what another distribution does.
CHANGED = {
    "independent": lambda: Joined(dist.Normal(jnp.zeros(3), 1.0), 1),
    "of an equation": lambda: Pulled(
        np.array([0.0, 0.1, 0.3]), lambda x, t: (-x, 0.5), dist.Normal(1.0, 0.5)
    ),
    "masked": lambda: Narrowed(dist.Normal(0.0, 1.0), True),
    "expanded": lambda: Tripled(dist.Normal(0.0, 1.0), (2,)),
}


@pytest.mark.parametrize("mask", [False, np.array([True, False])])
def test_a_masked_prior_is_refused(mask):
    with pytest.raises(InputError, match="distribution: expected one without mask, found a masked"):
        as_distribution(dist.Normal(jnp.zeros(2), 1.0).mask(mask))


@pytest.mark.parametrize("case", CHANGED)
def test_a_density_of_ones_own_is_not_ignored(case):
    given = CHANGED[case]()
    found = as_distribution(given)
    white = jnp.linspace(-0.4, 0.9, found.num_white)

    def model():
        value = numpyro.sample("x", given)
        numpyro.sample("y", dist.Normal(jnp.sum(value), 0.1), obs=0.3)

    model = invlift.from_numpyro(model).model

    def expected(transform, white):
        """The density of the value and the volume, less that of a normal variable."""
        slope = jax.jacfwd(transform)(white).reshape(white.size, white.size)
        density = jnp.sum(given.log_prob(transform(white)))
        return density + jnp.linalg.slogdet(slope)[1] - log_normal(white)

    @jax.jit
    def look(white):
        of_model = expected(lambda white: model.at(white).values["x"], white) - np.log(0.1)
        references = found.log_reference(white), model.at(white).log_reference
        return references, (expected(found.transform, white), of_model)

    np.testing.assert_allclose(*look(white), rtol=1e-10)


def test_values_without_a_density_are_impossible():
    assert as_distribution(ByQuantiles(RATE)).log_density(jnp.asarray(-1.0)) == -np.inf


def test_several_numbers_of_an_own_class():
    for make in (ByQuantiles, ByDensity):
        for found in (repeated(make(RATE), 3), as_distribution(make(jnp.full(3, RATE)))):
            assert found.shape == (3,)
            value = jnp.array([0.1, 0.5, 2.0])
            expected = EXPONENTIAL.logpdf(value).sum()
            np.testing.assert_allclose(jax.jit(found.log_density)(value), expected, rtol=1e-7)


def test_an_unknown_may_have_an_own_class():
    noise, readings = 0.1, np.array([0.4])
    problem = invlift.inverse_problem(
        lambda rate: rate[None], {"rate": ByQuantiles(RATE)}, noise, readings
    )
    assert problem.prior.transform(jnp.zeros(1)).item() == pytest.approx(np.log(2.0) / RATE)


class WithoutSupport(ByDensity):
    support = None


class WithoutNames(ByQuantiles):
    """Its attribute is in no list, so that it is lost where JAX takes the class apart."""

    def __init__(self, rate, end):
        self.end = end
        super().__init__(rate)

    def icdf(self, q):
        return super().icdf(q) + self.end


class InNumpy(ByQuantiles):
    def icdf(self, q):
        return 1.0 if q > 0.5 else 0.0


class Nothing(ByQuantiles):
    icdf = dist.Distribution.icdf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Nothing(RATE), "distribution Nothing: expected sample and log_prob; or .* icdf"),
        (lambda: WithoutSupport(RATE), "distribution WithoutSupport: expected a support"),
        (
            lambda: WithoutNames(RATE, 1.0),
            "distribution WithoutNames: .*'end'; .*arg_constraints or pytree_data_fields",
        ),
        (lambda: InNumpy(RATE), "distribution InNumpy: .*jax.lax.cond in place of if"),
    ],
)
def test_what_a_class_lacks_is_told(make, message):
    with pytest.raises(InputError, match=message):
        as_distribution(make())
