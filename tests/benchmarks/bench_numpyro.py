"""NumPyro models, lifted as they stand, beside NumPyro's own NUTS in the same run.

    taskset -c 1 python tests/benchmarks/bench_numpyro.py [MODEL ...] [--only lifted|nuts]
        [--warmup N] [--draws N] [--seeds N] [--acceptance A]

For each model the smallest bulk effective sample size over the latent sites for each second of
processor time of sampling, without warm-up and compilation, and the largest R-hat; of both four
chains of 500 + 3,000 iterations unless told otherwise.  `step` prints the time of a step of the
regression against the number of readings, and `door` runs hare and lynx as a NumPyro model and as
an `ode_problem` with the same steps, in turns, two chains of 300 + 2,000 iterations for each of ten
seeds.  With `--seeds N`: of the lifted chains alone, how many
of N seeds have an R-hat below 1.01, and the median over seeds of the effective draws for each 1,000
steps.  Steps of the lifted chain are accepted as often as by `from_numpyro(...).sample()`, or as
`--acceptance` says.
"""

import argparse
import runpy
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from one_core import sampled

import invlift
from invlift.app.problem.numpyro_model import ACCEPTANCE

invlift.enable_x64()
CHAINS, FEW = 4, 10


def toy(sigma):
    """The papers' curve: two unknowns and one accurate reading of them."""
    theta = numpyro.sample("theta", dist.Normal(0.0, 1.0).expand([2]))
    value = theta[1] ** 2 + 3.0 * theta[0] ** 2 * (theta[0] ** 2 - 1.0)
    numpyro.sample("y", dist.Normal(value, sigma), obs=jnp.asarray(1.0))


TIMES = np.linspace(0.0, 30.0, 12)
SHIFTS = np.array([0.3, -1.2, 0.5, 0.9, -0.4, 0.1, -0.8, 1.4, -0.2, 0.6, -1.0, 0.2])


def cooling(sigma):
    """A body that cools: rate, start, surroundings, and the scale of the noise."""
    rate = numpyro.sample("rate", dist.LogNormal(jnp.log(0.1), 0.7))
    start = numpyro.sample("start", dist.Normal(80.0, 10.0))
    around = numpyro.sample("around", dist.Normal(20.0, 5.0))
    scale = numpyro.sample("scale", dist.LogNormal(jnp.log(sigma), 1.0))
    readings = 22.0 + 55.0 * np.exp(-0.12 * TIMES) + sigma * SHIFTS
    curve = around + (start - around) * jnp.exp(-rate * TIMES)
    numpyro.sample("y", dist.Normal(curve, scale), obs=readings)


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools():
    """Eight schools, centred (Rubin 1981)."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, ERRORS), obs=EFFECTS)


def schools_not_centred():
    """The same, its centring taken out by hand."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        raw = numpyro.sample("raw", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * raw)
        numpyro.sample("y", dist.Normal(theta, ERRORS), obs=EFFECTS)


EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples/hare_lynx/hare_lynx.py"))
YEAR, HARE, LYNX, STEP = EXAMPLE["YEAR"], EXAMPLE["HARE"], EXAMPLE["LYNX"], 0.1


def hare_lynx():
    """Predator and prey (Au, Graham & Thiery 2023, section 6.6)."""
    rates = {
        name: numpyro.sample(name, dist.TruncatedNormal(mean, sd, low=0.0))
        for name, mean, sd in (
            ("alpha", 1.0, 0.5), ("beta", 0.05, 0.05), ("gamma", 1.0, 0.5), ("delta", 0.05, 0.05)
        )
    }  # fmt: skip
    first = numpyro.sample("first", dist.LogNormal(jnp.log(10.0), 1.0).expand([2]).to_event(1))
    scales = numpyro.sample("scales", dist.LogNormal(-1.0, 1.0).expand([2]).to_event(1))
    start = dict(zip(("hare", "lynx"), jnp.log(first), strict=True))
    logs = invlift.solve_ode(lambda t, x: EXAMPLE["slope"](t, x, **rates), start, YEAR, STEP)
    numpyro.sample("hare", dist.Normal(logs["hare"], scales[0]).to_event(1), obs=np.log(HARE))
    numpyro.sample("lynx", dist.Normal(logs["lynx"], scales[1]).to_event(1), obs=np.log(LYNX))


