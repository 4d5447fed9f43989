"""How efficient samplers were that drew from one posterior: a row for each, table and figure."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from invlift.atomic import replace_on_success
from invlift.posterior.blocks import coefficient_blocks
from invlift.posterior.diagnostics import diagnose, rank_normalise
from invlift.posterior.parts import Chain, Standards, recorded, total
from invlift.posterior.plots import CHAIN_COLOURS, FAINT, INK, new_figure, saved
from invlift.posterior.quantity import described
from invlift.posterior.scalars import scalar_draws, vector_draws
from invlift.posterior.verdict import MAX_R_HAT, MIN_ESS_PER_CHAIN

#: Ratio of two estimates of an effective sample size from which both are told.
DISAGREEMENT = 2.0


@dataclass(frozen=True)
class Efficiency:
    """What one method has achieved; NaN where there is no such thing.

    Times are of all chains together, each timed by itself; R-hat and effective sample sizes are of
    the worst scalar (Vehtari et al. 2021), `ess_batch` by :func:`batch_means_ess`.
    """

    method: str
    num_chains: int = 0
    num_draws: int = 0
    warmup_seconds: float = math.nan
    sampling_seconds: float = math.nan
    r_hat: float = math.nan
    ess_bulk: float = math.nan
    ess_tail: float = math.nan
    ess_batch: float = math.nan
    acceptance_rate: float = math.nan
    failure_share: float = math.nan  # of the draws in which something failed by the standards
    step_size: float = math.nan
    num_factorisations: int = 0  # evaluations of the forward map while sampling
    note: str = ""  # why there is nothing; or what holds however many draws there are
    is_approximate: bool = False  # of another distribution than the posterior

    @property
    def is_converged(self) -> bool:
        """Whether R-hat is at most 1.01, of as many effective draws as a run's verdict asks for."""
        is_enough = self.ess_bulk >= MIN_ESS_PER_CHAIN * self.num_chains
        return is_enough and self.r_hat <= MAX_R_HAT

    @property
    def doubt(self) -> str:
        """What speaks against the effective sizes, in brief; nothing if nothing does."""
        if self.is_approximate:
            return "approximate"
        return "" if self.is_converged else "not converged"

    @property
    def estimators_agree(self) -> bool:
        """Whether the two estimates of the bulk effective size are within a factor of two."""
        both = self.ess_bulk, self.ess_batch
        return max(both) <= DISAGREEMENT * min(both)

    @property
    def ess_per_second(self) -> float:
        """Smallest bulk effective size for each second of a chain's sampling, warm-up excluded."""
        return self.ess_bulk / self.sampling_seconds

    @property
    def ess_per_factorisation(self) -> float:
        """Smallest bulk effective size for each factorisation, warm-up excluded."""
        return self.ess_bulk / self.num_factorisations if self.num_factorisations else math.nan


def efficiency(method: str, chains: Sequence[Chain], standards: Standards) -> Efficiency:
    """Sum up the chains of a method, of equally many draws, by the standards of its kernel."""
    if not chains:
        return Efficiency(method, note="no draws within the budget")
    stats = recorded(chains, "stats")
    draws = {name: [chain.draws[name] for chain in chains] for name in chains[0].draws}
    shapes = {name: parts[0].shape[1:] for name, parts in draws.items()}
    quantities = described(shapes)
    scalars = scalar_draws(draws, quantities).values()
    blocks = [[values[:, None] for values in each] for each in scalars]
    blocks = blocks or vector_draws(draws, quantities).values()  # where all are large matrices
    columns = [np.concatenate(chain, axis=1) for chain in zip(*blocks, strict=True)]
    found = diagnose(columns, method)
    batch = np.concatenate(
        [batch_means_ess(rank_normalise(block)) for _, block in coefficient_blocks(columns)]
    )

    def mean(name: str | None, of=np.asarray) -> float:
        parts = [of(part[name]) for part in stats if name in part]
        return float(np.mean(np.concatenate(parts))) if parts else math.nan

    return Efficiency(
        method,
        num_chains=len(chains),
        num_draws=columns[0].shape[0],
        warmup_seconds=sum(chain.warmup_seconds for chain in chains),
        sampling_seconds=sum(chain.sampling_seconds for chain in chains),
        r_hat=float(np.max(found.r_hat)),
        ess_bulk=float(np.min(found.ess_bulk)),
        ess_tail=float(np.min(found.ess_tail)),
        ess_batch=float(np.min(batch)),
        acceptance_rate=mean("acceptance_rate"),
        failure_share=mean(standards.failures, lambda counts: counts > 0),
        step_size=mean("step_size"),
        num_factorisations=total(stats, "num_factorisations") or 0,
        note=standards.caveat,
        is_approximate=bool(standards.caveat),
    )


