"""Where to measure next: against a Kalman filter with the covariances of the draws."""

from dataclasses import replace

import numpy as np
import pytest
import pyvista
from normal_noise import NormalNoise
from posterior_cases import Chain
from structured import box_mesh

from invlift.errors import InputError
from invlift.posterior import Posterior, Quantity, Readings
from invlift.posterior.output.next_sensor_files import write_next_sensors

SIGMA, MESH = 0.2, box_mesh(2, 2)
NODES = len(MESH.points)


def made_up(seed=0, solutions=("solution",)):
    rng = np.random.default_rng(seed)
    observed = rng.normal(size=3)
    mixing = {name: rng.normal(size=(NODES, NODES)) / 3.0 for name in solutions}
    root = np.tril(rng.normal(size=(NODES, NODES)))
    chains = []
    for _ in range(2):
        phi = 1.0 + rng.normal(size=(250, NODES)) @ root
        fields = {name: phi @ matrix + 2.0 for name, matrix in mixing.items()}
        for values in fields.values():
            values[:, 0] = 5.0  # held
        predicted = observed + SIGMA * rng.normal(size=(250, 3))
        scores = (observed - predicted) / SIGMA
        draws = {"log_conductivity": phi, "predicted": predicted, "noise_score": scores}
        chains.append(Chain(draws | fields))
    quantities = [Quantity("log_conductivity", {"node": None})]
    quantities += [Quantity(name, {"node": None}, is_derived=True) for name in solutions]
    points = MESH.points[[1, 3, 5]]
    readings, noise = Readings(observed, SIGMA, points), NormalNoise(observed, SIGMA)
    return Posterior(chains, quantities, mesh=MESH, sensors=readings, noise=noise)


def filtered(posterior, num, names, variance):
    """Shares of the first reading, and each further one's, by conditioning a covariance matrix."""
    pooled = [np.concatenate(posterior.draws(name)) for name in ("log_conductivity", *names)]
    covariance = np.cov(np.concatenate(pooled, axis=1), rowvar=False)
    areas = MESH.mean_over(None, "node").toarray()[0]
    total, rows = areas @ np.diag(covariance)[:NODES], []
    for _ in range(num):
        by_u = covariance[:, NODES:]
        spread = np.diag(covariance)[NODES:] + variance
        shares = areas @ by_u[:NODES] ** 2 / spread / total
        rows.append((int(np.argmax(shares)), shares))
        column = by_u[:, [rows[-1][0]]]
        covariance = covariance - column @ column.T / spread[rows[-1][0]]
    return rows


def test_shares_and_choices_are_those_of_a_kalman_filter():
    solutions = "solution_a", "solution_b"
    posterior = made_up(solutions=solutions)
    found = posterior.next_sensors(4)
    rows = filtered(posterior, 4, solutions, SIGMA**2)
    np.testing.assert_allclose(
        np.concatenate([found.shares[name] for name in solutions]), rows[0][1], rtol=1e-10
    )
    chosen = [place for place, _ in rows]
    assert found.best["node"].tolist() == [place % NODES for place in chosen]
    assert found.best["solution"].tolist() == [solutions[place // NODES] for place in chosen]
    totals = np.cumsum([shares[place] for place, shares in rows])
    np.testing.assert_allclose(found.best["share"], totals, rtol=1e-10)
    np.testing.assert_array_equal(found.best[["x", "y"]], MESH.points[found.best["node"]])
    assert found.shares[solutions[0]][0] == 0.0  # where the solution is held
    # negative control: with other noise the shares are others
    other = filtered(posterior, 1, solutions, 4 * SIGMA**2)[0][1]
    assert not np.allclose(other, rows[0][1], rtol=1e-2)


def test_a_scalar_may_be_wanted():
    posterior = made_up()
    found = posterior.next_sensors(2, "log_conductivity_field_mean")
    wanted = np.concatenate(posterior.scalars["log_conductivity_field_mean"])
    moves = np.concatenate(posterior.draws("solution"))
    correlations = [np.cov(wanted, column)[0, 1] ** 2 for column in moves.T]
    expected = correlations / (np.var(moves, axis=0, ddof=1) + SIGMA**2) / np.var(wanted, ddof=1)
    np.testing.assert_allclose(found.shares["solution"], expected, rtol=1e-10)


@pytest.mark.parametrize("is_drawn", [True, False])
def test_draws_that_are_not_all_stored_are_taken_together(is_drawn):
    """The mean of a thinned field is drawn with it, or comes from what is stored of it."""
    whole = made_up()
    name, chains = "log_conductivity_field_mean", []
    for chain in whole.chains:
        phi = chain.draws["log_conductivity"]
        own = {"log_conductivity": phi[::2], "solution": chain.draws["solution"][::4]}
        own |= {name: phi.mean(axis=1)} if is_drawn else {}
        draws = {key: values for key, values in chain.draws.items() if key not in own} | own
        chains.append(Chain(draws=draws, every={"log_conductivity": 2, "solution": 4}))
    short = made_up()
    for chain in short.chains:
        chain.draws.update({key: values[::4] for key, values in chain.draws.items()})
    thinned = replace(whole, chains=chains)
    for of in (None, name):
        found, expected = thinned.next_sensors(2, of), short.next_sensors(2, of)
        np.testing.assert_allclose(found.shares["solution"], expected.shares["solution"], rtol=1e-9)


def test_files_and_picture(tmp_path):
    posterior = made_up(solutions=("solution_a", "solution_b"))
    found = posterior.next_sensors(3)
    paths = write_next_sensors(posterior, found, tmp_path)
    assert [path.name for path in paths] == [f"next_sensors.{end}" for end in ("csv", "vtu", "png")]
    grid = pyvista.read(paths[1])
    np.testing.assert_allclose(
        grid.point_data["next_sensor_solution_b"], found.shares["solution_b"]
    )
    assert len(paths[0].read_text().splitlines()) == 4
    assert paths[2].stat().st_size > 10_000


def constant():
    posterior = made_up()
    for chain in posterior.chains:
        chain.draws["log_conductivity"][:] = 1.0
    return posterior


@pytest.mark.parametrize(
    ("posterior", "given", "message"),
    [
        (lambda: made_up(solutions=()), (), "stored draws of its solution"),
        (made_up, (1, "rate"), r"one of log_conductivity, .* found 'rate'"),
        (made_up, (1, "solution"), "found 'solution'"),
        (made_up, (0,), "one place or more, found 0"),
        (constant, (), "draws that differ"),
    ],
)
def test_what_is_lacking_is_named(posterior, given, message):
    with pytest.raises(InputError, match=message):
        posterior().next_sensors(*given)
