"""Densities on given manifolds: what is put together, what comes back, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import invlift
from invlift.app.runs.sampling import sample
from invlift.app.runs.starts import chosen_starts
from invlift.problems.manifolds.manifold_problem import manifold_problem
from invlift.problems.manifolds.manifolds import ProductJacobian, constraints, sphere, stiefel
from invlift.programs.compilation import Program
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.named import Unknown

FACTORS = {
    "left": Unknown(stiefel(4, 2), axes={"row": range(4), "column": "ab"}),
    "size": Unknown((2,), "m"),
    "axis": sphere(3),
}
DATA = {"weights": np.arange(8.0).reshape(4, 2), "pick": np.array([1, 0])}


def log_density(left, size, axis, data):
    return jnp.sum(data["weights"] * left) - 0.5 * jnp.sum((size - axis[data["pick"]]) ** 2)


def scaled(left, size, axis, data):
    del axis, data
    return {"scaled": left * size}


def problem(data=DATA):
    return manifold_problem(None, log_density, FACTORS, data, derived=scaled)


def test_positions_are_the_unknowns_one_after_the_other():
    target = problem()
    position = target.random_position(jax.random.key(1))
    assert position.shape == (target.dimension,) == (13,)
    unknowns = target.unknowns(position)
    assert {name: value.shape for name, value in unknowns.items()} == {
        "left": (4, 2), "size": (2,), "axis": (3,),
    }  # fmt: skip
    np.testing.assert_array_equal(target.position(unknowns), position)
    many = {name: np.stack([value, value]) for name, value in unknowns.items()}
    np.testing.assert_array_equal(target.position(many), [position, position])
    np.testing.assert_allclose(unknowns["left"].T @ unknowns["left"], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(unknowns["axis"] @ unknowns["axis"], 1.0)
    assert np.abs(target.constraint(position)).max() < 1e-12
    assert target.constraint(position).shape == (4,)  # of 3 + 1 no row is redundant
    kept = target.call(target.derived_fn, position)
    np.testing.assert_allclose(kept["scaled"], unknowns["left"] * unknowns["size"])


def test_products_of_manifolds_have_the_systems_of_dense_matrices():
    parts = (stiefel(5, 3), sphere(4))
    rng = np.random.default_rng(2)
    on_both = np.concatenate([np.eye(5, 3).ravel(), [1.0, 0.0, 0.0, 0.0]])
    here, there = on_both + 0.2 * rng.standard_normal((2, 19))
    rhs, vector = rng.standard_normal(7), rng.standard_normal(19)
    dense = jax.jit(jax.jacfwd(lambda q: constraints(parts, q)))

    @jax.jit
    def look(here, there):
        near, far = ProductJacobian(here, parts), ProductJacobian(there, parts)
        inner = near.inner(far)
        products = near.apply(vector), near.apply_transpose(rhs)
        return products, inner.solve(rhs), inner.log_determinant()

    products, solved, determinant = look(here, there)
    first, second = np.asarray(dense(here)), np.asarray(dense(there))
    np.testing.assert_allclose(products[0], first @ vector, atol=1e-12)
    np.testing.assert_allclose(products[1], first.T @ rhs, atol=1e-12)
    np.testing.assert_allclose(solved, np.linalg.solve(first @ second.T, rhs), rtol=1e-8)
    np.testing.assert_allclose(determinant, np.linalg.slogdet(first @ second.T)[1])

    # On the manifold J J^T is its diagonal.
    @jax.jit
    def on_manifold(key):
        on = jnp.concatenate([each.point(key).ravel() for each in parts])
        return on, ProductJacobian(on, parts).gram

    on, gram = on_manifold(jax.random.key(3))
    first = np.asarray(dense(on))
    np.testing.assert_allclose(first @ first.T, np.diag(gram), atol=1e-12)


def test_both_parts_of_the_orthogonal_group_are_started_from():
    signs = {
        float(np.sign(np.linalg.det(stiefel(3, 3).point(jax.random.key(seed)))))
        for seed in range(8)
    }
    assert signs == {-1.0, 1.0}


@pytest.mark.slow  # a chain's program, twice: the page on manifolds shows most of it
def test_draws_come_back_by_name_and_other_data_need_no_compilation(tmp_path):
    options = {"chains": 2, "warmup": 20, "draws": 20, "seed": 1}
    run = sample(problem(), **options)
    begun = Program.num_begun
    other = sample(problem({"weights": -DATA["weights"], "pick": DATA["pick"]}), **options)
    assert Program.num_begun == begun
    assert np.abs(run.chains[0].draws["left"] - other.chains[0].draws["left"]).max() > 0.1
    posterior = problem().posterior(run)
    assert posterior.draws("left")[0].shape == (20, 4, 2)
    np.testing.assert_allclose(np.linalg.norm(posterior.draws("axis"), axis=-1), 1.0, atol=1e-9)
    labelled = posterior.to_arviz().posterior
    assert labelled["left"].dims == ("chain", "draw", "row", "column")
    assert labelled["size"].attrs["units"] == "m"
    assert labelled["scaled"].shape == (2, 20, 4, 2)
    assert "size[0]" in posterior.summary().index
    posterior.write(tmp_path)
    assert invlift.load(tmp_path).draws("left")[0].shape == (20, 4, 2)


def test_rough_starts_by_name_are_moved_onto_the_manifold():
    target = problem()
    rng = np.random.default_rng(5)
    starts = {
        "left": np.eye(4, 2) + 0.3 * rng.standard_normal((1, 4, 2)),
        "size": np.ones((1, 2)),
        "axis": np.array([[2.0, 0.0, 0.0]]),
    }
    with pytest.raises(invlift.InputError, match=r"starts: expected arrays .*'left': \(2, 4, 2\)"):
        sample(target, chains=2, starts=starts)
    lists = {name: value.tolist() for name, value in starts.items()}
    by_list = chosen_starts(target, lists, 1)(ConstrainedHMC(), target, 1)
    assert np.abs(target.constraint(by_list[0])).max() < 1e-12
    with pytest.raises(
        invlift.InputError, match=r"starts, axis: expected an array \(1, 3\), found"
    ):
        sample(target, chains=1, starts=starts | {"axis": [["a", "b", "c"]]})
    with pytest.raises(invlift.InputError, match="expected a constrained sampler"):
        sample(target, "nuts", chains=1, draws=1)


def test_chains_start_where_it_is_said():
    def start(rng_key, data):
        noise = 0.1 * jax.random.normal(rng_key, (4, 2))
        return {"left": data["weights"] + noise, "size": jnp.ones(2), "axis": jnp.ones(3)}

    target = manifold_problem(None, log_density, FACTORS, DATA, start=start)
    one, other = (target.random_position(jax.random.key(each)) for each in (1, 2))
    first = target.unknowns(one)
    np.testing.assert_allclose(first["left"], DATA["weights"], atol=0.5)
    assert np.abs(one - other).max() > 0.01
    for wrong in (lambda rng_key, data: {"left": jnp.zeros((4, 2))}, lambda rng_key, data: 1.0):
        with pytest.raises(invlift.InputError, match=r"start: expected a dict .* left \(4, 2\)"):
            manifold_problem(None, log_density, FACTORS, DATA, start=wrong)


def height(place):
    return place[2] - jnp.tanh(place[0])


def flat(place):
    return -0.5 * place @ place


def test_a_redundant_constraint_is_named():
    target = manifold_problem(
        lambda place: jnp.stack([height(place), 2.0 * height(place)]), flat, {"place": (3,)}
    )
    with pytest.raises(invlift.InputError, match=r"constraint .*1 of 2 that depend on the others"):
        sample(target, chains=1, draws=1)


PLACE = {"place": (3,)}
REFUSED = {
    "no unknowns": ((height, flat, {}), "unknowns: expected at least one"),
    "name": ((height, flat, {"data": (3,)}), "unknown data: expected another name"),
    "shape": ((height, flat, {"place": 3}), "unknown place: expected a shape"),
    "no constraint": ((None, flat, PLACE), "constraint: expected from 1 to 2 constraints, found 0"),
    "arguments": ((height, lambda q: 0.0, PLACE), "logdensity: .*unexpected keyword"),
    "vector": ((height, lambda place: place, PLACE), r"logdensity: .*array of shape \(\), found"),
    "text": (
        (height, flat, PLACE, {"of": ["x"]}),
        r"data\['of'\]\[0\]: expected an array of numbers",
    ),
    "branch": ((lambda place: 1.0 if place[0] > 0 else 0.0, flat, PLACE), "constraint: .*Tracer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused(name):
    arguments, message = REFUSED[name]
    with pytest.raises(invlift.InputError, match=message):
        manifold_problem(*arguments)


def test_lists_of_numbers_are_arrays():
    lists = {name: value.tolist() for name, value in DATA.items()}
    data = problem(lists | {"parts": [np.ones(2), np.ones(3)]}).data
    parts = data.pop("parts")
    assert [part.shape for part in parts] == [(2,), (3,)]
    assert {name: value.tolist() for name, value in data.items()} == lists
    assert all(isinstance(value, np.ndarray) for value in data.values())


def test_what_is_given_besides_is_looked_at():
    with pytest.raises(invlift.InputError, match=r"metric: .*\(3, 3\), found float64 of shape"):
        manifold_problem(height, flat, PLACE, metric=lambda place: place)
    with pytest.raises(invlift.InputError, match="derived: expected a dict of arrays"):
        manifold_problem(height, flat, PLACE, derived=lambda place: place)
    with pytest.raises(invlift.InputError, match="unknown place: expected another name"):
        manifold_problem(height, flat, PLACE, derived=lambda place: {"place": place})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sphere(1), "sphere, n: expected an integer of at least 2"),
        (lambda: stiefel(2, 3), "stiefel, n: expected an integer of at least 3"),
    ],
)
def test_sizes_of_manifolds(make, message):
    with pytest.raises(invlift.InputError, match=message):
        make()