def batch_means_ess(values: np.ndarray) -> np.ndarray:
    """Effective sample sizes, (N,), from means of batches of sqrt(num_draws) draws.

    The variance of the batches' means about the mean of all chains, times their length, estimates
    that of the mean (Flegal & Jones 2010); it knows nothing of autocorrelations. Values are
    (N, chains, num_draws). NaN where nothing changes, or there is one batch alone.
    """
    num_draws = values.shape[-1]
    length = max(1, math.isqrt(num_draws))
    count = num_draws // length
    means = values[..., : count * length].reshape(*values.shape[:-1], count, length).mean(axis=-1)
    means = means.reshape(len(values), -1)
    if means.shape[1] < 2:
        return np.full(len(values), np.nan)
    flat = values.reshape(len(values), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return flat.shape[1] * flat.var(axis=1, ddof=1) / (length * means.var(axis=1, ddof=1))


def write_comparison(path: str | Path, rows: Sequence[Efficiency]) -> Path:
    """Write a table of methods as CSV, one row each, and return its path."""
    path = Path(path)
    derived = "ess_per_second", "ess_per_factorisation", "is_converged", "estimators_agree"
    own = [each.name for each in fields(Efficiency) if each.name != "note"]
    columns = [*own, *derived, "note"]
    with replace_on_success(path) as file, file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows([getattr(row, name) for name in columns] for row in rows)
    return path


def plot_comparison(rows: Sequence[Efficiency], path: str | Path | None = None) -> Figure:
    """Bars of effective draws per second and per factorisation, hollow where in doubt."""
    rows = list(rows)[::-1]
    with new_figure(8.0, 1.2 + 0.34 * len(rows)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        _bars(left, rows, "ess_per_second", "effective draws per second of a chain")
        _bars(right, rows, "ess_per_factorisation", "effective draws per factorisation")
        left.set_yticks(range(len(rows)), [row.method for row in rows])
        left.set_title("Smallest effective sample size of all scalars")
        right.set_title("hollow: R-hat above 1.01, or not the posterior")
        return saved(figure, path)


def _bars(axes, rows, name, label) -> None:
    colour, values = CHAIN_COLOURS[0], [getattr(row, name) for row in rows]
    known = [value for value in values if value > 0]
    least = 0.5 * min(known, default=0.1)
    for place, (row, value) in enumerate(zip(rows, values, strict=True)):
        if not value > 0:
            axes.text(least, place, f" {row.note or 'no effective draws'}", va="center", color=INK)
            continue
        fill = "none" if row.doubt else colour
        axes.barh(place, value, height=0.62, color=fill, edgecolor=colour, linewidth=1.0)
        text = f" {value:.3g}"
        if row.doubt:
            text += f"  ({row.doubt})" if row.is_approximate else f"  (R-hat {row.r_hat:.2f})"
        axes.text(value, place, text, va="center", color=INK, fontsize=8)
    axes.set(xscale="log", xlim=(least, 30.0 * max(known, default=1.0)), xlabel=label)
    axes.tick_params(left=False)
    axes.grid(axis="x", color=FAINT, alpha=0.3, linewidth=0.5)
    axes.set_axisbelow(True)
