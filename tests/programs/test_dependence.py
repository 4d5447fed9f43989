"""Which inputs outputs may depend on: never less than they do, and for most programs no more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from invlift.programs.dependence import NONE, spread

LABELS = np.array([NONE, NONE, 0, 1, 2, 3])
INDEX = np.array([0, 0, 1, 2, 2, 3, 3])
BY_GROUP = INDEX.tolist()


def effects(x):
    """Of four groups, by two shared numbers."""
    return x[0] + jnp.exp(x[1]) * x[2:]


def in_time(x):
    """A differential equation for each group, by fixed steps."""

    def step(state, _):
        state = state + 0.1 * jax.vmap(lambda a, b: jnp.sin(a) * b)(state, x[2:])
        return state, state * x[0]

    return jax.lax.scan(step, jnp.ones(4), length=3)[1].T.ravel()


def turned(x):
    """A scan whose carry goes round."""
    return jax.lax.scan(lambda a, _: (jnp.roll(a, 1), a), effects(x), length=2)[0]


@jax.custom_jvp
def softened(x):
    return jnp.logaddexp(x, 0.0)


softened.defjvps(lambda tangent, _, x: tangent * jax.nn.sigmoid(x))

#: Functions, and the labels that their outputs have; None where these are several.
SEPARATE = {
    "elementwise": (effects, [0, 1, 2, 3]),
    "shared": (lambda x: jnp.sin(x[:2]), [None, None]),
    "constant": (lambda x: jnp.ones(3), [None] * 3),
    "by index": (lambda x: effects(x)[INDEX] ** 2, BY_GROUP),
    "index outside": (
        lambda x: jnp.where(jnp.array([1, 0]), jnp.take(effects(x), jnp.array([1, 9])), 0.0),
        [1, None],
    ),
    "clipped": (lambda x: jnp.clip(jax.nn.relu(effects(x))[INDEX], 0.1, 2.0), BY_GROUP),
    "normal distribution function": (lambda x: jax.scipy.special.ndtr(effects(x)), [0, 1, 2, 3]),
    "where": (lambda x: jnp.where(x[2:] > 0.0, effects(x), x[2:]), [0, 1, 2, 3]),
    "rearranged": (lambda x: effects(x).reshape(2, 2).T[::-1].ravel(), [1, 3, 0, 2]),
    "side by side": (lambda x: jnp.concatenate([x[:1], effects(x)[2:]]), [None, 2, 3]),
    "summed": (lambda x: jnp.sum(x[2:][:, None] * jnp.ones(3), axis=1), [0, 1, 2, 3]),
    "product": (lambda x: jnp.einsum("b,i->bi", x[2:], x[:2]).ravel(), [0, 0, 1, 1, 2, 2, 3, 3]),
    "product with a matrix": (lambda x: (jnp.ones((4, 2)) @ x[:2]) * x[2:], [0, 1, 2, 3]),
    "batched product": (
        lambda x: jnp.einsum("bij,bj->bi", jnp.ones((4, 2, 1)), x[2:, None]).ravel(),
        [0, 0, 1, 1, 2, 2, 3, 3],
    ),
    "matrices": (
        lambda x: jnp.linalg.cholesky(jnp.eye(2) * jnp.exp(x[2:, None, None]))[:, 1, 1],
        [0, 1, 2, 3],
    ),
    "cumulative": (lambda x: jnp.cumsum(x[2:, None] * jnp.ones(2), axis=1)[:, 1], [0, 1, 2, 3]),
    "custom derivative": (lambda x: softened(effects(x)), [0, 1, 2, 3]),
    "in time": (in_time, np.repeat([0, 1, 2, 3], 3).tolist()),
    "some turns": (lambda x: jax.lax.fori_loop(0, 3, lambda i, a: 2.0 * a, x[2:]), [0, 1, 2, 3]),
}
#: Functions of which some outputs depend on several groups, if only for some values.
MIXED = {
    "centred": lambda x: effects(x) - jnp.mean(effects(x)),
    "cumulative, mixed": lambda x: jnp.cumsum(effects(x)),
    "where, mixed": lambda x: jnp.where(x[2] > 1e6, effects(x), effects(x)[::-1]),
    "sorted": lambda x: jnp.sort(effects(x)),
    "placed": lambda x: effects(x)[jnp.argmax(x)][None],
    "turned": turned,
    "until": lambda x: jax.lax.while_loop(lambda a: a.sum() < 9.0, lambda a: 2.0 * a, x[2:] ** 2),
    "product, mixed": lambda x: jnp.ones((4, 4)) @ x[2:],
    "scattered": lambda x: jnp.zeros(4).at[jnp.array([0, 1])].add(x[4:]) + x[2:],
    "neighbours": lambda x: x[2:] * jnp.roll(x[2:], 1),
}


FUNCTIONS = {name: fn for name, (fn, _) in SEPARATE.items()} | MIXED


@pytest.fixture(scope="module")
def labels():
    """The least and the most that each function's outputs may have."""
    found = {name: spread(fn, np.zeros(6), LABELS[None]) for name, fn in FUNCTIONS.items()}
    return {name: (least[0], most[0]) for name, (least, most) in found.items()}


def test_groups_that_are_kept_apart_are_found_and_what_is_mixed_too(labels):
    pairs = {name: list(zip(*found, strict=True)) for name, found in labels.items()}
    found = {
        name: [None if low > high else low for low, high in pairs[name] if low >= high]
        for name in SEPARATE
    }
    assert found == {name: expected for name, (_, expected) in SEPARATE.items()}
    assert [name for name in MIXED if all(low >= high for low, high in pairs[name])] == []


def test_no_derivative_is_outside(labels):
    derivatives = [jax.jacfwd(fn) for fn in FUNCTIONS.values()]
    places = np.random.default_rng(1).standard_normal((3, 6))
    found = jax.jit(jax.vmap(lambda at: [each(at) for each in derivatives]))(places)
    outside = []
    for (name, (least, most)), rows in zip(labels.items(), found, strict=True):
        depends = (np.abs(rows) > 0.0) & (LABELS != NONE)
        low, high = (np.asarray(each)[:, None] for each in (least, most))
        if np.any(depends & ((low > LABELS) | (high < LABELS))):
            outside.append(name)
    assert outside == []


def test_several_ways_to_label_at_once():
    pairs = np.array([NONE, NONE, 0, 0, 1, 1])
    least, most = spread(
        lambda x: effects(x) * effects(x)[np.array([1, 0, 3, 2])], np.zeros(6), [LABELS, pairs]
    )
    assert np.all(least[0] < most[0])
    assert least[1].tolist() == most[1].tolist() == [0, 0, 1, 1]
