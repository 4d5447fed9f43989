"""Simulation-based calibration: test of the ranks of true values among posterior draws.

Unknowns are drawn from the prior, readings are simulated from them, and the posterior given these
readings is sampled. If the draws are from the correct posterior, the rank of the true value of any
quantity among L independent draws is uniform on 0 ... L (Talts, Betancourt, Simpson, Vehtari &
Gelman 2018, arXiv:1804.06788, theorem 1).

The empirical distribution function of M ranks among 0 ... L is evaluated where it can jump, at
z_i = i / (L + 1). There it counts X_i ~ Binomial(M, z_i) ranks below i if the ranks are uniform.
The statistic is the smallest two-sided tail probability of the X_i, and its distribution is
computed exactly (Sailynoja, Burkner & Vehtari 2022, "Graphical test for discrete uniformity and
its applications in goodness-of-fit evaluation and multiple sample comparison", Stat. Comput. 32:32,
section 2). The band around a distribution function and the p-value belong to the same test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.signal import fftconvolve
from scipy.stats import binom, poisson

from invlift.errors import InputError
from invlift.posterior.figures.style import CHAIN_COLOURS, FAINT, Panels, new_figure, saved
from invlift.posterior.statistics.diagnostics import diagnose_block
from invlift.posterior.verdict import VerdictText

#: Probability of a false "not calibrated", over all quantities together (Bonferroni).
LEVEL = 0.05
#: Fewest simulations for a verdict, and the largest share of them that may fail.
MIN_SIMULATIONS = 20
MAX_FAILED_SHARE = 0.05
#: Fewest standard errors at which mean or spread of the ranks is reported as wrong.
LIKELY = 2.0
#: Panels in a row of the figure, and colours of quantities inside and outside their bands.
NUM_COLUMNS = 4
GOOD, BAD = CHAIN_COLOURS[0], CHAIN_COLOURS[4]
#: Outcome of a simulation whose ranks count.
FINE = "ok"
#: Relative difference up to which two tail probabilities are equal but for rounding, and number of
#: bisections in the search for the tail probability of a band.
_ROUNDING, _NUM_HALVINGS = 1e-9, 40

NOT_CALIBRATED = (
    "run the same with another method (--method nuts, say): if that is calibrated, the error is in "
    "the method or its warm-up; if it is not, the error is in the problem",
    "raise warmup: draws that still depend on the start of the chain fail here too",
    "check that your own log densities are those of your own draws",
)
FAILED_CHAINS = (
    "look at the column outcome of calibration.csv; raise warmup, ask for fewer draws (--draws), "
    "or choose a prior or noise with shorter tails"
)


@dataclass(frozen=True)
class Simulation:
    """Result of one simulation; NaN where a number does not exist.

    `simulation` is its number. The outcome is "ok", or the reason why the ranks do not count. The
    ranks, 0 ... L, are those of the true values by name, among L of the `num_draws` draws of a
    chain. `ess` is the smallest effective sample size of all quantities.
    """

    simulation: int
    outcome: str
    ranks: Mapping[str, int]
    num_draws: int = 0
    ess: float = math.nan
    step_size: float = math.nan
    acceptance_rate: float = math.nan
    seconds: float = math.nan

    @property
    def counts(self) -> bool:
        """Whether the ranks count."""
        return self.outcome == FINE


@dataclass(frozen=True)
class CalibrationVerdict(VerdictText):
    """Verdict on a calibration: reasons count against it, notes do not; best advice first."""

    is_calibrated: bool
    headline: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ranks, 0 ... `num_draws`, of quantities in the finished simulations."""

    simulations: Sequence[Simulation]
    names: tuple[str, ...]
    num_draws: int
    num_requested: int

    @property
    def ranks(self) -> dict[str, np.ndarray]:
        """Ranks that count, (M,), by quantity; empty if none do."""
        counted = [each.ranks for each in self.simulations if each.counts]
        names = self.names if counted else ()
        return {name: np.array([ranks[name] for ranks in counted], int) for name in names}

    @property
    def num_counted(self) -> int:
        """Number of simulations whose ranks count, M."""
        return sum(each.counts for each in self.simulations)

    @property
    def failures(self) -> dict[str, list[int]]:
        """Numbers of the simulations that do not count, by outcome."""
        outcomes = dict.fromkeys(each.outcome for each in self.simulations if not each.counts)
        return {
            outcome: [each.simulation for each in self.simulations if each.outcome == outcome]
            for outcome in outcomes
        }

    @property
    def level(self) -> float:
        """P-value below which a quantity leaves its band, corrected for their number."""
        return LEVEL / max(1, len(self.names))

    def uniform(self) -> UniformRanks:
        """Return the distribution of uniform ranks; an InputError if no simulation counts."""
        if not self.num_counted:
            raise InputError("calibration", "ranks of a simulation", "none", "see the outcomes")
        return UniformRanks(self.num_counted, self.num_draws)

    def p_values(self) -> dict[str, float]:
        """Return the p-value of the ranks by quantity; empty if no simulation counts."""
        return {name: self.uniform().p_value(ranks) for name, ranks in self.ranks.items()}

    def shapes(self) -> dict[str, tuple[float, float]]:
        """Return the deviations of mean and spread of the ranks, by quantity: see `shape_of`."""
        return {name: shape_of(ranks, self.num_draws) for name, ranks in self.ranks.items()}

    def verdict(self) -> CalibrationVerdict:
        """Judge from the ranks whether the draws are from the posterior."""
        num, num_done, shapes = self.num_counted, len(self.simulations), self.shapes()
        outside = {name: p for name, p in self.p_values().items() if p < self.level}
        reasons = [
            f"{name}: {in_words(*shapes[name])} (p = {p:.2g})"
            for name, p in sorted(outside.items(), key=lambda item: item[1])
        ]
        notes, advice = [], list(NOT_CALIBRATED) if outside else []
        has_too_many = num_done - num > MAX_FAILED_SHARE * num_done
        for outcome, numbers in self.failures.items():
            text = f"{len(numbers)} of {num_done} simulations failed, {outcome}"
            (reasons if has_too_many else notes).append(text)
        if has_too_many:
            advice.append(FAILED_CHAINS)
        if num < MIN_SIMULATIONS:
            least = f"{MIN_SIMULATIONS} are the least for a verdict"
            reasons.append(f"{num} simulations count; {least}")
        if num_done < self.num_requested:
            reasons.append(f"stopped after {num_done} of {self.num_requested} simulations")
            advice.append("finish it with --resume")
        elif num < MIN_SIMULATIONS:
            advice.append("go on with --resume and more --simulations")
        if num:
            lower, upper = self.uniform().band(1.0 - self.level)
            notes.append(
                f"with {num} simulations a distribution function may be off by "
                f"{0.5 * np.max(upper - lower):.2g} without being noticed"
            )
        size, headline = f"{len(self.names)} quantities", "No verdict on the calibration."
        if outside:
            headline = f"Not calibrated: {len(outside)} of {size} leave their bands."
        elif not reasons:
            headline = f"Calibrated, as far as {num} simulations can tell: the ranks of {size} are "
            headline += "uniform."
        return CalibrationVerdict(not reasons, headline, *map(tuple, (reasons, notes, advice)))

    def record(self) -> dict[str, Any]:
        """Return counts, p-values, shapes and verdict, for `calibration.json`."""
        names = "num_requested", "num_counted", "num_draws", "level", "failures"
        return {
            "num_simulations": len(self.simulations),
            **{name: getattr(self, name) for name in names},
            "p_values": self.p_values(),
            "shapes": {n: {"mean": x, "spread": y} for n, (x, y) in self.shapes().items()},
            "seconds": float(np.nansum([each.seconds for each in self.simulations])),
            **asdict(self.verdict()),
        }


