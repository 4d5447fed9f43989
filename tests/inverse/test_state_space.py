"""State-space models against the Kalman filter, quadrature and dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked

from invlift.app.results import build_posterior
from invlift.app.sampling import sample
from invlift.errors import InputError
from invlift.inverse.distributions import lognormal, normal
from invlift.inverse.targets.explicit_manifold import ExplicitManifold
from invlift.inverse.targets.state_space import StateSpacePosterior, state_space

UNKNOWNS = {"rate": normal(0.7, 0.2), "error": lognormal(median=0.3, factor=1.6)}
MOVE = 0.5


def follow(time, state, noise, rate, **_):
    return rate * state + MOVE * noise


def begin(noise, **_):
    return noise


def scale(error, **_):
    return error


def simulated(num_times=30):
    rng = np.random.default_rng(5)
    state, readings = rng.standard_normal(), []
    for _ in range(num_times):
        readings.append(state + 0.3 * rng.standard_normal())
        state = 0.8 * state + MOVE * rng.standard_normal()
    return np.array(readings)


def kalman(rate, sigma, readings):
    """Log likelihood of an autoregressive state that is read with noise."""
    mean, variance, total = 0.0, 1.0, 0.0
    for reading in readings:
        spread = variance + sigma**2
        total = total - 0.5 * np.log(spread) - 0.5 * (reading - mean) ** 2 / spread
        gain = variance / spread
        mean, variance = mean + gain * (reading - mean), (1.0 - gain) * variance
        mean, variance = rate * mean, rate**2 * variance + MOVE**2
    return total


def test_posterior_is_that_of_the_kalman_filter():
    readings = simulated()
    target = state_space(follow, begin, UNKNOWNS, readings, scale)
    run = sample(target, chains=4, warmup=200, draws=1000, seed=2)
    rate, sigma = np.meshgrid(np.linspace(-0.1, 1.5, 301), np.linspace(0.01, 1.4, 301))
    log_density = kalman(rate, sigma, readings) - 0.5 * ((rate - 0.7) / 0.2) ** 2
    log_density += UNKNOWNS["error"].log_density_of_log(jnp.log(sigma))
    mass = np.exp(log_density - log_density.max())
    exact = [(mass * each).sum() / mass.sum() for each in (rate, sigma, sigma**2)]
    found = [stacked(run, "rate"), stacked(run, "error"), stacked(run, "error") ** 2]
    assert_mean_within(np.stack(found, axis=-1), exact, min_ess=500)
    assert run.chains[0].draws["path"].shape == (1000, 30, 1)
    summary = build_posterior(target, run).summary()
    assert {"rate", "error"} <= set(summary.index)


class WithoutStretch(StateSpacePosterior):
    """Negative control: as if c were solved for readings."""

    def logdensity(self, position, gram):
        return -0.5 * gram.log_determinant()


def test_what_is_read_may_be_a_function_with_an_inverse():
    """Two readings asinh(x) + noise, against quadrature over both states."""
    readings, sigma = np.array([1.4, 0.2]), 0.5

    def recover(reading, **_):
        return jnp.sinh(reading)

    unknowns = {"rate": normal(0.7, 0.2)}
    target = state_space(follow, begin, unknowns, readings, lambda **_: sigma, recover=recover)
    first, second = np.meshgrid(np.linspace(-6, 6, 1201), np.linspace(-6, 6, 1201), indexing="ij")
    misfit = (np.arcsinh(first) - readings[0]) ** 2 + (np.arcsinh(second) - readings[1]) ** 2
    spread = MOVE**2 + (0.2 * first) ** 2  # of the second, the rate integrated out
    energy = first**2 + (second - 0.7 * first) ** 2 / spread + np.log(spread) + misfit / sigma**2
    mass = np.exp(-0.5 * energy)
    exact = [(mass * each).sum() / mass.sum() for each in (first, second, first**2)]

    def moments(target):
        path = stacked(sample(target, chains=4, warmup=200, draws=2000, seed=3), "path")[..., 0]
        return np.stack([path[..., 0], path[..., 1], path[..., 0] ** 2], axis=-1)

    assert_mean_within(moments(target), exact, min_ess=1000)
    fields = [getattr(target, name) for name in target.__dataclass_fields__]
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(moments(WithoutStretch(*fields)), exact, min_ess=1000)


def turning(time, state, noise, rate, **_):
    return jnp.tanh(rate * state[::-1]) + 0.1 * time + MOVE * noise[:2] * jnp.exp(0.1 * noise[2])


def pair(num_times):
    readings = np.random.default_rng(1).standard_normal((num_times, 2))
    return state_space(
        turning, lambda noise, **_: noise[:2], UNKNOWNS, readings, scale, num_noise=3,
        recover=lambda reading, **_: reading + 0.1 * reading[::-1] ** 3,
    )  # fmt: skip


def test_it_is_that_of_dense_matrices():
    target = pair(6)
    position = 0.4 * np.random.default_rng(2).standard_normal(target.dimension)
    dense = ExplicitManifold(target.constraint, lambda at: 0.0 * at[0])
    one, other = jax.jit(lambda at: (target.point(at), dense.point(at)))(position)
    moved = np.linspace(-1.0, 1.0, 12)
    np.testing.assert_allclose(one.gram.solve(moved), other.gram.solve(moved), rtol=1e-10)
    determinants = [each.gram.log_determinant() for each in (one, other)]
    np.testing.assert_allclose(*determinants, rtol=1e-11)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observed": [0.1, np.nan]}, "observed: .* finite numbers, found nan in row 1"),
        ({"observed": np.zeros((2, 0))}, r"observed: .*found \(2, 0\)"),
        ({"unknowns": UNKNOWNS | {"path": normal(0, 1)}}, "unknown path: expected another name"),
        ({"initial": lambda noise, **_: noise[0]}, r"initial: expected a state of shape \(1,\)"),
        ({"transition": lambda *_, **__: jnp.zeros(2)}, r"transition: .* found \(2,\)"),
        ({"recover": lambda *_, **__: jnp.zeros(2)}, r"recover: .* found \(2,\)"),
        ({"scale": lambda **_: jnp.zeros(2)}, r"scale: expected a number, or 1 of them"),
    ],
)
def test_bad_input(changes, message):
    arguments = {"transition": follow, "initial": begin, "unknowns": UNKNOWNS, "scale": scale}
    with pytest.raises(InputError, match=message):
        state_space(**(arguments | {"observed": [0.1, 0.2]} | changes))
