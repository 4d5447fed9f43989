"""Fields on a mesh among named unknowns: their files, maps, values at points and means."""

import jax
import jax.numpy as jnp
import meshio
import numpy as np
import pandas as pd
import pytest
from crafted import run_from_prior
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from structured import box_mesh

import invlift
from invlift.app.commands import check, simulate
from invlift.app.studies.simulate import prior_draws
from invlift.noise import known_noise
from invlift.problems.inverse_problem import inverse_problem
from invlift.unknowns.distributions import lognormal


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of results of two fields, and the posterior."""
    mesh = box_mesh(2, 3)
    rows = np.random.default_rng(1).standard_normal((3, mesh.num_nodes)) / mesh.num_nodes

    def model(phi, source, offset):
        return offset + rows @ jnp.exp(phi) + jnp.sum(source) * jnp.arange(3.0)

    prior = invlift.matern_prior(mesh, range=0.8, std=0.5, smoothness=1.0)
    unknowns = {
        "phi": invlift.Unknown(prior, "ln m"),
        "source": invlift.independent_prior(mesh, std=0.3),
        "offset": invlift.normal(0, 1),
    }
    problem = inverse_problem(model, unknowns, known_noise(0.05), np.array([0.3, 0.1, 0.2]))
    folder = tmp_path_factory.mktemp("named")
    problem.posterior(run_from_prior(problem)).write(folder)
    return folder, invlift.load(folder)


def test_fields_are_written_on_their_mesh(written):
    folder, posterior = written
    grid = meshio.read(folder / "posterior.vtu")
    assert posterior.draws("phi")[0].shape == (10, len(grid.points))
    assert {"phi_mean [ln m]", "phi_sd [ln m]"} <= set(grid.point_data)
    assert "phi_variance_reduction" in grid.point_data
    assert {"source_mean", "source_q95", "source_prior_sd"} <= set(grid.cell_data)
    means = np.concatenate(posterior.draws("phi")).mean(axis=0)
    np.testing.assert_allclose(grid.point_data["phi_mean [ln m]"], means, rtol=1e-9)
    np.testing.assert_allclose(grid.cell_data["source_prior_sd"][0], 0.3)
    titles = [axes.get_title(loc="left") for axes in posterior.plot.fields().figure.axes]
    means = [title for title in titles if "mean" in title]
    assert means == ["phi, posterior mean", "source, posterior mean"]


def test_values_at_points_and_means_are_of_each_field(written):
    _, posterior = written
    mesh = posterior.mesh
    at = posterior.at(mesh.points[[4, 7]], "phi")
    np.testing.assert_allclose(at.values[0], posterior.draws("phi")[0][:, [4, 7]], rtol=1e-9)
    assert at.attrs["units"] == "ln m"
    assert posterior.at(pd.DataFrame(mesh.points[[4, 7]], columns=["x", "y"]), "phi").equals(at)
    centres = mesh.points[mesh.cells[[2, 5]]].mean(axis=1)
    inside = posterior.at(centres, "source")
    np.testing.assert_allclose(inside.values[0], posterior.draws("source")[0][:, [2, 5]])
    mean = posterior.mean_over(name="source")
    expected = posterior.draws("source")[0] @ mesh.volumes / mesh.volumes.sum()
    np.testing.assert_allclose(mean.values[0], expected, rtol=1e-9)


def test_a_field_of_any_name_is_simulated_and_drawn(tmp_path, monkeypatch):
    mesh = box_mesh(2, 3)
    sensors = invlift.sensors_from_arrays([[0.3, 0.4], [0.6, 0.7]], [0.1, 0.05])
    observation = invlift.locate(mesh, sensors)
    forward = invlift.assemble_poisson(mesh, observation, source=1.0, dirichlet={"boundary": 0.0})
    prior = invlift.matern_prior(mesh, range=0.8, std=0.5, smoothness=1.0)
    problem = inverse_problem(forward, {"phi": prior}, known_noise(0.01), sensors.values)
    (draw,) = prior_draws(problem, 1, seed=1)
    assert set(simulate._step(problem, draw, with_conductivity=True).on_nodes) == {
        "phi", "solution",
    }  # fmt: skip
    drawn = []
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, path, **_: (drawn.append(figure), path.touch())
    )
    check._draw_prior(problem, 1, tmp_path / "a.png")
    assert "phi" in {axes.get_ylabel() for axes in drawn[0].findobj(Axes)}
    posterior = problem.posterior(run_from_prior(problem))
    balance = posterior.flux("boundary") + 1.0  # of a source of one in all
    np.testing.assert_allclose(balance, 0.0, atol=1e-9)


def two_fields(first, second):
    def model(first, second):
        return jnp.stack([jnp.sum(first), jnp.sum(second)])

    unknowns = {"first": first, "second": second}
    return inverse_problem(model, unknowns, known_noise(0.1), np.ones(2))


def test_hierarchical_priors_keep_apart_what_is_unknown_of_them():
    mesh = box_mesh(2, 2)
    options = {"std": 0.5, "smoothness": 1.0}
    unknown = lognormal(median=0.7, factor=1.5)
    prior = invlift.matern_prior(mesh, range=unknown, **options)
    problem = two_fields(prior, prior)
    posterior = problem.posterior(run_from_prior(problem))
    assert {"first_prior_range", "second_prior_range"} <= set(posterior.summary().index)
    ranges = (posterior.draws(f"{name}_prior_range")[0] for name in ("first", "second"))
    assert not np.allclose(*ranges)
    assert posterior.mesh is mesh
    assert posterior.mean_over("boundary", "second").dims == ("chain", "draw")


def test_a_field_on_another_mesh_stays_a_vector():
    options = {"range": 0.8, "std": 0.5, "smoothness": 1.0}
    first, second = (invlift.matern_prior(box_mesh(2, n), **options) for n in (2, 3))
    problem = two_fields(first, second)
    posterior = problem.posterior(run_from_prior(problem))
    assert problem.mesh is first.mesh
    assert posterior.at([[0.5, 0.5]], "first").shape == (1, 10, 1)
    with pytest.raises(invlift.InputError, match="a field, one of first, found 'second'"):
        posterior.at([[0.5, 0.5]], "second")


def test_the_mesh_is_no_part_of_programs():
    options = {"range": 0.8, "std": 0.5, "smoothness": 1.0}
    prior, other = (invlift.matern_prior(box_mesh(2, 2), **options) for _ in range(2))
    assert prior.mesh is not other.mesh
    assert jax.tree.structure(prior) == jax.tree.structure(other)
    leaves = [leaf.shape for leaf in jax.tree.leaves(prior)]
    assert prior.mesh.points.shape not in leaves
    assert prior.mesh.cells.shape not in leaves
