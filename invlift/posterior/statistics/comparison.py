"""Efficiency of several samplers on one posterior: table and figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd

from invlift.chains import Chain
from invlift.posterior.figures.style import CHAIN_COLOURS, Panels, new_figure, saved
from invlift.posterior.statistics.diagnostics import diagnose
from invlift.posterior.statistics.of_draws import PosteriorStatistics
from invlift.posterior.statistics.parts import total
from invlift.posterior.statistics.scalars import vector_draws
from invlift.posterior.verdict import MAX_R_HAT, MIN_ESS_PER_CHAIN
from invlift.standards import Standards


@dataclass(frozen=True)
class Efficiency:
    """Efficiency of one method; NaN where a number does not exist.

    Times are sums over the chains, each timed separately. R-hat and effective sample sizes are
    those of the worst scalar (Vehtari et al. 2021).
    """

    method: str
    num_chains: int = 0
    num_draws: int = 0
    warmup_seconds: float = math.nan
    sampling_seconds: float = math.nan
    r_hat: float = math.nan
    ess_bulk: float = math.nan
    ess_tail: float = math.nan
    acceptance_rate: float = math.nan
    failure_share: float = math.nan  # share of the draws with a failure as the standards define it
    step_size: float = math.nan
    num_factorisations: int = 0  # evaluations of the forward map while sampling
    note: str = ""  # why there are no results; or a caveat for any number of draws
    is_approximate: bool = False  # draws from another distribution than the posterior

    @property
    def is_converged(self) -> bool:
        """Whether R-hat is at most 1.01, with as many effective draws as the verdict requires."""
        is_enough = self.ess_bulk >= MIN_ESS_PER_CHAIN * self.num_chains
        return is_enough and self.r_hat <= MAX_R_HAT

    @property
    def doubt(self) -> str:
        """Short reason to doubt the effective sample sizes; empty if there is none."""
        if self.is_approximate:
            return "approximate"
        if not self.num_draws:
            return "no draws"
        return "" if self.is_converged else "not converged"

    @property
    def ess_per_second(self) -> float:
        """Smallest bulk effective sample size per second of sampling, without warm-up."""
        return self.ess_bulk / self.sampling_seconds

    @property
    def ess_per_factorisation(self) -> float:
        """Smallest bulk effective sample size per factorisation, without warm-up."""
        return self.ess_bulk / self.num_factorisations if self.num_factorisations else math.nan


def efficiency(method: str, chains: Sequence[Chain], standards: Standards) -> Efficiency:
    """Compute the efficiency of a method from its chains, which have equally many draws.

    `standards` are those of the kernel.
    """
    if not chains:
        return Efficiency(method, note="no draws within the budget")
    stats = [chain.stats for chain in chains]
    posterior = PosteriorStatistics(chains)
    blocks = [[values[:, None] for values in each] for each in posterior.scalars.values()]
    if not blocks:  # where all are large matrices
        blocks = vector_draws(posterior.all_draws, posterior.described).values()
    columns = [np.concatenate(chain, axis=1) for chain in zip(*blocks, strict=True)]
    diagnostics = diagnose(columns, method)

    def mean(name: str | None, of=np.asarray) -> float:
        parts = [of(part[name]) for part in stats if name in part]
        return float(np.mean(np.concatenate(parts))) if parts else math.nan

    return Efficiency(
        method,
        num_chains=len(chains),
        num_draws=columns[0].shape[0],
        warmup_seconds=sum(chain.warmup_seconds for chain in chains),
        sampling_seconds=sum(chain.sampling_seconds for chain in chains),
        r_hat=float(np.max(diagnostics.r_hat)),
        ess_bulk=float(np.min(diagnostics.ess_bulk)),
        ess_tail=float(np.min(diagnostics.ess_tail)),
        acceptance_rate=mean("acceptance_rate"),
        failure_share=mean(standards.failures, lambda counts: counts > 0),
        step_size=mean("step_size"),
        num_factorisations=total(stats, "num_factorisations") or 0,
        note=standards.caveat,
        is_approximate=bool(standards.caveat),
    )


def table_of(rows: Sequence[Efficiency]) -> pd.DataFrame:
    """Return a table with one row per method."""
    derived = "ess_per_second", "ess_per_factorisation", "is_converged"
    figures = [each.name for each in fields(Efficiency) if each.name not in ("method", "note")]
    columns = [*figures, *derived, "note"]
    cells = [[getattr(row, name) for name in columns] for row in rows]
    return pd.DataFrame(cells, pd.Index([row.method for row in rows], name="method"), columns)


def plot_comparison(rows: Sequence[Efficiency], path: str | Path | None = None) -> Panels:
    """Plot bars of effective draws per second and per factorisation, hollow if in doubt."""
    rows = list(rows)[::-1]
    panels = {
        "ess_per_second": "effective draws per second of a chain",
        "ess_per_factorisation": "effective draws per factorisation",
    }
    with new_figure(8.0, 1.2 + 0.34 * len(rows)) as figure:
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (name, label) in zip(grid, panels.items(), strict=True):
            values = np.nan_to_num([getattr(row, name) for row in rows])
            colours = ["none" if row.doubt else CHAIN_COLOURS[0] for row in rows]
            bars = axes.barh(range(len(rows)), values, color=colours, edgecolor=CHAIN_COLOURS[0])
            notes = [f"{value:.3g} {row.doubt}" for value, row in zip(values, rows, strict=True)]
            axes.bar_label(bars, notes, padding=3, fontsize=8)
            axes.set(xscale="log" if values.any() else "linear", xlabel=label)
            axes.margins(x=0.4)
        grid[0].set_yticks(range(len(rows)), [row.method for row in rows])
        grid[0].set_title("Smallest effective sample size of all scalars; hollow: in doubt")
        return saved(Panels(figure.axes), path)
