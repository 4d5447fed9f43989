"""From a problem to draws: names, shapes, reproducibility, and arguments that are refused."""

import io
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from crafted import run_from_prior
from rich.console import Console

from invlift.app.runs import progress
from invlift.app.runs.sampling import FIRST_GOAL, sample, target_of
from invlift.app.runs.starts import STARTS, GivenStarts
from invlift.errors import InputError
from invlift.noise import gaussian_noise, known_noise, unknown_scale
from invlift.posterior import Posterior, Readings
from invlift.problems.inverse_problem import jax_problem
from invlift.samplers.chains import parallel, workers
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.saving import fingerprint
from invlift.samplers.kernels import ConstrainedHMC
from invlift.unknowns.distributions import lognormal

SHORT = {"chains": 2, "warmup": 20, "draws": 30}


def bent(theta, shift):
    return jnp.stack([theta[0] + theta[1] ** 2, jnp.sin(theta[2]) + shift])


def problem_with(noise=None, shift=0.2):
    noise = noise or gaussian_noise(lognormal(-2.0, 0.5))
    return jax_problem(bent, 3, noise, np.array([0.8, 0.5]), arguments=(jnp.asarray(shift),))


@pytest.fixture(scope="module")
def run():
    return sample(problem_with(), **SHORT, seed=3)


def test_draws_have_their_names_and_shapes(run):
    assert len(run.chains) == 2
    for chain in run.chains:
        shapes = {name: values.shape for name, values in chain.draws.items()}
        assert shapes == {
            "parameters": (30, 3),
            "predicted": (30, 2),
            "noise_score": (30, 2),
            "sigma": (30,),
        }
        assert all(np.all(np.isfinite(values)) for values in chain.draws.values())
        assert np.all(chain.draws["sigma"] > 0)


def test_predicted_is_the_forward_map_of_the_parameters(run):
    for chain in run.chains:
        expected = jax.vmap(lambda theta: bent(theta, 0.2))(chain.draws["parameters"])
        np.testing.assert_allclose(chain.draws["predicted"], expected, rtol=1e-13)


def test_noise_scales_of_several_instruments(tmp_path):
    """Unknown scales of two kinds of sensors."""
    scales = unknown_scale(lognormal(-2.0, 1.0), groups=np.array([1, 0]))
    problem = problem_with(gaussian_noise(scales))
    run = run_from_prior(problem, 30)
    assert run.chains[0].draws["sigma"].shape == (30, 2)
    posterior = Posterior(run.chains, sensors=Readings(problem.observed))
    assert posterior.fit.sensors().predictive_p_value.shape == (2,)
    assert {"sigma[0]", "sigma[1]"} <= set(posterior.summary().index)
    assert posterior.write(tmp_path)


def test_known_noise_is_not_among_the_draws():
    target = target_of(problem_with(known_noise(0.1)), ConstrainedHMC())
    point = jax.eval_shape(target.point, jnp.zeros(target.dimension))
    draws, _ = jax.eval_shape(target.describe, point)
    assert set(draws) == {"parameters", "predicted", "noise_score"}


def test_same_seed_same_bits_and_another_seed_another_run(run):
    again = sample(problem_with(), **SHORT, seed=3)
    other = sample(problem_with(), **SHORT, seed=4)
    for chain, same, different in zip(run.chains, again.chains, other.chains, strict=True):
        np.testing.assert_array_equal(chain.draws["parameters"], same.draws["parameters"])
        assert not np.any(chain.draws["parameters"] == different.draws["parameters"])


def test_saved_chains_are_taken_up_and_others_refused(run, tmp_path):
    sample(problem_with(), chains=2, warmup=20, draws=10, seed=3, checkpoint=tmp_path)
    resumed = sample(problem_with(), **SHORT, seed=3, checkpoint=tmp_path, resume=True)
    for chain, expected in zip(resumed.chains, run.chains, strict=True):
        np.testing.assert_array_equal(chain.draws["parameters"], expected.draws["parameters"])
    other_data = problem_with(shift=0.3)
    for arguments, found in (
        ({"problem": other_data, "seed": 3}, "problem: expected this problem"),
        ({"problem": problem_with(), "seed": 4}, "seed: expected 4, found 3"),
        ({"problem": problem_with(), "seed": 3, "method": "chmc-nuts"}, "method: expected"),
        ({"problem": problem_with(), "seed": 3, "warmup": 21}, "warmup: expected 21, found 20"),
        ({"problem": problem_with(), "seed": 3, "chains": 1}, "expected 2, as the saved run has"),
    ):
        with pytest.raises(InputError, match=found):
            sample(**SHORT | arguments, checkpoint=tmp_path, resume=True)


def scaled_by(factor):
    def model(theta):
        return factor * theta

    return model


@dataclass(frozen=True)
class Model:
    factor: float

    def __call__(self, theta):
        return self.factor * theta


