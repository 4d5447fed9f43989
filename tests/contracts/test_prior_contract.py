"""Every prior of the problem file, and each of the library's classes, alone and in a target."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from choices import brief, choices_of, covering
from contract_checks import check_normal_space, check_prior, check_target, lift
from structured import box_mesh

from invlift.fem.priors import PRIORS
from invlift.inverse.distributions import half_cauchy, normal
from invlift.inverse.inverse_problem import inverse_problem
from invlift.inverse.models.jax_function import JaxFunction
from invlift.inverse.noise import known_noise
from invlift.inverse.priors.base import AffinePrior, Prior
from invlift.inverse.priors.mapped import MappedPrior
from invlift.inverse.priors.partly_known import partly_known
from invlift.inverse.priors.standard_normal import StandardNormalPrior
from invlift.inverse.targets.lifted import LiftedPosterior
from invlift.inverse.unknowns import named_prior
from invlift.programs.pytrees import static

#: All that a problem file can say in pairs, and every distribution of range and std.
CONTENTS = {brief(each["prior"]): each["prior"] for each in covering("prior")} | {
    f"range and std {name}": {"kind": "matern", "range": table, "std": table, "smoothness": 1.0}
    for name, table in {
        each["distribution"]: each
        for each in choices_of(PRIORS["matern"])["range"]
        if isinstance(each, dict)
    }.items()
}


DISTRIBUTIONS = [name for name in CONTENTS if name.startswith("range and std")]


class Bent(Prior):
    """Of which the values alone are written."""

    mean: jax.Array

    @property
    def num_white(self):
        return self.mean.size + 1

    def transform(self, white):
        return self.mean + jnp.exp(0.3 * white[:1]) * white[1:] + 0.2 * white[1:] ** 3


OTHERS = {
    "standard normal": StandardNormalPrior(jnp.zeros(5)),
    "by automatic differentiation": Bent(jnp.linspace(-1.0, 1.0, 5)),
    # Of which two are not standard normal in their coordinates.
    "by name": named_prior(
        {
            "rate": dist.Gamma(2.5, 2.0),
            "start": normal(np.zeros(2), [1.0, 0.3]),
            "share": dist.Beta(2.0, 3.0),
            "scale": half_cauchy(0.4),
        }
    ),
}


FIELD = {"kind": "matern", "range": 0.8, "std": 0.4, "smoothness": 1.0}


def beside(*others, of=FIELD):
    """A field of which the middle is known, and numbers."""
    prior = build(of)
    known = np.full(prior.mesh.num_nodes, np.nan)
    known[:3] = 0.3
    parts = {"field": partly_known(prior, known)}
    return named_prior(parts | {f"number_{k}": each for k, each in enumerate(others)})


def build(content):
    table = PRIORS[content["kind"]].model_validate(content)
    return table.build(box_mesh(2, 2), lambda *keys: f"prior {keys}")


OTHERS |= {
    "a field and normal numbers": beside(normal(1.0, 0.3), normal(np.zeros(2), [1.0, 0.3])),
    "a field and others": beside(dist.Gamma(2.5, 2.0), normal(0.0, 1.0)),
    "a known part": beside().parts["field"],
}


def readings(field):
    """Three of them, without a symmetry that could hide an error."""
    return jnp.stack([field[0] + 0.3 * field[4] ** 2, jnp.exp(0.5 * field[3]), field[1] * field[2]])


def target_of(prior):
    """The target, and a position on it."""
    problem = inverse_problem(JaxFunction(readings), prior, known_noise(0.3), np.ones(3))
    target = LiftedPosterior(problem)
    white = 0.5 * np.random.default_rng(1).standard_normal(prior.num_white)
    return target, lift(target, white)


#: One distribution of range and std stands for all, and for layers, and one smoothness for what is
#: behind inclusions; up to ten seconds each.
EACH = [*CONTENTS, *OTHERS]
IN_TURN = [
    pytest.param(name, marks=pytest.mark.slow)
    if name in DISTRIBUTIONS[1:]
    or "another" in name
    or ("inclusions" in name and "smoothness=2.0" not in name)
    else name
    for name in EACH
]


@cache
def prior_of(name):
    return build(CONTENTS[name]) if name in CONTENTS else OTHERS[name]


def first_alike(name):
    """The first prior of the class of one, of which the same is unknown: one for their targets."""

    def kind_of(prior):
        return type(prior), prior.is_affine, set(prior.distributions)

    mine = prior_of(name)
    return next(each for each in EACH if kind_of(prior_of(each)) == kind_of(mine))


@pytest.mark.parametrize("name", IN_TURN)
def test_prior_and_its_target(name):
    """Of an unknown range up to 12 s: its target is a large program.

    A target asks no more of priors that are alike than what is looked at of each alone.
    """
    prior = prior_of(name)
    check_prior(prior)
    if first_alike(name) == name:
        target, position = target_of(prior)
        check_target(target, position)
        check_normal_space(target, position)


def test_every_class_is_tried():
    tried = {type(build(content)) for content in CONTENTS.values()} | set(
        map(type, OTHERS.values())
    )
    bases = {Prior, AffinePrior, MappedPrior}
    classes = {each for base in bases for each in base.__subclasses__()} - bases
    assert {each for each in classes if each.__module__.startswith("invlift.")} <= tried


# Negative controls --------------------------------------------------------------------------------


class Faulty(NamedTuple):
    """A tangent of which one method is wrong, of vectors alone or by one per cent."""

    whole: Any
    fault: str

    def push(self, directions):
        return self._by("push", directions, self.whole.push(directions))

    def pull(self, values):
        return self._by("pull", values, self.whole.pull(values))

    def curvature(self, direction):
        return self._by("curvature", direction, self.whole.curvature(direction))

    def pull_back(self, weights, directions, pushed):
        right = self.whole.pull_back(weights, directions, pushed)
        return self._by("pull_back", weights, right)

    def _by(self, method, argument, value):
        is_wrong = self.fault == method
        is_wrong |= self.fault == f"{method} of a vector" and argument.ndim == 1
        return value * 1.01 if is_wrong else value


class WronglyLinearised(Bent):
    fault: str = static()

    def linearise(self, white):
        field, tangent = super().linearise(white)
        return field, Faulty(tangent, self.fault)


@pytest.mark.parametrize(
    ("fault", "of_prior", "check_of_target", "of_target"),
    [
        ("push", "push of a vector|push", check_target, "Gram matrix"),
        ("push of a vector", "push of a vector", None, ""),
        ("pull", "pull", check_target, "Jacobian"),
        ("pull of a vector", "pull of a vector", check_target, "force"),
        ("curvature", "curvature", check_normal_space, "bend"),
        ("pull_back", "pull_back", check_target, "force"),
    ],
)
def test_a_fault_is_found(fault, of_prior, check_of_target, of_target):
    prior = WronglyLinearised(OTHERS["by automatic differentiation"].mean, fault)
    with pytest.raises(AssertionError, match=f"^({of_prior}): "):
        check_prior(prior)
    if check_of_target:
        with pytest.raises(AssertionError, match=f"^{of_target}: "):
            check_of_target(*target_of(prior))
