"""The toy problem with two unknowns and one reading, and how samplers are run on it.

The reading is y = 1, the two unknowns theta are standard normal, the noise is normal of known scale
sigma, and

    F(theta) = theta_1^2 + b theta_0^2 (theta_0^2 - c)

with b = 1 and c = 1/2 in the published paper (Au, Graham & Thiery 2023, section 2, eq. 2), b = 3
and c = 1 in its preprint (2020, section 2, eq. 3).  As sigma vanishes, the posterior closes in on
the curve {F = y}.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import invlift
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.noise.scales import KnownScale
from invlift.problems.problem import InverseProblem
from invlift.samplers.kernels import HMC, Kernel

#: The reading y.
OBSERVED = 1.0
#: b and c, by the year of the paper.
VERSIONS = {"2023": (1.0, 0.5), "2020": (3.0, 1.0)}
NUM_CHAINS = 4

DATA = Path(__file__).parent / "data"
IMAGES = Path(__file__).parents[2] / "docs" / "images"


def forward(theta: jax.Array, constants: jax.Array) -> jax.Array:
    """F, (1,), at theta (2,), with the constants (b, c)."""
    square = theta[:1] ** 2
    return theta[1:] ** 2 + constants[0] * square * (square - constants[1])


def toy_problem(version: str) -> InverseProblem:
    """The toy problem with noise of scale 1, to which :func:`target_of` gives another one.

    Parameters
    ----------
    version : {"2023", "2020"}

    Returns
    -------
    InverseProblem
        Of the same structure for both, so that they share compiled programs.
    """
    constants = jnp.asarray(VERSIONS[version])
    noise = invlift.known_noise(1.0)
    return invlift.jax_problem(forward, 2, noise, np.array([OBSERVED]), arguments=(constants,))


def target_of(kernel: Kernel, problem: InverseProblem, sigma: jax.Array):
    """What a kernel walks on, with noise of a scale sigma, (), which may be traced."""
    noise = replace(problem.noise, scale=KnownScale(sigma))
    posterior = LiftedPosterior if kernel.target_kind == "manifold" else OrdinaryPosterior
    return posterior(replace(problem, noise=noise))


def curve(version: str, num_points: int, level: float = OBSERVED) -> np.ndarray:
    """Points at equal distances around the curve {F = level}, (num_points, 2).

    The first is (a, 0) with a > 0; the others follow at equal parts of the curve's length, along
    theta_0 = a cos(t), theta_1 = +-(level - F(theta_0, 0))^(1/2).

    Parameters
    ----------
    version : {"2023", "2020"}
    num_points : int
    level : float
        At least 0, so that the curve surrounds the origin.
    """
    b, c = VERSIONS[version]
    widest = np.sqrt(0.5 * c + np.sqrt(0.25 * c**2 + level / b))

    def at(angle):
        first = widest * np.cos(angle)
        rest = level - b * first**2 * (first**2 - c)
        return np.stack([first, np.sign(np.sin(angle)) * np.sqrt(np.maximum(rest, 0.0))], axis=-1)

    angles = np.linspace(0.0, 2.0 * np.pi, 20_001)
    pieces = np.linalg.norm(np.diff(at(angles), axis=0), axis=1)
    length = np.concatenate([[0.0], np.cumsum(pieces)])
    return at(np.interp(length[-1] * np.arange(num_points) / num_points, length, angles))


def state_at(kernel: Kernel, target, theta: jax.Array):
    """A kernel's state at theta, (2,), lifted onto the manifold if that is where it walks."""
    return kernel.init(target, target.lift(theta) if kernel.target_kind == "manifold" else theta)


# At a fixed step size -----------------------------------------------------------------------------


def acceptance_rates(kernel, problem, sigma, step_size, starts, rng_key, num_draws: int):
    """Mean acceptance probabilities of chains at a fixed step size, without warm-up.

    Parameters
    ----------
    kernel : Kernel
    problem : InverseProblem
    sigma, step_size : ()
    starts : (chains, 2)
    rng_key : jax.Array
    num_draws : int

    Returns
    -------
    (chains,)
    """
    target = target_of(kernel, problem, sigma)
    tuning = (step_size, jnp.ones(2)) if isinstance(kernel, HMC) else step_size

    def chain(theta, key):
        def transition(index, carry):
            state, total = carry
            own_key = jax.random.fold_in(key, index)
            state, statistics = kernel.step(target, own_key, state, tuning)
            return state, total + statistics["acceptance_rate"]

        first = state_at(kernel, target, theta), jnp.zeros(())
        return jax.lax.fori_loop(0, num_draws, transition, first)[1] / num_draws

    return jax.vmap(chain)(starts, jax.random.split(rng_key, starts.shape[0]))


# With adaptation ----------------------------------------------------------------------------------


def begin(kernel, problem, sigma, theta):
    """State and state of the adaptation before a chain's first iteration, at theta, (2,)."""
    state = state_at(kernel, target_of(kernel, problem, sigma), theta)
    adapted = kernel.adaptation.init(kernel.position(state).shape[0])
    return state, jax.tree.map(jnp.asarray, adapted)


def warm_up(kernel, problem, sigma, state, adapted, rng_key, schedule):
    """State and state of the adaptation after the warm-up, as in invlift/samplers/chains/chain.py.

    Parameters
    ----------
    kernel : Kernel
    problem : InverseProblem
    sigma : ()
    state, adapted
        From :func:`begin`.
    rng_key : jax.Array
    schedule : (num_warmup, k) int
        Of the adaptation.
    """
    target, adaptation = target_of(kernel, problem, sigma), kernel.adaptation

    def transition(carry, at):
        state, adapted = carry
        index, stage = at
        tuning = adaptation.tuning(adapted, True)
        state, statistics = kernel.step(target, jax.random.fold_in(rng_key, index), state, tuning)
        adapted = adaptation.update(adapted, stage, kernel.position(state), statistics)
        return (state, jax.tree.map(jnp.asarray, adapted)), None

    stages = jnp.arange(schedule.shape[0]), schedule
    return jax.lax.scan(transition, (state, adapted), stages)[0]


def draw(kernel, problem, sigma, state, adapted, rng_key, num_draws: int):
    """Draws after the warm-up.

    Parameters
    ----------
    kernel : Kernel
    problem : InverseProblem
    sigma : ()
    state, adapted
        From :func:`warm_up`.
    rng_key : jax.Array
    num_draws : int

    Returns
    -------
    theta : (num_draws, 2)
    dict
        ``acceptance_rate``, ``num_steps``, ``step_size``: means, ().
    """
    target = target_of(kernel, problem, sigma)
    tuning = kernel.adaptation.tuning(adapted, False)

    def transition(state, index):
        state, statistics = kernel.step(target, jax.random.fold_in(rng_key, index), state, tuning)
        kept = statistics["acceptance_rate"], statistics["num_steps"]
        return state, (kernel.position(state)[:2], *kept)

    theta, acceptance_rate, num_steps = jax.lax.scan(transition, state, jnp.arange(num_draws))[1]
    means = {"acceptance_rate": jnp.mean(acceptance_rate), "num_steps": jnp.mean(num_steps)}
    return theta, means | kernel.adaptation.report(tuning)
