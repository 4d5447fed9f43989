"""NumPyro models as inverse problems: one density, names, readings, simulations, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import cond, scan
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import log_density, log_likelihood
from scipy import stats

import invlift
from invlift.chains import Chain
from invlift.errors import InputError
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.samplers.chains.results import Run
from invlift.standards import Standards

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
        part = None if readings is None else np.where(mask, readings, np.nan)
        numpyro.sample("part", dist.StudentT(4.0, slope, spread).mask(mask), obs=part)
        numpyro.sample("count", dist.Poisson(jnp.exp(mean * x)), obs=counts)
    numpyro.factor("penalty", -0.1 * weighed**2)


@pytest.fixture(scope="module")
def problem():
    return invlift.from_numpyro(everything, X, readings=READINGS, counts=COUNTS)


#: Distributions of readings, a reading of each, and the probability of larger ones.
TAILS = (
    (dist.Exponential(1.0), 5.0, stats.expon.sf(5.0)),
    (dist.Laplace(0.0, 1.0), 6.0, stats.laplace.sf(6.0)),
    (dist.TruncatedNormal(0.0, 1.0, low=-1.0), 3.0, stats.norm.sf(3.0) / stats.norm.sf(-1.0)),
    (dist.VonMises(0.5, 4.0), 3.0, stats.vonmises.sf(2.5, 4.0)),
    (dist.StudentT(1.0), 100.0, stats.t.sf(100.0, 1.0)),
    (dist.Kumaraswamy(2.0, 3.0), 0.99, (1.0 - 0.99**2) ** 3),
)


def test_scores_of_draws_have_the_probabilities_of_readings():
    """P-values and PIT come from them; the scores that are lifted are only nearly normal."""

    def model():
        unknown = numpyro.sample("unknown", dist.Normal(0.0, 1.0))
        numpyro.sample("masked", dist.Normal(unknown, 1.0).mask(np.arange(2) < 1), obs=np.ones(2))
        for number, (given, value, _) in enumerate(TAILS):
            numpyro.sample(f"y{number}", given, obs=np.array(value))

    problem, white = invlift.from_numpyro(model), jnp.zeros(1)
    score, lifted = jax.jit(
        lambda white: (
            problem.describe(white, white, white)["noise_score"],
            problem.model.at(white).scores,
        )
    )(white)
    above = np.array([stats.norm.sf(1.0), *(each for *_, each in TAILS)])
    np.testing.assert_allclose(stats.norm.sf(score), above, rtol=1e-6)
    assert np.abs(stats.norm.sf(lifted[1:]) / above[1:] - 1.0).min() > 0.9  # negative control


def test_both_densities_are_numpyros(problem):
    """Of standard normal variables, that of the unknowns times the volume between them.

    That on the manifold, a graph over the unknowns, is the same by the Gram factor.
    """
    latent = ("mean", "spread", "shape", "effect", "weighed")
    target = LiftedPosterior(problem)

    @jax.jit
    def look(white):
        def flat(white):
            values = problem.model.at(white).values
            return jnp.concatenate([jnp.ravel(values[name]) for name in latent])

        values = problem.model.at(white).values
        own = {name: values[name] for name in latent}
        known, _ = log_density(everything, (X, READINGS, COUNTS), {}, own)
        known = known + jnp.linalg.slogdet(jax.jacfwd(flat)(white))[1]
        point = target.point(target.lift(white))
        gram = point.gram.log_determinant()
        lifted = point.logdensity - 0.5 * point.position @ point.position + 0.5 * gram
        ordinary = OrdinaryPosterior(problem).logdensity(white)
        left_over = problem.log_reference_of_unknowns(white[:0], white)
        return (known, ordinary, lifted, left_over), point.constraint, point.logdensity_grad

    whites = 0.7 * np.random.default_rng(1).standard_normal((4, problem.num_unknowns))
    densities, constraints, grads = zip(*map(look, whites), strict=True)
    known, ordinary, lifted, left_over = np.transpose(densities)
    np.testing.assert_allclose(ordinary - ordinary[0], known - known[0], rtol=1e-9, atol=1e-9)
    # Negative control: without what is left over it is another density.
    assert np.ptp(ordinary - left_over - known) > 0.5
    # With c = eta - S(w) the graph has volume det(G)^(1/2), and c is solved for eta.
    constant = 0.5 * problem.num_observations * np.log(2.0 * np.pi)
    np.testing.assert_allclose(lifted, ordinary + constant, rtol=1e-9)
    np.testing.assert_allclose(constraints, 0.0, atol=1e-12)
    assert np.all(np.isfinite(grads))  # though some readings are missing


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

    @jax.jit
    def look(white):
        values = made.model.at(white).values
        latent = {name: value for name, value in values.items() if name != "effect"}
        known = log_density(model, (X, READINGS), {}, latent)[0]
        return known, OrdinaryPosterior(made).logdensity(white), values["effect"]

    known, found, effect = map(np.stack, zip(*map(look, whites), strict=True))
    np.testing.assert_allclose(found - found[0], known - known[0], rtol=1e-9)
    np.testing.assert_allclose(effect[0], whites[0][0] + 0.5 * whites[0][1:], rtol=1e-12)


def test_missing_readings_are_drawn():
    def model(readings):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        spread = numpyro.sample("spread", dist.HalfNormal(1.0))
        with numpyro.plate("reading", 3):
            known = ~np.isnan(readings)
            numpyro.sample("y", dist.Normal(mean, spread), obs=readings, obs_mask=known)

    made = invlift.from_numpyro(model, np.array([0.3, np.nan, 0.5]))
    assert str(made).splitlines()[2:] == [
        "y_unobserved  Normal of shape (3,)",
        "y_observed    Normal of shape (3,), observed: 2 readings, lifted",
    ]
    white = np.array([0.4, -0.2, 1.3, 0.7, -1.1])
    values = jax.jit(lambda white: made.model.at(white).values)(white)
    drawn = values["mean"] + values["spread"] * white[3]
    np.testing.assert_allclose(values["y"], [0.3, drawn, 0.5], rtol=1e-12)


def test_masked_latent_values_of_which_nothing_is_observed_have_their_prior():
    def padded():
        with numpyro.plate("part", 2), handlers.mask(mask=np.array([True, False])):
            x = x_of()
        on(x[0], 1.0)

    made = invlift.from_numpyro(padded)
    assert made.model.at(np.array([0.3, -0.8])).log_reference == 0.0


def test_vectors_may_be_missing():
    pairs = np.array([[0.1, 0.2], [np.nan, np.nan], [0.4, 0.3]])

    def model():
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("row", 3), handlers.mask(mask=~np.isnan(pairs[:, 0])):
            numpyro.sample("y", dist.MultivariateNormal(mean, 0.5 * jnp.eye(2)), obs=pairs)

    made = invlift.from_numpyro(model)
    axes, values = made.arrays()["y"]
    assert axes == {"y_used": (0, 2), "y_dim_1": (0, 1)}
    np.testing.assert_array_equal(values, pairs[[0, 2]])
    np.testing.assert_array_equal(made.observed, pairs[[0, 2]].ravel())


def test_vectors_of_which_a_part_is_missing_stay_in_the_density():
    def model():
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("x", dist.Normal(mean, 1.0), obs=0.3)
        given = dist.Normal(mean * jnp.ones(2), 1.0).mask(np.array([True, False])).to_event(1)
        numpyro.sample("y", given, obs=np.array([0.4, np.nan]))

    text = str(invlift.from_numpyro(model))
    assert "y     Normal of shape (2,), observed: stays in the density" in text


def test_readings_whose_mask_depends_on_an_unknown_stay_in_the_density():
    """Readings up to an unknown change: their number differs from draw to draw."""
    times, readings = np.arange(4.0), np.array([0.1, 0.2, 0.9, 1.1])

    def model():
        change = numpyro.sample("change", dist.Uniform(0.0, 4.0))
        numpyro.sample("x", dist.Normal(change, 1.0), obs=2.0)

        def read(state, each):
            with handlers.mask(mask=each[0] < change):
                numpyro.sample("y", dist.Normal(0.0, 0.5), obs=each[1])
            return state, None

        scan(read, 0.0, (times, readings))

    made = invlift.from_numpyro(model)
    assert "y       Normal of shape (4,), observed: stays in the density" in str(made)

    @jax.jit
    def look(white):
        value = made.model.at(white).values["change"]
        known = log_density(model, (), {}, {"change": value})[0]
        return known - 0.5 * white[0] ** 2, OrdinaryPosterior(made).logdensity(white)

    known, found = np.transpose([look(np.array([each])) for each in (-1.0, 0.3, 1.2)])
    np.testing.assert_allclose(found - found[0], known - known[0], rtol=1e-9)


WALK = np.cumsum([0.3, -0.5, 0.8, 0.1, 0.6])


def walking(readings):
    """A state that moves at random, with a plate and a bounded unknown at each time."""
    spread = numpyro.sample("spread", dist.HalfNormal(1.0))
    first = numpyro.sample("first", dist.Normal(0.0, 1.0))

    def step(state, reading):
        state = numpyro.sample("state", dist.Normal(0.9 * state, spread))
        scale = numpyro.sample("scale", dist.Gamma(2.0, 2.0 + spread))
        with numpyro.plate("half", 2):
            part = numpyro.sample("part", dist.Normal(state, scale))
        numpyro.deterministic("sum", part.sum())
        numpyro.sample("y", dist.Normal(part.sum(), 0.3), obs=reading)
        return state, state

    scan(step, first, readings, reverse=True)


def test_scans():
    """Sites within are vectors over time, each with the law of its time, backwards here."""
    made = invlift.from_numpyro(walking, WALK)
    axes = {site.name: [axis for axis, _ in site.axes] for site in made.model.sites.latent}
    assert axes["state"] == ["state_dim_0"]
    assert axes["part"] == ["part_dim_0", "half"]

    def density(values):
        state, scale, part = (values[name][::-1] for name in ("state", "scale", "part"))
        before = 0.9 * jnp.append(values["first"], state[:-1])
        laws = [
            (dist.Normal(before, values["spread"]), state),
            (dist.Gamma(2.0, 2.0 + values["spread"]), scale),
            (dist.Normal(state[:, None], scale[:, None]), part),
            (dist.Normal(part.sum(axis=1), 0.3), WALK[::-1]),
            (dist.HalfNormal(1.0), values["spread"]),
            (dist.Normal(0.0, 1.0), values["first"]),
        ]
        return sum(jnp.sum(law.log_prob(value)) for law, value in laws)

    @jax.jit
    def look(white):
        def flat(white):
            values = made.model.at(white).values
            return jnp.concatenate([jnp.ravel(values[name]) for name in axes])

        values = made.model.at(white).values
        volume = jnp.linalg.slogdet(jax.jacfwd(flat)(white))[1]
        known = density(values) + volume
        return known, OrdinaryPosterior(made).logdensity(white), values

    whites = np.random.default_rng(1).standard_normal((3, made.num_unknowns))
    known, found, values = zip(*map(look, whites), strict=True)
    np.testing.assert_allclose(np.subtract(found, found[0]), np.subtract(known, known[0]), 1e-9)
    np.testing.assert_allclose(values[0]["sum"], values[0]["part"].sum(axis=1), rtol=1e-12)
    # Simulated readings are new, and the scores that the unknowns leave are theirs.
    new, theta = made.simulate(np.random.default_rng(5))
    assert np.abs(new.observed - made.observed).min() > 1e-6
    found, scores = jax.jit(lambda theta: (new.model(theta), new.model.at(theta).scores))(theta)
    np.testing.assert_allclose(found, new.observed - scores, rtol=1e-9)


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


@pytest.fixture(scope="module")
def posterior_of(problem):
    """Of draws, here of the prior, every so many, and of every so many of these effects."""
    thetas = 0.3 * np.random.default_rng(2).standard_normal((2, 101, problem.num_unknowns))
    described = jax.jit(jax.vmap(problem.described))
    draws = [jax.tree.map(np.asarray, described(theta)) for theta in thetas]

    def made(step=1, of_effect=1):
        chains = []
        for each in draws:
            kept = {name: values[::step] for name, values in each.items()}
            kept["effect"] = kept["effect"][::of_effect]
            chains.append(Chain(kept, every={"effect": of_effect}))
        return problem.posterior(Run(chains, 0.0, False, Standards()))

    return made


def test_draws_have_the_models_names_and_plates(posterior_of):
    posterior = posterior_of()
    data = posterior.to_arviz()
    names = ("mean", "spread", "shape", "effect", "weighed")
    assert {*names, "slope"} <= set(data["posterior"])
    assert data["posterior"]["effect"].dims == ("chain", "draw", "group")
    # Readings by site: lifted ones, those of which some are masked, and counts, but no factor.
    sizes = {"y": ("reading",), "part": ("part_used",), "count": ("reading",)}
    for group, axes in (
        ("observed_data", ()),
        ("log_likelihood", ("chain", "draw")),
        ("posterior_predictive", ("chain", "draw")),
    ):
        found = {name: each.dims for name, each in data[group].data_vars.items()}
        assert found == {name: (*axes, *own) for name, own in sizes.items()}
    draws = {name: data["posterior"][name].values[0] for name in names}
    known = jax.jit(lambda draws: log_likelihood(everything, draws, X, READINGS, COUNTS))(draws)
    found = {name: each.values[0] for name, each in data["log_likelihood"].data_vars.items()}
    for name, used in {"y": slice(None), "part": slice(4), "count": slice(None)}.items():
        np.testing.assert_allclose(found[name], known[name][:, used], rtol=1e-9)
    assert np.std(data["posterior_predictive"]["y"].values[0, :, 0]) > 1e-3
    assert "sensor_sigma" not in data["constant_data"]
    assert posterior.fit.leave_one_out().elpd.shape == (16,)


def test_of_thinned_latent_values_the_likelihoods_are_those_of_the_stored_draws(
    problem, posterior_of, tmp_path
):
    thinned, whole = posterior_of(1, 4), posterior_of(4, 1)
    assert thinned.num_draws == 101
    thinned.write(tmp_path)
    again = invlift.load(tmp_path)
    np.testing.assert_array_equal(again.sensors.values, problem.observed)
    for found in (thinned, again):
        for pair in zip(found.fit.log_likelihood, whole.fit.log_likelihood, strict=True):
            np.testing.assert_allclose(*pair, rtol=1e-12)
        pair = (each.fit.leave_one_out().elpd for each in (found, whole))
        np.testing.assert_allclose(*pair, rtol=1e-9)
        assert found.fit.new_readings()["y"][0].shape == (26, 6)
    for name, (axes, values) in thinned.fit.arrays.items():
        assert list(again.fit.arrays[name][0]) == list(axes)
        np.testing.assert_array_equal(again.fit.arrays[name][1], values)
        pair = (each.fit.new_readings()[name] for each in (again, thinned))
        np.testing.assert_array_equal(*pair)


def test_problems_of_other_data_are_drawn(problem):
    """Counts, which are not lifted, as well."""
    new, _ = problem.simulate(np.random.default_rng(5))
    assert not np.array_equal(new.model.data["count"], COUNTS)


# What cannot be a problem -------------------------------------------------------------------------


def on(x, y, noise=None):
    return numpyro.sample("y", noise or dist.Normal(x, 1.0), obs=y)


def x_of(law=None):
    return numpyro.sample("x", law or dist.Normal(0.0, 1.0))


def counted_elsewhere():
    with handlers.mask(mask=False):
        x = x_of()
    numpyro.factor("density", -0.5 * x**2)
    on(x, 1.0)


def partly_masked():
    """NumPyro gives the first entry a flat prior."""
    with numpyro.plate("part", 2), handlers.mask(mask=np.array([False, True])):
        x = x_of()
    on(x[0], 1.0)


def subsampled():
    x = x_of()
    with numpyro.plate("data", 6, subsample_size=2) as rows:
        on(x, X[rows])


def missing():
    x = x_of()
    with numpyro.plate("data", 3):
        on(x, np.array([1.0, np.nan, 2.0]))


def counts():
    x_of()
    numpyro.sample("y", dist.Poisson(2.0), obs=1)


def branches():
    x = x_of()
    cond(x > 0.0, lambda x: on(x, 1.0), lambda x: on(-x, 1.0), x)


def renamed_around_a_scan():
    x = x_of()
    with handlers.scope(prefix="outer"):
        scan(lambda c, y: (c, on(c, y)), x, jnp.asarray(X))


def branching():
    x = x_of()
    on(x if x > 0.0 else -x, 1.0)


def failing():
    raise ZeroDivisionError("nothing to divide by")


def shifted():
    """Response times, which some draws of the prior exclude."""
    start = numpyro.sample("start", dist.HalfNormal(1.0))
    delay = dist.TransformedDistribution(
        dist.LogNormal(-1.0, 0.5).expand([3]), dist.transforms.AffineTransform(start, 1.0)
    )
    on(start, jnp.array([0.3, 0.5, 0.9]), delay)


def test_a_support_may_depend_on_what_is_unknown():
    assert invlift.from_numpyro(shifted).observed.size == 3


IMPROPER = dist.ImproperUniform(dist.constraints.real, (), ())
#: Models by what is said of them.
REFUSED = {
    "site k: expected a continuous distribution": lambda: on(
        numpyro.sample("k", dist.Poisson(2.0)), 1.0
    ),
    "site x: expected a proper distribution": lambda: on(x_of(IMPROPER), 1.0),
    "site x: expected a latent site that is not masked": counted_elsewhere,
    "site x: expected a mask of values on which no observed": partly_masked,
    "plate data: expected all of its data, found 2 of 6": subsampled,
    r"site y: expected finite values in the support .* 20 prior draws, found -1": lambda: on(
        x_of(), -1.0, dist.Gamma(2.0, 2.0)
    ),
    "site y: expected finite values .*, found nan at index 1": missing,
    r"site y: expected values that fit .* shape \(3,\), found those of shape \(4,\)": lambda: on(
        x_of(dist.Normal(0.0, 1.0).expand([3])), np.zeros(4)
    ),
    "site y: expected an observed value that no latent site": lambda: on(0.0, 1.0 - x_of()),
    "site y: expected numbers, found an array of <U3": lambda: on(x_of(), np.array(["1.0", "two"])),
    r"model: expected at least one observed site .*, found y \(Poisson\)": counts,
    "model: expected at least one latent site": lambda: on(0.0, 1.0),
    "site p: expected sample sites alone": lambda: on(numpyro.param("p", 1.0) + x_of(), 1.0),
    "model: expected sites that do not depend on values, found a cond": branches,
    "site y, within a scan: expected the name that it has outside": renamed_around_a_scan,
    "model: expected .*not depend on values": branching,
    "model: expected .*runs with these arguments, found .*nothing to divide by": failing,
    "site predicted: expected another name": lambda: on(
        numpyro.sample("predicted", dist.Normal(0.0, 1.0)), 1.0
    ),
    "argument model: expected a function": 3,
}


@pytest.mark.parametrize("expected", REFUSED)
def test_what_cannot_be_lifted_is_told(expected):
    with pytest.raises(InputError, match=expected):
        invlift.from_numpyro(REFUSED[expected])
