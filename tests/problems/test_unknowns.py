"""Unknowns by name, in their own units: models, densities, draws and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from crafted import near_prior
from scipy import stats
from structured import box_mesh

import invlift
from invlift.app.runs.sampling import sample
from invlift.app.runs.starts import chosen_starts
from invlift.app.studies.simulate import simulate_problem
from invlift.errors import InputError
from invlift.fem.fields.matern_prior import matern_prior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.noise import gaussian_noise, known_noise, student_t_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.unknowns.distributions import half_normal, lognormal, normal
from invlift.unknowns.named import Unknown
from invlift.unknowns.priors.base import StandardNormalPrior

TIMES = np.linspace(0.0, 2.0, 6)
OBSERVED = np.array([2.1, 1.6, 1.3, 1.05, 0.8, 0.62])
UNKNOWNS = {"start": normal(2.0, 0.5), "rate": dist.Gamma(0.8, 1.0)}


def decay(start, rate):
    return start * jnp.exp(-rate * TIMES)


def decay_and_half_life(start, rate):
    return decay(start, rate), {"half_life": jnp.log(2.0) / rate}


def problem(model=decay, noise=None):
    noise = gaussian_noise(half_normal(0.1)) if noise is None else noise
    return inverse_problem(model, UNKNOWNS, noise, OBSERVED)


def test_chains_start_at_unknowns_by_name():
    given = {"start": [1.5, 2.5], "rate": [0.2, 3.0]}
    made = problem()
    white = chosen_starts(made, given, 2)(None, None, 0).white
    found = np.stack([made.prior.transform(jnp.asarray(each)) for each in white])
    np.testing.assert_allclose(found.T, list(given.values()), rtol=1e-8)
    with pytest.raises(InputError, match="starts, rate: expected values that the distribution can"):
        chosen_starts(made, given | {"rate": [0.2, -3.0]}, 2)
    with pytest.raises(InputError, match=r"'rate': \(2,\).* found .*'start': \(2,\)}"):
        chosen_starts(made, {"start": [1.0, 2.0]}, 2)
    with_field = inverse_problem(
        lambda phi: phi[:3],
        {"phi": matern_prior(box_mesh(2, 2), range=2.0, std=1.0, smoothness=1.0)},
        known_noise(0.1),
        np.zeros(3),
    )
    with pytest.raises(InputError, match="starts, phi: expected a distribution with an inverse"):
        chosen_starts(with_field, {"phi": np.zeros((1, 9))}, 1)


def test_the_density_is_that_of_the_distributions():
    """Of noise and unknowns; a gamma distribution has a coordinate that is not standard normal."""
    given = problem(noise=known_noise(0.5))
    prior, target = given.prior, OrdinaryPosterior(given)

    @jax.jit
    def look(white):
        volume = jnp.linalg.slogdet(jax.jacfwd(prior.transform)(white))[1]
        return prior.transform(white), volume, target.logdensity(white), prior.log_reference(white)

    whites = 0.8 * np.random.default_rng(1).standard_normal((4, 2))
    values, volumes, found, references = map(np.stack, zip(*map(look, whites), strict=True))
    expected = volumes + stats.norm.logpdf(values[:, 0], 2.0, 0.5)
    expected += stats.gamma.logpdf(values[:, 1], 0.8)
    decayed = np.stack([decay(*each) for each in values])
    expected += stats.norm.logpdf(OBSERVED, decayed, 0.5).sum(axis=1)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-9)
    assert np.ptp(found - references - expected) > 0.01  # negative control


def test_draws_have_names():
    posterior = near_prior(problem(decay_and_half_life, known_noise(0.5)))
    draws = posterior.chains[0].draws
    assert set(draws) == {"start", "rate", "half_life", "predicted", "noise_score"}
    np.testing.assert_allclose(draws["half_life"], np.log(2.0) / draws["rate"], rtol=1e-12)
    decayed = draws["start"][:, None] * np.exp(-draws["rate"][:, None] * TIMES)
    np.testing.assert_allclose(draws["predicted"], decayed, rtol=1e-12)
    assert posterior.summary().index.tolist() == ["half_life", "rate", "start"]
    assert posterior.fit.sensors().observed.shape == (6,)


def test_an_unknown_with_the_name_of_a_parameter_of_the_noise_is_refused():
    """Its draws would be those of the noise's parameter."""
    noise = student_t_noise(0.1, lognormal(2.0, 0.7))
    unknowns = {"degrees_of_freedom": normal(100.0, 1.0)}
    with pytest.raises(InputError, match="unknown degrees_of_freedom: expected another name"):
        inverse_problem(lambda degrees_of_freedom: degrees_of_freedom[None], unknowns, noise, [9.0])


def test_simulated_unknowns_are_the_priors():
    """A gamma distribution's coordinate is not standard normal."""
    given, rng = problem(), np.random.default_rng(0)
    white = np.stack([given.prior.sample(rng) for _ in range(100)])
    _, theta = simulate_problem(given, 0)
    np.testing.assert_array_equal(theta[1:], white[0])
    rates = jax.jit(jax.vmap(given.prior.transform))(white)[:, 1]
    assert np.mean(rates) == pytest.approx(0.8, abs=5 * np.sqrt(0.8 / 100))


