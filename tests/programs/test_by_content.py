"""Programs serve functions that compute the same, and no others, whichever objects they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import invlift
from invlift.fem.equations.forms import Anisotropic
from invlift.programs.by_content import ByContent, by_content
from invlift.programs.compilation import Program

#: What the functions below refer to; tests change it.
TABLE = {"factor": 1.0}


def scaled(rate):
    return TABLE["factor"] * rate * jnp.arange(1.0, 4.0)


class Scaled:
    """A function with an attribute."""

    def __init__(self):
        self.factor = 1.0

    def __call__(self, rate):
        return self.factor * rate * jnp.arange(1.0, 4.0)


def named(fn):
    return invlift.inverse_problem(
        fn, {"rate": invlift.normal(1.0, 0.1)}, invlift.known_noise(0.1), np.array([1.0, 2.0, 3.0])
    )


@jax.jit
def jitted(rate):
    return scaled(rate)


def white():
    return invlift.jax_problem(
        lambda white: scaled(white[0]), 1, invlift.known_noise(0.1), np.array([1.0, 2.0, 3.0])
    )


def circle():
    return invlift.manifold_problem(
        lambda u: (jnp.sum(u**2) - TABLE["factor"] ** 2)[None], lambda u: u[0], {"u": (2,)}
    )


OBJECT = Scaled()


def assert_it_follows_what_it_refers_to(look, monkeypatch):
    """What is found is proportional to today's factor, and compiled anew for that alone."""
    first = look()
    begun = Program.num_begun
    np.testing.assert_array_equal(look(), first)
    assert Program.num_begun == begun  # what computes the same is not compiled again
    monkeypatch.setitem(TABLE, "factor", 5.0)
    monkeypatch.setattr(OBJECT, "factor", 5.0)
    np.testing.assert_allclose(look(), 5.0 * first, rtol=1e-9)


def test_what_a_function_refers_to_may_change_between_runs(monkeypatch):
    """The noise-free readings are those of today's function."""

    def largest():
        chain = invlift.sample(named(scaled), "pcn", chains=1, warmup=1, draws=2, seed=1).chains[0]
        return np.linalg.norm(chain.draws["predicted"], axis=1) / np.abs(chain.draws["rate"])

    assert_it_follows_what_it_refers_to(largest, monkeypatch)


predict = Program(lambda problem: problem.predict(jnp.full(1, 0.7)), "none")
square = Program(lambda problem: -problem.constraint(jnp.zeros(2)), "none")


@pytest.mark.parametrize("build", [lambda: named(OBJECT), lambda: named(jitted), white, circle])
def test_what_a_function_refers_to_may_change_between_problems(build, monkeypatch):
    """In an attribute, and behind another function; a run's programs take problems as this does.

    Of a manifold it is a constraint.
    """

    def look():
        problem = build()
        return np.sqrt(square(problem)) if build is circle else np.asarray(predict(problem))

    assert_it_follows_what_it_refers_to(look, monkeypatch)


def test_functions_are_equal_by_content_and_library_functions_as_they_are():
    assert by_content(jnp.sin) is jnp.sin
    assert by_content(3) == 3
    own = by_content(scaled)
    assert isinstance(own, ByContent)
    assert by_content(own) is own
    first, second = (by_content(lambda x, k=k: k * x) for k in (1.0, 2.0))
    assert first != second
    assert first == by_content(lambda x, k=1.0: k * x)
    assert own.__name__ == "scaled"
    # Methods of the library are those of objects, which have a content.
    one, same, other = (by_content(Anisotropic(((x,),)).integrand) for x in (1.0, 1.0, 2.0))
    assert one == same
    assert one != other


def test_what_has_no_digest_is_equal_to_itself_alone():
    class Strange:
        __slots__ = ()

        def __reduce_ex__(self, protocol):
            raise ValueError("not this one")

        def __call__(self):
            return 1

    strange = Strange()
    first, second = ByContent(strange), ByContent(strange)
    assert first == first
    assert first != second
    assert first() == 1
