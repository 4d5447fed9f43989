"""Chains side by side in one program: each as if it were alone, and only where that is safe."""

from concurrent.futures import ProcessPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import SPHERE

from invlift.inverse.noise.gaussian import known_noise
from invlift.inverse.problem import jax_problem
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.programs.lanes import any_lane, calls_lapack
from invlift.samplers.chains import parallel, workers
from invlift.samplers.chains.parallel import choose_lanes, run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.kernels import KERNELS

STARTS = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
SEED = 4


def predict(values):
    return jnp.stack([values[0] * jnp.exp(values[1]), values[1] + 0.3 * values[2] ** 2])


def posterior():
    return OrdinaryPosterior(jax_problem(predict, 3, known_noise(0.1), np.array([0.5, 0.1])))


def run(name, **options):
    kernel = KERNELS[name]()
    target = SPHERE if kernel.target_kind == "manifold" else posterior()
    plan = Plan(kernel, 15, 25)
    return run_chains(target, plan, STARTS, SEED, **options)


@pytest.mark.parametrize("name", ["chmc", "chmc-nuts", "nuts", "elliptical-slice"])
def test_a_chain_in_a_lane_is_the_chain_alone(name):
    """Of three chains in two lanes the last is beside a lane that is not used."""
    alone, beside = run(name), run(name, num_lanes=2)
    assert len(beside.chains) == 3
    for chain, expected in zip(beside.chains, alone.chains, strict=True):
        assert chain.num_draws == expected.num_draws == 25
        for group in ("draws", "stats", "warmup_stats"):
            found, wanted = getattr(chain, group), getattr(expected, group)
            assert found.keys() == wanted.keys()
            for key in wanted:
                np.testing.assert_allclose(
                    found[key], wanted[key], rtol=1e-6, atol=1e-6, err_msg=key
                )
    ends = [chain.draws[next(iter(chain.draws))][-1] for chain in beside.chains]
    assert len(np.unique(np.round(ends, 6), axis=0)) == 3


def test_interrupted_lanes_go_on_to_the_same_bits(tmp_path, monkeypatch):
    """Also where one chain of a program was saved later than the other."""
    monkeypatch.setattr(parallel, "SAVE_INTERVAL", 0.0)
    monkeypatch.setattr(workers, "LOCAL_SECONDS", 0.0)  # a segment is a block
    plan = Plan(KERNELS["chmc"](), 15, 25)
    whole = run("chmc", num_lanes=2)
    store = CheckpointStore(tmp_path, fingerprint(SPHERE, plan, SEED), {"num_lanes": 2})
    store.claim(is_resuming=False)
    run("chmc", num_lanes=2, store=store)
    pieces = sorted(tmp_path.glob("chain-0-*.piece"))
    assert len(pieces) > 1
    pieces[-1].unlink()
    store = store.claim(is_resuming=True)
    assert store.choices["num_lanes"] == 2
    resumed = run("chmc", num_lanes=2, store=store)
    for chain, expected in zip(resumed.chains, whole.chains, strict=True):
        np.testing.assert_array_equal(chain.draws["position"], expected.draws["position"])


def test_lanes_are_taken_where_they_are_safe(monkeypatch):
    monkeypatch.setattr(parallel, "num_cores", lambda: 2)
    target = posterior()
    hmc, riemannian = (Plan(KERNELS[name](), 15, 25) for name in ("hmc", "rmhmc"))
    dense = Plan(KERNELS["nuts"](metric="dense"), 15, 25)
    assert choose_lanes(target, hmc, 4) == 2
    assert choose_lanes(target, hmc, 5) == 3
    assert choose_lanes(target, hmc, 2) == 1
    assert choose_lanes(target, dense, 4) == 2
    assert choose_lanes(target, riemannian, 4) == 1  # it factorises its metric
    with ProcessPoolExecutor(1) as executor:
        assert choose_lanes(target, hmc, 4, executor) == 1


def test_lapack_is_found_inside_of_loops_and_branches():
    def inside(matrix):
        def go(_, value):
            return jax.lax.cond(value[0, 0] > 0, jnp.linalg.cholesky, lambda value: value, value)

        return jax.lax.fori_loop(0, 2, go, matrix)

    matrix = jnp.eye(3)
    assert calls_lapack(jax.make_jaxpr(inside)(matrix).jaxpr)
    assert not calls_lapack(jax.make_jaxpr(lambda matrix: matrix @ matrix)(matrix).jaxpr)


def test_a_flag_of_any_lane_is_that_of_all():
    flags = jnp.array([False, True, False])
    assert np.all(jax.vmap(any_lane)(flags))
    assert not any_lane(flags[0])
