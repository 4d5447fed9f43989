"""Taylor test: the remainder of a first-order expansion must shrink with slope two."""

import numpy as np

STEPS = np.geomspace(1e-2, 1e-4, 9)


def taylor_slope(fn, derivative, position, direction):
    """Slope of log |fn(x + h v) - fn(x) - h derivative| over log h.

    ``derivative`` is the claimed directional derivative of ``fn`` at ``position`` along
    ``direction``, in the shape of ``fn``'s value.
    """
    start = np.asarray(fn(position))
    remainders = [
        np.linalg.norm(np.ravel(fn(position + step * direction) - start - step * derivative))
        for step in STEPS
    ]
    assert min(remainders) > 0, "the function is linear along this direction: nothing is tested"
    return np.polyfit(np.log(STEPS), np.log(remainders), 1)[0]


def assert_taylor_second_order(fn, derivative, position, direction):
    """A right derivative leaves a remainder of second order, a wrong one of first."""
    slope = taylor_slope(fn, derivative, position, direction)
    assert 1.9 <= slope <= 2.1, f"slope {slope:.3f}"
