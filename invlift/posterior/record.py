"""The record of a run: sizes, times, counts and verdict, for `run.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from invlift.posterior.parts import Chain, Standards, recorded
from invlift.posterior.verdict import Verdict


def run_record(
    chains: Sequence[Chain],
    num_draws: int,
    num_draws_requested: int | None,
    verdict: Verdict,
    standards: Standards | None = None,
) -> dict[str, Any]:
    """Collect what there is to tell about a run besides its results; None for what is not known.

    `num_divergences`, `num_return_audits`, `num_return_disagreements`, and what else the standards
    of the kernel call failures, are there only where they were counted.
    """
    stats = recorded(chains, "stats")

    def each(name: str) -> list:
        return [getattr(chain, name, None) for chain in chains]

    def total(name: str) -> int | None:
        parts = [part[name] for part in stats if name in part]
        return int(sum(np.sum(part) for part in parts)) if parts else None

    others = ["num_divergences", "num_return_audits", "num_return_disagreements"]
    others += [standards.failures] if standards else []
    counted = {name: total(name) for name in others if any(name in part for part in stats)}
    return {
        "num_chains": len(chains),
        "num_draws": num_draws,
        "num_draws_requested": num_draws_requested,
        "step_size": each("step_size"),
        "warmup_seconds": each("warmup_seconds"),
        "sampling_seconds": each("sampling_seconds"),
        "acceptance_rate": [_acceptance_rate(part) for part in stats],
        "num_steps": total("num_steps"),
        "num_factorisations": total("num_factorisations"),
        "num_projection_failures": total("num_projection_failures"),
        **counted,
        "verdict": asdict(verdict),
    }


def _acceptance_rate(stats: Mapping[str, np.ndarray]) -> float | None:
    rate = np.asarray(stats.get("acceptance_rate", np.nan))
    return float(np.nanmean(rate)) if np.isfinite(rate).any() else None