def effective_draws(draws: Mapping[str, np.ndarray]) -> float:
    """Return the smallest bulk effective sample size of (num_draws,) draws of a chain, or 0."""
    values = np.stack([np.asarray(each, dtype=float) for each in draws.values()])[:, None]
    return float(np.min(np.nan_to_num(diagnose_block(values)["ess_bulk"])))


def rank_of(truth: float, draws: np.ndarray, num_kept: int) -> int:
    """Return the rank of the truth among thinned draws (Talts et al. 2018, section 5.1).

    It is the number of draws below the truth, of `num_kept` evenly spaced ones of the (num_draws,)
    draws. The quantity is continuous, so that no draw is equal to the truth.
    """
    places = np.arange(1, num_kept + 1) * len(draws) // num_kept - 1
    return int(np.sum(draws[places] < truth))


def shape_of(ranks: np.ndarray, num_draws: int) -> tuple[float, float]:
    """Return deviations of mean and spread of ranks (M,) from uniform, in standard errors.

    The spread is the mean square distance from the middle of 0 ... `num_draws`.
    """
    scores = np.arange(num_draws + 1) - 0.5 * num_draws
    offset = np.asarray(ranks) - 0.5 * num_draws
    variance, root = np.mean(scores**2), math.sqrt(len(offset))
    mean = root * np.mean(offset) / math.sqrt(variance)
    return float(mean), float(root * (np.mean(offset**2) - variance) / np.std(scores**2))


