"""Chains start on the manifold, or are told that they do not."""

import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import SPHERE, RelativeDensity, flat

from invlift.errors import InputError
from invlift.samplers.chains.chain import Plan
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.kernels import ConstrainedHMC, ConstrainedNUTS, ConstrainedRandomWalk

ON = np.array([0.0, 0.6, 0.8])


def run(starts, kernel=None, target=SPHERE):
    return run_chains(target, Plan(kernel or ConstrainedHMC(), 4, 4), np.asarray(starts), 1)


@pytest.mark.parametrize("kernel", [ConstrainedHMC(), ConstrainedNUTS(), ConstrainedRandomWalk()])
def test_a_start_off_the_manifold_is_refused_by_the_chain_it_is_of(kernel):
    message = "chain 1, start: expected a position on the manifold.*one about 8e-05 away"
    with pytest.raises(InputError, match=message):
        run([ON, 1.0001 * ON, ON], kernel)
    assert len(run([ON, ON], kernel).chains) == 2


def test_the_distance_is_one_of_positions_whatever_the_unit_of_the_constraint():
    def in_large_units(position):
        return 1e9 * (position @ position - jnp.ones(1))

    def in_small_units(position):
        return 1e-9 * (position @ position - jnp.ones(1))

    near, far = (1.0 + 1e-12) * ON, (1.0 + 1e-6) * ON
    for constraint in (in_large_units, in_small_units):
        target = RelativeDensity(constraint, flat)
        run([near], target=target)
        with pytest.raises(InputError, match="about 8e-07 away"):
            run([far], target=target)


def test_a_start_at_which_the_target_is_not_a_number_is_refused():
    with pytest.raises(InputError, match=r"chain 0, start.*not finite"):
        run([np.full(3, np.nan)])
