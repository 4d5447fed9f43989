"""Every target of the library, and every prior with every noise that a problem file can express."""

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from choices import brief, covering
from contract_checks import assert_close, check_normal_space, check_target, lift
from structured import box_mesh

from invlift.fem.priors import PRIORS
from invlift.inverse import targets
from invlift.inverse.diffusion_problem import diffusion_problem
from invlift.inverse.distributions import lognormal
from invlift.inverse.inverse_problem import inverse_problem
from invlift.inverse.jacobians import Diagonal, Grouped
from invlift.inverse.jacobians.grouped import Grouping
from invlift.inverse.manifold_problem import manifold_problem
from invlift.inverse.models.jax_function import JaxFunction
from invlift.inverse.noise import NOISES, gaussian_noise
from invlift.inverse.priors.standard_normal import StandardNormalPrior
from invlift.inverse.state_space import state_space
from invlift.inverse.targets.diffusion import DiffusionPosterior
from invlift.inverse.targets.diffusion_blocks import Blocks
from invlift.inverse.targets.exact_conditioning import ExactConditioning
from invlift.inverse.targets.grouped import GroupedPosterior
from invlift.inverse.targets.laplace_whitened import laplace_whitened
from invlift.inverse.targets.lifted import LiftedPosterior, lifted_posterior
from invlift.inverse.targets.lifted_form import LiftedForm
from invlift.inverse.targets.manifold import ManifoldTarget
from invlift.inverse.targets.ordinary import OrdinaryPosterior
from invlift.programs.pytrees import Module
from invlift.samplers.constrained.landing import onto_manifold

OBSERVED = np.array([0.8, 1.7, 1.1])
GROUPS = ["old", "new", "old"]
SENSORS = SimpleNamespace(
    name="sensors", values=OBSERVED, sigma=np.array([0.1, 0.3, 0.2]), groups=GROUPS
)


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


def grouped():
    """Five readings of three groups, of which one has none, with one shared number."""
    order, groups = (2, 0, 4, 1, 3, 6, 5), (0, 2, 0, 0, 2)

    def of_groups(inputs):
        own = inputs[jnp.asarray(order[1:])].reshape(3, 2)[jnp.asarray(groups)]
        at = jnp.arange(5.0)
        return jnp.exp(0.3 * own[:, 0] * inputs[2]) + jnp.sin(at + own[:, 1])

    prior, observed = StandardNormalPrior(jnp.zeros(7)), np.array([0.8, 1.7, 1.1, 0.4, 1.2])
    problem = inverse_problem(JaxFunction(of_groups), prior, gaussian_noise(0.3), observed)
    target = GroupedPosterior(problem, Grouping(order, Grouped(groups, 3, 2)))
    drawn = 0.5 * np.random.default_rng(1).standard_normal(12)
    return target, lambda: np.asarray(jax.jit(target.rough_position)(drawn))


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
    target = lifted_posterior(problem)
    return target, lambda: onto_manifold(target, ROUGH)


def lifted(problem, theta):
    target = LiftedPosterior(problem)
    return target, lambda: np.asarray(lift(target, theta))


def driven(noise):
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
        scheme="taylor-1.5",
    )
    target = lifted_posterior(problem)
    drawn = jax.random.normal(jax.random.key(1), (target.dimension,))
    rough = jax.jit(lambda target, drawn: target.rough_position(drawn))
    return target, lambda: onto_manifold(target, np.asarray(rough(target, drawn)))


def on_sphere(position):
    return position @ position - jnp.ones(1)


def tilted(position):
    return 0.4 * position[0] - 0.2 * position[1] + 0.5 * position[1] * position[2]


