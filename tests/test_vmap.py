"""Chains side by side in one program, as an accelerator would run them, on the lifted equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from structured import box_mesh

import invlift
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.problems.starts.fit import initial_position
from invlift.samplers.kernels import ConstrainedHMC


@pytest.fixture(scope="module")
def lifted():
    mesh = box_mesh(2, 8)
    rng = np.random.default_rng(0)
    sensors = invlift.sensors_from_arrays(rng.uniform(0.2, 0.8, (3, 2)), np.zeros(3))
    forward = invlift.assemble_poisson(
        mesh, invlift.locate(mesh, sensors), source=1.0, dirichlet={"boundary": 0.0}
    )
    prior = invlift.matern_prior(mesh, range=0.5, std=1.0, smoothness=1.0)
    truth = jnp.asarray(0.5 * np.sin(4 * mesh.points[:, 0]))
    observed = np.asarray(forward(truth))
    noise = invlift.gaussian_noise(invlift.lognormal(-6.0, 1.0))
    return LiftedPosterior(invlift.inverse_problem(forward, prior, noise, observed))


def transition(lifted, key, step_size):
    key_start, key_move = jax.random.split(key)
    kernel, position = ConstrainedHMC(), initial_position(lifted.problem, key_start)
    end, info = kernel.step(lifted, key_move, kernel.init(lifted, position), step_size)
    return position, kernel.position(end), info


@pytest.mark.slow
def test_vmap_over_chains_is_the_same_as_one_after_another(lifted):
    keys = jax.random.split(jax.random.key(1), 5)
    # Steps of different sizes: chains take different numbers of steps and projections.
    sizes = jnp.asarray([0.3, 0.5, 0.7, 0.9, 1.5])
    together = jax.jit(jax.vmap(transition, in_axes=(None, 0, 0)))(lifted, keys, sizes)
    alone = jax.jit(transition)
    counts = set()
    for chain, (key, size) in enumerate(zip(keys, sizes, strict=True)):
        start, end, info = alone(lifted, key, size)
        np.testing.assert_allclose(together[0][chain], start, rtol=0, atol=1e-8)
        np.testing.assert_allclose(together[1][chain], end, rtol=0, atol=1e-6)
        assert together[2]["num_steps"][chain] == info["num_steps"]
        assert together[2]["is_accepted"][chain] == info["is_accepted"]
        counts.add(int(info["num_factorisations"]))
    assert len(counts) > 1
    # Negative control: chains are not all the same.
    assert np.ptp(np.asarray(together[1]), axis=0).max() > 0.1
