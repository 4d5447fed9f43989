"""A body of 300 m in coordinates of a national grid: the same as at the origin."""

import jax
import numpy as np
from structured import box_mesh

import invlift

PLACES = np.array([[0.31, 0.42], [0.61, 0.72], [0.83, 0.21], [0.12, 0.88]])
GRID = np.array([453210.37, 5501234.81])  # of UTM, in m


def problem_at(corner):
    box = box_mesh(2, 6)
    mesh = invlift.mesh_from_arrays(317.3 * box.points + corner, box.cells)
    values = [3.0e3, 3.3e3, 2.1e3, 1.4e3]
    sensors = invlift.sensors_from_arrays(317.3 * PLACES + corner, values)
    observation = invlift.locate(mesh, sensors)
    forward = invlift.assemble_poisson(mesh, observation, source=1.0, dirichlet={"boundary": 0.0})
    prior = invlift.matern_prior(mesh, range=100.0, std=0.5, smoothness=1.0)
    noise = invlift.known_noise(20.0)
    return invlift.inverse_problem(forward, prior, noise, sensors.values)


def test_readings_and_prior_do_not_depend_on_the_origin():
    white = np.random.default_rng(0).normal(size=problem_at(0.0).prior.num_white)
    found = []
    for corner in (0.0, GRID):
        problem = problem_at(corner)
        field = jax.jit(lambda problem: problem.prior.transform(white))(problem)
        found.append(np.asarray(jax.jit(lambda problem, x: problem.model(x))(problem, field)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8)