THETA = np.array([0.3, 0.4, -0.6, 0.1])
MODEL, PRIOR = JaxFunction(readings), StandardNormalPrior(jnp.zeros(5))
ELEMENTWISE = JaxFunction(elementwise)
ROUGH = 0.4 * np.random.default_rng(2).standard_normal(17)
INPUTS = np.array([0.2, -0.5, 0.3, 0.8, -0.1])
#: Targets, and functions that find a position on their manifolds.
ON_MANIFOLDS = {
    "lifted": lambda: lifted(problem_of(), THETA),
    "lifted, more readings": lambda: lifted(problem_of(1), THETA[:2]),
    "exact conditioning": lambda: (ExactConditioning(exact(MODEL)), lambda: INPUTS),
    "exact conditioning, structured": lambda: (
        ExactConditioning(exact(ELEMENTWISE, Diagonal())),
        lambda: INPUTS,
    ),
    "state space": states,
    "diffusion": lambda: driven(lognormal(median=0.3, factor=2.0)),
    "diffusion, exact": lambda: driven(None),
    "diffusion, given states": lambda: given_states(),
    "grouped": grouped,
    "given manifold": lambda: (
        manifold_problem(on_sphere, tilted, {"position": (3,)}),
        lambda: np.array([0.6, 0.0, 0.8]),
    ),
}
DENSITIES = {
    "ordinary": lambda: OrdinaryPosterior(problem_of()),
    "laplace": cache(lambda: laplace_whitened(problem_of())),
}


def given_states():
    """The same where the path is cut into blocks, given the states between these."""
    target, find_position = driven(lognormal(median=0.3, factor=2.0))
    position = find_position()
    return target.parts(position)[1], lambda: position


@cache
def on_manifold(name):
    """A target, and what finds a position on its manifold."""
    return ON_MANIFOLDS[name]()


#: Whose programs take longest to compile.
SLOW = ("diffusion, exact", "diffusion, given states")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in ON_MANIFOLDS],
)
def test_target_on_a_manifold(name):
    target, find_position = on_manifold(name)
    position = find_position()
    assert np.abs(check_target(target, position)).max() < 1e-10
    check_normal_space(target, position)


class WrongForce(ExactConditioning):
    """Negative control: the force is that of another density."""

    def point(self, position):
        point = super().point(position)
        return point._replace(logdensity_grad=0.99 * point.logdensity_grad)


def test_a_wrong_force_is_found():
    with pytest.raises(AssertionError, match=r"^force: "):
        check_target(WrongForce(exact(MODEL)), INPUTS)


@pytest.mark.parametrize("name", DENSITIES)
def test_density(name):
    """On the unknowns, relative to the standard normal one, at the position of a lifted point."""
    target = DENSITIES[name]()
    position = target.from_lifted(lift(LiftedPosterior(target.problem), THETA))
    assert position.shape == (target.dimension,)
    assert_close("unknowns", target.unknowns(position), THETA, 1e-9)
    relative = target.loglikelihood(position) - 0.5 * position @ position
    assert_close("loglikelihood", relative, target.logdensity(position), 1e-12)
    moved = position + 0.1
    change = target.logdensity(moved) - target.logdensity(position)
    ordinary = OrdinaryPosterior(target.problem)
    expected = ordinary.logdensity(target.unknowns(moved)) - ordinary.logdensity(THETA)
    assert_close("logdensity", change, expected, 1e-9)
    kept, _ = target.describe(position)
    assert all(np.all(np.isfinite(value)) for value in jax.tree.leaves(kept))


def test_every_class_is_tried():
    tried = {type(on_manifold(name)[0]) for name in ON_MANIFOLDS}
    tried |= {type(make()) for make in DENSITIES.values()}
    modules = [
        import_module(f"{targets.__name__}.{each.name}")
        for each in pkgutil.iter_modules(targets.__path__)
    ]
    found = {
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Module) and each.__module__ == module.__name__
    }
    # What cuts a path is no target; of the others all is tried in their subclasses.
    assert found - {ManifoldTarget, LiftedForm, Blocks, DiffusionPosterior} == tried


PAIRS = {
    f"{brief(each['prior'])}, {brief(each['noise'])}": each for each in covering("prior", "noise")
}


@pytest.mark.slow  # fifty programs
@pytest.mark.parametrize("name", PAIRS)
def test_prior_with_noise(name):
    """Either is tried with one of the other kind by default."""
    prior, noise = (PAIRS[name][section] for section in ("prior", "noise"))
    prior = PRIORS[prior["kind"]].model_validate(prior).build(box_mesh(2, 2), str)
    noise = NOISES[noise["kind"]].model_validate(noise).build(SENSORS, str)
    target = LiftedPosterior(inverse_problem(MODEL, prior, noise, OBSERVED))
    theta = 0.4 * np.random.default_rng(1).standard_normal(target.problem.num_unknowns)
    check_target(target, lift(target, theta))
