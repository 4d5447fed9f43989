"""Manifolds whose geometry is known, and one way to run chains."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from invlift.lift.targets.manifold import ManifoldTarget
from invlift.problems.starts.fit import initial_position
from invlift.programs.pytrees import static
from invlift.samplers.chains.chain import progress_of, run_blocks
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.state import gather
from invlift.samplers.kernels import ConstrainedHMC

SEMI_AXES = (2.0, 1.0, 0.7)
TORUS_RADII = (2.0, 0.6)


def on_sphere(position):
    return position @ position - jnp.ones(1)


def on_ellipsoid(position):
    return jnp.sum((position / jnp.asarray(SEMI_AXES)) ** 2) - jnp.ones(1)


def on_ellipse(position):
    return jnp.sum((position / jnp.asarray(SEMI_AXES[:2])) ** 2) - jnp.ones(1)


def on_torus(position):
    large, small = TORUS_RADII
    ring = jnp.hypot(position[0], position[1]) - large
    return jnp.reshape(ring**2 + position[2] ** 2 - small**2, 1)


PLANE = np.array([[1.0, 0.5, -0.3, 0.0, 0.2], [0.0, -1.0, 0.4, 0.8, 0.1]])


def on_plane(position):
    """Two linear constraints in five dimensions."""
    return PLANE @ position - jnp.asarray([0.7, -0.4])


def flat(position):
    return 0.0 * position[0]


def skewed(position):
    """Bingham-von Mises-Fisher: linear and quadratic terms, no symmetry left."""
    linear = jnp.asarray([1.5, -0.5, 0.8])[: position.size]
    quadratic = jnp.asarray([[0.9, 0.4, -0.3], [0.4, -0.8, 0.5], [-0.3, 0.5, 0.2]])
    quadratic = quadratic[: position.size, : position.size]
    return linear @ position + position @ quadratic @ position


class RelativeDensity(ManifoldTarget):
    """A constraint and a log density relative to the standard normal one, given as functions.

    Recorded are the position, and its square as moments only.
    """

    constraint_fn: Callable = static()
    logdensity_fn: Callable = static()

    def constraint(self, position):
        return self.constraint_fn(position)

    def logdensity(self, position, gram):
        return self.logdensity_fn(position)

    def describe(self, point):
        return {"position": point.position}, {"squared": point.position**2}


SPHERE = RelativeDensity(on_sphere, skewed)


def run_posterior(target, *, kernel=None, chains=4, warmup=200, draws=1000, seed=11):
    """Chains on a lifted posterior from dispersed starts."""
    keys = jax.random.split(jax.random.key(seed), chains)
    start = jax.jit(initial_position)
    positions = np.stack([start(target.problem, key) for key in keys])
    plan = Plan(kernel or ConstrainedHMC(), warmup, draws)
    return run_chains(target, plan, positions, seed)


def run_chain(target, plan, rng_key, state, *, chain=0, on_block=lambda state, progress: True):
    """Run a chain from where its state is to the end of the plan, block by block."""
    for block in run_blocks(target, plan, rng_key, state.position):
        state.add(plan, block)
        if not on_block(state, progress_of(plan, chain, block)):
            break
    return gather(plan, state)
