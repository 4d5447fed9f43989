"""Posteriors of NumPyro models, lifted: against NumPyro's NUTS."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from monte_carlo import assert_same_mean, stacked
from numpyro.infer import MCMC, NUTS, Predictive

import invlift

pytestmark = pytest.mark.slow

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(errors, effects=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", errors.size):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, errors), obs=effects)


X = np.linspace(-1.0, 1.0, 7)
Y = np.array([0.5, 0.6, 0.8, 1.1, 1.2, 1.4, 1.3])
COUNTS = np.array([1, 0, 2, 1, 3, 2, 4])


def mixed(x, y=None, counts=None):
    """Heavy tails, a bounded unknown, and counts beside the readings."""
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.Gamma(3.0, 10.0))
    b = numpyro.sample("b", dist.Laplace(a, 0.5))
    with numpyro.plate("reading", x.size):
        numpyro.sample("y", dist.StudentT(5.0, a * x + jnp.exp(b), scale), obs=y)
        numpyro.sample("count", dist.Poisson(jnp.exp(0.5 * b + a * x)), obs=counts)


def by_hand(x, y=None, counts=None):
    """The same, as NUTS needs it: not centred."""
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    scale = numpyro.sample("scale", dist.Gamma(3.0, 10.0))
    b = numpyro.deterministic("b", a + numpyro.sample("raw", dist.Laplace(0.0, 0.5)))
    with numpyro.plate("reading", x.size):
        numpyro.sample("y", dist.StudentT(5.0, a * x + jnp.exp(b), scale), obs=y)
        numpyro.sample("count", dist.Poisson(jnp.exp(0.5 * b + a * x)), obs=counts)


@pytest.fixture(scope="module")
def of_nuts():
    mcmc = MCMC(
        NUTS(by_hand), num_warmup=1000, num_samples=3000, num_chains=4,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(1), X, Y, COUNTS)
    return jax.tree.map(np.asarray, mcmc.get_samples(group_by_chain=True))


def of_lifted(counts):
    problem = invlift.from_numpyro(mixed, X, y=Y, counts=counts)
    return invlift.sample(problem, chains=4, warmup=500, draws=3000, seed=1)


def test_readings_and_counts_together_agree_with_nuts(of_nuts):
    run = of_lifted(COUNTS)
    for name in ("a", "scale", "b"):
        own = stacked(run, name)
        assert_same_mean(own, of_nuts[name])
        assert_same_mean(own**2, of_nuts[name] ** 2)
    # Negative control: other counts make another posterior.
    with pytest.raises(AssertionError, match="standard errors"):
        assert_same_mean(stacked(of_lifted(COUNTS[::-1].copy()), "a"), of_nuts["a"])


def test_draws_predict_by_numpyros_own_tool():
    problem = invlift.from_numpyro(schools, ERRORS, effects=EFFECTS)
    draws = problem.sample(chains=2, warmup=200, draws=500, seed=1)
    found = Predictive(schools, draws)(jax.random.key(1), ERRORS)["effect"]
    assert found.shape == (1000, 8)
    spread = np.std(found, axis=0)
    assert np.all((spread > ERRORS) & (spread < 2.0 * ERRORS))
