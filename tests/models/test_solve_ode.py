"""Solutions of differential equations against closed forms, at their orders."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from invlift.errors import InputError
from invlift.models.linear_moves import FEW
from invlift.models.solve_ode import METHODS, _solver, solve_ode

ORDERS = {"rk4": 4, "dopri5": 5, "rodas3": 3, "exponential": 2}
TIMES = np.array([0.0, 0.3, 0.3, 1.1, 2.0])


def forced(time, state):
    """x' = -2 t x^2 + cos t - ..., of which x = 1 / (1 + t^2) + sin t is the solution."""
    smooth = state["x"] - jnp.sin(time)
    return {"x": -2.0 * time * smooth**2 + jnp.cos(time), "y": state["x"] * jnp.ones(2)}


def exact(time):
    return 1.0 / (1.0 + time**2) + np.sin(time)


def solve(method, max_step, initial=1.0, times=TIMES):
    start = {"x": jnp.asarray(initial), "y": jnp.zeros(2)}
    return solve_ode(forced, start, times, max_step, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_order_and_derivatives_by_the_initial_state(method):
    """In both modes."""
    steps = np.array([0.1, 0.01])

    def at(step):
        return lambda initial: solve(method, step, initial)

    @jax.jit
    def look(initial):
        value, along = jax.jvp(at(0.1), (initial,), (1.0,))
        back = jax.grad(lambda initial: at(0.1)(initial)["x"][-1])(initial)
        return (value, at(0.01)(initial)), along["x"][-1], back

    found, *slopes = look(1.0)
    errors = [np.abs(each["x"] - exact(TIMES)).max() for each in found]
    slope = np.diff(np.log(errors)) / np.diff(np.log(steps))
    assert abs(slope - ORDERS[method]) < 0.35
    integral = np.arctan(TIMES) + 1.0 - np.cos(TIMES)
    np.testing.assert_allclose(found[1]["y"][:, 1], integral, atol=1e-5)
    after, before = (look(1.0 + move)[0][0]["x"][-1] for move in (1e-5, -1e-5))
    np.testing.assert_allclose(slopes, (after - before) / 2e-5, rtol=1e-8)


def test_a_stiff_equation_needs_the_implicit_method():
    def fast(time, state):
        return -1e4 * (state - jnp.cos(time))

    def end(initial):
        names = ("rodas3", "rk4")
        return {n: solve_ode(fast, initial, [0.0, 1.0], 0.1, method=n)[1] for n in names}

    found = jax.jit(end)(2.0)
    assert abs(found["rodas3"] - np.cos(1.0)) < 1e-3
    assert not abs(found["rk4"]) < 1e6


LINEAR = np.array([[-0.3, 0.01], [0.06, -0.02]])


def driven(matrix, time, state):
    """x' = A x + b + c t."""
    return matrix @ state + jnp.array([1.0, 2.0]) + jnp.array([0.5, 0.0]) * time


def one_step(matrix, times=TIMES, max_step=np.inf):
    state = jnp.array([20.0, 3.0])
    return solve_ode(partial(driven, matrix), state, times, max_step, method="exponential")


@pytest.mark.parametrize(
    "matrix", [LINEAR, 30.0 * LINEAR, np.zeros((2, 2)), np.array([[0.0, 1.0], [-4.0, 0.0]])]
)
def test_a_linear_equation_is_solved_in_one_step(matrix):
    """SciPy's exponential of the system with 1 and t among its states is the solution."""
    whole = np.zeros((4, 4))
    whole[:2] = np.column_stack([matrix, [0.5, 0.0], [1.0, 2.0]])
    whole[2, 3] = 1.0
    exact = [scipy.linalg.expm(whole * time) @ [20.0, 3.0, 0.0, 1.0] for time in TIMES]
    found = jax.jit(one_step)(matrix)
    np.testing.assert_allclose(found, np.stack(exact)[:, :2], rtol=1e-12, atol=1e-12)


#: On both sides of each jump the derivatives are those of a linear equation.
JUMPS = [
    lambda t, x: jnp.where(t < 1.0, 1.0, 0.0),
    lambda t, x: jnp.where(x > 21.0, 0.0, 1.0),
    lambda t, x: jax.lax.rem(t, 0.5),
    lambda t, x: jax.jit(jnp.floor)(2.0 * t),
]


def test_slopes_that_jump_are_not_taken_as_linear():
    """By a method without the matrix, of all at once."""

    def slope(jump):
        return lambda time, x: -0.3 * x + jump(time, x)

    def all_slopes(time, x):
        return jnp.concatenate([slope(f)(time, x[k : k + 1]) for k, f in enumerate(JUMPS)])

    @jax.jit
    def both(state):
        found = [
            solve_ode(slope(jump), state[:1], TIMES, 0.01, method="exponential")[-1]
            for jump in JUMPS
        ]
        return jnp.concatenate(found), solve_ode(all_slopes, state, TIMES, 0.01, method="dopri5")

    found, expected = both(jnp.full(4, 20.0))
    np.testing.assert_allclose(found, expected[-1], rtol=1e-3)


def test_derivatives_by_the_matrix_of_a_linear_equation():
    """By the matrix, of first order in forward mode and of second through that in reverse mode."""

    def end(entry):
        return one_step(jnp.asarray(LINEAR).at[0, 1].set(entry), [0.0, 2.0])[-1]

    step, at = 1e-4, 0.01

    @jax.jit
    def look(at):
        def along(at):
            value, slope = jax.jvp(end, (at,), (1.0,))
            return slope, value

        slope, pull, value = jax.vjp(along, at, has_aux=True)
        return value, slope, jax.vmap(pull)(jnp.eye(2))[0]

    (before, slope_before, _), (_, slope, second), (after, slope_after, _) = map(
        look, (at - step, at, at + step)
    )
    np.testing.assert_allclose(slope, (after - before) / (2 * step), rtol=1e-7)
    np.testing.assert_allclose(second, (slope_after - slope_before) / (2 * step), rtol=1e-6)


def test_more_states_than_are_summed_by_hand():
    """And derivatives where the state is at rest."""
    matrix = np.random.default_rng(1).standard_normal((12, 12))

    def end(initial):
        return solve_ode(
            lambda t, x: matrix @ x, initial, [0.0, 2.0], np.inf, method="exponential"
        )[1]

    found, slopes = jax.jit(lambda at: (end(at), jax.jacfwd(end)(0.0 * at)))(np.ones(12))
    exact = scipy.linalg.expm(2.0 * matrix)
    close = {"rtol": 1e-12, "atol": 1e-12 * np.abs(exact).max()}
    np.testing.assert_allclose(found, exact @ np.ones(12), **close)
    np.testing.assert_allclose(slopes, exact, **close)


def test_no_time_between_readings_is_left_out_of_long_steps():
    """Of a longest step of 1e12, the time to the next reading is less than a billionth."""
    steps = 3.0, 1e12, np.inf
    expected, *found = jax.jit(lambda matrix: [one_step(matrix, TIMES, h) for h in steps])(LINEAR)
    for each in found:
        np.testing.assert_allclose(each, expected)


def test_a_start_before_the_first_time():
    late = solve_ode(lambda t, x: -x, jnp.asarray(1.0), [1.0, 2.0], 0.05, start=0.0)
    np.testing.assert_allclose(late, np.exp([-1.0, -2.0]), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"times": [0.0, 2.0, 1.0]},
            "times: expected finite numbers that do not decrease, found 1 at index 2, after 2",
        ),
        ({"times": [0.0, np.nan]}, "found nan at index 1, after 0"),
        ({"start": 0.5}, "found 0 at index 0, after 0.5"),
        ({"max_step": 0.0}, "max_step: expected a positive number, found 0"),
        ({"max_step": 1e-9}, "at most 1,000,000 steps from 0 to 1, found 1e-09"),
        ({"slope": lambda t, x: {"x": -x}}, r"slope: .* for each part of the state: \(\), found"),
        ({"method": "euler"}, "method: expected one of rk4, dopri5, rodas3, exponential"),
    ],
)
def test_bad_input(changes, message):
    arguments = {"slope": lambda t, x: -x, "times": [0.0, 1.0], "max_step": 0.1} | changes
    with pytest.raises(InputError, match=message):
        solve_ode(initial=1.0, **arguments)


