"""What every prior, and every target on a manifold, must satisfy, whatever it is.

Values near one position come from one compiled program for all parts of one structure; the checks
are of numbers alone.  Each names what is wrong, so that negative controls can ask for it.
"""

from functools import partial
from math import factorial

import jax
import numpy as np
import pytest

from invlift.programs.compilation import Program

#: Moves along a direction whose remainders are looked at, and half the width of differences.
STEPS, WIDTH = np.geomspace(1e-2, 1e-3, 5), 1e-4


def in_turn(names, quick):
    """Cases by name, of which all but the quick ones are slow."""
    assert quick <= set(names)
    return [n if n in quick else pytest.param(n, marks=pytest.mark.slow) for n in names]


def assert_remainders(what, values, derivatives, steps=STEPS):
    """Values after steps, less a Taylor polynomial of ``derivatives``, shrink by its next order."""
    powers = [h**n / factorial(n) for h in steps for n in range(len(derivatives))]
    powers = np.reshape(powers, (len(steps), -1))
    values = np.reshape(values, (len(steps), -1))
    derivatives = np.reshape(derivatives, (len(derivatives), -1))
    remainders = np.linalg.norm(values - powers @ derivatives, axis=1)
    if remainders.max() < 1e-12 * max(1.0, np.abs(values).max()):
        return  # a polynomial of that order
    slope = np.polyfit(np.log(steps), np.log(remainders), 1)[0]
    expected = len(derivatives)
    assert abs(slope - expected) < 0.15, f"{what}: order {slope:.2f} instead of {expected}"


def assert_close(what, found, expected, tolerance):
    """Shapes are the same, and numbers to a tolerance relative to the largest, at least 1."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: {found.shape} instead of {expected.shape}"
    error = np.abs(found - expected).max() / max(1.0, np.abs(expected).max())
    assert error < tolerance, f"{what}: off by {error:.1e}"


# Priors -------------------------------------------------------------------------------------------


@partial(Program, effort="none")
def look_at_prior(prior, white, directions, weights):
    field, tangent = prior.linearise(white)
    pushed = tangent.push(directions)
    return {
        "transform": prior.transform(white),
        "field": field,
        "push": pushed,
        "push of one": tangent.push(directions[:, 0]),
        "pull": tangent.pull(weights),
        "pull of one": tangent.pull(weights[:, 0]),
        "curvature": tangent.curvature(directions[:, 0]),
        "pull_back": tangent.pull_back(weights, directions, pushed),
    }


def check_prior(prior, seed=0):
    """Shapes, derivatives of first and second order, and the transpose, of (N,) and of (N, k)."""
    rng = np.random.default_rng(seed)
    white = rng.standard_normal(prior.num_white)
    directions = rng.standard_normal((prior.num_white, 2))
    shape = jax.eval_shape(prior.transform, white).shape
    weights = rng.standard_normal((*shape, 2))
    along = directions[:, 0]

    def look(move):
        found = look_at_prior(prior, white + move * along, directions, weights)
        return {name: np.asarray(value) for name, value in found.items()}

    here, near = look(0.0), [look(step) for step in STEPS]
    assert here["field"].shape == shape
    assert_close("linearise", here["field"], here["transform"], 1e-12)
    assert_close("push of a vector", here["push of one"], here["push"][:, 0], 1e-12)
    assert_close("pull of a vector", here["pull of one"], here["pull"][:, 0], 1e-12)
    first, second = here["push"][:, 0], here["curvature"]
    fields = [each["transform"] for each in near]
    assert_remainders("push", fields, [here["field"], first])
    assert_remainders("curvature", fields, [here["field"], first, second])
    assert_close("pull", here["pull"].T @ directions, weights.T @ here["push"], 1e-11)
    ahead, behind = (np.sum(weights * look(sign * WIDTH)["push"]) for sign in (1, -1))
    assert_close("pull_back", here["pull_back"] @ along, (ahead - behind) / (2 * WIDTH), 1e-6)
    assert here["pull_back"].shape == white.shape


# Targets on manifolds -----------------------------------------------------------------------------


@partial(Program, effort="none")
def lift(target, theta):
    """The position above theta."""
    return target.lift(theta)


@partial(Program, effort="none")
def look_at_target(target, position, vector, multiplier):
    point = target.point(position)
    pulled = target.apply_jacobian_transpose(point, multiplier)
    return {
        "constraint": target.constraint(position),
        "constraint of the point": point.constraint,
        "logdensity": point.logdensity,
        "force": point.logdensity_grad,
        "push": target.apply_jacobian(point, vector),
        "pull": pulled,
        "solved": target.solve_gram(point, target.apply_jacobian(point, pulled)),
    }


@partial(Program, effort="none")
def look_at_normal_space(target, position, move, multiplier, step):
    space = target.on_normal_space(target.point(position), position + move)
    local = space.linearise(multiplier)
    rhs = 0.5 + multiplier**2
    velocity = local.solve(rhs, 1e-12)
    bend, _ = local.derivative((velocity,), ())
    moved = space.residual(multiplier + step * velocity)
    return {"residual": local.residual, "rhs": rhs, "bend": bend, "moved": moved}


def check_target(target, position, seed=0):
    """The Jacobian and its transpose, the Gram matrix, and the force: that of the log density.

    Returns the constraint.
    """
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((3, *position.shape))
    multiplier = rng.standard_normal(jax.eval_shape(target.constraint, position).shape)

    def look(direction, move):
        found = look_at_target(target, position + move * direction, directions[0], multiplier)
        return {name: np.asarray(value) for name, value in found.items()}

    here = look(directions[0], 0.0)
    assert_close("constraint", here["constraint of the point"], here["constraint"], 1e-12)
    near = [look(directions[0], step)["constraint"] for step in STEPS]
    assert_remainders("Jacobian", near, [here["constraint"], here["push"]])
    assert_close("transpose", here["pull"] @ directions[0], here["push"] @ multiplier, 1e-11)
    assert_close("Gram matrix", here["solved"], multiplier, 1e-8)
    assert here["force"].shape == position.shape
    for direction in directions / np.linalg.norm(directions, axis=1, keepdims=True):
        ahead, behind = (look(direction, sign * WIDTH)["logdensity"] for sign in (1, -1))
        assert_close("force", here["force"] @ direction, (ahead - behind) / (2 * WIDTH), 1e-6)
    return here["constraint"]


def check_normal_space(target, position, seed=0):
    """The constraint along the normal space: its matrix and its second derivative."""
    rng = np.random.default_rng(seed)
    move = 0.05 * rng.standard_normal(position.shape)
    multiplier = 0.05 * rng.standard_normal(jax.eval_shape(target.constraint, position).shape)

    def look(step):
        return look_at_normal_space(target, position, move, multiplier, step)

    here, near = look(0.0), [look(step)["moved"] for step in STEPS]
    assert_close("residual", here["residual"], here["moved"], 1e-12)
    # Newton's move takes the right-hand side off.
    assert_remainders("solve", near, [here["residual"], -here["rhs"]])
    assert_remainders("bend", near, [here["residual"], -here["rhs"], here["bend"]])
