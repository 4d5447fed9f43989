"""Posteriors of several modes: those without mass lose no chain, those with mass are all shown."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from hare_lynx import hare_lynx_problem

from invlift import (
    from_numpyro,
    gaussian_noise,
    jax_problem,
    known_noise,
    lognormal,
    sample,
)
from invlift.app.runs.sampling import target_of
from invlift.problems.laplace_approximation import find_mode
from invlift.problems.starts import search as start_search
from invlift.problems.starts.search import find_start
from invlift.samplers.chains.programs import evaluate_state
from invlift.samplers.kernels.chmc import ConstrainedHMC

KERNEL = ConstrainedHMC()


def first_unknowns(problem, num_chains, seed=1):
    """Where chains start: the first of theta behind the noise's parameters, (num_chains,)."""
    target = target_of(problem, KERNEL)
    found = [
        find_start(KERNEL, target, seed, chain, evaluate_state).position
        for chain in range(num_chains)
    ]
    return np.stack(found)[:, problem.noise.num_parameters]


def squares(theta):
    return jnp.tile(theta[:1] ** 2, 3)


def test_chains_start_in_both_of_two_equal_modes():
    """Of more readings than unknowns, and unknown noise."""
    problem = jax_problem(squares, 1, gaussian_noise(lognormal(-3.0, 0.5)), np.full(3, 1.2))
    found = first_unknowns(problem, 24)
    assert 4 <= np.count_nonzero(found > 0.0) <= 20
    np.testing.assert_allclose(np.abs(found), np.sqrt(1.2), atol=0.3)


def test_a_mode_of_a_thousandth_is_left_out_and_one_of_a_tenth_is_not(monkeypatch):
    """Two lines through the reading, one far out; their masses follow from prior and slope."""

    def two_sides(theta, other):
        return jnp.where(theta > 0.0, theta - 1.0, -1.0 - theta / other)

    def shares(other, seed=3):
        args = (jnp.asarray(other),)
        problem = jax_problem(two_sides, 1, known_noise(0.01), np.array([0.0]), arguments=args)
        return np.mean(first_unknowns(problem, 24, seed) < 0.0)

    assert shares(4.0) == 0.0  # exp(-4^2 / 2 + 1 / 2) * 4 = 0.002
    assert 0.1 < shares(2.0) < 0.9  # exp(-2^2 / 2 + 1 / 2) * 2 = 0.45
    # Negative control: one candidate alone.
    monkeypatch.setattr(start_search, "NUM_CANDIDATES", 1)
    assert shares(4.0) > 0.1


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3)], ids=str)
def test_the_mass_of_a_linear_model_is_its_evidence(sizes):
    """From wherever the search starts; of two data sets, as a constant is left out."""
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=sizes)
    cov = matrix @ matrix.T + 0.3**2 * np.eye(sizes[0])
    found, exact = [], []
    log_mass = jax.jit(lambda problem, white: find_mode(problem, jnp.zeros(0), white).log_mass)
    for _ in range(2):
        observed = rng.normal(size=sizes[0])
        problem = jax_problem(lambda theta: matrix @ theta, sizes[1], known_noise(0.3), observed)
        found.append(float(log_mass(problem, rng.normal(size=sizes[1]))))
        exact.append(-0.5 * observed @ np.linalg.solve(cov, observed))
    np.testing.assert_allclose(np.diff(found), np.diff(exact), rtol=1e-8)


def test_starts_of_few_unknowns_are_not_far_above_the_scale_of_the_noise(monkeypatch):
    """Draws are, whose scale is an unknown as any other: with it all readings are explained."""
    readings = np.random.default_rng(2).normal(3.0, 0.2, size=30)

    def model():
        middle = numpyro.sample("middle", dist.Normal(0.0, 3.0))
        scale = numpyro.sample("scale", dist.LogNormal(-1.0, 1.0))
        numpyro.sample("y", dist.Normal(middle, scale).expand([30]).to_event(1), obs=readings)

    problem = from_numpyro(model)
    target = target_of(problem, KERNEL)

    def scales(seed=1):
        found = [
            find_start(KERNEL, target, seed, chain, evaluate_state).position for chain in range(12)
        ]
        thetas = [position[: problem.num_unknowns] for position in found]
        return np.array([problem.model.at(theta).values["scale"] for theta in thetas])

    assert scales().max() < 1.0
    # Negative control: as with many unknowns, where only the modes are compared.
    monkeypatch.setattr(start_search, "FEW_UNKNOWNS", 0)
    assert scales().max() > 2.0


def num_lost(seeds, draws=20):
    """Chains whose noise at the end is over 0.4, of four for each seed."""
    problem = hare_lynx_problem()
    runs = [sample(problem, warmup=60, draws=draws, seed=seed) for seed in seeds]
    ends = [np.mean(chain.draws["sigma"][-10:]) for run in runs for chain in run.chains]
    return np.count_nonzero(np.array(ends) > 0.4)


@pytest.mark.slow  # some 50 chains of an equation solved in 400 steps
def test_no_chain_of_hare_and_lynx_is_lost_to_a_mode_without_mass(monkeypatch):
    assert num_lost(range(6)) == 0
    # Negative control: the first start of each chain, whatever mode it leads to.
    monkeypatch.setattr(start_search, "NUM_CANDIDATES", 1)
    assert num_lost(range(6)) >= 3
