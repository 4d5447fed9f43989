"""Bingham-von Mises-Fisher distribution on spheres, by constrained dynamics and by Gibbs sampling.

The density is proportional to exp(d^T q + q^T A q) on the unit sphere {|q| = 1}, with respect to
its area.  Reproduced is the experiment of M. A. Brubaker, M. Salzmann & R. Urtasun (2012), "A
family of MCMC methods on implicitly defined manifolds", AISTATS, poster: constrained HMC with 2, 3
and 4 steps, constrained Langevin and constrained Metropolis against the Gibbs sampler of P. D. Hoff
(2009), "Simulation of the matrix Bingham-von Mises-Fisher distribution, with applications to
multivariate and relational data", Journal of Computational and Graphical Statistics 18(2).

Three spheres: S^2, where all means are known by quadrature in two angles; S^9, with a table like
the poster's; and S^5, with the poster's own figures.  Every sampler runs as a kernel in the same
compiled loop, all chains side by side, and is timed in the same way.

    python examples/implicit_manifolds/bingham_von_mises_fisher.py           # all: two minutes
    python examples/implicit_manifolds/bingham_von_mises_fisher.py --plot    # from the saved data

Written are `data/sphere_*.csv` beside this file and `docs/images/bingham_von_mises_fisher.png`.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from scipy.optimize import brentq

import invlift
from invlift.files.atomic import replace_on_success
from invlift.posterior.figures.style import CHAIN_COLOURS, DOTS_PER_INCH, FAINT, INK, STYLE
from invlift.posterior.statistics.diagnostics import diagnose_field
from invlift.programs.compilation import Program
from invlift.programs.pytrees import Module
from invlift.samplers.constrained.retractions import RETRACTIONS, Retraction
from invlift.samplers.kernels import (
    ConstrainedLangevin,
    ConstrainedRandomWalk,
    FixedConstrainedHMC,
    Kernel,
)
from invlift.targets import LocalConstraint

DATA = Path(__file__).resolve().parent / "data"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "bingham_von_mises_fisher.png"

#: Chains side by side, and iterations of the warm-up of each: more where a step size is adapted.
NUM_CHAINS, NUM_WARMUP, NUM_WARMUP_UNTUNED = 64, 1_000, 100
#: Draws of each chain on S^2, S^5 and S^9; Gibbs sampling by rejection takes much longer.
NUM_DRAWS = {2: 1_000, 5: 1_000, 9: 6_000}
NUM_REJECTION_DRAWS = 250
#: How often a run is timed; the least counts, as other work on the machine only adds to it.
NUM_TIMINGS = 3
#: What is on the poster for S^5: E[log pi], the sign being that of its figures, and ESS in %.
POSTER = {
    "CHMC (L = 4)": (999.021, 27.3, 183.756),
    "CHMC (L = 3)": (998.759, 25.4, 217.427),
    "CHMC (L = 2)": (999.121, 37.9, 440.898),
    "CLangevin": (998.757, 33.0, 619.339),
    "CMetropolis": (998.82, 3.8, 90.1513),
    "Gibbs": (998.742, 50.8, 160.722),
}


# The target ---------------------------------------------------------------------------------------


class SpherePoint(NamedTuple):
    """A position on the sphere and what is known there.

    Attributes
    ----------
    position : (Q,)
    constraint : (1,)
    logdensity : ()
        Relative to the standard normal one.
    logdensity_grad : (Q,)
    """

    position: jax.Array
    constraint: jax.Array
    logdensity: jax.Array
    logdensity_grad: jax.Array


class NormalLine(NamedTuple):
    """lambda -> c(origin - lambda q), the normal space of the sphere at q."""

    position: jax.Array
    origin: jax.Array

    @property
    def max_derivative(self) -> int:
        """Order of the derivatives that :meth:`linearise` gives."""
        return 2

    def residual(self, multiplier: jax.Array) -> jax.Array:
        """The constraint at lambda, (1,) to (1,)."""
        moved = self.origin - multiplier[0] * self.position
        return 0.5 * (moved @ moved - jnp.ones(1))

    def linearise(self, multiplier: jax.Array) -> LocalConstraint:
        """The constraint at lambda, (1,), and its derivatives along the normal there."""
        moved = self.origin - multiplier[0] * self.position
        slope, square = moved @ self.position, self.position @ self.position
        return LocalConstraint(
            0.5 * (moved @ moved - jnp.ones(1)),
            lambda rhs, _: rhs / slope,
            lambda path, lower: (path[0] ** 2 * square, lower),
        )


class BinghamVonMisesFisher(Module):
    """exp(d^T q + q^T A q) on the unit sphere c(q) = (|q|^2 - 1) / 2 = 0, all in closed form.

    ``invlift.manifold_problem`` takes the density alone and samples the same draws; as it
    factorises a (1, 1) matrix wherever there is a division here, it takes several times as long.

    Attributes
    ----------
    linear : (Q,)
        d.
    quadratic : (Q, Q)
        A, symmetric.
    eigenvalues : (Q,)
        Of A, for Gibbs sampling.
    eigenvectors : (Q, Q)
        In columns.
    """

    linear: jax.Array
    quadratic: jax.Array
    eigenvalues: jax.Array
    eigenvectors: jax.Array

    def logdensity(self, position: jax.Array) -> jax.Array:
        """d^T q + q^T A q, (..., Q) to (...)."""
        return position @ self.linear + jnp.sum(position @ self.quadratic * position, axis=-1)

    def point(self, position: jax.Array) -> SpherePoint:
        """Evaluate everything at a position, (Q,)."""
        pulled, square = self.quadratic @ position, position @ position
        return SpherePoint(
            position,
            0.5 * (square - jnp.ones(1)),
            self.linear @ position + position @ pulled + 0.5 * square,
            self.linear + 2.0 * pulled + position,
        )

    def apply_jacobian(self, point: SpherePoint, vector: jax.Array) -> jax.Array:
        """q^T v, (1,)."""
        return jnp.reshape(point.position @ vector, 1)

    def apply_jacobian_transpose(self, point: SpherePoint, multiplier: jax.Array) -> jax.Array:
        """lambda q, (Q,)."""
        return multiplier[0] * point.position

    def solve_gram(self, point: SpherePoint, rhs: jax.Array) -> jax.Array:
        """rhs / |q|^2, (1,)."""
        return rhs / (point.position @ point.position)

    def on_normal_space(self, point: SpherePoint, origin: jax.Array) -> NormalLine:
        """The constraint on the line through ``origin`` along q, (Q,)."""
        return NormalLine(point.position, origin)

    def describe(self, point: SpherePoint) -> tuple[dict, dict]:
        """The position, and nothing of which only moments are kept."""
        return {"position": point.position}, {}


def build_target(linear: np.ndarray, quadratic: np.ndarray) -> BinghamVonMisesFisher:
    """Target with d (Q,) and A (Q, Q)."""
    eigenvalues, eigenvectors = np.linalg.eigh(quadratic)
    return BinghamVonMisesFisher(*map(jnp.asarray, (linear, quadratic, eigenvalues, eigenvectors)))


def random_target(dimension: int, spread: float, size: float, seed: int = 1):
    """Target with eigenvalues of A evenly spaced from -spread to spread, axes and d at random.

    Parameters
    ----------
    dimension : int
        Q.
    spread : float
        Largest eigenvalue.
    size : float
        Length of d.
    seed : int

    Returns
    -------
    BinghamVonMisesFisher
    """
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    linear = rng.normal(size=dimension)
    linear *= size / np.linalg.norm(linear)
    return build_target(linear, axes * np.linspace(-spread, spread, dimension) @ axes.T)


def poster_target() -> BinghamVonMisesFisher:
    """A = diag(-1000, -600, -200, 200, 600, 1000), d = (100, 0, 0, 0, 0, 0).

    The poster does not say what it sampled.  The examples of the package geosss ascribe these to
    the paper, and with them E[log pi] is what the poster has.
    """
    return build_target(np.array([100.0, 0, 0, 0, 0, 0]), np.diag(np.linspace(-1e3, 1e3, 6)))


# Exact means --------------------------------------------------------------------------------------


def quadrature_means(target: BinghamVonMisesFisher) -> np.ndarray:
    """Means of q and log pi on S^2, (4,), by quadrature in spherical coordinates.

    Gauss-Legendre in the height and the trapezoidal rule in the angle, both converging faster than
    any power of the number of nodes.
    """
    height, weight = np.polynomial.legendre.leggauss(200)
    angle = np.linspace(0.0, 2.0 * np.pi, 400, endpoint=False)
    radius = np.sqrt(1.0 - height**2)[:, None]
    around = (radius * np.cos(angle), radius * np.sin(angle), np.tile(height, (400, 1)).T)
    positions = np.stack(around, axis=-1)
    logdensity = np.asarray(target.logdensity(positions))
    mass = weight[:, None] * np.exp(logdensity - logdensity.max())
    quantities = np.concatenate([positions, logdensity[..., None]], axis=-1)
    return np.einsum("ij,ijk->k", mass, quantities) / mass.sum()


def exact_means(target: BinghamVonMisesFisher) -> np.ndarray:
    """Means of q and log pi on a sphere of any dimension, (Q + 1,), by a contour integral.

    With a Gaussian integral over all of space, and Laplace's transform from |q|^2 = 1 (Kume & Wood
    2005, "Saddlepoint approximations for the Bingham and Fisher-Bingham normalising constants",
    Biometrika 92), the normalising constant is, up to a factor,

        integral of exp(t + sum_i d_i^2 / (4 (t - l_i))) / prod_i (t - l_i)^(1/2) dt

    in the eigenbasis of A with eigenvalues l, along a contour that passes them on the right.  Its
    derivatives by d_i and l_i give the means of y_i and y_i^2.  The contour is a parabola through
    the saddle point, on which the integrand decays exponentially.
    """
    values = np.asarray(target.eigenvalues)
    axes = np.asarray(target.eigenvectors)
    linear = axes.T @ np.asarray(target.linear)

    def slope(t):
        gap = t - values
        return 1.0 - np.sum(0.25 * linear**2 / gap**2 + 0.5 / gap)

    high = values[-1] + len(values) + np.linalg.norm(linear)
    saddle = brentq(slope, values[-1] + 1e-3, high, xtol=1e-13)
    gap = saddle - values
    width = np.sum(0.5 * linear**2 / gap**3 + 0.5 / gap**2) ** -0.5
    along = np.linspace(-60.0, 60.0, 24_001)
    contour = saddle + width * (1j * along - along**2 / 20.0)
    gaps = contour[:, None] - values
    exponent = contour + np.sum(0.25 * linear**2 / gaps - 0.5 * np.log(gaps), axis=1)
    mass = np.exp(exponent - exponent[len(along) // 2]) * (1j - along / 10.0)
    mass /= mass.sum()
    first = np.real(mass @ (0.5 * linear / gaps))
    second = np.real(mass @ (0.5 / gaps + 0.25 * linear**2 / gaps**2))
    if abs(second.sum() - 1.0) > 1e-10:
        raise ArithmeticError(f"means of squares add up to {second.sum()}, not to 1")
    return np.append(axes @ first, linear @ first + values @ second)


# The samplers -------------------------------------------------------------------------------------


def _to_radial_root(target, point, space, multiplier):
    """The root lambda of |origin - lambda q| = 1 that is nearest to ``origin`` outside."""
    square = point.position @ point.position
    along = space.origin @ point.position
    beyond = along**2 - square * (space.origin @ space.origin - 1.0)
    return (along - jnp.sqrt(beyond)) / square - multiplier, 1


#: The sphere's own retraction: along q the constraint is a quadratic, whose root is known.  One
#: iteration, after which any move of finite size settles it; NaN, and so a failure, where a step
#: leads past the sphere.
RADIAL = Retraction(_to_radial_root, lambda _: 1e3, max_iterations=1, is_superlinear=True)


class GibbsState(NamedTuple):
    """Where a Gibbs sampler is: position (Q,), and coordinates (Q,) in the eigenbasis of A."""

    position: jax.Array
    coordinates: jax.Array


class Gibbs(Kernel, settings=True):
    """Gibbs sampling of the vector Bingham-von Mises-Fisher distribution (Hoff 2009).

    In the eigenbasis of A, one coordinate y_i = +-sin(phi) after another is drawn given the signs
    and relative sizes w of the others, which are then w cos(phi): phi from the density

        cos(phi)^(Q - 2) exp(a sin(phi)^2 + b cos(phi)) cosh(d_i sin(phi)),  0 < phi < pi/2

    with a = l_i - sum_j l_j w_j^2 and b = sum_j d_j w_j, then its sign.  One iteration updates all
    coordinates.

    Attributes
    ----------
    draw : {"grid", "rejection"}
        How phi is drawn.  "grid": by inverse CDF from the piecewise linear interpolant of the
        density at 32 nodes around its mass, and accepted or rejected by the ratio of density and
        interpolant (some 99 % are), so that nothing depends on the nodes.  "rejection": exactly,
        from beta distributions like Hoff's.  Its bound takes the linear terms at their largest, so
        that it accepts next to nothing where d is long and its coordinate is small, as on S^5.
    """

    draw: Literal["grid", "rejection"] = "grid"

    def init(self, target: BinghamVonMisesFisher, position: jax.Array) -> GibbsState:
        """State at a position, (Q,)."""
        return GibbsState(position, position @ target.eigenvectors)

    def step(self, target: BinghamVonMisesFisher, rng_key: jax.Array, state: GibbsState, tuning):
        """One sweep; ``tuning`` is empty."""
        dimension = state.coordinates.size
        linear, values = target.linear @ target.eigenvectors, target.eigenvalues
        draw = _draw_on_grid if self.draw == "grid" else _draw_by_rejection
        key_draw, key_sign = jax.random.split(rng_key)
        randomness = _randomness(self.draw, key_draw, dimension)
        thresholds = jax.random.uniform(key_sign, (dimension,))

        def update(index, loop):
            coordinates, rate = loop
            own = coordinates[index]
            rest_square = coordinates @ coordinates - own**2
            rest = jnp.sqrt(rest_square)
            spread = values @ coordinates**2 - values[index] * own**2
            bend = values[index] - spread / rest_square
            pull = (linear @ coordinates - linear[index] * own) / rest
            lift = jnp.abs(linear[index])
            (sine, cosine), drawn = draw(
                jax.tree.map(lambda rows: rows[index], randomness),
                jnp.abs(own), rest, dimension, bend, pull, lift,
            )  # fmt: skip
            is_up = thresholds[index] * (1.0 + jnp.exp(-2.0 * linear[index] * sine)) < 1.0
            coordinates = coordinates * (cosine / rest)
            return coordinates.at[index].set(jnp.where(is_up, sine, -sine)), rate + drawn

        start = (state.coordinates, jnp.asarray(0.0))
        coordinates, rate = jax.lax.fori_loop(0, dimension, update, start)
        coordinates = coordinates / jnp.sqrt(coordinates @ coordinates)  # of rounding errors
        statistics = {"acceptance_rate": rate / dimension, "num_factorisations": jnp.asarray(1)}
        return GibbsState(target.eigenvectors @ coordinates, coordinates), statistics

    def describe(self, target: BinghamVonMisesFisher, state: GibbsState) -> tuple[dict, dict]:
        """The position, and nothing of which only moments are kept."""
        return {"position": state.position}, {}


def _randomness(draw, rng_key, dimension):
    """What the draws of a sweep need, a row for each coordinate."""
    if draw == "grid":
        return jax.random.uniform(rng_key, (dimension, 3))
    return jax.random.split(rng_key, dimension)


#: Nodes that find where the mass is, nodes of the interpolant, and how far below its largest value
#: the logarithm of the density may be within them.
NUM_COARSE, NUM_NODES, TAIL = 24, 32, 30.0


def _draw_on_grid(uniforms, old_sine, old_cosine, dimension, bend, pull, lift):
    """Sine and cosine of phi, and whether the proposal was accepted: see :class:`Gibbs`.

    In u = tan(phi / 2), in which sine and cosine are rational and d phi = 2 du / (1 + u^2).
    """

    def density(nodes):
        inverse = 1.0 / (1.0 + nodes**2)
        sine, cosine = 2.0 * nodes * inverse, (1.0 - nodes**2) * inverse
        exponent = bend * sine**2 + pull * cosine - largest
        both = jnp.exp(exponent + lift * sine) + jnp.exp(exponent - lift * sine)
        return cosine ** (dimension - 2) * inverse * both

    coarse = (np.arange(NUM_COARSE) + 0.5) / NUM_COARSE
    sine, cosine = 2.0 * coarse / (1.0 + coarse**2), (1.0 - coarse**2) / (1.0 + coarse**2)
    constant = (dimension - 2) * np.log(cosine) - np.log1p(coarse**2)
    level = constant + bend * sine**2 + pull * cosine + lift * sine
    largest = jnp.max(level)
    has_mass = level > largest - TAIL
    first = jnp.min(jnp.where(has_mass, coarse, 1.0)) - 1.0 / NUM_COARSE
    last = jnp.max(jnp.where(has_mass, coarse, 0.0)) + 1.0 / NUM_COARSE
    low, high = jnp.maximum(first, 0.0), jnp.minimum(last, 1.0)

    spacing = (high - low) / (NUM_NODES - 1)
    nodes = low + spacing * np.arange(NUM_NODES)
    heights = density(nodes)
    # A mixture of hat functions, those at the ends cut in half: node, then triangular noise.
    cumulative = jnp.cumsum(heights.at[jnp.array([0, -1])].multiply(0.5))
    node = jnp.sum(cumulative < uniforms[0] * cumulative[-1])
    side = 2.0 * uniforms[1] - 1.0
    offset = jnp.sign(side) * (1.0 - jnp.sqrt(1.0 - jnp.abs(side)))
    new = low + jnp.abs(spacing * (node + offset))
    new = high - jnp.abs(high - new)

    old = old_sine / (1.0 + old_cosine)
    pair = jnp.stack([new, old])
    hats = jnp.maximum(0.0, 1.0 - jnp.abs(pair[:, None] - nodes) / spacing)
    (proposed_new, proposed_old), (wanted_new, wanted_old) = hats @ heights, density(pair)
    is_accepted = uniforms[2] * wanted_old * proposed_new < wanted_new * proposed_old
    is_accepted |= (old < low) | (old > high)  # a start out in the tail
    chosen = jnp.where(is_accepted, new, old)
    inverse = 1.0 / (1.0 + chosen**2)
    return (2.0 * chosen * inverse, (1.0 - chosen**2) * inverse), is_accepted


#: Proposals that are drawn at once.
NUM_PROPOSALS = 16


def _draw_by_rejection(rng_key, old_sine, old_cosine, dimension, bend, pull, lift):
    """Sine and cosine of phi, and the inverse of the number of rounds: see :class:`Gibbs`.

    theta = sin(phi)^2 has the density theta^(-1/2) (1 - theta)^k exp(bend theta + pull
    sqrt(1 - theta)) cosh(lift sqrt(theta)) with k = (Q - 3) / 2, proposals Beta(1/2, 1 + g) with g
    <= k.  The ratio is bounded factor by factor: (1 - theta)^(k - g) exp(bend theta) at its largest
    value, the linear terms by Cauchy-Schwarz's inequality, what is left of the hyperbolic cosine by
    one.  A beta variable is the share of a gamma variable in a sum; those of Marsaglia & Tsang
    (2000, "A simple method for generating gamma variables") are accepted or rejected in one go.
    """
    power = 0.5 * (dimension - 3)
    steep = jnp.maximum(bend, 0.0)
    least = 1.0 / (1.0 + jnp.log(2.0 + steep)) - 1.0
    proposed = jnp.where(bend > 0.0, jnp.clip(power - steep, least, power), power)
    excess = power - proposed
    is_inside = (excess > 0.0) & (excess < steep)
    share = jnp.where(is_inside, excess / jnp.where(is_inside, steep, 1.0), 1.0)
    bound = jnp.where(is_inside, excess * jnp.log(share) + steep - excess, 0.0)
    bound = bound + jnp.hypot(jnp.maximum(pull, 0.0), lift)

    shape = proposed + 1.0
    raised = jnp.where(shape < 1.0, shape + 1.0, shape)
    centre = raised - 1.0 / 3.0
    scale = 1.0 / jnp.sqrt(9.0 * centre)

    def is_running(loop):
        return ~loop[-1]

    def propose(loop):
        key, _, _, rounds, _ = loop
        key, key_normal, key_uniform = jax.random.split(key, 3)
        normals = jax.random.normal(key_normal, (2, NUM_PROPOSALS))
        uniforms = jax.random.uniform(key_uniform, (3, NUM_PROPOSALS))
        cube = (1.0 + scale * normals[0]) ** 3
        positive = jnp.maximum(cube, 1e-300)
        squeeze = 0.5 * normals[0] ** 2 + centre * (1.0 - cube + jnp.log(positive))
        is_gamma = (cube > 0.0) & (jnp.log(uniforms[0]) < squeeze)
        gamma = centre * positive * jnp.where(shape < 1.0, uniforms[1] ** (1.0 / shape), 1.0)
        other = 0.5 * normals[1] ** 2
        theta, rest = other / (other + gamma), gamma / (other + gamma)
        sine, cosine = jnp.sqrt(theta), jnp.sqrt(rest)
        ratio = excess * jnp.log(rest) + bend * theta + pull * cosine + lift * sine
        ratio += jnp.log1p(jnp.exp(-2.0 * lift * sine)) - jnp.log(2.0)
        is_good = is_gamma & (jnp.log(uniforms[2]) < ratio - bound)
        best = jnp.argmax(is_good)
        return key, sine[best], cosine[best], rounds + 1, is_good[best]

    start = (rng_key, old_sine, old_cosine, 0, jnp.asarray(False))
    _, sine, cosine, rounds, _ = jax.lax.while_loop(is_running, propose, start)
    return (sine, cosine), 1.0 / rounds


class JitteredHMC(FixedConstrainedHMC, settings=True):
    """Constrained HMC with a step size drawn anew for each trajectory (Neal 2011, section 3.2).

    From 0.7 to 1.3 times the tuned one.  Trajectories of one length may carry a direction over
    half a period: the coordinate then changes sign about its mean, and its square never changes.
    """

    def step(self, target, rng_key: jax.Array, state, tuning):
        """One transition; ``tuning`` is the mean step size, ()."""
        key_step, key_size = jax.random.split(rng_key)
        factor = jax.random.uniform(key_size, minval=0.7, maxval=1.3)
        return super().step(target, key_step, state, factor * tuning)


def build_samplers() -> dict[str, Kernel]:
    """Kernels by their names on the poster; RADIAL is made the retraction "radial"."""
    RETRACTIONS["radial"] = RADIAL
    options = {"splitting": "stormer-verlet", "retraction": "radial"}
    return {
        "CHMC (L = 4)": FixedConstrainedHMC(num_steps=4, **options),
        "CHMC (L = 3)": FixedConstrainedHMC(num_steps=3, **options),
        "CHMC (L = 2)": FixedConstrainedHMC(num_steps=2, **options),
        "CHMC (L = 3), jittered": JitteredHMC(num_steps=3, **options),
        "CLangevin": ConstrainedLangevin(retraction="radial"),
        "CMetropolis": ConstrainedRandomWalk(retraction="radial"),
        "Gibbs": Gibbs(),
        "Gibbs, by rejection": Gibbs(draw="rejection"),
    }


# Running and timing -------------------------------------------------------------------------------


def _warm_up(kernel, target, rng_keys, positions):
    """Positions (chains, Q) and tuning of each chain after a warm-up; keys (chains, num_warmup)."""
    adaptation = kernel.adaptation
    schedule = adaptation.schedule(rng_keys.shape[1])

    def chain(rng_keys, position):
        def iterate(carry, inputs):
            state, adapted = carry
            rng_key, stage = inputs
            tuning = adaptation.tuning(adapted, jnp.asarray(True))
            state, statistics = kernel.step(target, rng_key, state, tuning)
            adapted = adaptation.update(adapted, stage, kernel.position(state), statistics)
            return (state, adapted), None

        adapted = jax.tree.map(jnp.asarray, adaptation.init(position.size))
        start = (kernel.init(target, position), adapted)
        (state, adapted), _ = jax.lax.scan(iterate, start, (rng_keys, schedule))
        return kernel.position(state), adaptation.tuning(adapted, jnp.asarray(False))

    return jax.vmap(chain)(rng_keys, positions)


def _draw(kernel, target, rng_keys, positions, tunings):
    """Draws (chains, num_draws, Q), acceptance rates and failures; keys (chains, num_draws)."""
    failures = kernel.standards.failures

    def chain(rng_keys, position, tuning):
        def iterate(state, rng_key):
            state, statistics = kernel.step(target, rng_key, state, tuning)
            failed = statistics[failures] if failures else jnp.asarray(0)
            return state, (kernel.position(state), statistics["acceptance_rate"], failed)

        return jax.lax.scan(iterate, kernel.init(target, position), rng_keys)[1]

    return jax.vmap(chain)(rng_keys, positions, tunings)


warm_up = Program(_warm_up, "none")
#: Compiled for speed where that is measured, and in half the time where it is not.
draw_fast, draw_chains = Program(_draw, "full"), Program(_draw, "some")


class Sampled(NamedTuple):
    """What a sampler has done.

    Attributes
    ----------
    positions : (chains, num_draws, Q)
    logdensity : (chains, num_draws)
        d^T q + q^T A q.
    seconds : float
        Processor time of the compiled run of all chains, warm-up and compilation excluded.  On the
        one core that the script keeps to, this is the time it takes on an idle machine.
    acceptance_rate, failure_share, step_size : float
        Means; NaN for the step size of a kernel that has none.
    """

    positions: np.ndarray
    logdensity: np.ndarray
    seconds: float
    acceptance_rate: float
    failure_share: float
    step_size: float


def run_sampler(
    kernel,
    target,
    num_chains,
    num_draws,
    seed,
    *,
    seen_as=None,
    program=draw_chains,
    num_timings=NUM_TIMINGS,
) -> Sampled:
    """Warm up, draw and time, from starts spread evenly over the sphere.

    Parameters
    ----------
    kernel : Kernel
    target : BinghamVonMisesFisher
    num_chains, num_draws, seed : int
    seen_as : ConstrainedTarget, optional
        What the kernel is given in place of the target.
    program : Program
        ``draw_fast`` or ``draw_chains``.
    num_timings : int

    Returns
    -------
    Sampled
    """
    dimension, seen_as = target.linear.size, target if seen_as is None else seen_as
    num_warmup = NUM_WARMUP if jax.tree.leaves(kernel.adaptation.init(1)) else NUM_WARMUP_UNTUNED
    starts = np.random.default_rng(seed).normal(size=(num_chains, dimension))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    key_warmup, key_draws = jax.random.split(jax.random.key(seed))
    keys = jax.random.split(key_warmup, (num_chains, num_warmup))
    positions, tunings = warm_up(kernel, seen_as, keys, starts)
    arguments = (kernel, seen_as, jax.random.split(key_draws, (num_chains, num_draws)))
    program.prepare(*arguments, positions, tunings)
    seconds = []
    for _ in range(num_timings):
        began = time.process_time()
        drawn = jax.block_until_ready(program(*arguments, positions, tunings))
        seconds.append(time.process_time() - began)
    positions, acceptance, failed = map(np.asarray, drawn)
    step_size = float(np.mean(tunings)) if np.size(tunings) else np.nan
    logdensity = np.asarray(target.logdensity(positions))
    rates = float(acceptance.mean()), float(np.mean(failed > 0)), step_size
    return Sampled(positions, logdensity, min(seconds), *rates)


def summarise(name: str, sampled: Sampled) -> tuple[dict, np.ndarray, np.ndarray]:
    """A row of the table, and means and standard errors of q and log pi, (Q + 1,) each.

    Standard errors are from the spread of the means of chains, or of parts of chains where there
    are fewer than 64: unlike those from autocorrelations, they show modes that chains do not leave.
    """
    quantities = np.concatenate([sampled.positions, sampled.logdensity[..., None]], axis=-1)
    r_hat, ess = diagnose_field(list(quantities), name)
    means = quantities.mean(axis=(0, 1))
    num_parts = -(-64 // len(quantities))
    parts = [part.mean(axis=1) for part in np.array_split(quantities, num_parts, axis=1)]
    parts = np.concatenate(parts)
    errors = parts.std(axis=0, ddof=1) / np.sqrt(len(parts))
    num_draws = sampled.logdensity.size
    ess, ess_log = ess[:-1].min(), ess[-1]
    row = {
        "method": name,
        "num_chains": len(sampled.positions),
        "num_draws": num_draws,
        "mean_log_density": means[-1],
        "standard_error": errors[-1],
        "ess_percent": 100.0 * ess / num_draws,
        "ess_percent_log_density": 100.0 * ess_log / num_draws,
        "seconds": sampled.seconds,
        "ess_per_second": ess / sampled.seconds,
        "ess_per_second_log_density": ess_log / sampled.seconds,
        "r_hat": r_hat[:-1].max(),
        "r_hat_log_density": r_hat[-1],
        "acceptance_rate": sampled.acceptance_rate,
        "failure_share": sampled.failure_share,
        "step_size": sampled.step_size,
    }
    return row, means, errors


def sample_sphere(
    target, num_chains, num_draws, seed, *, methods=None, program=draw_chains
) -> tuple[list, list, dict]:
    """All samplers on one sphere.

    Parameters
    ----------
    target : BinghamVonMisesFisher
    num_chains, num_draws, seed : int
    methods : sequence of str, optional
        Names of samplers; all of them if left out.
    program : Program
        ``draw_fast`` or ``draw_chains``.

    Returns
    -------
    rows : list of dict
        The table, a row for each sampler.
    means : list of dict
        A row for each sampler and quantity, with distances from the exact mean and from Gibbs
        sampling in standard errors (of the difference).
    sampled : dict of Sampled
    """
    exact = exact_means(target)
    names = [*(f"q_{number}" for number in range(1, len(exact))), "log pi"]
    rows, found, sampled = [], {}, {}
    for number, (method, kernel) in enumerate(build_samplers().items()):
        if methods is not None and method not in methods:
            continue
        is_slow = isinstance(kernel, Gibbs) and kernel.draw == "rejection"
        num = min(num_draws, NUM_REJECTION_DRAWS) if is_slow else num_draws
        sampled[method] = run_sampler(
            kernel, target, num_chains, num, 1_000 * seed + number, program=program
        )
        row, mean, error = summarise(method, sampled[method])
        rows.append(row)
        found[method] = mean, error
    means = []
    for method, (mean, error) in found.items():
        from_exact = (mean - exact) / error
        gibbs, gibbs_error = found["Gibbs"]
        from_gibbs = (mean - gibbs) / np.hypot(error, gibbs_error)
        columns = (names, exact, mean, error, from_exact, from_gibbs)
        keys = ("quantity", "exact", "mean", "standard_error", "from_exact", "from_gibbs")
        means += [
            {"method": method} | dict(zip(keys, row, strict=True))
            for row in zip(*columns, strict=True)
        ]
    for row in rows:
        of_method = [mean for mean in means if mean["method"] == row["method"]]
        for key in ("from_exact", "from_gibbs"):
            row[f"largest_{key}"] = max(abs(mean[key]) for mean in of_method)
    return rows, means, sampled


# Tables and picture -------------------------------------------------------------------------------


def write_table(path: Path, rows: list[dict]) -> None:
    """Write rows as CSV with six digits."""
    with (
        replace_on_success(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def read_table(path: Path) -> list[dict]:
    """Rows of a CSV file, numbers as floats where they are."""

    def value(text):
        try:
            return float(text)
        except ValueError:
            return text

    with path.open(encoding="utf-8", newline="") as stream:
        return [{k: value(v) for k, v in row.items()} for row in csv.DictReader(stream)]


def print_table(title: str, rows: list[dict], suffix: str = "") -> None:
    """Print what the poster's table has, and more."""
    print(f"\n{title}")
    print(
        f"{'method':23} {'E[log pi]':>20} {'ESS %':>7} {'ESS/s':>9} {'R-hat':>7} {'accepted':>9} "
        f"{'step':>7} {'from exact':>11} {'from Gibbs':>11}"
    )
    for row in rows:
        print(
            f"{row['method']:23} {row['mean_log_density']:10.4f} +- {row['standard_error']:6.4f} "
            f"{row['ess_percent' + suffix]:7.1f} {row['ess_per_second' + suffix]:9,.0f} "
            f"{row['r_hat' + suffix]:7.3f} {row['acceptance_rate']:9.2f} {row['step_size']:7.3f} "
            f"{row['largest_from_exact']:11.1f} {row['largest_from_gibbs']:11.1f}"
        )


