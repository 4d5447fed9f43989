"""Every distribution of the problem file, and NumPyro's, as transformations of normal variables."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from choices import choices_of
from contract_checks import assert_close
from own_distributions import ByQuantiles

from invlift.errors import InputError
from invlift.programs.compilation import Program
from invlift.tables.distributions import DISTRIBUTIONS, REAL_DISTRIBUTIONS
from invlift.unknowns.distributions import (
    Distribution,
    Normal,
    as_distribution,
    exponential,
    half_cauchy,
    half_normal,
    lognormal,
    normal,
    repeated,
    uniform,
)
from invlift.unknowns.distributions.of_numpyro import Coordinate, Exact
from invlift.unknowns.distributions.whitening import FAMILIES


def of_table(name, registry=REAL_DISTRIBUTIONS):
    table = registry[name]
    content = {key: values[0] for key, values in choices_of(table).items()}
    return table.model_validate(content | {"distribution": name}).build()


#: Those that the library has a family for are compared with NumPyro's density.
NUMPYRO = {
    "Normal": dist.Normal(0.4, 1.3),
    "LogNormal": dist.LogNormal(0.4, 0.6),
    "HalfNormal": dist.HalfNormal(0.7),
    "HalfCauchy": dist.HalfCauchy(0.7),
    "Exponential": dist.Exponential(2.5),
    "Uniform": dist.Uniform(-0.5, 2.0),
    "Gamma": dist.Gamma(2.5, 4.0),
    "InverseGamma": dist.InverseGamma(3.0, 0.5),
    "Beta": dist.Beta(2.0, 3.5),
    "StudentT": dist.StudentT(5.0, 1.0, 0.3),
    "TruncatedNormal": dist.TruncatedNormal(0.5, 1.0, low=0.0),
    "Laplace": dist.Laplace(0.5, 0.2),
    "Gumbel": dist.Gumbel(0.5, 0.2),
    "Weibull": dist.Weibull(0.5, 1.7),
    "falling": dist.TransformedDistribution(
        dist.HalfNormal(1.0), dist.transforms.AffineTransform(0.0, -1.0)
    ),
    "as an event": dist.Gamma(jnp.array([2.0, 4.0]), 3.0).to_event(1),
    "multivariate": dist.MultivariateNormal(
        jnp.array([1.0, -2.0]), jnp.array([[2.0, 0.3], [0.3, 0.5]])
    ),
    "simplex": dist.Dirichlet(jnp.array([2.0, 3.0, 1.5])),
}
ALL = {
    **{name: partial(of_table, name) for name in REAL_DISTRIBUTIONS},
    "uniform of a positive number": partial(of_table, "uniform", DISTRIBUTIONS),
    **{
        f"NumPyro's {name}": partial(as_distribution, NUMPYRO[name])
        for name in ("Weibull", "falling", "as an event", "multivariate", "simplex")
    },
    "quantiles of a user": lambda: as_distribution(ByQuantiles(2.0)),
    "lognormal, twice": lambda: repeated(of_table("lognormal"), 2),
}


@cache
def build(name):
    return ALL[name]()


@partial(Program, effort="none")
def look_at(distribution, white):
    """The value, the densities of z and of the value, and derivatives."""

    def flat(white):
        return jnp.ravel(distribution.transform(white))[: white.size]

    value = distribution.transform(white)
    log_normal = jnp.sum(-0.5 * white**2 - 0.5 * np.log(2.0 * np.pi))
    return {
        "value": value,
        "of z": log_normal + distribution.log_reference(white),
        "of value": distribution.log_density(value),
        "slope": jax.jacfwd(flat)(white),
        "curvature": jax.jacfwd(jax.jacfwd(flat))(white),
        "reference's slope": jax.grad(distribution.log_reference)(white),
    }


def check_distribution(distribution):
    """One law, whether it is that of z or of the value; smooth, and finite far out."""
    rng = np.random.default_rng(3)
    for white in (*rng.standard_normal((3, distribution.num_white)), *far(distribution)):
        found = look_at(distribution, white)
        assert_close("shape", np.zeros(found["value"].shape), np.zeros(distribution.shape), 1e-9)
        low, high = distribution.support
        assert np.all((low <= found["value"]) & (found["value"] <= high)), "support"
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found)), f"finite at {white}"
        volume = np.linalg.slogdet(found["slope"])[1]
        assert_close("law", found["of z"], found["of value"] + volume, 1e-8)
        if distribution.is_elementwise:
            of_own = np.diag(np.diagonal(found["slope"]))
            assert_close("elementwise", found["slope"], of_own, 1e-12)


def far(distribution):
    return np.outer([-5.0, 5.0], np.ones(distribution.num_white))


@pytest.mark.parametrize("name", ALL)
def test_distribution(name):
    distribution = build(name)
    check_distribution(distribution)
    rng = np.random.default_rng(4)
    draws = np.stack([distribution.sample(rng) for _ in range(2)])
    assert draws.shape == (2, distribution.num_white)
    assert np.isfinite(draws).all()
    again = distribution.whiten(look_at(distribution, draws[0])["value"])
    np.testing.assert_allclose(again, draws[0], atol=1e-6)


def test_densities_are_numpyros():
    own = {name: as_distribution(given) for name, given in NUMPYRO.items()}
    values = {name: np.full(given.shape(), 0.7) for name, given in NUMPYRO.items()}
    values |= {"falling": np.array(-0.7), "simplex": np.array([0.2, 0.3, 0.5])}

    @jax.jit
    def look(values):
        return {
            name: (own[name].log_density(value), jnp.sum(NUMPYRO[name].log_prob(value)))
            for name, value in values.items()
        }

    for name, (found, expected) in look(values).items():
        assert np.isfinite(found), name
        assert_close(name, found, expected, 1e-10)


def test_draws_have_the_law():
    """Of a distribution whose z is not standard normal."""
    distribution = build("inverse-gamma")
    rng = np.random.default_rng(5)
    draws = np.stack([distribution.sample(rng)[0] for _ in range(1500)])
    grid = np.linspace(-12.0, 12.0, 20_001)
    log_density = jax.jit(jax.vmap(distribution.log_reference))(grid[:, None])
    density = np.exp(scipy.stats.norm.logpdf(grid) + log_density)
    cdf = np.cumsum(density) * (grid[1] - grid[0])
    assert abs(cdf[-1] - 1.0) < 1e-3
    assert scipy.stats.kstest(draws, partial(np.interp, xp=grid, fp=cdf)).pvalue > 1e-3
    # Negative control: another scale.
    assert scipy.stats.kstest(1.2 * draws, partial(np.interp, xp=grid, fp=cdf)).pvalue < 1e-3


def test_coordinates_are_about_standard_normal():
    """The middle 95 % of draws, however long the tails are."""
    names = "TruncatedNormal", "Gamma", "StudentT", "simplex"
    found = {name: as_distribution(NUMPYRO[name]) for name in names}
    assert all(isinstance(own, Coordinate) for own in found.values())

    @jax.jit
    def whitened(key):
        draws = {name: own.given.sample(key, (2000,)) for name, own in found.items()}
        return {name: jax.vmap(own.whiten)(draws[name]) for name, own in found.items()}

    for name, white in whitened(jax.random.key(1)).items():
        low, high = np.quantile(white, [0.0228, 0.9772], axis=0)
        np.testing.assert_allclose(0.25 * (high - low), 1.0, atol=0.12, err_msg=name)


def test_every_family_is_tried():
    tried = {type(build(name)) for name in ALL}
    families = {kind for kind in _below(Distribution) if not kind.__subclasses__()}
    assert {kind for kind in families if kind.__module__.startswith("invlift.")} <= tried
    names = {kind.__name__ for kind in FAMILIES}
    assert names <= set(NUMPYRO)
    assert not any(isinstance(as_distribution(NUMPYRO[name]), Coordinate) for name in names)
    assert {Exact, Coordinate} <= tried


def _below(kind):
    return {each for below in kind.__subclasses__() for each in {below, *_below(below)}}


class WrongNormal(Normal):
    """A negative control: its density is that of another spread."""

    def log_density(self, value):
        return Normal(self.mean, 1.01 * self.sd).log_density(value)


def test_a_wrong_density_is_found():
    with pytest.raises(AssertionError, match=r"^law: "):
        check_distribution(WrongNormal(*map(jnp.asarray, (0.3, 2.0))))


class Mixed(Exact):
    """A negative control: entries of several variables that are said to be of one each."""

    is_elementwise = True


def test_entries_of_several_variables_are_found():
    with pytest.raises(AssertionError, match=r"^elementwise: "):
        check_distribution(Mixed(NUMPYRO["multivariate"]))


def test_a_median_and_a_factor_are_a_lognormal_distribution():
    found = lognormal(median=15.0, factor=2.0)
    assert float(found.location) == pytest.approx(np.log(15.0), rel=1e-15)
    assert float(found.scale) == pytest.approx(np.log(2.0), rel=1e-15)
    # Two in three are within the factor.
    assert float(found.transform(jnp.ones(1))) == pytest.approx(30.0, rel=1e-14)
    table = DISTRIBUTIONS["lognormal"]
    content = {"distribution": "lognormal", "median": 15.0, "factor": 2.0}
    assert table.model_validate(content).build() == found


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: normal(np.nan, 1.0), "normal, mean: expected a finite number, found nan; "),
        (lambda: normal(0.0, [1.0, -2.0]), "normal, sd: expected a positive number, found -2; "),
        (lambda: uniform(1.0, 1.0), "uniform, high: expected a number above low"),
        (lambda: lognormal(), "lognormal: expected location and scale, or median and factor, "),
        (lambda: lognormal(0.0), "lognormal: expected location and scale, or .* found location; "),
        (lambda: lognormal(0.0, 1.0, median=1.0), "lognormal: .* found location, scale, median; "),
        (lambda: lognormal(median=1.0, factor=0.5), "lognormal, factor: expected a number above 1"),
        (lambda: lognormal(median="large", factor=2), "lognormal, median: .* found nan; "),
        (lambda: half_normal(0.0), "half_normal, scale: expected a positive number, found 0; "),
        (lambda: half_cauchy(np.inf), "half_cauchy, scale: expected a positive number, found inf"),
        (lambda: exponential(-1.0), "exponential, mean: expected a positive number, found -1; "),
        (lambda: as_distribution(3.0), "distribution: expected a distribution of invlift or of "),
        (lambda: as_distribution(dist.Poisson(3.0)), "distribution: .*continuous.*Poisson; "),
    ],
)
def test_bad_arguments_are_named_in_one_line(build, message):
    with pytest.raises(InputError, match=f"^{message}"):
        build()
