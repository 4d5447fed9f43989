"""The structure of a registered dataclass tells its class, its static fields and its parts."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from invlift.models.base import ForwardModel, JaxFunction
from invlift.programs.digest import digest
from invlift.programs.pytrees import Module, aside, pytree


def made(register=pytree):
    """A class whose name and fields are those of every other."""

    @register
    @dataclass(frozen=True)
    class Made:
        part: jax.Array

    return Made


def test_structures_of_two_classes_differ():
    first, second = (jax.tree.structure(made()(1.0)) for _ in range(2))
    assert first != second
    # Also where a child was registered by JAX itself, whose structures may be equal.
    first, second = (made(jax.tree_util.register_dataclass)(1.0) for _ in range(2))
    outer = made()
    assert jax.tree.structure(outer(first)) != jax.tree.structure(outer(second))
    assert jax.tree.structure(outer(first)) == jax.tree.structure(outer(first))


@pytree
@dataclass(frozen=True)
class Scaled:
    inner: ForwardModel
    factor: jax.Array
    power: int = field(default=1, metadata={"static": True})


def test_static_fields_are_structure_and_all_others_children():
    instance = Scaled(JaxFunction(jnp.sin), jnp.asarray(2.0), power=3)
    leaves, structure = jax.tree.flatten(instance)
    assert leaves == [2.0]
    assert structure != jax.tree.structure(Scaled(instance.inner, instance.factor, power=2))
    assert structure != jax.tree.structure(Scaled(JaxFunction(jnp.cos), instance.factor, power=3))
    assert jax.tree.unflatten(structure, leaves) == instance
    doubled = jax.tree.map(lambda leaf: 2 * leaf, instance)
    assert (doubled.factor, doubled.power, doubled.inner) == (4.0, 3, instance.inner)
    ((path, _),) = jax.tree_util.tree_leaves_with_path(instance)
    assert jax.tree_util.keystr(path) == ".factor"


def test_instances_pass_through_transformations():
    def value(instance, x):
        return instance.factor * instance.inner(x) ** instance.power

    instance = Scaled(JaxFunction(jnp.sin), jnp.asarray([2.0, 3.0]), power=2)
    x = jnp.asarray(0.7)
    mapped = jax.jit(jax.vmap(value, in_axes=(0, None)))(instance, x)
    np.testing.assert_allclose(mapped, jnp.asarray([2.0, 3.0]) * jnp.sin(0.7) ** 2, rtol=1e-14)
    compiled = jax.jit(value).lower(instance, x).compile()
    np.testing.assert_allclose(compiled(instance, x), mapped, rtol=1e-14)
    slope = jax.grad(lambda instance: value(instance, x).sum())(instance)
    assert isinstance(slope, Scaled)
    np.testing.assert_allclose(slope.factor, np.full(2, np.sin(0.7) ** 2), rtol=1e-14)


class Remarked(Module):
    part: jax.Array
    remark: object = aside()
    words: tuple = aside(("none",))


def test_what_is_aside_is_no_part_of_the_pytree():
    remarked, plain = Remarked(jnp.ones(2), np.arange(5)), Remarked(jnp.ones(2))
    assert jax.tree.structure(remarked) == jax.tree.structure(plain)
    assert digest(remarked) == digest(plain) != digest(Remarked(jnp.zeros(2)))
    mapped = jax.tree.map(lambda leaf: leaf, replace(remarked, words=("one", "two")))
    assert (mapped.remark, mapped.words) == (None, ("none",))
    np.testing.assert_array_equal(remarked.remark, np.arange(5))
