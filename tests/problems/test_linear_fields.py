"""Field problems whose posterior is Gaussian: conditions in doubt."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import skfem
from structured import box_mesh, interior_points

import invlift
from invlift.errors import InputError
from invlift.fem.equations.forms import conduction
from invlift.noise import known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.laplace_approximation import laplace_approximation
from invlift.unknowns.distributions import normal

SIGMA = 0.2


def conditioned(mean, covariance, rows, readings):
    """Mean and covariance of a Gaussian vector given linear readings of it (kriging)."""
    gain = (
        covariance
        @ rows.T
        @ np.linalg.inv(rows @ covariance @ rows.T + SIGMA**2 * np.eye(len(rows)))
    )
    return mean + gain @ (readings - rows @ mean), covariance - gain @ rows @ covariance


def within(found):
    """Covariance of the standard normal variables."""
    along, precisions = np.asarray(found.directions), np.asarray(found.precisions)
    return np.eye(found.mode.size) + along * (1.0 / precisions - 1.0) @ along.T


def in_doubt():
    """A body of known conductivity, whose source, held values and one logger are in doubt."""
    mesh = box_mesh(2, 4)
    sensors = invlift.sensors_from_arrays(
        interior_points(2, 5), [1.0, 1.4, 0.7, 1.2, 0.9], groups=["a", "a", "b", "b", "b"]
    )
    observation = invlift.locate(mesh, sensors, offsets={"a": normal(0.0, 0.5)})
    model = invlift.assemble_poisson(
        mesh, observation, source=normal(2.0, 1.0),
        dirichlet={"left": normal(1.0, 0.3), "right": invlift.random_field(0.5, 0.4, 1.0)},
    )  # fmt: skip
    prior = invlift.matern_prior(mesh, range=1.0, std=1e-9, smoothness=1.0)
    problem = inverse_problem(model, prior, known_noise(SIGMA), sensors.values)
    return problem, sensors.values


def exact(problem, readings, spread=1.0):
    """Mean and covariance of what is in doubt."""
    parts = problem.model.on_mesh.further.values()
    mean = np.concatenate([np.ravel(each.transform(jnp.zeros(each.num_white))) for each in parts])
    sds = np.concatenate([np.broadcast_to(each.sd, each.shape).ravel() for each in parts])
    linear = jax.jit(problem.model.value_and_jacobian)(np.concatenate([np.zeros(25), mean]))
    value, rows = np.asarray(linear[0]), np.asarray(linear[1])[:, 25:]
    return conditioned(mean, np.diag((spread * sds) ** 2), rows, readings - value + rows @ mean)


def test_conditions_in_doubt_have_their_gaussian_posterior():
    """That of Laplace, which is exact; of the field nothing is in doubt."""
    problem, readings = in_doubt()
    mean, covariance = exact(problem, readings)
    found = laplace_approximation(problem)
    transform = problem.prior.transform
    values, slopes = jax.jit(lambda at: (transform(at), jax.jacfwd(transform)(at)))(found.mode)
    np.testing.assert_allclose(values[25:], mean, atol=1e-6)
    spread = slopes[25:] @ within(found) @ slopes[25:].T
    np.testing.assert_allclose(spread, covariance, atol=1e-6)
    # Negative control: conditions half as much in doubt.
    other_mean, other = exact(problem, readings, spread=0.5)
    assert np.abs(values[25:] - other_mean).max() > 1e-2
    assert np.abs(spread - other).max() > 1e-2


# Meshes and orders --------------------------------------------------------------------------------


def renumbered(mesh):
    """The same body, with its nodes in another order."""
    order = np.random.default_rng(0).permutation(mesh.num_nodes)
    return invlift.mesh_from_arrays(mesh.points[order], np.argsort(order)[mesh.cells])


def on(mesh, **settings):
    return invlift.matern_prior(mesh, range=1.0, std=1.0, smoothness=1.0, **settings)


@pytest.mark.parametrize("is_own_equation", [False, True])
def test_a_field_is_on_the_mesh_of_its_equation(is_own_equation):
    """And its coefficients are where those of the equation are, among named unknowns also."""
    mesh, places = box_mesh(2, 4), interior_points(2, 3)
    if is_own_equation:
        basis = skfem.Basis(skfem.MeshTri(mesh.points.T, mesh.cells.T), skfem.ElementTriP1())
        model = invlift.linear_equation(
            invlift.Form(basis, conduction),
            readings=basis.probes(places.T),
            held=basis.get_dofs(lambda x: x[0] < 1e-9),
            inputs=[invlift.Input(basis.N, load=np.ones(basis.N))],
        )
    else:
        observation = invlift.locate(mesh, invlift.sensors_from_arrays(places, np.zeros(3)))
        conditions = {"source": normal(1.0, 0.1), "dirichlet": {"left": 0.0}}
        model = invlift.assemble_poisson(mesh, observation, **conditions)
    number = normal(1.0, 0.1)

    def given(**unknowns):
        return inverse_problem(model, unknowns, 0.1, np.zeros(3))

    assert given(phi=on(mesh), strength=number).num_unknowns == mesh.num_nodes + 1
    for other in (renumbered(mesh), box_mesh(2, 4, size=1e3)):
        with pytest.raises(
            InputError, match="argument prior: expected a field on the model's mesh"
        ):
            given(phi=on(other), strength=number)
    with pytest.raises(InputError, match="begin at 0, found one that begins at 1; give the unknow"):
        given(strength=number, phi=on(mesh))
