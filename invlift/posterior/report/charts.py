"""Charts of the chains as paths: lines in a box of 1000 x 1000, and what stands along its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from invlift.posterior.diagnostics import rank_normalise
from invlift.posterior.plots import NUM_RANK_BINS
from invlift.posterior.report.scales import digits, log_ticks, number, ticks

SIZE = 1000
#: Points of a line; of a longer series the extremes of each stretch are drawn.
MAX_POINTS = 600
#: Colours of chains; further ones begin again.
NUM_COLOURS = 6


@dataclass(frozen=True)
class Line:
    """A path of SVG.

    Attributes
    ----------
    path : str
    style : str
        Classes of the style sheet.
    """

    path: str
    style: str


@dataclass(frozen=True)
class Chart:
    """Lines with two axes.

    Attributes
    ----------
    title : str
    alternative : str
        What it shows, for those who do not see it.
    lines : tuple of Line
    across, up : tuple of (float, str)
        Ticks: place between 0 and 1, from the left and from below, and text.
    across_label, up_label : str
    note : str
        Set at the right of the title.
    """

    title: str
    alternative: str
    lines: tuple[Line, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    across_label: str = ""
    up_label: str = ""
    note: str = ""


def trace(name: str, chains: np.ndarray, row: dict[str, float] | None) -> Chart:
    """Draws of a scalar in their order.

    Parameters
    ----------
    name : str
    chains : (chains, num_draws) array
    row : dict or None
        Of the summary: `mean`, `sd`, `r_hat`, `ess_bulk`, `ess_tail`.
    """
    low, high = _range(chains)
    note = words = ""
    if row is not None:
        note = (
            f"R-hat {row['r_hat']:.3f}, ESS bulk {row['ess_bulk']:.0f}, tail {row['ess_tail']:.0f}"
        )
        words = f" Mean {number(row['mean'])}, sd {number(row['sd'])}; {note}."
    num_draws = chains.shape[1]
    return Chart(
        name,
        f"Traces of {name}: {num_draws} draws of {len(chains)} chains, "
        f"from {number(low)} to {number(high)}.{words}",
        _lines(chains, low, high),
        _places(ticks(0, num_draws - 1), 0, num_draws - 1),
        _places(ticks(low, high, 4), low, high),
        across_label="draw",
        note=note,
    )


def ranks(name: str, chains: np.ndarray) -> Chart:
    """Rank histogram of each chain (Vehtari et al. 2021, section 4.4), the first on top.

    Parameters
    ----------
    name : str
    chains : (chains, num_draws) array
    """
    num_chains, num_draws = chains.shape
    share = ndtr(rank_normalise(chains[None])[0])
    edges = np.linspace(0.0, 1.0, NUM_RANK_BINS + 1)
    counts = np.stack([np.histogram(each, edges)[0] for each in share])
    heights = np.minimum(0.6 * counts / (num_draws / NUM_RANK_BINS), 0.96) * SIZE / num_chains
    width, lines = SIZE / NUM_RANK_BINS, []
    for chain, row in enumerate(heights):
        base = (chain + 1) * SIZE / num_chains
        bars = (
            f"M{index * width + 1:.0f} {base:.0f}v{-height:.1f}h{width - 2:.0f}v{height:.1f}z"
            for index, height in enumerate(row)
        )
        lines.append(Line("".join(bars), f"bars c{chain % NUM_COLOURS}"))
        expected = base - 0.6 * SIZE / num_chains
        lines.append(Line(f"M0 {expected:.0f}H{SIZE}", "expected"))
    worst = np.abs(counts / (num_draws / NUM_RANK_BINS) - 1).max()
    return Chart(
        "Ranks among all chains",
        f"Rank histograms of {name}, a row for each of {num_chains} chains: chains that agree have "
        f"bars that end near the dashed line. Largest departure from it: {worst:.0%}.",
        tuple(lines),
        ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")),
        tuple((1 - (chain + 0.5) / num_chains, str(chain)) for chain in range(num_chains)),
        across_label="rank",
        up_label="chain",
    )


def energy(chains: np.ndarray) -> Chart:
    """Distribution of the energy, and of its changes from one draw to the next.

    Much narrower changes mean that the sampler walks slowly through the energies (Betancourt 2016,
    arXiv:1604.00695).

    Parameters
    ----------
    chains : (chains, num_draws) array
    """
    level = chains - chains.mean(axis=1, keepdims=True)
    change = np.diff(chains, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        fractions = (change**2).mean(axis=1) / level.var(axis=1)
    reach = max(np.abs(level).max(), np.abs(change).max()) or 1.0
    edges = np.linspace(-reach, reach, 41)
    counts = [np.histogram(values, edges, density=True)[0] for values in (level, change)]
    top = max(each.max() for each in counts)
    steps = [_steps(each / top) for each in counts]
    shown = ", ".join(digits(value, 2) for value in fractions)
    return Chart(
        "Energy",
        "Distribution of the energy about its mean, and of its change from draw to draw. Fraction "
        f"of missing information of each chain: {shown}; below 0.3 is bad.",
        (Line(steps[0] + f"V{SIZE}H0z", "area c0"), Line(steps[1], "line c1")),
        _places(ticks(-reach, reach), -reach, reach),
        (),
        across_label="about its mean (area), change between draws (line)",
        note=f"E-BFMI {shown}",
    )


def step_sizes(chains: np.ndarray) -> Chart:
    """Step size through the warm-up, on an axis of equal ratios.

    Parameters
    ----------
    chains : (chains, num_warmup) array
    """
    logs = np.log(np.where(chains > 0, chains, np.nan))
    low, high = _range(logs)
    ends = math.exp(low), math.exp(high)
    num = chains.shape[1]
    up = [((math.log(value) - low) / (high - low), number(value)) for value in log_ticks(*ends)]
    last = ", ".join(number(value) for value in chains[:, -1])
    return Chart(
        "Step size through warm-up",
        f"Step size in each of {num} iterations of warm-up; at the end {last}.",
        _lines(logs, low, high),
        _places(ticks(0, num - 1), 0, num - 1),
        tuple(up),
        across_label="iteration",
    )


def _range(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    margin = 0.04 * (high - low) or 0.05 * abs(low) or 0.5
    return low - margin, high + margin


def _places(values: Sequence[float], low: float, high: float) -> tuple[tuple[float, str], ...]:
    width = (high - low) or 1.0
    return tuple(((value - low) / width, number(value)) for value in values)


def _lines(chains: np.ndarray, low: float, high: float) -> tuple[Line, ...]:
    return tuple(
        Line(_path((chain - low) / (high - low)), f"line thin c{index % NUM_COLOURS}")
        for index, chain in enumerate(chains)
    )


def _path(heights: np.ndarray) -> str:
    """A line through values between 0 and 1, broken where they are not finite."""
    across = np.arange(len(heights))
    if len(heights) > MAX_POINTS:
        parts = np.array_split(across, MAX_POINTS // 2)
        heights = np.where(np.isfinite(heights), heights, 0.5)
        ends = [(part[heights[part].argmin()], part[heights[part].argmax()]) for part in parts]
        across = np.unique(np.sort(np.array(ends), axis=1))
    scale = SIZE / max(len(heights) - 1, 1)
    text, is_down = [], False
    for index in across:
        if not math.isfinite(heights[index]):
            is_down = False
            continue
        place = f"{scale * index:.1f} {SIZE * (1 - heights[index]):.0f}"
        text.append(f"{'L' if is_down else 'M'}{place}")
        is_down = True
    return "".join(text)


def _steps(heights: np.ndarray) -> str:
    width = SIZE / len(heights)
    corners = (
        f"V{SIZE * (1 - 0.95 * height):.0f}H{(index + 1) * width:.0f}"
        for index, height in enumerate(heights)
    )
    return f"M0 {SIZE}" + "".join(corners)
