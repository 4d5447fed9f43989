"""Splittings of the Hamiltonian into a kick of the momentum and an exact flow.

The Hamiltonian is |q|^2/2 + |p|^2/2 - l(q), on the manifold and its tangent spaces.  A splitting
defines the force that kicks the momentum, and the flow of position and momentum between kicks.
The unconstrained flow is linear in both.  The constraint acts on it as an impulse at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp


class Splitting(NamedTuple):
    """A splitting of the Hamiltonian.

    Attributes
    ----------
    force : callable
        ``force(point)``, (Q,): minus the gradient of the part of the Hamiltonian that kicks.
    flow : callable
        ``flow(position, momentum, time)`` returns both after that time, (Q,) each.
    reach : callable
        ``reach(time)``, (): displacement of the position by a unit of initial momentum.
    num_inner : int
        Number of equal constrained flows between two kicks.
    longest : float
        Largest step size.  A rotation must be less than a half turn, and leapfrog steps must be
        shorter than 2 to be stable for the standard normal distribution.  The shortest trajectory
        is one step.
    """

    force: Callable
    flow: Callable
    reach: Callable
    num_inner: int
    longest: float = 1.5


def gaussian() -> Splitting:
    """Return the Gaussian splitting: h1 = -l kicks; h2 = (|q|^2 + |p|^2)/2 flows as a rotation.

    It is exact for linear constraints and constant l with steps below pi (Graham, Thiery & Beskos
    2022, section 4.3 and Algorithm 1; Shahbaba et al. 2014).
    """

    def rotate(position, momentum, time):
        sine, cosine = jnp.sin(time), jnp.cos(time)
        return cosine * position + sine * momentum, cosine * momentum - sine * position

    return Splitting(lambda point: point.logdensity_grad, rotate, jnp.sin, 1)


def stormer_verlet(num_inner: int = 1) -> Splitting:
    """Return the Störmer-Verlet splitting: h1 = |q|^2/2 - l kicks; h2 = |p|^2/2 flows straight.

    This is the constrained leapfrog method RATTLE (Andersen 1983; Au, Graham & Thiery 2023, section
    4.1).  Several inner steps follow the geodesic between two kicks (Graham & Storkey 2017,
    Algorithm 1; Leimkuhler & Matthews 2016).
    """

    def move(position, momentum, time):
        return position + time * momentum, momentum

    def force(point):
        return point.logdensity_grad - point.position

    return Splitting(force, move, lambda time: time, num_inner)


def without_force(splitting: Splitting) -> Splitting:
    """Return the splitting without kicks: another simulation Hamiltonian (Brubaker et al. 2012).

    Any function of the position may kick, because the Metropolis test uses the target's
    Hamiltonian.
    """
    return splitting._replace(force=lambda point: jnp.zeros_like(point.position))


#: Splittings by name.
SPLITTINGS = ("gaussian", "stormer-verlet", "geodesic")


def build_splitting(name: str, num_inner: int, simulation: str) -> Splitting:
    """Return a splitting by name.

    Parameters
    ----------
    name : {"gaussian", "stormer-verlet", "geodesic"}
    num_inner : int
        Inner steps of the geodesic splitting.
    simulation : {"target", "free"}
        Hamiltonian of the proposals: the target's, or one without kicks.
    """
    if name == "gaussian":
        splitting = gaussian()
    else:
        splitting = stormer_verlet(num_inner if name == "geodesic" else 1)
    return splitting if simulation == "target" else without_force(splitting)
