"""Temporal moments: means over an interval, weighted by powers of the time since it began."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_POINTS = 8
#: Number of panels of an interval, each half as wide as the next: just after its beginning, where
#: something may have changed, fast modes respond at once.
_HALVINGS = 20
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_POINTS)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


def moment_of(
    respond: Callable[[np.ndarray], np.ndarray], time: float, length: float, order: float
) -> np.ndarray:
    """Return the moment of responses that are zero until time 0, (r,).

    This is the mean of (s / length)^order times the response over the interval of this length that
    ends at ``time``, where s is the time since the interval began (Li, Nowak & Cirpka 2005).

    Parameters
    ----------
    respond : callable
        Maps ascending times, (n,), to responses, (n, r).
    time, length, order : float
    """
    begun = max(time - length, 0.0)
    edges = (time - begun) * np.append(0.0, 0.5 ** np.arange(_HALVINGS)[::-1])
    after = (edges[:-1, None] + np.diff(edges)[:, None] * _NODES).ravel()
    weights = np.outer(np.diff(edges), _WEIGHTS).ravel() / length
    times = begun + after
    return weights * ((times - (time - length)) / length) ** order @ respond(times)


def moment_of_turns(angle: float, order: float) -> complex:
    """Return the mean of s^order exp(i angle s) over s from 0 to 1, for a whole order."""
    if angle <= np.pi:
        return _WEIGHTS @ (_NODES**order * np.exp(1j * angle * _NODES))
    # By parts, which loses digits where the angle is below the order.
    end = np.exp(1j * angle)
    moment = (end - 1.0) / (1j * angle)
    for k in range(1, int(order) + 1):
        moment = (end - k * moment) / (1j * angle)
    return moment
