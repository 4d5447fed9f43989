"""NumPyro models as inverse problems: one density, names, readings, simulations, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_density, log_likelihood

import invlift
from invlift.errors import InputError
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.targets.ordinary import OrdinaryPosterior

X = np.linspace(-1.0, 1.0, 6)
COUNTS = np.array([1, 0, 2, 3, 1, 4])
READINGS = 0.4 + 0.7 * X + 0.1 * np.array([0.3, -1.0, 0.8, 0.1, -0.4, 0.9])


def everything(x, readings=None, counts=None):
    """Dependent and bounded unknowns; normal readings, masked and weighed ones, and counts."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    shape = numpyro.sample("shape", dist.Gamma(2.0, 2.0 / spread))
    with numpyro.plate("group", 2):
        effect = numpyro.sample("effect", dist.Normal(mean, spread))
    slope = numpyro.deterministic("slope", effect[0] - effect[1])
    with handlers.scale(scale=0.5):
        weighed = numpyro.sample("weighed", dist.Normal(slope, 1.0))
    with numpyro.plate("reading", x.size):
        numpyro.sample("y", dist.Normal(mean + slope * x, 0.3 * shape), obs=readings)
        mask = np.arange(x.size) < 4
        numpyro.sample("part", dist.StudentT(4.0, slope, spread).mask(mask), obs=readings)
        numpyro.sample("count", dist.Poisson(jnp.exp(mean * x)), obs=counts)
    numpyro.factor("penalty", -0.1 * weighed**2)


@pytest.fixture(scope="module")
def problem():
    return invlift.from_numpyro(everything, X, readings=READINGS, counts=COUNTS)


def test_the_density_is_numpyros(problem):
    """Of standard normal variables, that of the unknowns times the volume between them."""
    latent = ("mean", "spread", "shape", "effect", "weighed")

    def flat(values):
        return jnp.concatenate([jnp.ravel(values[name]) for name in latent])

    @jax.jit
    def densities(white):
        values = problem.model.at(white).values
        own = {name: values[name] for name in latent}
        known, _ = log_density(everything, (X, READINGS, COUNTS), {}, own)
        volume = jnp.linalg.slogdet(jax.jacfwd(lambda w: flat(problem.model.at(w).values))(white))
        return known + volume[1], OrdinaryPosterior(problem).logdensity(white)

    rng = np.random.default_rng(1)
    whites = rng.standard_normal((4, problem.num_unknowns))
    known, found = np.transpose([densities(white) for white in whites])
    np.testing.assert_allclose(found - found[0], known - known[0], rtol=1e-9, atol=1e-9)
    # Negative control: without what is left over it is another density.
    without = found - [problem.prior.log_reference(white) for white in whites]
    assert np.ptp(without - known) > 1.0


def test_the_lifted_density_is_that_of_the_ordinary_one(problem):
    """By the Gram factor, as the manifold is a graph over the unknowns."""
    white = np.random.default_rng(2).standard_normal((3, problem.num_unknowns)) * 0.5
    target = LiftedPosterior(problem)

    @jax.jit
    def look(white):
        point = target.point(target.lift(white))
        gram = point.gram.log_determinant()
        lifted = point.logdensity - 0.5 * point.position @ point.position + 0.5 * gram
        return lifted, OrdinaryPosterior(problem).logdensity(white), point.constraint

    for lifted, ordinary, constraint in map(look, white):
        np.testing.assert_allclose(constraint, 0.0, atol=1e-12)
        # With c = eta - S(w) the graph has volume det(G)^(1/2), and c is solved for eta.
        constant = 0.5 * problem.num_observations * np.log(2.0 * np.pi)
        np.testing.assert_allclose(lifted, ordinary + constant, rtol=1e-9)


def test_scopes_events_and_other_parametrisations():
    def model(x, readings):
        with handlers.scope(prefix="outer"):
            mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        with handlers.reparam(config={"effect": LocScaleReparam(0.0)}):
            effect = numpyro.sample("effect", dist.Normal(mean, 0.5).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(effect[0] + effect[1] * x, 0.3), obs=readings)

    made = invlift.from_numpyro(model, X, READINGS)
    assert [site.name for site in made.model.sites.latent] == ["outer/mean", "effect_decentered"]
    whites = np.random.default_rng(1).standard_normal((3, made.num_unknowns))
    values = [made.model.at(white).values for white in whites]
    latent = [{k: v for k, v in each.items() if k != "effect"} for each in values]
    known = np.array([log_density(model, (X, READINGS), {}, each)[0] for each in latent])
    found = np.array([OrdinaryPosterior(made).logdensity(white) for white in whites])
    np.testing.assert_allclose(found - found[0], known - known[0], rtol=1e-9)
    np.testing.assert_allclose(values[0]["effect"], whites[0][0] + 0.5 * whites[0][1:], rtol=1e-12)


