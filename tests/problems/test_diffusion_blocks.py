"""Diffusions given their states at some times, against dense matrices and exact moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from monte_carlo import assert_mean_within, stacked
from test_diffusion_problem import (
    RATE,
    SIGMA,
    TIMES,
    assert_same_newton,
    assert_same_point,
    nerve,
    point_of,
    problem,
    simulated,
)

from invlift.app.runs.sampling import sample
from invlift.app.runs.scalars import RankedScalars, names_of_fields, random_entries
from invlift.errors import InputError
from invlift.lift.targets.diffusion import DiffusionPosterior
from invlift.lift.targets.manifold import ManifoldTarget
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.problems.starts.landing import onto_manifold
from invlift.problems.time.diffusion_blocks import DiffusionInBlocks, blocks_of
from invlift.problems.time.diffusion_problem import DiffusionProblem
from invlift.programs.compilation import Program
from invlift.programs.pytrees import static
from invlift.samplers.kernels.alternate import Alternate
from invlift.unknowns.distributions import lognormal


class Dense(ManifoldTarget):
    """The same given states, step by step and without a structure."""

    whole: DiffusionPosterior
    states: jax.Array
    given: tuple[int, ...] = static()
    is_read: tuple[tuple[bool, ...], ...] = static()

    def constraint(self, position):
        model, found = self.whole.problem.model, self.whole._variables_of(position)
        meant = model.grid.spread(self.whole._noise_free(found.zeta, found.eta))
        state, ends, readings = model.first(found.values), [], {}
        times = range(0 if model.is_read_at_start else 1, 1 + model.at.size // model.num_steps)
        for row, (number, is_read) in enumerate(zip(times, self.is_read, strict=True)):
            for step in range(max(0, (number - 1) * model.num_steps), number * model.num_steps):
                at, length, move = model.at[step], model.lengths[step], found.moves[step]
                state = model.step(at, length, move, state, found.values)
            if number not in self.given or not self.whole.problem.noise.is_exact:
                miss = model.read(state, found.values) - meant[row]
                readings |= {(name, row): miss[name] for name in np.flatnonzero(is_read)}
            if number in self.given:
                target = self.states[len(ends)]
                ends.append(state - target)
                state = target
        return jnp.concatenate([jnp.stack([readings[key] for key in sorted(readings)]), *ends])

    def logdensity(self, position, gram):
        return self.whole.logdensity(position, gram)


@pytest.mark.slow
def test_blocks_are_those_of_dense_matrices():
    made = nerve(lognormal(median=0.3, factor=1.5))
    whole = DiffusionPosterior(made)
    parted = DiffusionInBlocks(made, ways=(blocks_of(made, 1, 2),))
    drawn = 0.5 * jax.random.normal(jax.random.key(3), (whole.dimension,))
    rough = jax.jit(lambda drawn: whole.rough_position(drawn))(drawn)
    position = jnp.asarray(onto_manifold(whole, np.asarray(rough)))
    (own,) = jax.jit(lambda position: parted.parts(position))(position)
    is_read = np.asarray(made.model.grid.spread(jnp.ones(made.num_observations)))
    num_intervals = made.model.at.size // made.model.num_steps
    given = tuple(range(1, num_intervals, 2))
    dense = Dense(whole, own.states, given, tuple(map(tuple, is_read > 0.0)))
    one, other = point_of(own, position), point_of(dense, position)
    np.testing.assert_allclose(one.constraint, 0.0, atol=1e-9)
    assert_same_point(own, dense, one, other, own.dimension)
    assert_same_newton(own, dense, one, other, position)


class InOneWay(DiffusionProblem):
    def lifted(self):
        return DiffusionInBlocks(self, ways=(blocks_of(self, 4, 4),))


def smoothed(rates, readings, steps=20):
    """Levels at the times of readings given these, and their squares, for each rate.

    With the log likelihoods, as the path is normal given the rate.
    """
    step, num = 0.4 / steps, readings.size
    numbers = np.arange(1, num + 1)
    found = []
    for rate in rates:
        decay = (1 - rate * step) ** steps
        own = 0.25 * step * sum((1 - rate * step) ** (2 * each) for each in range(steps))
        shift = np.tril(decay ** (numbers[:, None] - numbers))
        covariance = own * shift @ shift.T
        mean = decay**numbers
        whole = covariance + SIGMA**2 * np.eye(num)
        away = readings - mean
        log = -0.5 * (away @ np.linalg.solve(whole, away) + np.linalg.slogdet(whole)[1])
        gain = np.linalg.solve(whole, covariance).T
        level = mean + gain @ away
        spread = np.diag(covariance - gain @ covariance)
        found.append((log, np.concatenate([level, level**2 + spread])))
    logs, moments = map(np.array, zip(*found, strict=True))
    return logs, moments


@pytest.mark.slow
def test_ends_of_blocks_leave_no_trace_in_the_posterior():
    readings = simulated()
    made = problem(
        unknowns={"rate": RATE},
        times=TIMES,
        readings={"level": readings},
        noise=SIGMA,
        steps_per_interval=20,
    )
    rates = np.exp(np.linspace(-3.0, 2.5, 401))
    logs, moments = smoothed(rates, readings)
    log_density = logs - 0.5 * (np.log(rates) / np.log(1.8)) ** 2
    mass = np.exp(log_density - log_density.max())
    exact = np.concatenate([[mass @ rates], mass @ moments]) / mass.sum()

    one_way = InOneWay(made.model, made.prior, made.noise, made.observed)

    def found(problem, draws):
        run = sample(problem, Alternate(), chains=4, warmup=200, draws=draws, seed=3)
        levels = stacked(run, "level_path")[..., 20::20]
        return np.concatenate([stacked(run, "rate")[..., None], levels, levels**2], axis=-1)

    assert_mean_within(found(made, 1500), exact, min_ess=400)
    with pytest.raises(AssertionError):
        assert_mean_within(found(one_way, 200), exact, min_ess=0)


@pytest.mark.slow
def test_a_problem_without_blocks_is_refused():
    """States do not decide exact readings that depend on the unknowns as well."""
    made = problem(
        noise=None,
        readings={"scaled": [0.7, 0.2, 0.4]},
        observe=lambda state, rate: {"scaled": rate * state["level"]},
    )
    with pytest.raises(InputError, match="kernel: expected a target in parts"):
        sample(made, Alternate(), chains=1, warmup=2, draws=2)


def test_ranked_are_the_same_quantities_in_blocks():
    made = problem()
    target = made.lifted()
    places = {name: jnp.asarray([*each.values()]) for name, each in random_entries(made, 0).items()}
    recorder = RankedScalars(target, names_of_fields(made), places)
    position = target.lift(0.3 * jnp.ones(made.num_unknowns))
    whole = RankedScalars(OrdinaryPosterior(made), names_of_fields(made), places)
    found, expected = Program(described, "none")(recorder, whole, position)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12)


def described(recorder, whole, position):
    theta = position[: whole.target.dimension]
    return recorder.describe_position(position)[0], whole.describe(theta)[0]
