"""Acceptance of eleven samplers against noise and step size, on the toy problem.

    python examples/manifold_lifting/acceptance.py [--plot]

Figure 2 of Au, Graham & Thiery (2023) and Figure 1 of its supplement, for the published F and for
that of the preprint (Figure 2 there).  Mean acceptance probabilities of four chains that start at
equal distances around the curve {F = y}, at a fixed step size and without warm-up; for the
constrained samplers the start is lifted, which makes eta = 0.  It writes
``data/acceptance.csv`` beside the script, draws ``docs/images/toy_acceptance.png`` and
``docs/images/toy_acceptance_2020.png``, and prints how the step size of acceptance 1/2 depends on
the noise.  With --plot it draws and prints from saved data.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import matplotlib
import numpy as np
import toy
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

import invlift
from invlift.files.atomic import replace_on_success
from invlift.posterior.figures.style import CHAIN_COLOURS, FAINT, INK, STYLE, saved
from invlift.samplers.kernels import (
    HMC,
    MALA,
    FixedConstrainedHMC,
    Kernel,
    PositionDependentMALA,
    PositionDependentRandomWalk,
    RandomWalk,
    RiemannianHMC,
    SimplifiedManifoldMALA,
)

SEED = 20230101
#: Noise scales, and step sizes of ordinary and of constrained samplers.
SIGMAS = np.logspace(-5.0, 0.0, 11)
ORDINARY_STEPS, CONSTRAINED_STEPS = np.logspace(-6.0, 0.5, 27), np.logspace(-3.0, 0.5, 29)
#: The step size that is told for each sigma has this acceptance; slopes are fitted up to a sigma.
HALF, LARGEST_SIGMA = 0.5, 0.1
FILE = toy.DATA / "acceptance.csv"
FIGURES = {
    "2023": toy.IMAGES / "toy_acceptance.png",
    "2020": toy.IMAGES / "toy_acceptance_2020.png",
}


@dataclass(frozen=True)
class Sampler:
    """A sampler of the figure.

    Attributes
    ----------
    name : str
    kernel : Kernel
    num_draws : int
        Of each chain, where a sampler is slow fewer than the paper's 1,000.
    eta : float
        Noise, in units of sigma, at the starts: 0 on the curve.
    """

    name: str
    kernel: Kernel
    num_draws: int = 1000
    eta: float = 0.0

    @property
    def is_constrained(self) -> bool:
        """Whether it walks on the lifted manifold."""
        return self.kernel.target_kind == "manifold"

    @property
    def step_sizes(self) -> np.ndarray:
        """Step sizes of its heat map."""
        return CONSTRAINED_STEPS if self.is_constrained else ORDINARY_STEPS


def constrained(retraction: str, splitting: str) -> FixedConstrainedHMC:
    """Constrained HMC of ten steps."""
    return FixedConstrainedHMC(num_steps=10, retraction=retraction, splitting=splitting)


SOFTABS = RiemannianHMC(metric="softabs", num_steps=10)
#: In the order of the panels.  The constrained leapfrog method of the paper is "stormer-verlet".
SAMPLERS = [
    Sampler("RWM", RandomWalk()),
    Sampler("MALA", MALA()),
    Sampler("HMC", HMC(metric="identity", num_steps=10)),
    Sampler("RM-HMC, Fisher", RiemannianHMC(metric="fisher", num_steps=10), 200),
    Sampler("RM-HMC, SoftAbs", SOFTABS, 200),
    Sampler("PD-RWM", PositionDependentRandomWalk()),
    Sampler("Simplified PD-MALA", SimplifiedManifoldMALA()),
    Sampler("PD-MALA", PositionDependentMALA()),
    Sampler("C-HMC, Newton", constrained("newton", "stormer-verlet"), 200),
    Sampler("C-HMC, symmetric Newton", constrained("symmetric-newton", "stormer-verlet"), 200),
    Sampler("C-HMC, Chebyshev", constrained("chebyshev", "gaussian"), 200),
]
#: Not in the paper: the same sampler from starts at which F = y + sigma.
OFF_THE_CURVE = Sampler("RM-HMC, SoftAbs, off the curve", SOFTABS, 100, eta=-1.0)
ALL = [*SAMPLERS, OFF_THE_CURVE]


# Sampling -----------------------------------------------------------------------------------------


def starts_of(sampler: Sampler, version: str, sigmas: np.ndarray) -> np.ndarray:
    """Starts around the curve {F = y - sigma eta}, (sigmas, chains, 2)."""
    levels = toy.OBSERVED - sigmas * sampler.eta
    by_level = {level: toy.curve(version, toy.NUM_CHAINS, level) for level in np.unique(levels)}
    return np.stack([by_level[level] for level in levels])


@partial(jax.jit, static_argnums=(0, 6))
def _acceptance_rates(kernel, problem, sigmas, step_sizes, starts, rng_keys, num_draws):
    """Of each cell, (cells, chains): one cell after another, the chains of each side by side.

    All cells side by side would wait for the slowest one in every implicit step.
    """

    def cell(arguments):
        return toy.acceptance_rates(kernel, problem, *arguments, num_draws)

    return jax.lax.map(cell, (sigmas, step_sizes, starts, rng_keys))


def measure(
    sampler: Sampler, version: str, sigmas: Sequence[float], step_sizes: Sequence[float], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean acceptance probabilities at pairs of sigma and step size.

    Parameters
    ----------
    sampler : Sampler
    version : {"2023", "2020"}
    sigmas, step_sizes : (cells,)
    seed : int

    Returns
    -------
    mean : (cells,)
    standard_error : (cells,)
        From the variance between the chains.
    """
    sigmas, step_sizes = np.asarray(sigmas), np.asarray(step_sizes)
    rates = _acceptance_rates(
        sampler.kernel,
        toy.toy_problem(version),
        sigmas,
        step_sizes,
        starts_of(sampler, version, sigmas),
        jax.random.split(jax.random.key(seed), sigmas.size),
        sampler.num_draws,
    )
    rates = np.asarray(rates)
    return rates.mean(axis=1), rates.std(axis=1, ddof=1) / np.sqrt(rates.shape[1])


