"""NumPyro's distributions at the sites of a model: one law for z and for the value, and scores."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from contract_checks import assert_close, in_turn

from invlift.errors import InputError
from invlift.problems.numpyro.numpyro_search import find_sites
from invlift.unknowns.distributions.base import log_normal
from invlift.unknowns.distributions.scores import score_of
from invlift.unknowns.distributions.whitening import unwrapped

LOC = np.array([1.0, -2.0])
COVARIANCE = np.array([[2.0, 0.3], [0.3, 0.5]])
LOWER = np.linalg.cholesky(COVARIANCE)
TRANSFORMS = dist.transforms


def gamma():
    return dist.Gamma(2.5, 4.0)


def von_mises():
    return dist.SineBivariateVonMises(0.1, 0.2, 2.0, 2.5, 0.3)


def coin():
    return dist.Categorical(np.array([0.4, 0.6]))


def low_rank():
    return dist.LowRankMultivariateNormal(LOC, np.array([[0.4], [0.3]]), np.array([0.5, 0.6]))


def matrix_normal():
    return dist.MatrixNormal(jnp.ones((2, 2)), LOWER, 2.0 * LOWER)


def shifted():
    affine = TRANSFORMS.AffineTransform(3.0, 0.5)
    return dist.TransformedDistribution(dist.Normal(jnp.zeros(2), 1.0), affine)


#: By name, of NumPyro's class where it has one: one of each map of the library's own, all exact.
EXACT = {
    "CAR": lambda: dist.CAR(LOC, 0.4, 1.3, jnp.array([[0.0, 1.0], [1.0, 0.0]])),
    "Cauchy": lambda: dist.Cauchy(0.3, 0.7),
    "EulerMaruyama": lambda: dist.EulerMaruyama(
        np.array([0.0, 0.1, 0.3]), lambda x, t: (-x, 0.5 + 0.1 * t), dist.Normal(1.0, 0.5)
    ),
    "GaussianRandomWalk": lambda: dist.GaussianRandomWalk(0.3, num_steps=4),
    "Independent": lambda: dist.Normal(np.array([0.1, 0.5]), 2.0).to_event(1),
    "LowRankMultivariateNormal": low_rank,
    "MaskedDistribution": lambda: dist.Normal(np.array([0.1, 0.5]), 2.0).mask(True),
    "MatrixNormal": matrix_normal,
    "MultivariateNormal": lambda: dist.MultivariateNormal(LOC, COVARIANCE),
    "TransformedDistribution": shifted,
    "ZeroSumNormal": lambda: dist.ZeroSumNormal(1.3, (4,)),
}
#: Those of a coordinate: one of each kind of NumPyro's maps from the real numbers.
IN_A_COORDINATE = {
    "Dirichlet": lambda: dist.Dirichlet(np.array([2.0, 3.0, 1.5])),
    "Gamma": gamma,
    "Kumaraswamy": lambda: dist.Kumaraswamy(2.0, 3.0),
    "LKJCholesky": lambda: dist.LKJCholesky(3, 2.0),
    "Laplace": lambda: dist.Laplace(0.5, 0.2),
    "RightTruncatedDistribution": lambda: dist.RightTruncatedDistribution(
        dist.Normal(0.1, 1.0), high=0.8
    ),
    "VonMises": lambda: dist.VonMises(0.1, 2.0),
    "Wishart": lambda: dist.Wishart(5.0, scale_matrix=COVARIANCE),
    "transformed Gamma": lambda: dist.TransformedDistribution(
        dist.Gamma(2.0, 1.0), TRANSFORMS.AffineTransform(1.0, 2.0, dist.constraints.positive)
    ),
}
#: Whose map is that of others, or of a family of the library, which have a contract of their own.
AS_OTHERS = {
    "AsymmetricLaplace", "AsymmetricLaplaceQuantile", "Beta", "BetaProportion", "Chi2",
    "CirculantNormal", "Dagum", "DoublyTruncatedPowerLaw", "ExpandedDistribution", "Exponential",
    "GaussianCopula", "GaussianStateSpace", "Gompertz", "Gumbel", "HalfCauchy", "HalfNormal",
    "InverseGamma", "InverseWishart", "InverseWishartCholesky", "LKJ", "LeftTruncatedDistribution",
    "LeftTruncatedGamma", "Levy", "LogNormal", "LogUniform", "Logistic", "LowerTruncatedPowerLaw",
    "MixtureGeneral", "MixtureSameFamily", "MultivariateStudentT", "Normal", "Pareto",
    "RelaxedBernoulliLogits", "RightTruncatedGamma", "SineBivariateVonMises", "SineSkewed",
    "SoftLaplace", "StudentT", "TruncatedPolyaGamma", "TwoSidedTruncatedDistribution",
    "TwoSidedTruncatedGamma", "Uniform", "Weibull", "WishartCholesky",
}  # fmt: skip
#: Classes outside NumPyro's modules of discrete ones which are not among these.
LEFT_OUT = {
    "Delta": "has no density",
    "Distribution": "is a base class",
    "FoldedDistribution": "two values of z give one: compared by draws",
    "GaussianCopulaBeta": "needs tensorflow_probability, which gives the quantile of a beta",
    "HurdleGamma": "has an atom at 0",
    "HurdleLogNormal": "has an atom at 0",
    "ImproperUniform": "has no draws",
    "IntervalCensoredDistribution": "is that of readings",
    "LeftCensoredDistribution": "is that of readings",
    "ProjectedNormal": "three values of z give two: compared by draws",
    "RightCensoredDistribution": "is that of readings",
    "Unit": "is that of numpyro.factor",
}


def test_all_of_numpyros_continuous_distributions_are_here():
    every = (getattr(dist, name) for name in dist.__all__)
    classes = [each for each in every if isinstance(each, type)]
    continuous = {
        each.__name__
        for each in classes
        if issubclass(each, dist.Distribution)
        and each.__module__.split(".")[-1] not in ("conjugate", "discrete")
    }
    assert continuous - EXACT.keys() - IN_A_COORDINATE.keys() - AS_OTHERS == LEFT_OUT.keys()


def sites_of(given):
    def model():
        numpyro.sample("x", given)
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=np.asarray(0.3))

    return find_sites(model)


def free_value(given, value):
    """The value mapped to the real numbers, and the log volume of the map back."""
    bijection = dist.biject_to(unwrapped(given).support)
    free = bijection.inv(value)
    return free, jnp.sum(bijection.log_abs_det_jacobian(free, value))


QUICK = {*EXACT, *IN_A_COORDINATE} - {"LKJCholesky", "Wishart"}


@pytest.mark.parametrize("name", in_turn(EXACT | IN_A_COORDINATE, QUICK))
def test_variables_and_values_have_one_law(name):
    given, is_exact = (EXACT | IN_A_COORDINATE)[name](), name in EXACT
    sites, data = sites_of(given)
    (site,) = sites.latent
    assert (site.coordinate is None) == is_exact

    @jax.jit
    @jax.vmap
    def look(white):
        def free(white):
            return jnp.ravel(free_value(given, sites.at(white, data).values["x"])[0])

        trace = sites.at(white, data)
        value = trace.values["x"]
        of_z = log_normal(white) + trace.log_reference + log_normal(trace.scores)
        of_value = jnp.sum(given.log_prob(value)) + dist.Normal(0.0, 1.0).log_prob(0.3)
        volume = free_value(given, value)[1] + jnp.linalg.slogdet(jax.jacfwd(free)(white))[1]
        return {
            "of z": of_z,
            "of value": of_value + volume,
            "left over": trace.log_reference,
            "value": value,
            "is inside": given.support(value),
        }

    drawn, _ = sites.draw(jax.random.key(1))
    assert drawn.shape == (sites.num_white,)
    # Draws of the variables give draws of the value back.
    random = np.random.default_rng(3).standard_normal((3, sites.num_white))
    found = look(np.concatenate([random, np.full((1, sites.num_white), 3.0), drawn[None]]))
    assert found["value"].shape[1:] == given.shape()
    assert np.all(found["is inside"])
    for of_z, of_value in zip(found["of z"], found["of value"], strict=True):
        assert_close("law", of_z, of_value, 1e-8)
    assert np.all((np.abs(found["left over"]) < 1e-12) == is_exact)


@pytest.mark.parametrize(
    ("make", "of_value"),
    [
        (lambda: dist.FoldedDistribution(dist.Normal(0.4, 1.3)), lambda x: x),
        (
            lambda: dist.ProjectedNormal(np.array([1.0, -0.5, 0.3])),
            lambda x: x @ np.array([0.3, 0.5, 1.0]),
        ),
    ],
    ids=["folded", "projected"],
)
def test_maps_that_are_not_one_to_one_have_the_law_of_draws(make, of_value):
    given = make()
    sites, data = sites_of(given)
    size = 20_000

    @jax.jit
    def look(key):
        keys = jax.random.split(key)
        white = jax.random.normal(keys[0], (size, sites.num_white))
        found = jax.vmap(lambda white: of_value(sites.at(white, data).values["x"]))(white)
        return found, jax.vmap(of_value)(given.sample(keys[1], (size,)))

    found, known = map(np.asarray, look(jax.random.key(1)))
    # Kolmogorov and Smirnov: exceeded once in 10,000 times; a shift of a tenth exceeds it.
    bound = 2.23 * np.sqrt(2.0 / size)
    assert two_sample(found, known) < bound < two_sample(found + 0.1, known)


def two_sample(first, second):
    """Largest difference of two empirical distribution functions."""
    at = np.sort(np.concatenate([first, second]))
    shares = [np.searchsorted(np.sort(each), at, side="right") for each in (first, second)]
    return np.max(np.abs(shares[0] - shares[1])) / len(first)


def test_distributions_with_atoms_cannot_be_latent():
    for given in (dist.Delta(0.3), dist.HurdleGamma(0.3, 2.0, 3.0)):
        with pytest.raises(InputError, match="site x: expected a distribution with a density"):
            sites_of(given)


#: Distributions of readings and one reading.
OBSERVED = {
    "normal": (lambda: dist.Normal(0.4, 1.3), 0.9),
    "lognormal": (lambda: dist.LogNormal(0.4, 0.6), 0.9),
    "Student-t": (lambda: dist.StudentT(5.0, 1.0, 0.3), 0.9),
    "gamma": (gamma, 0.9),
    "inverse gamma": (lambda: dist.InverseGamma(2.5, 1.0), 0.9),
    "truncated": (lambda: dist.TruncatedCauchy(0.5, 0.4, low=0.0), 0.9),
    "von Mises": (lambda: dist.VonMises(0.5, 4.0), 0.9),
    "transformed": (shifted, [3.3, 2.9]),
    "as events": (lambda: dist.Normal(np.array([0.1, 0.5]), 2.0).to_event(1), [0.9, 1.0]),
    "multivariate": (lambda: dist.MultivariateNormal(LOC, COVARIANCE), [0.9, -1.0]),
    "of low rank": (low_rank, [0.9, -1.0]),
    "matrix": (matrix_normal, [[0.9, 1.0], [0.3, -0.4]]),
    "random walk": (lambda: dist.GaussianRandomWalk(0.3, num_steps=3), [0.1, 0.5, 0.3]),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_scores_are_about_standard_normal_and_have_numpyros_density(name):
    """They grow with the value."""
    make, value = OBSERVED[name]
    given, value = make(), np.asarray(value)

    def model():
        numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.sample("y", given, obs=value)

    sites, data = find_sites(model)

    @jax.jit
    def look(value):
        def score(value):
            return jnp.ravel(score_of(given, value))

        draws = given.sample(jax.random.key(2), (4000,))
        trace = sites.at(np.array([0.2]), data)
        density = trace.log_reference + log_normal(trace.scores)
        expected = jnp.sum(given.log_prob(value))
        return jax.jacfwd(score)(value), jax.vmap(score)(draws), density, expected

    slopes, scores, density, expected = map(np.asarray, look(value))
    assert_close("density", density, expected, 1e-10)
    assert np.all(np.diagonal(np.reshape(slopes, (value.size, -1))) > 0.0)
    low, middle, high = np.quantile(scores, [0.1, 0.5, 0.9])
    assert abs(middle) < 0.4
    assert 1.6 < high - low < 4.5  # 2.56 of a standard normal one


def test_what_has_no_scores_stays_in_the_density():
    for given, value in (
        (dist.Poisson(3.0), 2),
        (dist.HurdleGamma(0.3, 2.0, 3.0), 0.0),
        (dist.ZeroSumNormal(1.3, (2,)), np.array([0.3, -0.3])),
        (dist.RightCensoredDistribution(dist.Weibull(1.0, 2.0), np.array(1)), 0.7),
    ):
        assert score_of(given, jnp.asarray(value)) is None, given
