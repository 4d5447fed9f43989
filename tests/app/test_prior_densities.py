"""Densities of a problem's unknowns before the data."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from structured import box_mesh

import invlift
from invlift.app.runs.quantities import quantities_of

FAMILIES = {
    "a": (invlift.normal(2.0, 0.5), stats.norm(2.0, 0.5)),
    "b": (invlift.lognormal(median=3.0, factor=2.0), stats.lognorm(np.log(2.0), scale=3.0)),
    "c": (invlift.uniform(-1.0, 3.0), stats.uniform(-1.0, 4.0)),
    "d": (invlift.half_cauchy(2.0), stats.halfcauchy(scale=2.0)),
    "e": (dist.Gamma(3.0, 2.0), stats.gamma(3.0, scale=0.5)),
}


def made(noise):
    def model(pair, **others):
        return jnp.stack([*others.values(), *pair])

    unknowns = {name: invlift.Unknown(each, "m") for name, (each, _) in FAMILIES.items()}
    unknowns["pair"] = invlift.normal(np.zeros(2), 1.0)
    return invlift.inverse_problem(model, unknowns, noise, np.ones(7))


@pytest.fixture(scope="module")
def quantities():
    scale = invlift.unknown_scale(invlift.half_normal(0.5), [0, 0, 0, 0, 1, 1, 1])
    problem = made(invlift.student_t_noise(scale, invlift.lognormal(median=8.0, factor=1.5)))
    return {each.name: each for each in quantities_of(problem, with_prior=True)}


def test_densities_are_those_of_the_distributions(quantities):
    exact = {name: distribution for name, (_, distribution) in FAMILIES.items()}
    exact["sigma"] = stats.halfnorm(scale=0.5)
    exact["degrees_of_freedom"] = stats.lognorm(np.log(1.5), scale=8.0)
    for name, of in exact.items():
        at, density = quantities[name].prior_density
        assert np.all(np.diff(at) > 0), name
        np.testing.assert_allclose(density, of.pdf(at), rtol=1e-8, err_msg=name)
        assert of.cdf(at[0]) < 1e-4, name
        assert of.sf(at[-1]) < 1e-4, name
        # between the points it is drawn as a line
        between = (at[1:] + at[:-1]) / 2
        error = np.interp(between, at, density) - of.pdf(between)
        assert np.abs(error).max() < 1e-3 * density.max(), name


def test_of_a_vector_or_where_nothing_is_asked_there_is_none(quantities):
    assert quantities["pair"].prior_density is None
    assert quantities["a"].unit == "m"
    found = quantities_of(made(invlift.known_noise(0.1)))
    assert all(each.prior_density is None for each in found)


def test_an_unknown_range_of_a_field_has_a_density():
    mesh = box_mesh(2, 2)
    prior = invlift.matern_prior(
        mesh, range=invlift.lognormal(median=1.0, factor=1.5), std=0.5, smoothness=1.0
    )
    problem = invlift.inverse_problem(
        lambda phi: phi[:2], {"phi": prior}, invlift.known_noise(0.1), np.ones(2)
    )
    found = {each.name: each.prior_density for each in quantities_of(problem, with_prior=True)}
    at, density = found["phi_prior_range"]
    np.testing.assert_allclose(density, stats.lognorm(np.log(1.5)).pdf(at), rtol=1e-8)
    assert "phi_prior_std" not in found
