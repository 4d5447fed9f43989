"""Models: derivatives that follow from values alone, or from a Jacobian of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from invlift.models.base import ForwardModel


class ValuesAlone(ForwardModel):
    """tanh(A x) + (A x)^2 / 5."""

    matrix: jax.Array

    def __call__(self, coefficients):
        linear = self.matrix @ coefficients
        return jnp.tanh(linear) + 0.2 * linear**2


class WithJacobian(ValuesAlone):
    """The same with its Jacobian written out."""

    def value_and_jacobian(self, coefficients):
        linear = self.matrix @ coefficients
        slope = 1.0 - jnp.tanh(linear) ** 2 + 0.4 * linear
        return self(coefficients), slope[:, None] * self.matrix


def third_along(model, expansion, path):
    """Third derivative along a curve, with what the second one has left."""
    _, lower = model.higher_derivative(expansion, path[:1])
    return model.higher_derivative(expansion, path, lower)[0]


def numeric_jacobian(fn, position, width=1e-6):
    """By central differences, (..., N)."""
    columns = []
    for direction in np.eye(position.size):
        ahead, behind = fn(position + width * direction), fn(position - width * direction)
        columns.append((np.asarray(ahead) - np.asarray(behind)) / (2 * width))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize(("kind", "shape"), [(ValuesAlone, (2, 4)), (WithJacobian, (5, 2))])
def test_derivatives_against_finite_differences(kind, shape):
    rng = np.random.default_rng(5)
    model = kind(jnp.asarray(0.7 * rng.normal(size=shape)))
    position, direction = rng.normal(size=(2, shape[1]))
    directions = rng.normal(size=(shape[1], shape[0]))
    weights = rng.normal(size=(shape[0], shape[0]))
    weights = weights + weights.T

    @jax.jit
    def derivatives(position):
        (value, jacobian), expansion = model.linearise(position)
        product, pushed = model.push_forward(expansion, directions)
        gradient = model.pull_back(expansion, pushed, lambda columns: columns @ weights)
        again, alone = model.expand(position)
        return {
            "values": (value, again),
            "jacobian": jacobian,
            "product": product,
            "gradient": gradient,
            # Along a direction, from both kinds of expansions.
            "first": [model.derivative(each, direction) for each in (expansion, alone)],
            "second": [
                model.higher_derivative(each, (direction,))[0] for each in (expansion, alone)
            ],
            "third": [
                third_along(model, each, (direction, directions[:, 0]))
                for each in (expansion, alone)
            ],
        }

    found = derivatives(position)
    value_fn, jacobian_fn = jax.jit(model.__call__), lambda x: derivatives(x)["jacobian"]
    jacobian = numeric_jacobian(value_fn, position)
    hessian = numeric_jacobian(jacobian_fn, position)  # (d, N, N)
    for value in found["values"]:
        np.testing.assert_allclose(value, value_fn(position), rtol=1e-14)
    close = {"rtol": 0, "atol": 1e-7}
    np.testing.assert_allclose(found["jacobian"], jacobian, **close)
    np.testing.assert_allclose(found["product"], jacobian @ directions, **close)
    expected = np.einsum("dij,ik,dk->j", hessian, directions, weights)
    np.testing.assert_allclose(found["gradient"], expected, **close)
    # Negative control: weights that are not used.
    assert np.abs(expected - np.einsum("dij,id->j", hessian, directions)).max() > 1e-2
    for first in found["first"]:
        np.testing.assert_allclose(first, jacobian @ direction, **close)
    expected = np.einsum("dij,i,j->d", hessian, direction, direction)
    assert np.abs(expected).max() > 1e-2
    for second in found["second"]:
        np.testing.assert_allclose(second, expected, **close)
    bend = directions[:, 0]

    def at(t, bend=bend):
        return np.asarray(value_fn(position + t * direction + 0.5 * t**2 * bend))

    def third_difference(curve, h=2e-3):
        return (curve(2 * h) - 2 * curve(h) + 2 * curve(-h) - curve(-2 * h)) / (2 * h**3)

    expected = third_difference(at)
    for third in found["third"]:
        np.testing.assert_allclose(third, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
    # Negative control: the straight line has another.
    straight = third_difference(lambda t: at(t, 0.0))
    assert np.abs(straight - expected).max() > 0.1 * np.abs(expected).max()