def test_each_site_is_told(problem):
    assert str(problem).splitlines() == [
        "mean     Normal",
        "spread   HalfNormal",
        "shape    Gamma, in a coordinate",
        "effect   Normal of shape (2,)",
        "weighed  Normal",
        "y        Normal of shape (6,), observed: 6 readings, lifted",
        "part     StudentT of shape (6,), observed: 4 readings, lifted",
        "count    Poisson of shape (6,), observed: stays in the density",
        "penalty  Unit of shape (0,), observed: stays in the density",
    ]


def test_draws_have_the_models_names_and_plates(problem):
    run = invlift.sample(problem, chains=2, warmup=60, draws=60, seed=1)
    posterior = invlift.build_posterior(problem, run)
    data = posterior.to_arviz()
    assert {"mean", "spread", "shape", "effect", "weighed", "slope"} <= set(data["posterior"])
    assert data["posterior"]["effect"].dims == ("chain", "draw", "group")
    draws = {name: run.chains[0].draws[name] for name in ("mean", "spread", "shape", "effect")}
    draws["weighed"] = run.chains[0].draws["weighed"]
    found = data["log_likelihood"]["observed"].values[0]
    known = log_likelihood(everything, draws, X, READINGS, COUNTS)
    np.testing.assert_allclose(found[:, :6], known["y"], rtol=1e-9)
    np.testing.assert_allclose(found[:, 6:], known["part"][:, :4], rtol=1e-9)
    new = data["posterior_predictive"]["observed"].values[0]
    assert new.shape == found.shape
    assert np.std(new[:, 0]) > 1e-3


def test_problems_of_other_data_are_drawn(problem):
    made, theta = problem.simulate(np.random.default_rng(5))
    assert made.observed.shape == problem.observed.shape
    assert np.abs(made.observed - problem.observed).min() > 1e-6
    # The scores of its readings are those that the unknowns leave.
    scores = made.model.at(theta).scores
    np.testing.assert_allclose(made.model(theta), made.observed - scores, rtol=1e-9)
    assert not np.array_equal(made.model.data["count"], COUNTS)


def test_draws_as_a_dictionary():
    def line(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(slope * x, 0.1), obs=y)

    problem = invlift.from_numpyro(line, X, y=READINGS)
    with pytest.warns(UserWarning, match=r"[Dd]raws"):
        found = problem.sample(chains=2, warmup=20, draws=10, seed=1)
    assert {name: value.shape for name, value in found.items()} == {"slope": (20,)}


# What cannot be a problem -------------------------------------------------------------------------


def on(x, y, noise=None):
    return numpyro.sample("y", noise or dist.Normal(x, 1.0), obs=y)


def discrete():
    on(numpyro.sample("k", dist.Poisson(2.0)), 1.0)


def improper():
    on(numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ())), 1.0)


def subsampled():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", 6, subsample_size=2) as rows:
        on(x, X[rows])


def outside():
    on(numpyro.sample("x", dist.Normal(0.0, 1.0)), -1.0, dist.Gamma(2.0, 2.0))


def missing():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", 3):
        on(x, np.array([1.0, np.nan, 2.0]))


def counts():
    numpyro.sample("x", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Poisson(2.0), obs=1)


def known():
    on(0.0, 1.0)


def optimised():
    on(numpyro.param("p", 1.0) + numpyro.sample("x", dist.Normal(0.0, 1.0)), 1.0)


def scanned():
    from numpyro.contrib.control_flow import scan

    numpyro.sample("x", dist.Normal(0.0, 1.0))
    scan(lambda c, y: (c, on(c, y)), 0.0, jnp.asarray(X))


def branching():
    x = numpyro.sample("x", dist.Normal(0.0, 1.0))
    on(x if x > 0.0 else -x, 1.0)


def failing():
    raise ZeroDivisionError("nothing to divide by")


def reserved():
    on(numpyro.sample("predicted", dist.Normal(0.0, 1.0)), 1.0)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (discrete, "site k: expected a continuous distribution"),
        (improper, "site x: expected a proper distribution"),
        (subsampled, "plate data: expected all of its data, found 2 of 6"),
        (outside, "site y: expected finite values in the support of its distribution, found -1"),
        (missing, "site y: expected finite values .*, found nan at index 1"),
        (counts, r"model: expected at least one observed site .*, found y \(Poisson\)"),
        (known, "model: expected at least one latent site"),
        (optimised, "site p: expected sample sites alone"),
        (scanned, "expected sites that are met one by one"),
        (branching, "model: expected .*not depend on values"),
        (failing, "model: expected .*runs with these arguments, found .*nothing to divide by"),
        (reserved, "site predicted: expected another name"),
        (3, "argument model: expected a function"),
    ],
)
def test_what_cannot_be_lifted_is_told(model, expected):
    with pytest.raises(InputError, match=expected):
        invlift.from_numpyro(model)
