"""Chains start on the manifold, or are told that they do not."""

import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import SPHERE, RelativeDensity, flat

from invlift.app.runs.sampling import sample
from invlift.errors import InputError
from invlift.problems.starts import landing
from invlift.problems.starts.landing import (
    check_independent,
    distance_from_manifold,
    onto_manifold,
)
from invlift.problems.starts.likely import likely_position
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.kernels import ConstrainedRandomWalk

ON = np.array([0.0, 0.6, 0.8])


def run(starts, target=SPHERE):
    return run_chains(target, Plan(ConstrainedRandomWalk(), 4, 4), np.asarray(starts), 1)


def test_a_start_off_the_manifold_is_refused_by_the_chain_it_is_of():
    message = "chain 1, start: expected a position on the manifold.*one about 8e-05 away"
    with pytest.raises(InputError, match=message):
        run([ON, 1.0001 * ON, ON])
    assert len(run([ON, ON]).chains) == 2


def test_the_distance_is_one_of_positions_whatever_the_unit_of_the_constraint():
    def in_large_units(position):
        return 1e9 * (position @ position - jnp.ones(1))

    def in_small_units(position):
        return 1e-9 * (position @ position - jnp.ones(1))

    for constraint in (in_large_units, in_small_units):
        target = RelativeDensity(constraint, flat)
        for away in (1e-12, 1e-6):
            found = distance_from_manifold(target, (1.0 + away) * ON)
            assert found == pytest.approx(0.8 * away, rel=0.05)  # of the largest coordinate


def test_a_start_at_which_the_target_is_not_a_number_is_refused():
    with pytest.raises(InputError, match=r"chain 0, start.*not finite"):
        run([np.full(3, np.nan)])


def ellipsoid(position):
    return position @ (np.array([1.0, 4.0, 100.0]) * position) - np.ones(1)


def test_rough_starts_are_moved_onto_the_manifold_and_checked():
    rough = np.random.default_rng(3).standard_normal((4, 3))
    target = RelativeDensity(ellipsoid, flat)
    options = {"kernel": ConstrainedRandomWalk(), "warmup": 5, "draws": 5}
    drawn = sample(target, starts=rough, **options)
    for chain in drawn.chains:
        assert all(abs(ellipsoid(draw)[0]) < 1e-8 for draw in chain.draws["position"])
    for row in rough:
        assert abs(ellipsoid(onto_manifold(target, row))[0]) < 1e-12
    # negative control: they are not on it as they are
    with pytest.raises(InputError, match="chain 0, start: expected a position on the manifold"):
        run(rough, target)
    # where there is no manifold
    none = RelativeDensity(lambda position: position @ position + jnp.ones(1), flat)
    with pytest.raises(InputError, match=r"chain 0, start: .* from which the projection"):
        sample(none, starts=rough, **options)


def test_constraints_that_follow_from_others_are_named(monkeypatch):
    def on_a_circle(position):
        return jnp.stack([position @ position - 1.0, position[0], 2.0 * position[0]])

    kernel = ConstrainedRandomWalk()
    start = np.ones(3)
    options = {"starts": start[None], "kernel": kernel, "chains": 1, "warmup": 2, "draws": 2}
    with pytest.raises(InputError, match=r"^constraint [12]: .*1 of 3 that depend"):
        sample(RelativeDensity(on_a_circle, flat), **options)
    two = RelativeDensity(lambda position: on_a_circle(position)[:2], flat)
    check_independent(two, onto_manifold(two, start), [])
    monkeypatch.setattr(landing, "MAX_ENTRIES", 8)  # of nine: gradients are not looked at
    with pytest.raises(InputError, match=r"chain 0, start: .* from which the projection"):
        sample(RelativeDensity(on_a_circle, flat), **options)


def sideways(position):
    return 20.0 * position[1]


@pytest.mark.parametrize("logdensity", [flat, sideways])
def test_positions_are_moved_along_the_manifold_to_where_they_are_likely(logdensity):
    """Nearest to the draw, or not so near where the density is higher."""
    target = RelativeDensity(ellipsoid, logdensity)
    polar, azimuth = np.meshgrid(np.linspace(0.0, np.pi, 401), np.linspace(0.0, 2 * np.pi, 801))
    sphere = np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)
    surface = np.stack(sphere, axis=-1) / np.array([1.0, 2.0, 10.0])
    drawn = np.array([0.6, 0.1, 0.5])

    def unlikely(position):
        away = np.sum((position - drawn) ** 2, axis=-1)
        return 0.5 * away - logdensity(np.moveaxis(position, -1, 0))

    landed = onto_manifold(target, np.array([-0.9, -0.1, 0.4]))
    found = likely_position(target, landed, drawn)
    assert abs(ellipsoid(found)[0]) < 1e-12
    least = np.min(unlikely(surface))
    assert unlikely(landed) > least + 0.5
    assert unlikely(found) < least + 0.05


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ("prior", "starts: expected an array .*, a row for each chain, found 'prior'"),
        (np.zeros((3, 3)), r"an array \(4, Q\), a row for each chain, found shape \(3, 3\)"),
        (np.zeros(3), "found shape"),
    ],
)
def test_starts_that_are_no_positions_are_refused(starts, message):
    with pytest.raises(InputError, match=message):
        sample(RelativeDensity(ellipsoid, flat), starts=starts, warmup=1, draws=1)
