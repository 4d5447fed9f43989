"""A kernel on parts of a target in turn, against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked

from invlift.app.runs.sampling import sample
from invlift.lift.targets.manifold import ManifoldTarget
from invlift.programs.pytrees import Module, static
from invlift.samplers.kernels.alternate import Alternate

SUM = 1.2


class Given(ManifoldTarget):
    """Standard normal (u, v, w) with u exp(v) + w = SUM, given one of them as well."""

    fixed: int = static()
    value: jax.Array
    has_gram_term: bool = static(default=True)

    def constraint(self, position):
        reading = position[0] * jnp.exp(position[1]) + position[2] - SUM
        return jnp.stack([reading, position[self.fixed] - self.value])

    def logdensity(self, position, gram):
        return -0.5 * gram.log_determinant() if self.has_gram_term else 0.0 * position[0]


class InParts(Module):
    """The same without, in two parts."""

    has_gram_term: bool = static(default=True)
    dimension = 3

    def parts(self, position):
        return tuple(Given(fixed, position[fixed], self.has_gram_term) for fixed in (0, 1))

    def describe_position(self, position):
        return {"position": position}, {}

    # For starts, which are moved onto the manifold of the whole.
    def point(self, position):
        return Given(0, position[0]).point(position)

    def apply_jacobian_transpose(self, point, multiplier):
        return Given(0, point.position[0]).apply_jacobian_transpose(point, multiplier)

    def solve_gram(self, point, rhs):
        return Given(0, point.position[0]).solve_gram(point, rhs)


def exact_moments():
    """Of u, v and their squares: w follows from them."""
    grid = np.linspace(-7, 7, 1401)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    third = SUM - first * np.exp(second)
    mass = np.exp(-0.5 * (first**2 + second**2 + third**2))
    values = np.stack([first, second, first**2, second**2])
    return (mass * values).sum((1, 2)) / mass.sum()


def moments(target, draws=2000, chains=4, **options):
    run = sample(target, Alternate(), chains=chains, warmup=200, draws=draws, seed=2, **options)
    position = stacked(run, "position")[..., :2]
    return run, np.concatenate([position, position**2], axis=-1)


def test_parts_in_turn_have_the_whole_distribution():
    run, found = moments(InParts())
    assert_mean_within(found, exact_moments(), min_ess=800)
    draws = stacked(run, "position")
    held = np.abs(np.diff(draws, axis=1)[..., :2]) < 1e-8
    assert held.any(axis=-1).all()  # one of the two, each time
    reading = draws[..., 0] * np.exp(draws[..., 1]) + draws[..., 2]
    assert np.abs(reading - SUM).max() < 1e-8


@pytest.mark.slow
def test_another_density_is_wrong():
    """Negative control."""
    _, found = moments(InParts(has_gram_term=False), draws=1500)
    with pytest.raises(AssertionError):
        assert_mean_within(found, exact_moments(), min_ess=400)


def test_whose_turn_it_is_is_saved(tmp_path):
    """An odd number of draws before the interruption."""
    whole, _ = moments(InParts(), draws=60, chains=2)
    moments(InParts(), draws=21, chains=2, checkpoint=tmp_path)
    resumed, _ = moments(InParts(), draws=60, chains=2, checkpoint=tmp_path, resume=True)
    for one, other in zip(whole.chains, resumed.chains, strict=True):
        np.testing.assert_array_equal(one.draws["position"], other.draws["position"])
