"""Transitions leave known densities on curved manifolds invariant."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked
from sampler_cases import SPHERE, RelativeDensity, on_sphere, skewed

from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.constrained import retractions
from invlift.samplers.kernels import ConstrainedHMC, ConstrainedNUTS, constrained

QUARTER_PERIOD = ConstrainedHMC()


def features(positions):
    """Coordinates and their squares and products, all of which the density makes unequal."""
    products = [positions[..., i] * positions[..., j] for i in range(3) for j in range(i, 3)]
    # The squares add to one: the last is no news.
    return np.concatenate([positions, np.stack(products[:-1], axis=-1)], axis=-1)


def sphere_moments(logdensity=skewed):
    """Exact expectations: Gauss-Legendre in height, the trapezoidal rule in longitude."""
    height, weight = np.polynomial.legendre.leggauss(80)
    longitude = np.linspace(0, 2 * np.pi, 160, endpoint=False)
    radius = np.sqrt(1 - height**2)[:, None]
    positions = np.stack(
        [
            radius * np.cos(longitude),
            radius * np.sin(longitude),
            np.broadcast_to(height[:, None], (80, 160)),
        ],
        axis=-1,
    )
    density = np.exp(jax.jit(jnp.vectorize(logdensity, signature="(q)->()"))(positions))
    mass = weight[:, None] * density
    return np.einsum("ij,ijk->k", mass, features(positions)) / mass.sum()


def positions_from(system, kernel, draws):
    plan = Plan(kernel, 200, draws)
    starts = np.random.default_rng(3).normal(size=(4, 3))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    return run_chains(system, plan, starts, seed=5)


def test_moments_of_a_skewed_density_on_the_sphere():
    run = positions_from(SPHERE, ConstrainedNUTS(), 1500)
    positions = stacked(run, "position")
    np.testing.assert_allclose(np.linalg.norm(positions, axis=-1), 1.0, atol=1e-9)
    assert_mean_within(features(positions), sphere_moments(), min_ess=1000)
    for chain in run.chains:
        assert 0.6 < chain.stats["acceptance_rate"].mean() < 0.98
        assert chain.stats["constraint_error"].max() < 1e-10
    # Negative control: the linear term of the density is a third smaller.
    other = sphere_moments(lambda position: skewed(position) - 0.5 * position[0])
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(features(positions), other, min_ess=1000)


def on_flower(position):
    """A closed curve with five petals, on which many a line has several roots."""
    angle = jnp.arctan2(position[1], position[0])
    return jnp.reshape(jnp.hypot(position[0], position[1]) - petals(angle), 1)


def petals(angle):
    return 1.0 + 0.3 * jnp.cos(5 * angle)


def tilted(position):
    return 1.5 * position[0]


FLOWER, STEP_SIZE, REPEATED = RelativeDensity(on_flower, tilted), 0.6, 1000


def walk_on_flower(kernel=QUARTER_PERIOD, num_draws=4000):
    """Squared coordinates (chains, draws, 2) by steps that often cannot be reversed.

    With the information of each transition, and for the first REPEATED of each chain the state
    and key that it starts from.
    """

    def run(rng_key):
        def body(state, key):
            moved, info = kernel.step(FLOWER, key, state, STEP_SIZE)
            return moved, (kernel.position(moved), info, (state, key))

        start = kernel.init(FLOWER, jnp.asarray([petals(0.0), 0.0]))
        positions, info, begins = jax.lax.scan(body, start, jax.random.split(rng_key, num_draws))[1]
        return positions, info, jax.tree.map(lambda each: each[:REPEATED], begins)

    positions, info, begins = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 8))
    info = {name: np.asarray(values) for name, values in info.items()}
    return np.asarray(positions) ** 2, info, begins


def repeated(begins, kernel=QUARTER_PERIOD):
    """The same transitions, from the same states: chains would add up rounding."""

    def step(begin):
        moved, info = kernel.step(FLOWER, begin[1], begin[0], STEP_SIZE)
        return info | {"position": kernel.position(moved)}

    found = jax.jit(jax.vmap(lambda each: jax.lax.map(step, each)))(begins)
    return {name: np.asarray(values) for name, values in found.items()}


def share_decided_otherwise(info, other):
    names = ("num_projection_failures", "num_steps", "is_accepted")
    return np.mean(np.any([np.not_equal(info[name], other[name]) for name in names], axis=0))


def flower_squares():
    angle = np.linspace(0, 2 * np.pi, 4000, endpoint=False)
    radius, slope = np.asarray(petals(angle)), -1.5 * np.sin(5 * angle)
    positions = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    mass = np.hypot(radius, slope) * np.exp(1.5 * positions[:, 0] - 0.5 * radius**2)
    return mass @ positions**2 / mass.sum()


@pytest.fixture(scope="module")
def flower():
    return walk_on_flower()


def first_of(info):
    return {name: values[:, :REPEATED] for name, values in info.items()}


def test_irreversible_steps_are_rejected_and_the_density_stays_right(flower):
    squares, info, _ = flower
    assert 0.5 < np.mean(info["num_projection_failures"]) < 0.7
    rejected = info["num_projection_failures"] > 0
    np.testing.assert_array_equal(info["acceptance_rate"][rejected], 0.0)
    assert not np.any(info["is_accepted"][rejected])
    assert_mean_within(squares, flower_squares(), min_ess=2000)


def test_stopping_early_on_the_way_back_changes_next_to_no_decision(monkeypatch, flower):
    _, info, begins = flower
    info = first_of(info)
    monkeypatch.setattr(retractions, "CERTAIN_ERROR", 0.0)
    to_the_end = repeated(begins)
    # Rounding decides where the way back comes to the edge between two roots: 0 or 1 of 32,000.
    assert share_decided_otherwise(info, to_the_end) < 1e-4
    failures = info["num_projection_failures"]
    assert failures.sum() > 1000
    counts, counts_to_the_end = (
        some["num_factorisations"][failures == 0].mean() for some in (info, to_the_end)
    )
    # Both end within the tolerance of the start, which is wide; the exact check does not.
    assert counts < 0.95 * counts_to_the_end
    # Negative control: every way back is taken for one that leads to the start, and that is told.
    monkeypatch.setattr(retractions, "CERTAIN_ERROR", 1e3)
    monkeypatch.setattr(retractions, "CERTAIN_CONTRACTION", 1e3)
    wrong = repeated(begins)
    assert share_decided_otherwise(info, wrong) > 1e-3
    num_audits, num_wrong = wrong["num_return_audits"], wrong["num_return_disagreements"]
    assert num_wrong.sum() > 0.05 * num_audits.sum() > 10
    # Beyond those that the exact check found, failures are steps that did not arrive.
    assert np.all(num_wrong <= wrong["num_projection_failures"])


@pytest.mark.slow
def test_audits_cost_little_agree_and_leave_the_draws_as_they_are(monkeypatch, flower):
    squares, info, begins = flower
    monkeypatch.setattr(constrained, "AUDITED", 0.0)
    unaudited = repeated(begins)
    info = first_of(info)
    assert share_decided_otherwise(info, unaudited) < 1e-4
    differ = np.abs(unaudited["position"] ** 2 - squares[:, :REPEATED]).max(axis=-1) > 1e-6
    assert differ.mean() < 1e-4
    assert unaudited["num_return_audits"].sum() == 0
    assert info["num_return_audits"].sum() > 200
    assert info["num_return_disagreements"].sum() == 0
    totals = [each["num_factorisations"].sum() for each in (info, unaudited)]
    assert totals[1] < totals[0] < 1.02 * totals[1]


@pytest.mark.slow
def test_exact_check_follows_the_way_back_to_its_end_and_decides_the_same(flower):
    _, info, begins = flower
    info = first_of(info)
    exact = repeated(begins, ConstrainedHMC(return_check="exact"))
    assert share_decided_otherwise(info, exact) < 1e-4
    assert exact["num_return_audits"].sum() == 0
    counts, exact_counts = info["num_factorisations"], exact["num_factorisations"]
    assert np.mean(exact_counts < counts) < 1e-4
    complete = info["num_projection_failures"] == 0
    assert exact_counts[complete].mean() > 1.1 * counts[complete].mean()


@pytest.mark.slow
def test_without_the_reversibility_check_the_density_is_wrong(monkeypatch):
    """Negative control of the check itself."""
    monkeypatch.setattr(retractions, "REVERSIBILITY_TOLERANCE", jnp.inf)
    squares, *_ = walk_on_flower(num_draws=2000)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(squares, flower_squares(), min_ess=2000)


# Momentum that is kept ----------------------------------------------------------------------------


class NeverReversing(ConstrainedHMC, settings=True):
    """A chain that goes on in the old direction after a rejection: a wrong one."""

    def step(self, target, rng_key, state, tuning):
        new, info = super().step(target, rng_key, state, tuning)
        return new._replace(momentum=jnp.where(info["is_accepted"], 1, -1) * new.momentum), info


@pytest.mark.slow
def test_momentum_that_is_kept_leaves_the_density_right():
    squares, *_ = walk_on_flower(ConstrainedHMC(persistence=0.9), 6000)
    assert_mean_within(squares, flower_squares(), min_ess=1500)


@pytest.mark.slow
def test_momentum_not_reversed_by_a_rejection_makes_the_density_wrong():
    """Negative control of the reversal."""
    squares, *_ = walk_on_flower(NeverReversing(persistence=0.9), 6000)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean_within(squares, flower_squares(), min_ess=1500)


@jax.jit
@partial(jax.vmap, in_axes=(0, None, None, None))
def transitions(rng_key, step_size, momentum, has_momentum):
    """From the pole of a sphere."""
    state = ConstrainedHMC().init(SPHERE, jnp.eye(3)[0])
    state = state._replace(momentum=momentum, has_momentum=has_momentum)
    end, info = ConstrainedHMC().step(SPHERE, rng_key, state, step_size)
    return end.point.position, info


def info_of_steps(step_size):
    keys = jax.random.split(jax.random.key(2), 200)
    info = transitions(keys, step_size, np.zeros(3), np.array(False))[1]
    is_complete = np.asarray(info["num_projection_failures"]) == 0
    return np.asarray(info["num_steps"])[is_complete], is_complete


def test_first_momentum_depends_on_the_last_one_only_if_there_is_one():
    keys = jax.random.split(jax.random.key(1), 200)
    for has_momentum in (False, True):
        first, second = (
            transitions(keys, 0.3, momentum, np.array(has_momentum))[0]
            for momentum in np.eye(3)[[2, 1]]
        )
        assert (np.max(np.abs(np.subtract(first, second))) > 0.01) == has_momentum


# Trajectories that end before their time ----------------------------------------------------------


def test_transition_whose_every_step_fails_stays_where_it_is():
    """A density that is finite at the start alone."""
    kernel, start = ConstrainedNUTS(), jnp.asarray([0.0, 0.0, 1.0])

    def only_at_the_start(position):
        return jnp.where(position[2] == 1.0, 0.0, -jnp.inf)

    system = RelativeDensity(on_sphere, only_at_the_start)
    state, info = jax.jit(lambda key: kernel.step(system, key, kernel.init(system, start), 0.3))(
        jax.random.key(1)
    )
    np.testing.assert_array_equal(kernel.position(state), start)
    assert info["acceptance_rate"] == 0.0
    assert not info["is_accepted"]
    assert info["num_projection_failures"] == 1
    assert jnp.isfinite(info["energy"])


def test_trajectories_last_about_a_quarter_period_whatever_the_step_size():
    for step_size in (0.1, 0.5, 1.5):
        complete, _ = info_of_steps(step_size)
        assert complete.size > 20
        shortest, longest = np.ceil(0.5 * np.pi * np.array([0.7, 1.3]) / step_size)
        assert shortest <= complete.min() < complete.max() <= longest


def test_trajectories_of_very_short_steps_end_early():
    """The shortest step of a quarter period would take 785."""
    for size, most in ((2e-3, 100), (0.05, 42)):
        nums, is_complete = info_of_steps(size)
        assert is_complete.all()
        assert most / 3 < nums.min() <= nums.max() <= most
