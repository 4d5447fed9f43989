"""Calibration of the disc with the posterior, and with a density that lacks its Gram term.

    python examples/calibration/without_gram.py [--simulations M] [--plot]

The lifted posterior has the factor det(G)^(-1/2) with G the Gram matrix of the constraint (Au,
Graham & Thiery 2023, section 3, eq. 4).  Here the same simulations are sampled once with it and
once without, everything else equal.  Draws without it look as good as any: chains move, and agree
with one another.  Ranks of the truth tell them apart.  Simulations are kept in ``data`` beside the
script, which goes on with what is there, and drawn in ``docs/images/calibration.png``; with --plot
none are run.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import pandas as pd
from matplotlib.figure import Figure

import invlift
from invlift.app.problem.build import build_noise, build_problem
from invlift.app.studies.calibrate import RECORD, TABLE, calibrate
from invlift.lift.targets.lifted import LiftedPosterior
from invlift.posterior.figures.style import STYLE, saved
from invlift.posterior.statistics.calibration import (
    BAD,
    GOOD,
    LEVEL,
    Calibration,
    Simulation,
    draw_difference,
)
from invlift.samplers.kernels import ConstrainedHMC, Kernel

HERE = Path(__file__).parent
DATA = HERE / "data"
PICTURE = HERE.parents[1] / "docs" / "images" / "calibration.png"
NUM_SIMULATIONS, NUM_DRAWS = 500, 63
#: Quantities of the figure.
SHOWN = ("sigma", "log_likelihood", "log_conductivity_field_mean", "log_conductivity_field_std")


class WithoutGramTerm(LiftedPosterior):
    """A wrong density: -(1/2) log det G is left out, and with it its gradient."""

    def point(self, position):
        """All that an integrator needs to know at a position."""
        zeta, white, eta = self.split(position)
        noise, observed = self.problem.noise, self.problem.observed

        def rest(zeta, eta):
            return noise.log_reference(zeta, eta) + noise.log_slope(observed, zeta, eta)

        value, (by_zeta, by_eta) = jax.value_and_grad(rest, (0, 1))(zeta, eta)
        gradient = jnp.concatenate([by_zeta, jnp.zeros_like(white), by_eta])
        return super().point(position)._replace(logdensity=value, logdensity_grad=gradient)


class ChmcWithoutGramTerm(ConstrainedHMC, settings=True):
    """Constrained HMC on the wrong density."""

    def init(self, target, position):
        """The wrong density's evaluation at a position."""
        return super().init(WithoutGramTerm(target.problem), position)

    def step(self, target, rng_key, state, tuning):
        """One transition."""
        return super().step(WithoutGramTerm(target.problem), rng_key, state, tuning)


#: By the folder of its simulations, what to call each in the figure.
KERNELS: dict[str, tuple[str, Kernel]] = {
    "with_gram_term": ("the posterior", ConstrainedHMC()),
    "without_gram_term": ("without the Gram term", ChmcWithoutGramTerm()),
}


def run(folder: str, kernel: Kernel, num_simulations: int) -> Calibration:
    """The simulations of one kernel: those kept, and those that are missing."""
    spec = invlift.read_problem(HERE / "problem.toml")
    field = build_problem(spec, needs_values=False)
    problem = replace(field, noise=build_noise(spec, field.sensors))
    settings, directory = spec.sampler, DATA / folder

    def tell(simulation, num_done):
        print(f"{folder}: {num_done} of {num_simulations}, {simulation.outcome}", flush=True)

    return calibrate(
        problem,
        kernel,
        simulations=num_simulations,
        draws=NUM_DRAWS,
        warmup=settings.warmup,
        seed=settings.seed,
        directory=directory,
        resume=(directory / RECORD).exists(),
        on_simulation=tell,
    )


def saved_calibration(folder: str) -> Calibration:
    """The simulations of one kernel that are kept, whatever version of invlift they are of."""
    names = json.loads((DATA / folder / RECORD).read_text(encoding="utf-8"))["identity"]["names"]
    table = pd.read_csv(DATA / folder / TABLE, dtype=dict.fromkeys(names, "Int64"))
    simulations = [
        Simulation(
            row["simulation"],
            row["outcome"],
            {name: int(row[name]) for name in names if not pd.isna(row[name])},
            row["num_draws"],
        )
        for row in table.to_dict("records")
    ]
    return Calibration(simulations, tuple(names), NUM_DRAWS, len(simulations))


def plot(calibrations: list[Calibration]) -> None:
    """Draw the distribution functions of ranks, a row for each kernel."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.0, 5.2), layout="constrained")
        grid = figure.subplots(2, len(SHOWN), sharex=True, sharey="row")
        for row, calibration, (title, _) in zip(grid, calibrations, KERNELS.values(), strict=True):
            uniform, p_values = calibration.uniform(), calibration.p_values()
            bands = [uniform.band(1.0 - level) for level in (LEVEL, calibration.level)]
            for axes, name in zip(row, SHOWN, strict=True):
                colour = BAD if p_values[name] < calibration.level else GOOD
                draw_difference(axes, uniform, bands, calibration.ranks[name], colour)
                p = p_values[name]
                words = "p < 1e-12" if p < 1e-12 else f"p = {p:.2g}"
                axes.set_title(f"{name}\n{words}", color=colour, fontsize=8)
            row[0].set_ylabel(
                f"{title}\n{uniform.num_ranks} simulations\n\nranks below, less expected"
            )
        figure.supxlabel("rank of the truth among the draws, as a share of all", fontsize=9)
        saved(figure, PICTURE)


def main() -> None:
    """Run what is missing, draw, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=NUM_SIMULATIONS, metavar="M")
    parser.add_argument("--plot", action="store_true", help="from saved data alone")
    options = parser.parse_args()
    invlift.enable_x64()
    calibrations = []
    for folder, (title, kernel) in KERNELS.items():
        found = (
            saved_calibration(folder) if options.plot else run(folder, kernel, options.simulations)
        )
        calibrations.append(found)
        print(f"\n{title}: {calibrations[-1].verdict()}\n")
    plot(calibrations)


if __name__ == "__main__":
    main()
