"""What people are shown of a problem: its parts, a line each, as text and as a table."""

import re
from html import unescape

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from invlift.noise import gaussian_noise, known_noise, student_t_noise, unknown_scale
from invlift.problems.inverse_problem import inverse_problem, jax_problem
from invlift.problems.manifolds.manifold_problem import manifold_problem
from invlift.problems.manifolds.manifolds import sphere
from invlift.unknowns.distributions import half_normal, lognormal, normal, uniform
from invlift.unknowns.named import Unknown
from invlift.unknowns.priors.base import StandardNormalPrior

READINGS = np.array([4.0, 2.5, 3.0])


def decay(start, rate):
    return start[0] * jnp.exp(-rate * jnp.arange(3.0)) + start[1]


def named(noise, model=decay):
    unknowns = {"start": Unknown(normal(np.ones(2), 0.5), "K"), "rate": dist.Gamma(2.0, 10.0)}
    return inverse_problem(model, unknowns, noise, READINGS)


def test_unknowns_are_shown_with_their_distributions_and_units():
    shown = str(named(student_t_noise([0.1, 0.3, 0.2], uniform(2.0, 8.0), relative=True)))
    assert shown.splitlines() == [
        "model               decay",
        "start               Normal(mean=1, sd=0.5) of shape (2,) K",
        "rate                Gamma",
        "noise               StudentTNoise, relative",
        "sigma               0.1 to 0.3",
        "degrees_of_freedom  Uniform(low=2, high=8)",
        "readings            3, 2.5 to 4",
    ]


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (known_noise(0.25), "0.25"),
        (gaussian_noise(half_normal(0.5)), "HalfNormal(scale=0.5)"),
        (
            gaussian_noise(unknown_scale(lognormal(0.0, 1.0), groups=np.array([0, 1, 0]))),
            "Lognormal(location=0, scale=1), 2 of them",
        ),
    ],
    ids=["known", "unknown", "groups"],
)
def test_scales_are_shown(noise, expected):
    problem = jax_problem(lambda theta: theta, 3, noise, READINGS)
    lines = dict(line.split(maxsplit=1) for line in str(problem).splitlines())
    assert lines["sigma"] == expected
    assert lines["prior"] == "StandardNormalPrior of 3 unknowns"


def test_priors_among_the_unknowns_are_shown_by_their_size():
    unknowns = {"field": StandardNormalPrior(jnp.zeros(3))}
    problem = inverse_problem(lambda field: field, unknowns, known_noise(1.0), np.ones(3))
    assert "StandardNormalPrior of 3 unknowns of shape (3,)" in str(problem)
    assert str(problem).endswith("readings  3, 1")


def on_a_sphere():
    return manifold_problem(None, lambda x: x[0], {"x": sphere(3)})


PROBLEMS = {
    "readings": (lambda: named(known_noise(0.1), lambda start, rate: decay(start, rate)), "start"),
    "manifold": (on_a_sphere, "x"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_notebooks_show_the_same_as_a_table(name):
    make, part = PROBLEMS[name]
    problem = make()
    page = problem._repr_html_()
    rows = re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>", page)
    assert [f"{name}  {unescape(text)}" for name, text in rows] == [
        re.sub(r"^(\w+) +", r"\1  ", line) for line in str(problem).splitlines()
    ]
    assert part in dict(rows)
    assert "&lt;lambda&gt;" in page
    assert page.startswith("<table>")
    assert page.endswith("</table>")
