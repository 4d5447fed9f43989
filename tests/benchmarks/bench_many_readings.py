"""What a draw costs as readings become more: all of them lifted, or what they tell.

    python tests/benchmarks/bench_many_readings.py [disc | places | unknown | student | picture]
        [--rings N] [--sensors N ...] [--noise S] [--warmup N] [--draws N] [--all-up-to N]

Run it pinned to one core.  ``disc``: sensors spread over the disc, of known noise; ``unknown``: of
unknown noise; ``student``: of Student-t noise of four degrees of freedom, ``--unknown`` of unknown
scale; ``places``: ten of them, read 1 and 3,000 times each.  Prints for each number of readings the
number that is lifted, seconds before the first draw, milliseconds a draw, steps, effective draws of
1,000 and a second at the worst of ten nodes, and the posterior mean and standard deviation of the
field's mean and of the noise.  Up to so many readings all are lifted as well.  ``picture`` draws
that of docs/many_readings.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import discs
import jax
import numpy as np
from one_core import sampled

from invlift.posterior.figures.style import CHAIN_COLOURS, DASHED, FAINT, Panels, new_axes, saved
from invlift.posterior.statistics.diagnostics import diagnose
from invlift.problems.choice import lift_choice

NUM_CHAINS = 2
PICTURE = Path(__file__).parents[2] / "docs/images/many_readings.png"
#: Standard deviations of the noise over the largest reading in the picture.
NOISES = 0.1, 0.01, 1e-4


def problem_of(kind: str, options: argparse.Namespace, num: int):
    if kind != "places":
        problem = discs.simulated(options.rings, num, options.noise)
        sigma = float(problem.noise.scale.known)
        if kind == "unknown":
            noise = invlift.gaussian_noise(invlift.lognormal(median=sigma, factor=3.0))
            problem = replace(problem, noise=noise)
        if kind == "student":
            scale = invlift.lognormal(median=sigma, factor=3.0) if options.unknown else sigma
            problem = replace(problem, noise=invlift.student_t_noise(scale, 4.0))
            problem, _ = problem.simulate(np.random.default_rng(7))
        return problem
    few = discs.simulated(options.rings, 10, options.noise)
    sensors = np.asarray(few.model.on_mesh.sensors.points)
    forward, prior = discs.parts(options.rings, np.repeat(sensors, num // 10, axis=0))
    rng, sigma = np.random.default_rng(5), float(few.noise.scale.known)
    observed = np.repeat(few.observed, num // 10) + sigma * rng.normal(size=num)
    noise = invlift.known_noise(sigma)
    if options.unknown:
        noise = invlift.gaussian_noise(invlift.lognormal(median=sigma, factor=3.0))
    return invlift.inverse_problem(forward, prior, noise, observed)


def measure(name: str, problem, options: argparse.Namespace) -> None:
    """Print one line."""
    began = time.perf_counter()
    choice = lift_choice.choose(problem)
    reference = choice.reference
    lifted = problem.num_observations if reference is None else reference.basis.shape[1]
    chosen = time.perf_counter() - began
    began = time.perf_counter()
    run, seconds = sampled(
        problem,
        "chmc",
        chains=NUM_CHAINS,
        warmup=options.warmup,
        draws=options.draws,
        seed=1,
    )
    took = time.perf_counter() - began
    fields = [chain.draws["log_conductivity"] for chain in run.chains]
    nodes = np.linspace(0, fields[0].shape[1] - 1, 10).astype(int)
    ess = diagnose([field[:, nodes] for field in fields], "nodes").ess_bulk.min()
    mean = np.concatenate([field.mean(axis=1) for field in fields])
    stats = [chain.stats for chain in run.chains]
    steps = np.mean([each["num_steps"] for each in stats])
    num_draws = sum(len(field) for field in fields)
    line = f"{name:>12} {problem.num_observations:6d} {lifted:5d} lifted: "
    line += f"chosen in {chosen:5.1f} s, in all {took:5.0f} s; {1e3 * seconds / num_draws:7.1f} ms "
    line += f"a draw, {steps:4.1f} steps of {np.mean([c.step_size for c in run.chains]):.2f}; "
    line += f"ESS {1e3 * ess / num_draws:.0f} of 1000, {ess / seconds:6.1f} a s; "
    line += f"mean {mean.mean():.4f} ({mean.std():.4f})"
    line += f", node sd {np.concatenate(fields).std(axis=0).mean():.4f}"
    if "sigma" in run.chains[0].draws:
        sigma = np.concatenate([chain.draws["sigma"].ravel() for chain in run.chains])
        own = diagnose([chain.draws["sigma"].reshape(-1, 1) for chain in run.chains], "sigma")
        line += f"; sigma {sigma.mean():.5f} ({sigma.std():.5f}), ESS {own.ess_bulk.min():.0f}"
    print(line, flush=True)


def draw_picture(rings: int, num: int) -> None:
    """Signal-to-noise ratios of combinations of readings, and how many of them are lifted."""
    with new_axes(None, 1, 1, 6.6, 3.4) as axes:
        ax = axes[0, 0]
        for noise, colour in zip(NOISES, CHAIN_COLOURS, strict=False):
            problem = discs.simulated(rings, num, noise)
            by_white = lift_choice._modes(problem)[0].by_white
            ratios = np.linalg.svd(by_white, compute_uv=False)
            lifted = lift_choice.choose(problem).reference.basis.shape[1]
            at = np.arange(1, num + 1)
            style = {"color": colour, "linestyle": "", "markersize": 3.5}
            label = f"noise {100 * noise:g} %, {lifted} lifted"
            ax.plot(at[:lifted], ratios[:lifted], "o", label=label, **style)
            ax.plot(at[lifted:], ratios[lifted:], "o", markerfacecolor="none", alpha=0.5, **style)
        ax.axhline(1.0, color=FAINT, linestyle=DASHED)
        ax.set(yscale="log", ylim=(1e-2, None), xlim=(0, 150))
        ax.set(xlabel="combination of readings", ylabel="signal-to-noise ratio")
        ax.set_title(f"{num} sensors: lifted (filled), in the density (open)")
        ax.legend()
    saved(Panels(axes), PICTURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["disc", "unknown", "places", "student", "picture"])
    parser.add_argument("--rings", type=int, default=24)
    parser.add_argument("--sensors", type=int, nargs="+", default=[10, 100, 300, 1000, 10_000])
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--all-up-to", type=int, default=300)
    parser.add_argument("--unknown", action="store_true")
    options = parser.parse_args()
    if options.kind == "picture":
        draw_picture(options.rings, *options.sensors)
        return
    few = lift_choice.FEW
    for num in options.sensors:
        problem = problem_of(options.kind, options, num)
        if few < num <= options.all_up_to:
            lift_choice.FEW = num
            measure("all", problem, options)
        lift_choice.FEW = few
        measure(options.kind, problem, options)
        jax.clear_caches()


if __name__ == "__main__":
    main()