def test_a_field_and_a_series_are_unknowns_among_others(tmp_path):
    """With axes and units that are those of the draws."""
    prior = matern_prior(box_mesh(2, 2), range=0.8, std=0.5, smoothness=1.0)
    size = prior.num_white
    rows = np.random.default_rng(1).standard_normal((6, size)) / size

    def model(field, yearly, trend):
        return yearly + trend * jnp.arange(6.0) + rows @ jnp.exp(field)

    unknowns = {"field": prior} | yearly_and_trend()
    given = inverse_problem(model, unknowns, known_noise(0.1), np.ones(6))
    posterior = near_prior(given, draws=30)
    draws = posterior.chains[0].draws
    assert draws["field"].shape == (30, size)
    expected = draws["yearly"] + np.outer(draws["trend"], np.arange(6.0))
    expected += np.exp(draws["field"]) @ rows.T
    np.testing.assert_allclose(draws["predicted"], expected, rtol=1e-9)
    names = list(posterior.summary().index)
    assert [name for name in names if "field" not in name] == [
        "trend", *(f"yearly[{year}]" for year in YEARS)
    ]  # fmt: skip
    posterior.write(tmp_path)
    with xr.open_dataset(tmp_path / "posterior.nc", group="posterior", engine="h5netcdf") as draws:
        assert draws["yearly"].dims == ("chain", "draw", "year")
        assert draws["year"].values.tolist() == YEARS
        assert (draws["yearly"].units, draws["trend"].units) == ("mm", "mm/year")


YEARS = [1900, 1901, 1902, 1903, 1904, 1905]


def yearly_and_trend(**changes):
    """A value for each of six years, and their trend."""
    given = {"unit": "mm", "axes": {"year": YEARS}} | changes
    return {
        "yearly": invlift.Unknown(normal(np.zeros(6), 1.0), **given),
        "trend": invlift.Unknown(normal(0.0, 1.0), "mm/year"),
    }


@pytest.mark.parametrize(
    ("model", "unknowns", "message"),
    [
        (decay, UNKNOWNS | {"rate": dist.ImproperUniform(dist.constraints.real, (), ())},
         "unknown rate: expected a proper distribution"),
        (decay, {"start": 2.0, "rate": 1.0}, r"unknown start: expected a distribution .* 2\.0; "),
        (decay, {"sigma": normal(0.0, 1.0)}, "unknown sigma: expected another name"),
        (lambda start, rate: (decay(start, rate), {"rate": 100.0 * rate}), UNKNOWNS,
         "a quantity that the model keeps: .* found 'rate'"),
        (lambda start, rate: (decay(start, rate), {"chain": rate}), UNKNOWNS,
         "draws of chain: expected another name than that of an axis"),
        (decay, UNKNOWNS | {"rate": Unknown(normal(np.zeros(3), 1.0), axes={"row": 3})},
         "unknown rate, axes: expected names of axes with the coordinates"),
        (decay, StandardNormalPrior(jnp.zeros(2)), "argument model: .* found a function; name"),
        (decay, {"start": normal(2.0, 0.5)}, "forward map: .*missing.*'rate'"),
        (lambda start, rate: start, UNKNOWNS, "forward map: expected 6 float64 observations"),
    ],
)  # fmt: skip
def test_mistakes_are_named_in_one_line(model, unknowns, message):
    with pytest.raises(InputError, match=f"^{message}"):
        inverse_problem(model, unknowns, known_noise(0.1), OBSERVED)


def test_an_unknown_is_not_called_as_an_axis():
    def model(start, rate):
        return decay(start, rate), {"path": decay(start, rate)}

    axes = {"path": {"rate": range(6)}}
    with pytest.raises(InputError, match=r"^unknown rate: .* axis of quantity path"):
        inverse_problem(model, UNKNOWNS, known_noise(0.1), OBSERVED, axes=axes)


def test_a_quantity_is_not_called_as_an_axis():
    def model(level):
        return level, {"year": level[0]}

    unknowns = {"level": Unknown(normal(np.zeros(6), 1.0), axes={"year": range(6)})}
    with pytest.raises(InputError, match=r"^draws of year: .* than that of an axis"):
        inverse_problem(model, unknowns, known_noise(0.1), OBSERVED)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"year": YEARS[:5]}, r"unknown yearly, axes: .*shape \(6,\), found 5 along year"),
        ({"year": YEARS, "day": [1]}, "found 6 along year, 1 along day"),
        ({"draw": YEARS}, "found 'draw', which draws have already"),
    ],
)
def test_axes_that_do_not_fit_are_refused(axes, message):
    with pytest.raises(InputError, match=message):
        inverse_problem(
            lambda yearly, trend: yearly, yearly_and_trend(axes=axes), known_noise(0.1), np.ones(6)
        )


def test_an_axis_has_one_meaning():
    unknowns = {
        name: invlift.Unknown(normal(np.zeros(2), 1.0), axes={"place": places})
        for name, places in (("first", ["a", "b"]), ("second", ["a", "c"]))
    }
    with pytest.raises(InputError, match=r"unknown second, axes: .*along place that first has"):
        inverse_problem(lambda first, second: first, unknowns, known_noise(0.1), np.ones(2))


def test_a_long_unknown_is_thinned_where_memory_is_short():
    unknowns = {"latent": normal(np.zeros(1200), 1.0), "scale": lognormal(median=1.0, factor=2.0)}

    def model(latent, scale):
        return scale * latent[:3]

    given = inverse_problem(model, unknowns, known_noise(0.1), np.array([0.3, -0.2, 1.0]))
    options = {"chains": 2, "warmup": 10, "draws": 100, "seed": 4}
    whole = sample(given, "rwm", **options).chains[0]
    run = sample(given, "rwm", **options, max_field_megabytes=0.5)
    assert run.chains[0].every == {"latent": 4}
    np.testing.assert_array_equal(run.chains[0].draws["latent"], whole.draws["latent"][::4])
    posterior = given.posterior(run)
    means = "latent_field_mean", "latent_field_std"
    assert set(posterior.summary().index) == {"scale", *means}
    np.testing.assert_allclose(posterior.draws(means[0])[0], whole.draws["latent"].mean(axis=1))