def plot(data: Path, picture: Path) -> None:
    """Density and draws on S^2, and effective draws per second on S^9, from the saved data."""
    draws = np.array([[row[f"q_{k}"] for k in (1, 2, 3)] for row in read_table(data / DRAWS)])
    rows = read_table(data / "sphere_9.csv")[::-1]
    longitude, latitude = np.linspace(-np.pi, np.pi, 361), np.linspace(-np.pi / 2, np.pi / 2, 181)
    grid = np.stack(
        [
            np.cos(latitude)[:, None] * np.cos(longitude),
            np.cos(latitude)[:, None] * np.sin(longitude),
            np.sin(latitude)[:, None] + 0.0 * longitude,
        ],
        axis=-1,
    )
    # Turned so that the largest density is in the middle.
    target = random_target(*SPHERE_2)
    mode = grid.reshape(-1, 3)[np.argmax(target.logdensity(grid))]
    turn = np.linalg.qr(np.column_stack([mode, np.asarray(target.eigenvectors)[:, :2]]))[0]
    turn[:, 0] *= np.sign(turn[:, 0] @ mode)
    logdensity = np.asarray(target.logdensity(grid @ turn.T))
    density, draws = np.exp(logdensity - logdensity.max()), draws @ turn
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 3.6), layout="constrained")
        left = figure.add_subplot(1, 2, 1, projection="mollweide")
        right = figure.add_subplot(1, 2, 2)
        shades = left.pcolormesh(
            longitude,
            latitude,
            density,
            norm=LogNorm(1e-3, 1.0),
            cmap="Blues",
            shading="gouraud",
            rasterized=True,
        )
        left.scatter(
            np.arctan2(draws[:, 1], draws[:, 0]), np.arcsin(draws[:, 2]),
            s=4, color=CHAIN_COLOURS[4], linewidths=0,
        )  # fmt: skip
        left.set_xticks([])
        left.set_yticks([])
        left.set_title(f"$S^2$, equal areas: density, and {len(draws)} draws of CHMC (L = 3)")
        bar = figure.colorbar(shades, ax=left, shrink=0.6, pad=0.04)
        bar.set_label("density / largest")
        bar.minorticks_off()
        bar.outline.set_visible(False)
        for place, row in enumerate(rows):
            colour = CHAIN_COLOURS[1 if row["method"].startswith("Gibbs") else 0]
            value = row["ess_per_second"]
            right.barh(place, value, height=0.62, color=colour)
            text = f" {float(f'{value:.2g}'):,.0f}  ({row['ess_percent']:.0f} % of draws)"
            right.text(value, place, text, va="center", color=INK, fontsize=8)
        right.set_yticks(range(len(rows)), [row["method"] for row in rows])
        right.set_xscale("log")
        right.set_xlim(1e3, 60.0 * max(row["ess_per_second"] for row in rows))
        right.set_xlabel("effective draws per second, of the slowest coordinate")
        right.set_title(f"$S^9$, {int(rows[0]['num_chains'])} chains side by side")
        right.tick_params(left=False)
        right.grid(axis="x", color=FAINT, alpha=0.3, linewidth=0.5)
        right.set_axisbelow(True)
        with replace_on_success(picture) as temporary:
            figure.savefig(temporary, dpi=DOTS_PER_INCH, format="png")


