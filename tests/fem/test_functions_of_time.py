"""Numbers that are a function of time, against exact responses and an independent stepper."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.linalg import lu_factor, lu_solve
from structured import box_mesh
from test_time import EXCHANGE, STORAGE, Modes, evaluate, observed, places_in, relative_error

from invlift.errors import InputError
from invlift.fem.equations.assembly import assemble_poisson
from invlift.fem.time.functions import function_of_time
from invlift.fem.time.schedules import changing_field
from invlift.fem.time.shifts import TOLERANCE, shifts_for

TIMES = np.geomspace(0.02, 20.0, 15)


def test_sums_over_shifts_are_the_responses_of_all_modes():
    """To 12.5 + 0.3 sin(w t) + 0.1 t, whose response has a formula, relative to its size so far."""
    number, w, t = function_of_time("12.5 + 0.3*sin(2*pi*t) + 0.1*t"), 2 * np.pi, TIMES[:, None]
    assert number.before == 12.5
    shifts = shifts_for(number.spans(TIMES)).values
    rates = np.geomspace(1e-4, 1e5, 500)
    decayed = -np.expm1(-rates * t) / rates
    exact = 0.1 * (t - decayed) / rates
    exact += (
        0.3
        * (rates * np.sin(w * t) - w * np.cos(w * t) + w * np.exp(-rates * t))
        / (rates**2 + w**2)
    )
    largest = np.maximum.accumulate(np.abs(0.3 * np.sin(w * t) + 0.1 * t), axis=0)
    sizes = largest * decayed
    errors = []
    for each in (number, function_of_time("12.5 + 0.3*sin(2.02*pi*t) + 0.1*t")):
        sums = each.weights(shifts, TIMES) @ (1.0 / (rates + shifts[:, None]))
        errors.append(np.abs((sums - exact) / sizes).max())
    assert errors[0] < 1.5 * TOLERANCE
    assert errors[1] > 10 * TOLERANCE  # negative control: another frequency
    assert not number.weights(shifts, np.array([-1.0, 0.0])).any()
    assert not function_of_time("2 + 0*t").weights(shifts, TIMES).any()


def test_sums_over_shifts_are_the_means_and_moments_of_the_responses():
    """Over intervals that begin before and after time 0; the means by a rule of many points."""
    number, times = function_of_time("2 + exp(-t) * t + cos(t)"), TIMES[::3]
    lengths = 0.02 * 1.5 ** np.arange(0, 15, 3)
    shifts = shifts_for(number.spans(times)).values
    rates = np.geomspace(1e-4, 30.0, 60)
    at = times[:, None] - lengths[:, None] * (np.arange(300) + 0.5) / 300
    at = np.append(np.maximum(at, 0.0), times[:, None], axis=1)
    sums = number.weights(shifts, at.ravel()).reshape(*at.shape, -1) @ (
        1.0 / (rates + shifts[:, None])
    )
    means = number.weights(shifts, times, lengths) @ (1.0 / (rates + shifts[:, None]))
    sizes = 2.0 * -np.expm1(-rates * times[:, None]) / rates
    assert np.abs((sums[:, :-1].mean(axis=1) - means) / sizes).max() < 3 * TOLERANCE
    # Of the first moments the rule needs the times since the intervals began.
    ages = 1.0 - (np.arange(300) + 0.5)[:, None] / 300
    firsts = number.weights(shifts, times, lengths, 1.0) @ (1.0 / (rates + shifts[:, None]))
    assert np.abs(((ages * sums[:, :-1]).mean(axis=1) - firsts) / sizes).max() < 3 * TOLERANCE
    # Negative control: the means are not the responses at the ends.
    assert np.abs((sums[:, -1] - means) / sizes).max() > 1e-2


#: The second of the left differs from place to place, along the side where x is 0.
NUMBERS = {
    "left": (
        "1 + 0.5 * sin(1.3 * t) * (1 - 2 * y)**2 - y * (sin(1.3 * t) - 0.3)",
        lambda t, y: (
            1.0 + 0.5 * np.sin(1.3 * t) * (1.0 - 2.0 * y) ** 2 - y * (np.sin(1.3 * t) - 0.3)
        ),
    ),
    "air": ("0.5 + t * exp(-t)", lambda t: 0.5 + t * np.exp(-t)),
    "well": ("1 - exp(-2 * t)", lambda t: 1.0 - np.exp(-2.0 * t)),
}


def stepped(modes, times, num):
    """By the trapezoidal rule, of steps of 10 / num, from the steady state at time 0."""
    on_the_left, air, well = (each for _, each in NUMBERS.values())

    def left(t):
        return on_the_left(t, modes.basis.mesh.p[1, modes.held])

    def load(t):
        return modes.source + well(t) * modes.well + air(t) * modes.exchanged

    step, at = 10.0 / num, np.linspace(0.0, 10.0, num + 1)
    factor = lu_factor((modes.mass / step + 0.5 * modes.stiffness)[modes.inner])
    found = [modes.steady(load(0.0), left(0.0))]
    for now, then in pairwise(at):
        after = np.zeros(modes.basis.N)
        after[modes.held] = left(then)
        rest = modes.mass @ (found[-1] - after) / step - 0.5 * modes.stiffness @ (found[-1] + after)
        rest += 0.5 * (load(now) + load(then))
        after[modes.free] = lu_solve(factor, rest[modes.free])
        found.append(after)
    places = np.rint(times / step).astype(int)
    return np.stack([found[place] for place in places], axis=1)


def test_readings_are_those_of_small_steps_in_time():
    mesh, places = box_mesh(2, 5), places_in(2)
    phi = 0.7 * np.random.default_rng(0).standard_normal(mesh.num_nodes)
    times = np.array([0.1, 0.5, 1.0, 2.0, 3.7, 6.0, 10.0])

    def conditions(left, air, well):
        return {
            "source": 0.3,
            "dirichlet": {"left": left},
            "robin": {"right": (EXCHANGE, air)},
            "point_sources": [((0.45, 0.45), well)],
        }

    left, *others = (text for text, _ in NUMBERS.values())
    given = [left, *map(function_of_time, others)]
    seen = observed(mesh, places, times)
    model = assemble_poisson(mesh, seen, storage=STORAGE, **conditions(*given))
    modes = Modes(mesh, phi)
    probes = modes.basis.probes(places.T)
    half, exact = ((probes @ stepped(modes, times, num)).ravel() for num in (2000, 4000))
    exact += (exact - half) / 3.0
    assert relative_error(half, exact) < 0.1 * TOLERANCE  # the stepper stands
    assert relative_error(evaluate(model, phi), exact) < TOLERANCE
    late = left.replace("(1.3 * t)", "(1.3 * t + 0.01)")  # negative control
    other = assemble_poisson(mesh, seen, storage=STORAGE, **conditions(late, *given[1:]))
    assert relative_error(evaluate(other, phi), exact) > 10 * TOLERANCE


def test_with_an_initial_state_it_begins_at_time_0():
    """A number that does not change, written as one of time, is the number."""
    mesh, places = box_mesh(2, 3), places_in(2)
    seen = observed(mesh, places)
    found = [
        evaluate(
            assemble_poisson(
                mesh, seen, source=0.3, dirichlet={"left": value}, storage=STORAGE, initial=2.0
            ),
            np.zeros(mesh.num_nodes),
        )
        for value in (
            1.2,
            function_of_time(lambda times: 1.2 + 0.0 * times),
            "1.2 + 0 * x * t",
        )
    ]
    for each in found[1:]:
        np.testing.assert_allclose(found[0], each, atol=2 * TOLERANCE)
    assert np.ptp(found[0]) > 0.1


def test_a_field_multiplied_out_has_the_values_of_its_expression():
    mesh = box_mesh(2, 2)
    x, y = mesh.points.T
    text = "1 / ((1 + x) * (2 + t) * ((3 + y) * (1 + t))) - (x * t - y)**2 / (1 + t)"
    field = changing_field(mesh, text, "river")
    for t in (0.0, 1.7):
        found = field.steady + sum(each * of.at(np.array([t]))[0] for each, of in field.terms)
        exact = 1 / ((1 + x) * (2 + t) * (3 + y) * (1 + t)) - (x * t - y) ** 2 / (1 + t)
        np.testing.assert_allclose(found, exact, atol=1e-14)


def test_what_equidistant_times_do_not_see():
    """A short pulse, and an oscillation that begins anew at each of 1024 equidistant times."""
    for text in ("1 + exp(-((t - 300.3) / 0.05)**2)", "cos(2 * pi * t)"):
        with pytest.raises(InputError, match="changes too quickly until time 1024"):
            function_of_time(text).lines(1024.0)
    assert len(function_of_time("1 + exp(-((t - 300.3) / 5)**2)").lines(1024.0)[0]) > 2**10


@pytest.mark.parametrize(
    "text",
    ["exp(x - t)", "1 / (x + t)", "(x + t)**3", "x * t +", "x" * 600, "x^2 * t",
     "(((((x + t)**2)**2)**2)**2)**2", 5],
)  # fmt: skip
def test_a_field_in_which_places_and_time_are_not_separate_is_refused(text):
    parts = "^river: expected a sum of products of expressions in x, y, z and expressions in t, .*"
    with pytest.raises(InputError, match=parts):
        changing_field(box_mesh(2, 2), text, "river")


@pytest.mark.parametrize(
    ("function", "part"),
    [
        ("x * t", "an expression in t alone, found 'x . t'; .* several groups"),
        ("2 * pi", "an expression in t alone"),
        ("1 + s * t", "an expression of t, pi, .* found the unknown name 's'"),
        ("log(t)", "finite values, found -inf at time 0"),
        (lambda times: np.zeros(3), "a function of an array of times"),
    ],
)
def test_what_is_no_function_of_time_is_refused(function, part):
    with pytest.raises(InputError, match=f"^well: expected {part}"):
        function_of_time(function, "well")


def test_what_jumps_is_refused():
    number = function_of_time(lambda times: np.where(times < np.pi / 2, 0.0, 1.0))
    with pytest.raises(InputError, match=r"changes too quickly until time 20; give steps"):
        number.lines(20.0)
