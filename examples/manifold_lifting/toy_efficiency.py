"""Efficiency of nine samplers against the noise, on the toy problem.

    python examples/manifold_lifting/toy_efficiency.py [--plot]

Figure 4 of Au, Graham & Thiery (2023) and Figure 3 of its supplement.  Four chains that start at
equal distances around the curve {F = y}, each with the kernel's own adaptation during warm-up: the
smaller bulk effective sample size of theta_0 and theta_1 for each second of sampling, the larger
R-hat, and the adapted step size.  All are timed alike: one compiled scan a chain, compiled
beforehand, the four one after another, in processor time; warm-up does not count.  Samplers take as
many draws as fit into a few seconds.  The script writes ``data/toy_efficiency.csv`` beside it and
draws ``docs/images/toy_efficiency.png``; with --plot it draws and prints from saved data.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import toy
from matplotlib.figure import Figure

import invlift
from invlift.files.atomic import replace_on_success
from invlift.posterior.figures.style import CHAIN_COLOURS, FAINT, INK, STYLE, saved
from invlift.posterior.statistics.diagnostics import diagnose
from invlift.posterior.verdict import MAX_R_HAT
from invlift.samplers.kernels import HMC, NUTS, ConstrainedHMC, Kernel, RiemannianHMC

SEED = 20230104
SIGMAS = np.logspace(-5.0, 0.0, 6)
NUM_WARMUP = 1000
FILE = toy.DATA / "toy_efficiency.csv"
FIGURE = toy.IMAGES / "toy_efficiency.png"


@dataclass(frozen=True)
class Sampler:
    """A sampler of the figure.

    Attributes
    ----------
    name : str
    kernel : Kernel
    num_draws : int
        Of each chain.
    colour, marker : str
        Of its line.
    """

    name: str
    kernel: Kernel
    num_draws: int
    colour: str
    marker: str


_BLUE, _ORANGE, _GREEN, _PINK, _RED, _SKY = CHAIN_COLOURS
#: The constrained leapfrog method of the paper is "stormer-verlet".
SAMPLERS = [
    Sampler("HMC, identity", HMC(metric="identity"), 50_000, _BLUE, "o"),
    Sampler("HMC, diagonal", HMC(metric="diagonal"), 50_000, _BLUE, "s"),
    Sampler("HMC, dense", HMC(metric="dense"), 50_000, _BLUE, "^"),
    Sampler("NUTS, dense", NUTS(metric="dense"), 2500, _SKY, "D"),
    Sampler("RM-HMC, Fisher", RiemannianHMC(metric="fisher"), 1000, _ORANGE, "o"),
    Sampler("RM-HMC, SoftAbs", RiemannianHMC(metric="softabs"), 1000, _RED, "s"),
    Sampler(
        "C-HMC, Newton",
        ConstrainedHMC(retraction="newton", splitting="stormer-verlet", persistence=0.0),
        5000,
        _GREEN,
        "o",
    ),
    Sampler(
        "C-HMC, symmetric Newton",
        ConstrainedHMC(retraction="symmetric-newton", splitting="stormer-verlet", persistence=0.0),
        5000,
        _PINK,
        "s",
    ),
    Sampler("C-HMC, Chebyshev", ConstrainedHMC(persistence=0.0), 10_000, INK, "^"),
]


@dataclass(frozen=True)
class Result:
    """What a sampler has achieved at a noise scale.

    Attributes
    ----------
    sampler : str
    sigma : float
    num_draws : int
        Of each of the four chains.
    seconds : float
        Processor time of the four chains together, warm-up and compilation excluded.
    ess_bulk, r_hat : float
        The smaller and the larger one of theta_0 and theta_1.
    step_size, least_step_size, largest_step_size : float
        Geometric mean and range over the chains; in the adapted metric.
    acceptance_rate, num_steps : float
        Means over all draws; steps of each trajectory.
    """

    sampler: str
    sigma: float
    num_draws: int
    seconds: float
    ess_bulk: float
    r_hat: float
    step_size: float
    least_step_size: float
    largest_step_size: float
    acceptance_rate: float
    num_steps: float

    @property
    def ess_per_second(self) -> float:
        """Smaller bulk effective sample size for each second of a chain's sampling."""
        return self.ess_bulk / self.seconds

    @property
    def is_converged(self) -> bool:
        """Whether R-hat is at most 1.01 (Vehtari et al. 2021, section 4)."""
        return self.r_hat <= MAX_R_HAT


