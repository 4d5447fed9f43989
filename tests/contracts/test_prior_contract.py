"""Every prior of the problem file, and each of the library's classes, alone and in a target."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from choices import brief, covering
from contract_checks import check_normal_space, check_prior, check_target, lift
from structured import box_mesh

from invlift.lift.jacobians import dense
from invlift.lift.targets import lifted
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.models.base import JaxFunction
from invlift.noise import known_noise
from invlift.problems.choice.partly_lifted import ReferencePrior
from invlift.problems.inverse_problem import inverse_problem
from invlift.tables.priors import PRIORS
from invlift.unknowns.distributions import half_cauchy, normal
from invlift.unknowns.named import named_prior
from invlift.unknowns.priors.base import AffinePrior, Prior, StandardNormalPrior
from invlift.unknowns.priors.mapped import MappedPrior, PartlyKnownPrior, partly_known

#: What a problem file can say in pairs.  Of each kind, with nothing unknown and all that can be,
#: one is enough; inclusions are as smooth as a field behind them.
CONTENTS = {brief(each["prior"]): each["prior"] for each in covering("prior")}
CONTENTS = {
    name: content
    for name, content in CONTENTS.items()
    if "another" not in name
    and (content["kind"] != "inclusions" or content["smoothness"] < 2.0)
    and (content["kind"] != "matern" or "range=gamma" not in name or content["smoothness"] != 3.0)
    and (content["kind"] != "matern" or "boundary=robin" not in name or "range=gamma" in name)
}


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


EACH = [*CONTENTS, *OTHERS]


@cache
def prior_of(name):
    return build(CONTENTS[name]) if name in CONTENTS else OTHERS[name]


def kind_of(name):
    prior = prior_of(name)
    return type(prior), prior.is_affine


@pytest.mark.parametrize("name", EACH)
def test_prior_and_its_target(name):
    """A target asks no more of priors of one kind than what is looked at of each alone."""
    check_prior(prior_of(name))
    if name == next(each for each in EACH if kind_of(each) == kind_of(name)):
        target, position = target_of(prior_of(name))
        check_target(target, position)
        check_normal_space(target, position)


def test_the_normal_space_of_many_readings(monkeypatch):
    """By products, with the Gram matrix factorised by LAPACK."""
    monkeypatch.setattr(lifted, "MAX_DENSE", 0)
    monkeypatch.setattr(dense, "FEW_ROWS", 0)
    target, position = target_of(OTHERS["by automatic differentiation"])
    check_normal_space(type("OfMany", (LiftedPosterior,), {})(target.problem), position)


def test_every_class_is_tried():
    tried = {type(prior_of(name)) for name in EACH}
    bases = {Prior, AffinePrior, MappedPrior}
    # In a target's own coordinates, by the contract of targets; and a field beside numbers.
    inside = {ReferencePrior, PartlyKnownPrior}
    classes = {each for base in bases for each in base.__subclasses__()} - bases
    own = {each for each in classes if each.__module__.startswith("invlift.")}
    assert own - inside <= tried


# Negative controls --------------------------------------------------------------------------------


#: What is wrong of a tangent, what is then found of the prior, and what by which check of a target.
FAULTS = {
    "push": ("push of a vector|push", check_target, "Gram matrix"),
    "push of a vector": ("push of a vector", None, ""),
    "pull": ("pull", check_target, "Jacobian"),
    "pull of a vector": ("pull of a vector", check_target, "force"),
    "curvature": ("curvature", check_normal_space, "bend"),
    "pull_back": ("pull_back", check_target, "force"),
}


class Faulty(NamedTuple):
    """A tangent of which one method is wrong, of vectors alone or altogether."""

    whole: Any
    errors: jax.Array

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
        faults = [method] if argument.ndim > 1 else [method, f"{method} of a vector"]
        error = sum(self.errors[list(FAULTS).index(each)] for each in faults if each in FAULTS)
        return value * (1.0 + error)


class WronglyLinearised(Bent):
    """Negative control, of one program for all faults: relative errors in their order."""

    errors: jax.Array

    def linearise(self, white):
        field, tangent = super().linearise(white)
        return field, Faulty(tangent, self.errors)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault):
    of_prior, check_of_target, of_target = FAULTS[fault]
    errors = 0.01 * np.array([each == fault for each in FAULTS])
    prior = WronglyLinearised(OTHERS["by automatic differentiation"].mean, jnp.asarray(errors))
    with pytest.raises(AssertionError, match=f"^({of_prior}): "):
        check_prior(prior)
    if check_of_target:
        with pytest.raises(AssertionError, match=f"^{of_target}: "):
            check_of_target(*target_of(prior))