def in_words(mean: float, spread: float) -> str:
    """Describe the larger deviation of a shape; a shifted mean also changes the spread."""
    if max(abs(mean), abs(spread)) < LIKELY:
        return "ranks are not uniform, neither shifted nor spread"
    if abs(mean) >= abs(spread):
        kind, side = ("low", "above") if mean > 0 else ("high", "below")
        return f"the posterior is too {kind}, the truth lies {side} too many of its draws"
    kind, place = ("narrow", "beyond its draws") if spread > 0 else ("wide", "in its middle")
    return f"the posterior is too {kind}, the truth lies {place} too often"


@dataclass(frozen=True, eq=False)
class UniformRanks:
    """Distribution of M (`num_ranks`) uniform ranks of truths among L (`num_draws`) draws."""

    num_ranks: int
    num_draws: int

    @property
    def points(self) -> np.ndarray:
        """z_i = i / (L + 1) for i = 1 ... L, (L,)."""
        return np.arange(1, self.num_draws + 1) / (self.num_draws + 1)

    def counts(self, ranks: np.ndarray) -> np.ndarray:
        """Count the ranks (M,) below i, for i = 1 ... L, (L,)."""
        each = np.bincount(np.asarray(ranks, dtype=int), minlength=self.num_draws + 1)
        return np.cumsum(each)[:-1]

    def p_value(self, ranks: np.ndarray) -> float:
        """Return the probability that uniform ranks deviate at least as much as these (M,)."""
        tails = self._tails()
        observed = tails[np.arange(self.num_draws), self.counts(ranks)].min()
        return max(0.0, 1.0 - self._probability_within(tails > observed * (1.0 + _ROUNDING)))

    def band(self, probability: float) -> tuple[np.ndarray, np.ndarray]:
        """Return simultaneous bounds (L,) of the distribution function.

        They are the smallest and largest allowed share of ranks below i, for i = 1 ... L. Uniform
        ranks stay within the bounds with at least the given probability, as close to it as counts
        allow. Ranks have a p-value above 1 - probability if and only if they stay within.
        """
        tails, low, high = self._tails(), 0.0, 1.0
        for _ in range(_NUM_HALVINGS):
            middle = 0.5 * (low + high)
            is_wide = self._probability_within(tails > middle) >= probability
            low, high = (middle, high) if is_wide else (low, middle)
        is_within = tails > low
        lower = is_within.argmax(axis=1)
        upper = self.num_ranks - is_within[:, ::-1].argmax(axis=1)
        return lower / self.num_ranks, upper / self.num_ranks

    def _tails(self) -> np.ndarray:
        """Return the two-sided tail probability of every count at every point, (L, M + 1)."""
        counts, points = np.arange(self.num_ranks + 1), self.points[:, None]
        below = binom.cdf(counts, self.num_ranks, points)
        above = binom.sf(counts - 1, self.num_ranks, points)
        return np.minimum(2.0 * np.minimum(below, above), 1.0)

    def _probability_within(self, is_within: np.ndarray) -> float:
        """Return the probability that all counts of uniform ranks are allowed, (L, M + 1) of bool.

        The counts are partial sums of independent Poisson variables of mean M / (L + 1), given that
        the sum of all L + 1 is M. This gives a recursion from point to point with one kernel.
        """
        num = self.num_ranks
        kernel = poisson.pmf(np.arange(num + 1), num / (self.num_draws + 1))
        density = np.eye(1, num + 1)[0]
        for allowed in is_within:
            density = fftconvolve(density, kernel)[: num + 1] * allowed
        return float(density @ kernel[::-1] / poisson.pmf(num, num))