def run(sampler: Sampler, sigmas: Sequence[float]) -> list[Result]:
    """Run a sampler on the published toy problem at each of the noise scales."""
    kernel, problem = sampler.kernel, toy.toy_problem("2023")
    starts = toy.curve("2023", toy.NUM_CHAINS)
    key, schedule = jax.random.key(SEED), kernel.adaptation.schedule(NUM_WARMUP)
    begin = jax.jit(partial(toy.begin, kernel))
    warm_up = jax.jit(partial(toy.warm_up, kernel))
    draw = jax.jit(partial(toy.draw, kernel, num_draws=sampler.num_draws))
    first = begin(problem, jnp.asarray(sigmas[0]), starts[0])
    compiled = draw.lower(problem, jnp.asarray(sigmas[0]), *first, key).compile()
    results = []
    for sigma in map(jnp.asarray, sigmas):
        seconds, draws, means = 0.0, [], []
        for chain, theta in enumerate(starts):
            key_warmup, key_draws = jax.random.split(jax.random.fold_in(key, chain))
            state = begin(problem, sigma, theta)
            state = warm_up(problem, sigma, *state, key_warmup, schedule)
            state = jax.block_until_ready(state)
            began = time.process_time()
            kept = jax.block_until_ready(compiled(problem, sigma, *state, key_draws))
            seconds += time.process_time() - began
            draws.append(np.asarray(kept[0]))
            means.append({name: float(value) for name, value in kept[1].items()})
        found = diagnose(draws)
        steps = np.array([mean["step_size"] for mean in means])
        results.append(
            Result(
                sampler.name,
                float(sigma),
                sampler.num_draws,
                seconds,
                float(np.min(found.ess_bulk)),
                float(np.max(found.r_hat)),
                float(np.exp(np.mean(np.log(steps)))),
                float(np.min(steps)),
                float(np.max(steps)),
                float(np.mean([mean["acceptance_rate"] for mean in means])),
                float(np.mean([mean["num_steps"] for mean in means])),
            )
        )
    return results


def write(results: Sequence[Result]) -> None:
    """Save results."""
    toy.DATA.mkdir(exist_ok=True)
    with (
        replace_on_success(FILE) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow([field.name for field in fields(Result)])
        for result in results:
            values = asdict(result).values()
            writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in values])


def read() -> list[Result]:
    """The saved results."""
    with FILE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    kinds = {"sampler": str, "num_draws": int}
    return [
        Result(**{name: kinds.get(name, float)(value) for name, value in row.items()})
        for row in rows
    ]


def print_table(results: Sequence[Result]) -> None:
    """Table of all results."""
    print(f"{'':<24}    sigma    draws  seconds      ESS   R-hat  ESS/s  step size  acc.  steps")
    for each in results:
        print(
            f"{each.sampler:<24} {each.sigma:8.0e} {each.num_draws:8d} {each.seconds:8.2f} "
            f"{each.ess_bulk:8.0f} {each.r_hat:7.3f} {each.ess_per_second:6.3g} "
            f"{each.step_size:10.2g} {each.acceptance_rate:5.2f} {each.num_steps:6.1f}"
        )


def plot(results: Sequence[Result]) -> Figure:
    """Efficiency, R-hat and step size against sigma; hollow where R-hat is above 1.01.

    R-hat is drawn as at least 1.0001.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.6, 4.4), layout="constrained")
        axes = figure.subplots(1, 3)
        for sampler in SAMPLERS:
            own = [each for each in results if each.sampler == sampler.name]
            _draw_line(axes[0], sampler, own, [each.ess_per_second for each in own])
            _draw_line(axes[1], sampler, own, [max(each.r_hat - 1.0, 1e-4) for each in own])
            _draw_line(axes[2], sampler, own, [each.step_size for each in own])
        axes[1].axhline(MAX_R_HAT - 1.0, color=FAINT, linewidth=1.0, linestyle=":")
        axes[0].set_title("Effective draws per second")
        axes[1].set_title("R-hat, less 1")
        axes[2].set_title("Adapted step size")
        for ax in axes:
            ax.set(xscale="log", yscale="log", xlabel="noise scale σ")
            ax.set_xticks(SIGMAS)
            ax.minorticks_off()
            ax.grid(axis="y", color=FAINT, alpha=0.3, linewidth=0.5)
        axes[1].text(8e-6, 1.1e-2, "R-hat 1.01", color=FAINT, verticalalignment="bottom")
        hollow = {"marker": "o", "markerfacecolor": "white", "markersize": 5.0, "color": FAINT}
        axes[0].plot([], [], linestyle="none", label="hollow: R-hat above 1.01", **hollow)
        handles = axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=5)
    return figure


def _draw_line(ax, sampler: Sampler, results: Sequence[Result], values: Sequence[float]) -> None:
    """A line whose marks are hollow where a sampler has not converged."""
    sigmas = [each.sigma for each in results]
    style = {"marker": sampler.marker, "color": sampler.colour, "markersize": 5.0}
    ax.plot(sigmas, values, linewidth=1.0, label=sampler.name, **style)
    for each, value in zip(results, values, strict=True):
        if not each.is_converged:
            ax.plot(each.sigma, value, markerfacecolor="white", linestyle="none", **style)


def main() -> None:
    """Sample unless told not to; draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="draw from saved data")
    if not parser.parse_args().plot:
        invlift.enable_x64()  # before the first array
        results = []
        for sampler in SAMPLERS:
            began = time.perf_counter()
            results += run(sampler, SIGMAS)
            print(f"{sampler.name:<24} {time.perf_counter() - began:6.1f} s", flush=True)
        write(results)
    results = read()
    print_table(results)
    saved(plot(results), FIGURE)


if __name__ == "__main__":
    main()