#: Dimension, largest eigenvalue of A and length of d.
SPHERE_2, SPHERE_9 = (3, 3.0, 2.0), (10, 10.0, 5.0)
DRAWS = "sphere_2_draws.csv"


def main() -> None:
    """Sample, check, save and draw; or only draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="draw the saved data, do not sample")
    parser.add_argument(
        "--settings", action="store_true", help="compare splittings and retractions on S^9 instead"
    )
    parser.add_argument("--chains", type=int, default=NUM_CHAINS, help="chains side by side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the tables")
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # one core for all, whatever else the machine does
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    invlift.enable_x64()
    if options.settings:
        compare_settings(options.data, options.chains, options.seed)
        return
    if not options.plot:
        sample_all(options.data, options.chains, options.seed)
    plot(options.data, options.picture)


def compare_settings(data: Path, num_chains: int, seed: int) -> None:
    """CHMC (L = 3) on S^9 by splitting and retraction, and with the library's dense target."""
    build_samplers()
    target = random_target(*SPHERE_9)
    linear, quadratic = target.linear, target.quadratic
    dense = invlift.manifold_problem(
        None, lambda q: linear @ q + q @ quadratic @ q, {"q": invlift.sphere(len(linear))}
    )
    rows = []
    for splitting, retraction, density in (
        ("stormer-verlet", "radial", target),
        ("stormer-verlet", "chebyshev", target),
        ("stormer-verlet", "newton", target),
        ("gaussian", "radial", target),
        ("geodesic", "radial", target),
        ("stormer-verlet", "chebyshev", dense),
    ):
        kernel = FixedConstrainedHMC(num_steps=3, splitting=splitting, retraction=retraction)
        sampled = run_sampler(
            kernel, target, num_chains, 1_000, seed, seen_as=density, program=draw_fast
        )
        name = f"{splitting}, {retraction}" + (", dense" if density is dense else "")
        row = summarise(name, sampled)[0]
        rows.append(row)
        microseconds = 1e6 * row["seconds"] / row["num_draws"]
        print(
            f"{name:34} {microseconds:6.2f} us per draw  ESS {row['ess_percent']:5.1f} %  "
            f"{row['ess_per_second']:9,.0f} per second  step {row['step_size']:.3f}"
        )
    write_table(data / "settings.csv", rows)