def regression(x, y):
    """Ten coefficients and an unknown scale."""
    beta = numpyro.sample("beta", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("reading", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ beta, scale), obs=y)


def regression_data(size):
    """Inputs (size, 10) and readings (size,)."""
    rng = np.random.default_rng(size)
    x = rng.standard_normal((size, 10))
    return x, x @ rng.standard_normal(10) + 0.3 * rng.standard_normal(size)


MODELS = {f"toy, sigma {sigma:g}": (toy, (sigma,)) for sigma in (0.1, 0.01, 0.001)}
MODELS |= {f"cooling, sigma {sigma:g}": (cooling, (sigma,)) for sigma in (0.3, 0.03, 0.003)}
MODELS |= {"schools": (schools, ()), "schools, not centred": (schools_not_centred, ())}
MODELS["hare and lynx"] = (hare_lynx, ())
MODELS |= {f"regression, {n}": (regression, regression_data(n)) for n in (100, 1_000, 10_000)}


def timed(problem, kernel, draws, **options):
    """A run on one core, and the processor seconds of its sampling without warm-up."""
    invlift.sample(problem, kernel, draws=FEW, seed=1, **options)  # compiles
    return sampled(problem, kernel, draws=draws, seed=1, **options)


def by_chain(run):
    """Draws of the sites, (chains, draws, ...), by name."""
    names = run.chains[0].draws.keys() - {"predicted", "noise_score"}
    return {name: np.stack([chain.draws[name] for chain in run.chains]) for name in names}


def lifted(model, arguments, kernel, warmup, draws):
    """Draws by chain, and seconds of sampling."""
    problem = invlift.from_numpyro(model, *arguments)
    run, seconds = timed(problem, kernel, draws, chains=CHAINS, warmup=warmup)
    return by_chain(run), seconds


def nuts(model, arguments, warmup, draws):
    """The same of NumPyro's NUTS: its second run, of what is compiled by then."""
    mcmc = MCMC(
        NUTS(model), num_warmup=warmup, num_samples=draws, num_chains=CHAINS,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(1), *arguments)
    mcmc.post_warmup_state = mcmc.last_state
    began = time.process_time()
    mcmc.run(mcmc.last_state.rng_key, *arguments)
    jax.block_until_ready(mcmc.get_samples())
    return jax.tree.map(np.asarray, mcmc.get_samples(group_by_chain=True)), (
        time.process_time() - began
    )


def diagnosed(draws):
    """Smallest bulk effective sample size, and largest R-hat."""
    import arviz

    data = arviz.from_dict(draws)
    ess, r_hat = arviz.ess(data), arviz.rhat(data)
    return (
        min(float(np.nanmin(ess[name])) for name in draws),
        max(float(np.nanmax(r_hat[name])) for name in draws),
    )


def seeds(model, arguments, kernel, num_seeds, warmup, draws):
    """Largest R-hat of a run for each seed, and its effective draws for each 1,000 steps."""
    problem, r_hats, efficiencies = invlift.from_numpyro(model, *arguments), [], []
    for seed in range(num_seeds):
        options = {"chains": CHAINS, "warmup": warmup, "draws": draws, "seed": seed}
        run = invlift.sample(problem, kernel, **options)
        ess, r_hat = diagnosed(by_chain(run))
        num_steps = sum(chain.stats["num_steps"].sum() for chain in run.chains)
        r_hats.append(r_hat)
        efficiencies.append(1e3 * ess / num_steps)
    return np.array(r_hats), np.array(efficiencies)


