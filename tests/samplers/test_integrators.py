"""Every retraction with every splitting, on an explicit manifold and on a lifted posterior."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sampler_cases import TORUS_RADII, on_torus, skewed

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.noise import gaussian_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.problems.manifolds.manifold_problem import manifold_problem
from invlift.programs.compilation import Program
from invlift.projections import project_momentum
from invlift.samplers.constrained.retractions import RETRACTIONS
from invlift.samplers.constrained.splittings import SPLITTINGS
from invlift.samplers.constrained.step import build_state, constrained_step
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.distributions import lognormal


def bent(theta):
    return jnp.stack([theta[0] + 0.4 * theta[1] ** 2, jnp.exp(0.4 * theta[1]) * theta[0]])


def on_torus_scaled(position):
    """Of order one."""
    return on_torus(position) / TORUS_RADII[1]


TORUS = manifold_problem(on_torus_scaled, skewed, {"position": (3,)})
LIFTED = LiftedPosterior(
    jax_problem(bent, 2, gaussian_noise(lognormal(-1.0, 0.5)), np.array([0.8, 0.5]))
)
TARGETS = {"torus": TORUS, "lifted": LIFTED}
NUM_STEPS = 4
#: Each retraction and each splitting; the line search is the same on both.
EACH = [
    ("torus", "newton-line-search", "gaussian"),
    ("torus", "symmetric-newton", "geodesic"),
    ("lifted", "chebyshev", "stormer-verlet"),
    ("lifted", "newton", "gaussian"),
]


@Program
def start_state(target, position, momentum):
    point = target.point(position)
    return build_state(point, project_momentum(target, point, momentum))


def _walk(kernel, target, state, size, num_steps):
    """So many steps, as one program for all numbers and sizes."""

    def advance(_, state):
        return constrained_step(kernel.integrator, target, state, size)

    return jax.lax.fori_loop(0, num_steps, advance, state)


walk = Program(_walk, "none")


@cache
def start_on(name):
    rng, target = np.random.default_rng(1), TARGETS[name]
    position = np.array([2.6, 0.0, 0.0])
    if name == "lifted":
        position = jax.jit(lambda target, theta: target.lift(theta))(
            target, np.array([0.3, 0.4, -0.6])
        )
    momentum = rng.normal(size=position.shape)
    # Not where the problem is symmetric.
    state = walk(ConstrainedHMC(), target, start_state(target, position, momentum), 0.1, 3)
    assert state.num_failures == 0
    return start_state(target, state.position, rng.normal(size=position.shape))


def energy(state):
    momentum = np.asarray(state.momentum)
    return float(0.5 * momentum @ momentum - np.asarray(state.logdensity))


def distance(first, second):
    return np.max(np.abs(np.asarray(first) - np.asarray(second)))


@Program
def constraint_and_slope(target, state):
    return jax.jvp(target.constraint, (state.position,), (state.momentum,))


def test_every_retraction_and_splitting_is_tried():
    _, retractions, splittings = zip(*EACH, strict=True)
    assert set(retractions) == set(RETRACTIONS)
    assert set(splittings) == set(SPLITTINGS)


@pytest.mark.parametrize(("name", "retraction", "splitting"), EACH)
def test_steps_return_stay_on_the_manifold_and_do_not_depend_on_the_retraction(
    name, retraction, splitting
):
    target, start = TARGETS[name], start_on(name)
    kernel = ConstrainedHMC(retraction=retraction, splitting=splitting)
    end = walk(kernel, target, start, 0.15, NUM_STEPS)
    assert end.num_failures == 0
    assert distance(end.position, start.position) > 0.1
    # In the manifold and its tangent space.
    error, slope = constraint_and_slope(target, end)
    assert np.max(np.abs(error)) < 1e-10
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)
    # Backwards in time, and forwards with the momentum turned around.
    for momentum, size in ((end.momentum, -0.15), (-np.asarray(end.momentum), 0.15)):
        back = walk(kernel, target, end._replace(momentum=momentum), size, NUM_STEPS)
        assert back.num_failures == 0
        assert distance(back.position, start.position) < 1e-8
        assert distance(np.abs(back.momentum), np.abs(start.momentum)) < 1e-7
    # Negative control: steps of another size do not return.
    other = walk(kernel, target, end, -0.149, NUM_STEPS)
    assert distance(other.position, start.position) > 1e-4
    reference = ConstrainedHMC(splitting=splitting)
    expected = walk(reference, target, start, 0.15, NUM_STEPS)
    assert distance(end.position, expected.position) < 1e-8
    assert distance(end.momentum, expected.momentum) < 1e-7
    # Negative control: the splittings differ.
    other = "geodesic" if splitting == "gaussian" else "gaussian"
    another = walk(ConstrainedHMC(splitting=other), target, start, 0.15, NUM_STEPS)
    assert distance(end.position, another.position) > 1e-6


@pytest.mark.parametrize(
    ("name", "splitting"),
    [("torus", "gaussian"), ("torus", "geodesic"), ("lifted", "stormer-verlet")],
)
def test_energy_error_is_of_second_order(name, splitting):
    target, start = TARGETS[name], start_on(name)
    kernel = ConstrainedHMC(splitting=splitting)
    nums = np.array([8, 16, 32, 64])
    ends = [walk(kernel, target, start, 0.5 / num, num) for num in nums]
    assert all(end.num_failures == 0 for end in ends)
    errors = np.abs([energy(end) - energy(start) for end in ends])
    slope = -np.polyfit(np.log(nums), np.log(errors), 1)[0]
    assert 1.8 < slope < 2.2, f"slope {slope:.2f}"


def test_energy_error_of_another_density_does_not_shrink():
    """Negative control: the energy is judged without the density's gradient."""
    target, start = TARGETS["lifted"], start_on("lifted")
    kernel = ConstrainedHMC(splitting="stormer-verlet")
    ends = [walk(kernel, target, start, 0.5 / num, num) for num in (8, 64)]
    coarse, fine = (
        abs(energy(end) - energy(start) + 0.1 * float(end.logdensity - start.logdensity))
        for end in ends
    )
    assert fine > 0.5 * coarse