def sample_all(data: Path, num_chains: int, seed: int) -> None:
    """All three spheres, tables printed and saved."""
    target = random_target(*SPHERE_2)
    difference = np.max(np.abs(exact_means(target) - quadrature_means(target)))
    print(f"S^2: means by quadrature and by contour integral differ by {difference:.1e}")
    rows, means, sampled = sample_sphere(target, num_chains, NUM_DRAWS[2], seed)
    print_table("S^2: ESS of the slowest coordinate", rows)
    write_table(data / "sphere_2.csv", rows)
    write_table(data / "sphere_2_means.csv", means)
    draws = sampled["CHMC (L = 3)"].positions[:, -1 :: -(NUM_DRAWS[2] // 8)].reshape(-1, 3)
    write_table(data / DRAWS, [{f"q_{k + 1}": float(v) for k, v in enumerate(q)} for q in draws])

    target = random_target(*SPHERE_9)
    rows, means, _ = sample_sphere(target, num_chains, NUM_DRAWS[9], seed, program=draw_fast)
    print_table("S^9: ESS of the slowest coordinate", rows)
    write_table(data / "sphere_9.csv", rows)
    write_table(data / "sphere_9_means.csv", means)
    best = max(
        (row for row in rows if not row["method"].startswith("Gibbs")),
        key=lambda row: row["ess_per_second"],
    )
    for row in rows:
        if row["method"].startswith("Gibbs"):
            ratio = best["ess_per_second"] / row["ess_per_second"]
            print(f"{best['method']} has {ratio:.1f} times the ESS per second of {row['method']}")

    target = poster_target()
    methods = [name for name in build_samplers() if name != "Gibbs, by rejection"]
    rows, means, _ = sample_sphere(target, num_chains, NUM_DRAWS[5], seed, methods=methods)
    for row in rows:
        on_poster = POSTER.get(row["method"], ("", "", ""))
        row["poster_mean"], row["poster_ess_percent"], row["poster_ess_per_second"] = on_poster
    print_table(
        f"S^5, the poster's: exact E[log pi] {exact_means(target)[-1]:.4f}, ESS of log pi",
        rows,
        "_log_density",
    )
    write_table(data / "sphere_5.csv", rows)
    write_table(data / "sphere_5_means.csv", means)


if __name__ == "__main__":
    main()