def step_times(kernel):
    """Milliseconds of a step against the number of readings, and the exponent."""
    sizes, times = (100, 300, 1_000, 3_000, 10_000), []
    for size in sizes:
        problem = invlift.from_numpyro(regression, *regression_data(size))
        run, seconds = timed(problem, kernel, 300, chains=1, warmup=200)
        num_steps = run.chains[0].stats["num_steps"][FEW:].sum()
        times.append(1e3 * seconds / num_steps)
        print(f"{size:7d} readings: {times[-1]:.3f} ms a step", flush=True)
    exponents = [np.polyfit(np.log(sizes[few:]), np.log(times[few:]), 1)[0] for few in (0, 2)]
    print("exponent over all: {:.2f}, over the last three: {:.2f}".format(*exponents))


def doors(kernel):
    """ESS/s, effective draws for each draw and time of a step of hare and lynx by either door."""
    first = invlift.Unknown(invlift.lognormal(np.log(10.0), 1.0))
    rates = dict.fromkeys(("alpha", "gamma"), EXAMPLE["rate"])
    rates |= dict.fromkeys(("beta", "delta"), EXAMPLE["small"])
    series = invlift.ode_problem(
        EXAMPLE["slope"],
        rates | {"hare": first, "lynx": first},
        initial=lambda hare, lynx, **rates: {"hare": jnp.log(hare), "lynx": jnp.log(lynx)},
        times=YEAR,
        readings={"hare": np.log(HARE), "lynx": np.log(LYNX)},
        noise=invlift.lognormal(-1.0, 1.0),
        max_step=STEP,
    )
    problems = {"NumPyro model": invlift.from_numpyro(hare_lynx), "ode_problem": series}
    totals = {name: np.zeros(4) for name in problems}
    for seed in range(10):
        for name, problem in problems.items():
            options = {"chains": 2, "warmup": 300, "draws": 2000, "seed": seed}
            if not seed:  # compiles
                invlift.sample(problem, kernel, **options | {"draws": FEW})
            run, seconds = sampled(problem, kernel, **options)
            draws = {key: each for key, each in by_chain(run).items() if "_path" not in key}
            num_steps = sum(chain.stats["num_steps"].sum() for chain in run.chains)
            totals[name] += diagnosed(draws)[0], 2 * options["draws"], num_steps, seconds
    for name, (ess, num_draws, num_steps, seconds) in totals.items():
        print(
            f"{name:14} {ess / seconds:6,.0f} ESS/s, {ess / num_draws:.3f} effective draws for "
            f"each draw, {1e6 * seconds / num_steps:.0f} us a step"
        )


def main():
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--only", choices=("lifted", "nuts"))
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--acceptance", type=float, default=ACCEPTANCE)
    given = parser.parse_args()
    kernel = invlift.KERNELS["chmc"](target_acceptance=given.acceptance)
    iterations = given.warmup, given.draws
    methods = {
        "lifted": lambda *model: lifted(*model, kernel, *iterations),
        "nuts": lambda *model: nuts(*model, *iterations),
    }
    for name, (model, arguments) in MODELS.items():
        if given.models and not any(name.startswith(each) for each in given.models):
            continue
        if given.seeds:
            r_hats, efficiencies = seeds(model, arguments, kernel, given.seeds, *iterations)
            print(
                f"{name}: R-hat < 1.01 in {np.sum(r_hats < 1.01)} of {given.seeds} seeds, largest "
                f"{r_hats.max():.4f}; {np.median(efficiencies):.0f} draws for 1,000 steps",
                flush=True,
            )
            continue
        line = f"{name:22}"
        for method in [given.only] if given.only else methods:
            draws, seconds = methods[method](model, arguments)
            ess, r_hat = diagnosed(draws)
            line += f"  {method} {ess / seconds:9,.0f} ESS/s (R-hat {r_hat:.3f})"
        print(line, flush=True)
    if not given.models or "step" in given.models:
        step_times(kernel)
    if not given.models or "door" in given.models:
        doors(kernel)


if __name__ == "__main__":
    main()
