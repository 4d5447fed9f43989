"""How many runs of four chains of hare and lynx lose one to a mode without mass, or converge.

    python tests/benchmarks/bench_modes.py [--runs 20] [--candidates 12] [--warmup 300]
        [--draws 500]

With ``--candidates 1`` the first start of each chain is taken, whatever mode it is in.  A chain is
lost if its noise at the end is over 0.4 (0.25 in the mode that holds the mass).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import invlift
from invlift.problems.starts import search as start_search

sys.path.insert(0, str(Path(__file__).parents[1]))

from hare_lynx import hare_lynx_problem

LOST = 0.4


def main() -> None:
    """Print a line for each run, and the totals."""
    parser = argparse.ArgumentParser()
    for name, value in (
        ("runs", 20),
        ("candidates", start_search.NUM_CANDIDATES),
        ("warmup", 300),
        ("draws", 500),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    invlift.enable_x64()
    start_search.NUM_CANDIDATES = options.candidates
    problem = hare_lynx_problem()
    num_lost, num_spoilt, num_converged = 0, 0, 0
    for seed in range(options.runs):
        run = invlift.sample(problem, warmup=options.warmup, draws=options.draws, seed=seed)
        ends = [np.mean(chain.draws["sigma"][-10:]) for chain in run.chains]
        lost = np.count_nonzero(np.array(ends) > LOST)
        diagnostics = invlift.Posterior(run.chains).scalar_diagnostics
        r_hat = max(float(each.r_hat[0]) for each in diagnostics.values())
        num_lost, num_spoilt = num_lost + lost, num_spoilt + (lost > 0)
        num_converged += r_hat < 1.01
        print(f"run {seed}: {lost} of 4 chains lost, R-hat {r_hat:.3f}", flush=True)
    print(
        f"{num_lost} of {4 * options.runs} chains lost, {num_spoilt} of {options.runs} runs with "
        f"one; {num_converged} runs with R-hat below 1.01"
    )


if __name__ == "__main__":
    main()