def plot_calibration(calibration: Calibration, path: str | Path | None = None) -> Panels:
    """Plot the deviation of the ranks of each quantity from uniform.

    It is the share of ranks below each value less that of uniform ranks (Sailynoja, Burkner &
    Vehtari 2022, section 3). With 95 % probability it stays within the filled band for each
    quantity by itself, and within the outline for all quantities together. Quantities that leave
    the outline have another colour. The figure is saved to `path` if it is given.

    Raises an InputError if no simulation counts.
    """
    uniform, p_values = calibration.uniform(), calibration.p_values()
    bands = [uniform.band(1.0 - level) for level in (LEVEL, calibration.level)]
    num_columns = min(NUM_COLUMNS, len(p_values))
    num_rows = -(-len(p_values) // num_columns)
    with new_figure(2.9 * num_columns, 0.7 + 2.4 * num_rows) as figure:
        grid = figure.subplots(num_rows, num_columns, squeeze=False, sharex=True, sharey=True)
        for axes, (name, ranks) in zip(grid.flat, calibration.ranks.items(), strict=False):
            colour = BAD if p_values[name] < calibration.level else GOOD
            draw_difference(axes, uniform, bands, ranks, colour)
            axes.set_title(f"{name}\np = {p_values[name]:.2g}", color=colour, fontsize=8)
        for axes in grid.flat[len(p_values) :]:
            axes.set_axis_off()
        figure.supylabel("ranks below, less expected", fontsize=9)
        figure.supxlabel("rank of the truth among the draws, as a share of all", fontsize=9)
        title = f"{uniform.num_ranks} simulations, ranks 0 to {uniform.num_draws}; bands of 95 %: "
        title += "filled for each quantity, outline for all together"
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        return saved(Panels(figure.axes), path)


def draw_difference(
    axes: Axes,
    uniform: UniformRanks,
    bands: list[tuple[np.ndarray, np.ndarray]],
    ranks: np.ndarray,
    colour: str,
) -> None:
    """Plot a distribution function of ranks (M,) less the uniform one, and two bands."""
    points = np.r_[0.0, uniform.points, 1.0]
    inner, outer = [[np.r_[0.0, bound - uniform.points, 0.0] for bound in band] for band in bands]
    axes.fill_between(points, *inner, color=FAINT, alpha=0.25, linewidth=0)
    for bound in outer:
        axes.plot(points, bound, color=FAINT, linewidth=0.7)
    axes.axhline(0.0, color=FAINT, linewidth=0.5)
    shares = uniform.counts(ranks) / uniform.num_ranks
    axes.plot(points, np.r_[0.0, shares - uniform.points, 0.0], color=colour, linewidth=1.3)
    axes.set_xlim(0.0, 1.0)