def sample_all() -> None:
    """Measure every sampler over its whole grid, for both versions, and save."""
    rows = []
    for sampler in ALL:
        grid = np.meshgrid(SIGMAS, sampler.step_sizes, indexing="ij")
        sigmas, step_sizes = map(np.ravel, grid)
        for version in toy.VERSIONS:
            began = time.perf_counter()
            mean, error = measure(sampler, version, sigmas, step_sizes, SEED)
            print(f"{version}  {sampler.name:<32} {time.perf_counter() - began:6.1f} s", flush=True)
            for row in zip(sigmas, step_sizes, mean, error, strict=True):
                rows.append((version, sampler.name, *(f"{value:.4g}" for value in row)))
    toy.DATA.mkdir(exist_ok=True)
    with (
        replace_on_success(FILE) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow(
            ["version", "sampler", "sigma", "step_size", "acceptance", "standard_error"]
        )
        writer.writerows(rows)


# What the data say --------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeatMap:
    """Acceptance of one sampler.

    Attributes
    ----------
    sigmas : (S,)
    step_sizes : (H,)
    acceptance, standard_error : (S, H)
    """

    sigmas: np.ndarray
    step_sizes: np.ndarray
    acceptance: np.ndarray
    standard_error: np.ndarray

    def half_steps(self) -> np.ndarray:
        """The step size up to which the mean acceptance is at least 1/2, (S,).

        Interpolated in the log of the step size; NaN where no step of the grid is short enough.
        What longer steps do counts for nothing: a rotation by nearly pi leads to -q, where F is the
        same, so that the Gaussian splitting has its steps accepted again.
        """
        found = np.full(self.sigmas.size, np.nan)
        log_steps = np.log(self.step_sizes)
        for row, rates in enumerate(self.acceptance):
            below = np.flatnonzero(rates < HALF)
            first = below[0] if below.size else rates.size
            if first == rates.size:
                found[row] = self.step_sizes[-1]
            elif first > 0:
                pair = slice(first - 1, first + 1)
                # Falling, turned round for an interpolation.
                found[row] = np.exp(np.interp(-HALF, -rates[pair], log_steps[pair]))
        return found

    def slope(self) -> float:
        """Of the log of :meth:`half_steps` against log sigma, where sigma is at most 0.1."""
        is_small = self.sigmas <= LARGEST_SIGMA * (1.0 + 1e-6)
        logs = np.log(self.sigmas[is_small]), np.log(self.half_steps()[is_small])
        return float(np.polyfit(*logs, 1)[0])


def read() -> dict[tuple[str, str], HeatMap]:
    """The saved data, by version and sampler."""
    columns: dict[tuple[str, str], list] = {}
    with FILE.open(encoding="utf-8", newline="") as stream:
        for version, name, *values in list(csv.reader(stream))[1:]:
            columns.setdefault((version, name), []).append([float(value) for value in values])
    maps = {}
    for key, rows in columns.items():
        sigmas, step_sizes, acceptance, error = np.asarray(rows).T
        sigmas, step_sizes = np.unique(sigmas), np.unique(step_sizes)
        shape = sigmas.size, step_sizes.size
        maps[key] = HeatMap(sigmas, step_sizes, acceptance.reshape(shape), error.reshape(shape))
    return maps


def print_slopes(maps: dict[tuple[str, str], HeatMap]) -> None:
    """Table of step sizes and slopes."""
    for version in toy.VERSIONS:
        print(f"\nF of {version}: step size of acceptance 1/2 at sigma = 1e-5, 1e-3, 0.1; slope")
        for sampler in ALL:
            heat_map = maps[version, sampler.name]
            steps = heat_map.half_steps()[[0, 4, 8]]
            texts = "  ".join(f"{step:8.2g}" for step in steps)
            print(f"{sampler.name:<32} {texts}  {heat_map.slope():7.3f}")


# Figures ------------------------------------------------------------------------------------------


def _edges(values: np.ndarray) -> np.ndarray:
    """Edges of cells around values at equal ratios."""
    ratio = np.sqrt(values[1] / values[0])
    return np.append(values / ratio, values[-1] * ratio)


def plot(maps: dict[tuple[str, str], HeatMap], version: str) -> Figure:
    """Heat maps of a version with their slopes, and all step sizes of acceptance 1/2 together."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.6, 7.6), layout="constrained")
        axes = figure.subplots(3, 4)
        for index, (sampler, ax) in enumerate(zip(SAMPLERS, axes.flat, strict=False)):
            image = _draw_heat_map(ax, sampler, maps[version, sampler.name])
            ax.tick_params(labelbottom=index >= 8, labelleft=index % 4 == 0)
            if index % 4 == 0:
                ax.set_ylabel("step size")
            if index >= 8:
                ax.set_xlabel("noise scale σ")
        _draw_half_steps(axes[-1, -1], maps, version)
        bar = figure.colorbar(image, ax=axes, aspect=50, pad=0.01, ticks=np.linspace(0, 1, 6))
        bar.set_label("mean acceptance probability")
        bar.outline.set_visible(False)
    return figure


def _draw_heat_map(ax, sampler: Sampler, heat_map: HeatMap):
    edges = _edges(heat_map.sigmas), _edges(heat_map.step_sizes)
    image = ax.pcolormesh(
        *edges, heat_map.acceptance.T, vmin=0.0, vmax=1.0, cmap="viridis", rasterized=True
    )
    outline = [withStroke(linewidth=2.6, foreground=INK)]
    ax.plot(
        heat_map.sigmas, heat_map.half_steps(), color="white", linewidth=1.2, path_effects=outline
    )
    ax.set(xscale="log", yscale="log", xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]])
    _mark_decades(ax)
    ax.set_title(sampler.name)
    ax.text(
        0.96 if sampler.is_constrained else 0.05,
        0.05 if sampler.is_constrained else 0.95,
        f"slope {heat_map.slope():.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}"),
        transform=ax.transAxes,
        horizontalalignment="right" if sampler.is_constrained else "left",
        verticalalignment="bottom" if sampler.is_constrained else "top",
        color=INK if sampler.is_constrained else "white",
    )
    return image


def _mark_decades(ax) -> None:
    """Ticks at some powers of ten, and no minor ones."""
    ax.set_xticks([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0])
    low = ax.get_ylim()[0]
    ax.set_yticks([1e-6, 1e-4, 1e-2, 1e0] if low < 1e-4 else [1e-3, 1e-2, 1e-1, 1e0])
    ax.minorticks_off()


def _draw_half_steps(ax, maps, version: str) -> None:
    ordinary, lifted, other = CHAIN_COLOURS[0], CHAIN_COLOURS[1], CHAIN_COLOURS[3]
    for sampler in SAMPLERS:
        heat_map = maps[version, sampler.name]
        colour = lifted if sampler.is_constrained else ordinary
        ax.plot(heat_map.sigmas, heat_map.half_steps(), color=colour, linewidth=1.0)
    heat_map = maps[version, OFF_THE_CURVE.name]
    ax.plot(heat_map.sigmas, heat_map.half_steps(), color=other, linewidth=1.2, linestyle="--")
    guide = np.array([3e-4, 1.0])
    ax.plot(guide, 0.06 * guide, color=FAINT, linewidth=1.0, linestyle=":")
    ax.set(xscale="log", yscale="log", xlim=(10**-5.25, 10**0.25), ylim=(10**-6.125, 10**1.6))
    _mark_decades(ax)
    for place, text, colour in (
        ((1e-5, 1.3), "C-HMC", lifted),
        ((1e-5, 0.013), "SoftAbs from\nF = y + σ", other),
        ((1e-5, 1.6e-3), "all others", ordinary),
        ((2.5e-3, 2e-5), "∝ σ", FAINT),
    ):
        ax.text(*place, text, color=colour, verticalalignment="bottom", linespacing=1.05)
    ax.set_title("Step size of acceptance 1/2")
    ax.set_xlabel("noise scale σ")


def main() -> None:
    """Sample unless told not to; draw and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", action="store_true", help="draw from saved data")
    if not parser.parse_args().plot:
        invlift.enable_x64()  # before the first array
        sample_all()
    maps = read()
    print_slopes(maps)
    for version, path in FIGURES.items():
        saved(plot(maps, version), path)


if __name__ == "__main__":
    main()