@pytest.mark.parametrize(
    "models",
    [
        (scaled_by(1.0), scaled_by(5.0)),
        (lambda theta: theta, lambda theta: 5.0 * theta),
        (partial(jnp.multiply, 1.0), partial(jnp.multiply, 5.0)),
        (Model(1.0), Model(5.0)),
        (jax.jit(scaled_by(1.0)), jax.jit(scaled_by(5.0))),
    ],
    ids=["closures", "functions", "partial", "objects", "compiled"],
)
def test_another_function_of_the_same_name_has_another_fingerprint(models):
    plan = Plan(ConstrainedHMC(), 20, 30)
    one, again, other = (
        fingerprint(jax_problem(model, 2, known_noise(0.1), np.array([0.8, 0.5])), plan, 3)
        for model in (models[0], *models)
    )
    assert one == again != other


def test_chains_of_another_function_of_the_same_name_are_refused(tmp_path, monkeypatch):
    options = SHORT | {"seed": 3, "checkpoint": tmp_path, "method": "rwm"}
    one, other = (
        jax_problem(scaled_by(factor), 2, known_noise(0.1), np.array([0.8, 0.5]))
        for factor in (1.0, 5.0)
    )
    run = sample(one, **options)
    again = sample(one, **options, resume=True)
    np.testing.assert_array_equal(
        run.chains[0].draws["parameters"], again.chains[0].draws["parameters"]
    )
    with pytest.raises(InputError, match="problem: expected this problem"):
        sample(other, **options, resume=True)
    # What no digest sees is seen at the saved position.
    of_one = partial(fingerprint, one)
    monkeypatch.setattr("invlift.app.runs.sampling.fingerprint", lambda _, *others: of_one(*others))
    with pytest.raises(InputError, match="chain 0, saved noise_score"):
        sample(other, **options, resume=True)


def test_arguments_out_of_range_are_named_in_one_line():
    for arguments in (
        {"method": "gibbs"}, {"chains": 0}, {"chains": 2.0}, {"warmup": 0}, {"draws": True},
        {"draws": "enough"}, {"seed": -1}, {"seed": None}, {"seed": 2**64}, {"resume": True},
        {"budget": 0.0}, {"max_field_megabytes": -1.0}, {"max_field_megabytes": np.nan},
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            sample(problem_with(), **SHORT | arguments)
        assert caught.value.where == next(iter(arguments))
        assert "\n" not in str(caught.value)


def test_forward_map_that_is_finite_at_the_prior_mean_alone():
    def only_at_zero(theta):
        return jnp.where(jnp.all(theta == 0.0), 0.0, jnp.nan) * theta

    problem = jax_problem(only_at_zero, 2, known_noise(0.1), np.array([1.0, 1.0]))
    with pytest.raises(InputError, match="chain 0, start") as caught:
        sample(problem, **SHORT)
    assert "\n" not in str(caught.value)


# Starts -------------------------------------------------------------------------------------------


def linear(theta):
    return jnp.stack([theta[0] - theta[1], 0.5 * theta[2]])


NUM_STARTS = 100


def test_starts_of_a_linear_problem_are_draws_of_its_posterior():
    """Randomised maximum likelihood is exact there."""
    observed = np.array([0.8, 0.5])
    problem = jax_problem(linear, 3, known_noise(0.3), observed)
    kernel = ConstrainedHMC()
    found = STARTS["prior"](kernel, target_of(problem, kernel), 5, NUM_STARTS)
    positions = np.stack([found[chain] for chain in range(NUM_STARTS)])
    theta, eta = positions[:, :3], positions[:, 3:]
    np.testing.assert_allclose(jax.vmap(linear)(theta) + 0.3 * eta - observed, 0.0, atol=1e-12)
    matrix = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.5]])
    covariance = np.linalg.inv(np.eye(3) + matrix.T @ matrix / 0.3**2)
    mean = covariance @ matrix.T @ observed / 0.3**2
    errors = (theta.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / NUM_STARTS)
    assert np.abs(errors).max() < 4.0
    ratios = theta.var(axis=0) / np.diag(covariance)
    assert np.abs(ratios - 1.0).max() < 4.0 * np.sqrt(2.0 / NUM_STARTS)
    # Negative control: they are not those of the prior.
    assert np.diag(covariance).max() < 0.8


def wide(theta, matrix):
    return jnp.tanh(matrix @ theta)


def test_starts_are_the_same_bits_where_a_target_has_been_sent():
    """To another process it comes as NumPy's arrays, which sum in another order than JAX."""
    matrix = jnp.asarray(np.random.default_rng(5).normal(size=(12, 300)) / 30)
    observed = np.linspace(-0.4, 0.4, 12)
    problem = jax_problem(
        wide, 300, gaussian_noise(lognormal(-2.0, 0.5)), observed, arguments=(matrix,)
    )
    kernel = ConstrainedHMC()
    here = STARTS["prior"](kernel, target_of(problem, kernel), 5, 2)
    sent = jax.tree.map(np.asarray, here)
    for chain in range(2):
        np.testing.assert_array_equal(sent[chain], here[chain])


