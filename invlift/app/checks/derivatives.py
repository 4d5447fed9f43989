"""Checks of derivatives by Taylor tests, and of the reversibility of a step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from invlift.app.checks.findings import Finding
from invlift.problems.manifolds.given_manifold import ManifoldProblem
from invlift.programs.compilation import program
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels.chmc import ConstrainedHMC
from invlift.targets import Slopes

#: Kernel for which problems are checked; its integrator makes the trial step.
KERNEL = ConstrainedHMC()
#: Size of the trial step forwards and backwards.
TRIAL_STEP = 0.3
#: Difference steps of the Taylor tests.  The last two are so close that their remainders differ
#: only by round-off.
TAYLOR_STEPS = 2.0 ** -np.array([3, 4, 5, 6, 7, 8, 9, 9 + 1e-6])


@program
def slopes_along(lifted, position, direction) -> Slopes:
    """Evaluate point and slopes at a position in one program, whose parts share a factorisation."""
    return lifted.slopes(position, direction)


def evaluate(lifted, position):
    """Return the point of a target at a position."""
    return slopes_along(lifted, position, np.zeros(lifted.dimension)).point


def check_derivatives(lifted, point, rng) -> list[Finding]:
    """Test derivatives by Taylor slopes along a random direction, and the adjoint dot product."""
    position = np.asarray(point.position)
    direction = 0.1 * rng.standard_normal(position.shape)
    if isinstance(lifted, ManifoldProblem):  # positions may have any unit
        direction *= np.maximum(1.0, np.abs(position))
    else:  # for large whitened unknowns a unit direction would be too long
        direction /= max(1.0, np.max(np.abs(position[: lifted.problem.num_unknowns])))
    _, *slopes = slopes_along(lifted, position, direction)
    value, slope, first, second, scale = map(np.asarray, slopes)
    direction = scale * direction
    there = {
        h: slopes_along(lifted, position + h * direction, 0.0 * direction) for h in TAYLOR_STEPS
    }
    name, along = f"derivative of the {lifted.differentiated}", point.logdensity_grad
    second_order = 0.5 * np.asarray(second)
    findings = [
        slope_finding(name, lambda h: there[h].value, lambda h: value + h * slope),
        slope_finding(
            f"second {name}", lambda h: there[h].value,
            lambda h: value + h * first + h**2 * second_order, order=3,
        ),
        slope_finding(
            "gradient of the log density", lambda h: there[h].point.logdensity,
            lambda h: point.logdensity + h * (np.asarray(along) @ direction),
        ),
    ]  # fmt: skip
    probe = rng.standard_normal(value.shape)
    left, right = first @ probe, slope @ probe
    error = float(abs(left - right) / max(abs(left), abs(right), 1e-300))
    level = "ok" if error < 1e-9 else "bad"
    findings.append(Finding(level, "adjoint", f"<J v, w> and <v, J^T w> agree to {error:.1e}"))
    return findings


def slope_finding(name: str, value_fn, linear_fn, order: int = 2) -> Finding:
    """Return the finding about a derivative from :func:`taylor_slope`."""
    slope, remainder = taylor_slope(value_fn, linear_fn)
    if not np.isfinite(remainder):
        detail = "not finite: std, source or values too large, or readings out of the model's reach"
        return Finding("bad", name, detail)
    if np.isnan(slope):
        ends = (np.asarray(linear_fn(step)) for step in TAYLOR_STEPS[[0, -1]])
        change = float(np.linalg.norm(np.subtract(*ends)))
        detail = f"right to round-off (remainder {remainder:.1e} of the values, which change by "
        return Finding("ok", name, f"{detail}{change:.1e})")
    level, verdict = ("ok", "right") if slope > order - 0.2 else ("bad", "wrong")
    detail = f"{verdict}: the Taylor remainder shrinks with order {slope:.2f} ({order} expected)"
    return Finding(level, name, detail)


def taylor_slope(value_fn, linear_fn, steps=TAYLOR_STEPS) -> tuple[float, float]:
    """Return the order at which the remainder of a linearisation vanishes, and its largest value.

    `value_fn` and `linear_fn` return f(x + h v), an array, and f(x) + h Df(x) v for a step h. The
    steps decrease, and the last two are nearly equal. The order is the median slope of log
    remainder over log h where the remainder is above round-off: 2 for a correct derivative, 1 for a
    wrong one (with second derivatives 3 and 2), NaN if all remainders are round-off. The largest
    remainder is relative to the size of f.
    """
    values = [np.asarray(value_fn(step)) for step in steps]
    rest = [v - np.asarray(linear_fn(h)) for v, h in zip(values, steps, strict=True)]
    round_off = np.linalg.norm(rest.pop() - rest[-1])
    remainders = np.array([np.linalg.norm(each) for each in rest])
    size = max(*map(np.linalg.norm, values), 1e-300)  # over all steps, as f may be 0 at x
    # A correct derivative may reach the round-off of the solver.  Fields in time have more
    # round-off, as they are sums of solutions with large weights of both signs.
    least = np.clip(10.0 * remainders.min(), 1e-11 * size, 1e-9 * size)
    usable = remainders > np.maximum(least, np.minimum(10.0 * round_off, 1e-6 * size))
    steps = np.asarray(steps)[:-1]
    slopes = np.diff(np.log(remainders[usable])) / np.diff(np.log(steps[usable]))
    slope = float(np.median(slopes)) if slopes.size else float("nan")
    return slope, float(remainders.max() / size)


@program
def trial_step(lifted, point, seed, size):
    """Make a step with a random momentum and its reverse; return failures, errors and work."""
    momentum = sample_momentum(lifted, jax.random.key(seed), point)

    def turn_and_move(state, _):
        state = state._replace(momentum=-state.momentum)
        state = constrained_step(KERNEL.integrator, lifted, state, size)
        violation = jnp.max(jnp.abs(state.point.constraint))
        return state, (state.num_failures, state.work[0], violation)

    # Both steps are one loop, so that the program contains the step only once.
    end, (failures, evaluations, violations) = jax.lax.scan(
        turn_and_move, build_state(point, momentum), length=2
    )
    error = jnp.max(jnp.abs(end.position - point.position))
    return failures, error, violations[0], evaluations[0]


def check_step(lifted, point, seed: int) -> Finding:
    """Check that a step and its reverse return to the start."""
    size = TRIAL_STEP
    finding = trial_step(lifted, point, seed, size)
    while int(finding[0][0]) and size > 1e-3:
        size *= 0.5
        finding = trial_step(lifted, point, seed, size)
    (has_failed, num_failures), *numbers = finding
    error, violation, num_factorisations = map(float, numbers)
    if has_failed:
        detail = f"no step down to {size:.1e} could be projected back onto the manifold"
        return Finding("bad", "step", detail)
    detail = f"a step of {size:.2g} and back returns to within {error:.1e}; constraint met to "
    detail += f"{violation:.1e}; {num_factorisations:.0f} factorisations"
    return Finding("ok" if not num_failures and error < 1e-6 else "bad", "step", detail)