@pytest.mark.parametrize("size", [1, 3, FEW + 1])
def test_systems_of_stiff_steps_are_solved_as_by_numpy(size):
    """Those that cannot be without pivoting, and with derivatives in both modes."""
    rng = np.random.default_rng(size)
    matrix, direction, rhs = rng.normal(size=(3, size, size))
    matrix[0, 0], rhs = 1e-18 if size > 1 else 2.0, rhs[0]

    @jax.jit
    def look(matrix):
        def solve(matrix):
            return _solver(matrix)(rhs)

        found, along = jax.jvp(solve, (matrix,), (direction,))
        curved = jax.jvp(jax.grad(lambda m: jnp.sum(solve(m) ** 2)), (matrix,), (direction,))[1]
        return found, along, curved

    inverse = np.linalg.inv(matrix)
    found, along, curved = look(matrix)
    np.testing.assert_allclose(found, inverse @ rhs, rtol=1e-9)
    np.testing.assert_allclose(along, -inverse @ direction @ inverse @ rhs, rtol=1e-8)
    # The gradient of |x|^2 is -2 A^-T x x^T, which is differentiated by hand.
    moved = -2.0 * (
        -inverse.T @ direction.T @ inverse.T @ np.outer(found, found)
        + inverse.T @ (np.outer(along, found) + np.outer(found, along))
    )
    np.testing.assert_allclose(curved, moved, rtol=1e-7, atol=1e-9 * np.abs(moved).max())


def test_whole_numbers_to_begin_with_are_numbers_like_others():
    found = solve_ode(lambda t, x: {"x": -0.7 * x["x"], "y": x["x"]}, {"x": 5, "y": 0}, TIMES, 0.01)
    expected = 5.0 * np.exp(-0.7 * TIMES)
    np.testing.assert_allclose(found["x"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["y"], (5.0 - expected) / 0.7, rtol=1e-5)
