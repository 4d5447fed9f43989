"""Every target of the library."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from contract_checks import assert_close, check_normal_space, check_target, in_turn, lift

from invlift import problems
from invlift.lift import targets
from invlift.lift.jacobians import Diagonal, Grouped
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.lifted_form import Lifted
from invlift.lift.targets.manifold import ManifoldTarget
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.lift.targets.state_space import StateSpacePosterior
from invlift.models.base import JaxFunction
from invlift.noise import gaussian_noise, known_noise
from invlift.problems.choice.partly_lifted import Lift, partly_lifted_problem
from invlift.problems.inverse_problem import inverse_problem
from invlift.problems.laplace_approximation import LaplaceApproximation
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.problems.manifolds.manifold_problem import manifold_problem
from invlift.problems.numpyro.numpyro_density import UnconstrainedDensity
from invlift.problems.problem import InverseProblem
from invlift.problems.time.diffusion_blocks import Blocks, DiffusionGivenStates, DiffusionInBlocks
from invlift.problems.time.diffusion_problem import diffusion_problem
from invlift.problems.time.state_space import state_space
from invlift.programs.pytrees import Module
from invlift.unknowns.distributions import lognormal
from invlift.unknowns.priors.base import StandardNormalPrior

OBSERVED = np.array([0.8, 1.7, 1.1])


def readings(field):
    """Three of them, positive as relative noise needs them."""
    linear = jnp.stack([field[0] - 0.4 * field[1], field[2], field[0] + 0.5 * field[3]])
    return jnp.exp(0.4 * linear) + 0.1 * field[0] ** 2


def problem_of(num=3):
    """More unknowns than readings, or fewer."""
    model = JaxFunction(lambda theta: readings(jnp.resize(theta, 4)))
    prior = StandardNormalPrior(jnp.zeros(num))
    return inverse_problem(model, prior, gaussian_noise(lognormal(-1.0, 0.5)), OBSERVED)


def elementwise(inputs):
    """Three readings of two shared inputs, each with noise of its own."""
    return readings(jnp.resize(inputs[:2], 4)) * jnp.exp(0.3 * inputs[2:])


def exact(model, structure=None):
    return inverse_problem(model, PRIOR, None, np.asarray(model(INPUTS)), structure=structure)


def lifted(num, theta):
    target = LiftedPosterior(problem_of(num))
    return target, np.asarray(lift(target, theta))


def partly():
    """Two combinations of three readings."""
    problem, rng = problem_of(), np.random.default_rng(2)
    basis, directions = (np.linalg.qr(rng.standard_normal((3, 2)))[0] for _ in range(2))
    of_white = LaplaceApproximation(0.3 * np.ones(3), directions, np.array([4.0, 2.0]))
    of_noise = LaplaceApproximation(np.array([0.2]), np.eye(1), np.array([3.0]))
    lift = jax.device_put(Lift(of_noise, of_white, basis))
    target = LiftedPosterior(partly_lifted_problem(problem, lift))
    return target, np.asarray(jax.jit(target.from_lifted)(THETA))


def grouped():
    """Five readings of three groups, of which one has none, with one shared number."""
    order, groups = (2, 0, 4, 1, 3, 6, 5), (0, 2, 0, 0, 2)

    def of_groups(inputs):
        own = inputs[np.asarray(order[1:])].reshape(3, 2)[np.asarray(groups)]
        return jnp.exp(0.3 * own[:, 0] * inputs[2]) + jnp.sin(np.arange(5.0) + own[:, 1])

    prior, observed = StandardNormalPrior(jnp.zeros(7)), np.array([0.8, 1.7, 1.1, 0.4, 1.2])

    class InGroups(InverseProblem):
        structure = Grouped(groups, 3, 2)

    InGroups.order = order
    target = Lifted(InGroups(JaxFunction(of_groups), prior, known_noise(0.3), observed))
    drawn = 0.5 * np.random.default_rng(1).standard_normal(12)
    return target, np.asarray(jax.jit(target.rough_position)(drawn))


def states():
    """Three readings of a pair, of which a function with an inverse is read."""
    problem = state_space(
        lambda t, state, push, rate: {
            "place": jnp.tanh(rate * state["place"][::-1]) + push[1:] * push[0]
        },
        {"rate": lognormal(0.0, 0.3)},
        lambda push, rate: {"place": push[:2] + rate},
        {"angle": np.array([[0.4, -0.2], [0.8, 0.3], [0.1, -0.7]])},
        lognormal(median=0.3, factor=2.0),
        num_noise=3,
        observe=lambda state, rate: {"angle": jnp.arcsinh(state["place"][::-1])},
        recover=lambda reading, rate: {"place": jnp.sinh(reading["angle"][::-1])},
    )
    return anywhere(problem.lifted())


def driven(noise, scheme="taylor-1.5"):
    """A pair of which one part is driven and a function of the other is read."""
    problem = diffusion_problem(
        lambda t, state, rate: {
            "seen": rate * state["hidden"] - state["seen"] ** 3,
            "hidden": jnp.sin(state["seen"] + t),
        },
        lambda t, state, rate: {"hidden": 0.5},
        {"rate": lognormal(0.0, 0.3)},
        lambda rate: {"seen": 0.2, "hidden": rate},
        [0.3, 0.7, 1.5],
        {"look": [0.4, np.nan, 0.8], "size": [np.nan, 1.2, 1.1]},
        noise,
        steps_per_interval=2,
        observe=lambda state, rate: {"look": state["seen"], "size": jnp.exp(state["hidden"])},
        start=0.0,
        scheme=scheme,
    )
    return anywhere(problem.lifted())


def given_states():
    """The path is cut into blocks, given the states between these."""
    target, position = driven(NOISE)
    return target.parts(position)[1], position


def anywhere(target):
    """The target, and a position off its manifold, where derivatives are the same functions."""
    return target, 0.4 * np.random.default_rng(1).standard_normal(target.dimension)


def on_sphere(position):
    return position @ position - jnp.ones(1)


def tilted(position):
    return 0.4 * position[0] - 0.2 * position[1] + 0.5 * position[1] * position[2]


THETA = np.array([0.3, 0.4, -0.6, 0.1])
MODEL, PRIOR = JaxFunction(readings), StandardNormalPrior(jnp.zeros(5))
NOISE = lognormal(median=0.3, factor=2.0)
INPUTS = np.array([0.2, -0.5, 0.3, 0.8, -0.1])
#: Classes, and what makes a target of one and a position.
TARGETS = {
    "lifted": (LiftedPosterior, lambda: lifted(3, THETA)),
    "lifted, more readings": (LiftedPosterior, lambda: lifted(1, THETA[:2])),
    "partly lifted": (LiftedPosterior, partly),
    "exact conditioning": (Lifted, lambda: (Lifted(exact(MODEL)), INPUTS)),
    "exact conditioning, structured": (
        Lifted,
        lambda: (Lifted(exact(JaxFunction(elementwise), Diagonal())), INPUTS),
    ),
    "state space": (StateSpacePosterior, states),
    "diffusion, by Milstein": (DiffusionInBlocks, lambda: driven(NOISE, "milstein")),
    "diffusion, exact": (DiffusionInBlocks, lambda: driven(None)),
    "diffusion, given states": (DiffusionGivenStates, given_states),
    "grouped": (Lifted, grouped),
    "given manifold": (
        ManifoldProblem,
        lambda: (
            manifold_problem(on_sphere, tilted, {"position": (3,)}),
            np.array([0.6, 0.0, 0.8]),
        ),
    ),
}
#: Whose programs take longest to compile.
SLOW = {"diffusion, exact", "diffusion, given states"}


@cache
def target_of(name):
    kind, make = TARGETS[name]
    target, position = make()
    assert type(target) is kind
    return target, position


@pytest.mark.parametrize("name", in_turn(TARGETS, TARGETS.keys() - SLOW))
def test_target_on_a_manifold(name):
    """Of diffusions and paths one says all of their normal spaces."""
    target, position = target_of(name)
    constraint = check_target(target, position)
    if not name.startswith(("state space", "diffusion")):
        assert np.abs(constraint).max() < 1e-10
    if name not in ("state space", "diffusion, by Milstein", "diffusion, exact"):
        check_normal_space(target, position)


class WrongForce(Lifted):
    """Negative control: the force is that of another density."""

    def point(self, position):
        point = super().point(position)
        return point._replace(logdensity_grad=0.99 * point.logdensity_grad)


def test_a_wrong_force_is_found():
    with pytest.raises(AssertionError, match=r"^force: "):
        check_target(WrongForce(exact(MODEL)), INPUTS)


def test_density():
    """On the unknowns, relative to the standard normal one, at the position of a lifted point."""

    @jax.jit
    def look(target, lifted):
        position = target.from_lifted(lifted)
        return {
            "unknowns": target.unknowns(position),
            "loglikelihood": target.loglikelihood(position) - 0.5 * position @ position,
            "logdensity": target.logdensity(position),
            "kept": target.describe(position)[0],
        }

    found = look(OrdinaryPosterior(problem_of()), lift(LiftedPosterior(problem_of()), THETA))
    assert_close("unknowns", found["unknowns"], THETA, 1e-9)
    assert_close("loglikelihood", found["loglikelihood"], found["logdensity"], 1e-12)
    assert all(np.all(np.isfinite(value)) for value in jax.tree.leaves(found["kept"]))


def test_every_class_is_tried():
    """As each test asserts the class of what it tries."""
    tried = {kind for kind, _ in TARGETS.values()} | {OrdinaryPosterior}
    modules = [
        import_module(each.name)
        for package in (targets, problems)
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    found = {
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Module) and each.__module__ == module.__name__
        if module.__name__.startswith(targets.__name__) or hasattr(each, "logdensity")
    }
    # What cuts a path is no target; of the others all is tried in their subclasses, or beside
    # NumPyro's own density in test_compare.
    elsewhere = {ManifoldTarget, Blocks, DiffusionPosterior, UnconstrainedDensity}
    assert found - elsewhere == tried