def test_starts_of_another_name_are_refused():
    with pytest.raises(
        InputError, match=r"starts: expected one of prior, laplace, or .* found 'map'"
    ):
        sample(problem_with(), **SHORT, starts="map")


def test_chains_start_from_given_unknowns():
    problem = problem_with()
    white = 0.1 * np.arange(2.0 * problem.prior.num_white).reshape(2, -1)
    target = target_of(problem, ConstrainedHMC())
    for chain, given in enumerate(white):
        start = GivenStarts(target, white)[chain]
        np.testing.assert_array_equal(problem.split(start[: problem.num_unknowns])[1], given)
        assert np.abs(target.constraint(jnp.asarray(start))).max() < 1e-9
    size = white.shape[1]
    expected = rf"or an array \(2, {size}\), a row for each chain, found shape \(1, {size}\)"
    with pytest.raises(InputError, match=expected):
        sample(problem, chains=2, warmup=5, draws=5, starts=white[:1])
    with pytest.raises(InputError, match=r"starts: expected .* found .*'x'"):
        sample(problem, chains=2, warmup=5, draws=5, starts=["prior", "x"])
    with pytest.raises(InputError, match="starts, row 1: expected unknowns at which the forward"):
        GivenStarts(target, np.where([[False], [True]], np.nan, white))[1]


# As many draws as it takes ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def converged():
    return sample(problem_with(), chains=2, warmup=50, draws="converged", seed=3)


def test_chains_go_on_until_the_verdict_is_good(converged):
    """Each goal before the last was not enough, as the verdict on its draws says."""
    nums = {chain.num_draws for chain in converged.chains}
    assert len(nums) == 1
    num = nums.pop()
    goals = [FIRST_GOAL]
    while goals[-1] < num:
        goals.append(goals[-1] + goals[-1] // 2)
    assert goals[-1] == num
    assert len(goals) > 1
    for goal in goals:
        cut = [
            replace(c, draws={k: v[:goal] for k, v in c.draws.items()}) for c in converged.chains
        ]
        assert Posterior(cut, standards=converged.standards).verdict().is_converged == (goal == num)


def test_a_run_until_converged_goes_on_to_the_same_end(converged, tmp_path):
    """Interrupted between two goals."""
    options = {"chains": 2, "warmup": 50, "seed": 3, "checkpoint": tmp_path}
    sample(problem_with(), draws=FIRST_GOAL + 50, **options)
    run = sample(problem_with(), draws="converged", resume=True, **options)
    for chain, expected in zip(run.chains, converged.chains, strict=True):
        for name, values in expected.draws.items():
            np.testing.assert_array_equal(chain.draws[name], values)


def test_a_run_ends_when_its_time_is_over(tmp_path, monkeypatch):
    """By a clock that shows the iteration that both chains have come to."""
    done = {0: 0, 1: 0}
    clock = SimpleNamespace(monotonic=lambda: min(done.values()))
    monkeypatch.setattr(parallel, "time", clock)
    monkeypatch.setattr(workers, "LOCAL_SECONDS", 0.0)
    problem = problem_with()
    run = sample(
        problem,
        chains=2,
        warmup=20,
        draws=10**6,
        budget=100,
        checkpoint=tmp_path,
        on_progress=lambda news: done.update({news.chain: news.iteration}),
    )
    assert not run.is_interrupted
    num = run.chains[0].num_draws
    assert 90 <= num < 10**6
    # What there was is saved, and goes on.
    longer = sample(
        problem, chains=2, warmup=20, draws=num + 1, seed=0, checkpoint=tmp_path, resume=True
    )
    draws = longer.chains[0].draws["parameters"]
    np.testing.assert_array_equal(draws[:num], run.chains[0].draws["parameters"])


def test_a_person_at_a_notebook_sees_a_bar_for_each_chain(monkeypatch):
    shown = []

    class Watched(Console):
        """A terminal that keeps what is printed."""

        def __init__(self, **options):
            super().__init__(file=io.StringIO(), force_terminal=True, width=120)
            shown.append(self)

    monkeypatch.setattr(progress, "Console", Watched)
    run = sample(problem_with(), chains=2, warmup=20, draws=20, seed=1)
    (console,) = shown
    text = console.file.getvalue()
    assert "chain 0" in text
    assert "chain 1" in text
    assert "40/40" in text
    # A program that listens itself sees none.
    sample(problem_with(), chains=1, warmup=20, draws=20, on_progress=lambda news: None)
    assert len(shown) == 1
    assert len(run.chains) == 2


def test_results_show_themselves_in_notebooks(run):
    posterior = problem_with().posterior(run)
    page = posterior._repr_html_()
    assert "<table" in page
    assert "parameters[0]" in page
    assert posterior.verdict().headline in page
    text = str(posterior)
    assert text.endswith(str(posterior.verdict()))
    for name, row in posterior.summary().iterrows():
        (line,) = [line.split() for line in text.splitlines() if line.startswith(name)]
        assert line[1] == f"{row['mean']:.4g}"
        assert f"<th>{name}</th>" in page
        assert f"<td>{row['mean']:.4g}</td>" in page
