"""A smooth threshold of a field: values, moments, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from structured import box_mesh

from invlift.errors import InputError
from invlift.fem.fields.inclusions import inclusion_prior
from invlift.fem.fields.matern_prior import matern_prior
from invlift.unknowns.distributions import lognormal

FIELD = {"range": 0.5, "smoothness": 2.0}
SETTINGS = {"background": 2.0, "inclusion": 30.0, "share": 0.2, "width": 0.3, **FIELD}


@pytest.fixture(scope="module")
def mesh():
    return box_mesh(2, 5)


def test_the_realised_deviation_is_that_of_draws(mesh):
    """Against quadrature over the field and over unknown conductivities at each node."""
    known = inclusion_prior(mesh, **SETTINGS)
    unknown = inclusion_prior(
        mesh, **SETTINGS | {"background": lognormal(median=2.0, factor=1.5), "inclusion": lognormal(
            median=30.0, factor=2.0
        )}
    )  # fmt: skip
    field = known.prior.parts["field"]
    grid = np.linspace(-9.0, 9.0, 20001)
    weights = stats.norm.pdf(grid) * (grid[1] - grid[0])
    level = np.asarray(field.mean)[:, None] + field.pointwise_std()[:, None] * grid
    share = stats.norm.cdf(level / 0.3)
    low, high = np.log(2.0), np.log(30.0)
    phi = low + (high - low) * share
    mean = phi @ weights
    variance = (phi**2) @ weights - mean**2
    np.testing.assert_allclose(known.pointwise_std(), np.sqrt(variance), rtol=1e-6)
    sds = np.log(1.5), np.log(2.0)
    variance += sds[0] ** 2 * ((1.0 - share) ** 2 @ weights) + sds[1] ** 2 * (share**2 @ weights)
    np.testing.assert_allclose(unknown.pointwise_std(), np.sqrt(variance), rtol=1e-6)
    # negative control: with a sharp step it is wider
    sharp = inclusion_prior(mesh, **SETTINGS | {"width": 0.05}).pointwise_std()
    assert np.all(sharp > 1.05 * known.pointwise_std())


MATERIALS = {"resistive": 0.1, "conductive": 30.0}
TWO = {"background": 2.0, "inclusion": MATERIALS, "share": 0.3, "width": 0.3}


def test_two_materials_are_on_two_sides_of_a_field(mesh):
    """Values, shares and the deviation, against quadrature."""
    prior = inclusion_prior(mesh, **TWO, **FIELD)
    white = np.random.default_rng(2).standard_normal(prior.num_white)
    threshold = -np.hypot(1.0, 0.3) * stats.norm.ppf(0.15)
    field = matern_prior(mesh, std=1.0, boundary="robin", **FIELD)
    transform = jax.jit(lambda prior, white: prior.transform(white))

    def shares(level):
        return [stats.norm.cdf((side * level - threshold) / 0.3) for side in (-1.0, 1.0)]

    def phi(level):
        below, above = shares(level)
        return np.log(2.0) + np.log(0.05) * below + np.log(15.0) * above

    expected = phi(np.asarray(transform(field, white)))
    np.testing.assert_allclose(transform(prior, white), expected, rtol=1e-10)
    assert expected.min() < np.log(0.5)
    assert expected.max() > np.log(10.0)
    grid = np.linspace(-9.0, 9.0, 20001)
    weights = stats.norm.pdf(grid) * (grid[1] - grid[0])
    np.testing.assert_allclose([each @ weights for each in shares(grid)], 0.15, rtol=1e-6)
    level = phi(field.pointwise_std()[:, None] * grid)
    variance = (level - (level @ weights)[:, None]) ** 2 @ weights
    np.testing.assert_allclose(prior.pointwise_std(), np.sqrt(variance), rtol=1e-6)
    # negative control: one material alone has another deviation
    one = inclusion_prior(mesh, background=2.0, inclusion=30.0, share=0.15, width=0.3, **FIELD)
    assert np.all(one.pointwise_std() < 0.9 * prior.pointwise_std())


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        ("resistive and conductive, found resistive, conductive, inclusion", {"inclusion": 3.0}),
        ("expected resistive and conductive, found conductive", {"resistive": None}),
        ("a resistive material below the background", {"resistive": 3.0}),
        ("a resistive material below", {"conductive": lognormal(median=1.0, factor=2.0)}),
    ],
)
def test_materials_that_do_not_fit_are_named(mesh, match, changes):
    materials = {name: each for name, each in (MATERIALS | changes).items() if each}
    with pytest.raises(InputError, match=match):
        inclusion_prior(mesh, **TWO | FIELD | {"inclusion": materials})


def test_what_is_unknown_has_a_name(mesh):
    inclusion = lognormal(median=30.0, factor=2.0)
    prior = inclusion_prior(mesh, **SETTINGS | {"inclusion": inclusion})
    assert prior.distributions == {"prior_inclusion": inclusion}
    white = np.zeros(prior.num_white)
    white[-1] = 1.0
    found = {name: float(each) for name, each in prior.parameters(jnp.asarray(white)).items()}
    assert found == pytest.approx({"prior_inclusion": 60.0})


@pytest.mark.parametrize(
    ("match", "changes"),
    [
        ("prior share: expected a number between 0 and 1", {"share": 1.0}),
        ("prior width: ", {"width": 0.0}),
        ("prior background: expected a positive number, found -1", {"background": -1.0}),
        ("prior inclusion: ", {"inclusion": lognormal(median=2.0, factor=50.0)}),
        ("prior range: ", {"range": 99.0}),
        ("prior range: expected a number, found Lognormal", {"range": lognormal(0.0, 0.3)}),
    ],
)
def test_bad_input_is_named(mesh, match, changes):
    with pytest.raises(InputError, match=match):
        inclusion_prior(mesh, **SETTINGS | changes)
