"""Time of a step against the number of constraints, by the structure of the Jacobian.

    python tests/benchmarks/bench_jacobians.py [--repeats 5]

Element-wise: readings of two shared inputs, each with noise of its own.  State space: a state that
is read with noise, as a problem's constrained samplers take it.  Dense is the same constraint
without a structure.
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import invlift
from invlift.lift.jacobians import Diagonal, JacobianStructure
from invlift.lift.targets.manifold import ManifoldTarget
from invlift.problems.starts.landing import onto_manifold
from invlift.programs.pytrees import static
from invlift.samplers.constrained.step import build_state, constrained_step, sample_momentum
from invlift.samplers.kernels import ConstrainedHMC

MOST_DENSE = 400


def elementwise(size, is_dense):
    at = jnp.linspace(0.0, 3.0, size)

    def constraint(inputs):
        return jnp.exp(0.3 * inputs[0]) * jnp.sin(at + inputs[1]) + 0.1 * inputs[2:] - jnp.sin(at)

    structure = None if is_dense else Diagonal()
    return Conditioned(constraint, structure), size + 2


def state_space(size, is_dense):
    problem = invlift.state_space(
        lambda t, state, push, rate: {"x": jnp.tanh(rate) * jnp.sin(state["x"]) + 0.3 * push[0]},
        {"rate": invlift.normal(1.0, 0.1)},
        lambda push, rate: {"x": push[0]},
        {"x": np.sin(np.linspace(0.0, 0.1 * size, size))},
        invlift.lognormal(median=0.13, factor=1.2),
    )
    target = problem.lifted()
    if is_dense:
        return Conditioned(target.constraint), target.dimension
    return target, target.dimension


def time_of_step(make, size, is_dense, repeats):
    """Median of the time of a step of size 0.1, s."""
    target, num_variables = make(size, is_dense)
    position = onto_manifold(target, np.random.default_rng(0).standard_normal(num_variables))
    integrator = ConstrainedHMC().integrator

    @jax.jit
    def steps(position):
        point = target.point(position)
        state = build_state(point, sample_momentum(target, jax.random.key(1), point))
        for _ in range(3):
            state = constrained_step(integrator, target, state, 0.1)
        return state.num_failures, state.position

    failures, _ = steps(position)
    assert failures == 0, f"{failures} steps failed"
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        jax.block_until_ready(steps(position))
        times.append(time.perf_counter() - begin)
    return np.median(times) / 3


class Conditioned(ManifoldTarget):
    """As when a generator is conditioned: the force is the Gram matrix's."""

    constraint_fn: Callable = static()
    structure: JacobianStructure | None = static(default=None)

    def constraint(self, position):
        return self.constraint_fn(position)

    def logdensity(self, position, gram):
        del position
        return -0.5 * gram.log_determinant()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    invlift.enable_x64()
    for make in (elementwise, state_space):
        for is_dense in (False, True):
            sizes = [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600]
            sizes = [size for size in sizes if not is_dense or size <= MOST_DENSE]
            times = [time_of_step(make, size, is_dense, repeats) for size in sizes]
            slope = np.polyfit(np.log(sizes[-4:]), np.log(times[-4:]), 1)[0]
            name = f"{make.__name__}, {'dense' if is_dense else 'structured'}"
            row = ", ".join(f"{1e3 * each:.3g}" for each in times)
            print(f"{name}: {row} ms at {sizes}; exponent of the last four {slope:.2f}", flush=True)


if __name__ == "__main__":
    main()
