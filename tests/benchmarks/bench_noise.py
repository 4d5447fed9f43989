"""Efficiency and step size by noise, of models in time (Au, Graham & Thiery 2023, 6.3 and 6.4).

    python tests/benchmarks/bench_noise.py [PROBLEM ...] [--sigma S ...] [--methods NAME ...]
        [--warmup N] [--draws N] [--budget SECONDS]

Run it pinned to one core.  Prints for each problem, method and noise the median step size, the
smallest bulk ESS over the unknowns per second of processor time for sampling and the largest
R-hat, of two chains.  A run that takes longer than the budget ends there, with what
it has.  Chains of the current stimulus start near its main mode, to which draws from the prior do
not lead.
"""

from __future__ import annotations

import argparse
import runpy
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import numpy as np
from one_core import sampled

from invlift.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "examples"
PROBLEMS = ("fitzhugh_nagumo", "current_stimulus")
METHODS = {
    "chmc": invlift.KERNELS["chmc"](),
    "hmc-diagonal": invlift.KERNELS["hmc"](),
    "hmc-dense": invlift.KERNELS["hmc"](metric="dense"),
}
NUM_CHAINS = 2


def measure(name: str, method: str, sigma: float, options: argparse.Namespace) -> None:
    """Print one line."""
    example = runpy.run_path(str(EXAMPLES / name / f"{name}.py"))
    problem = example["problem"](sigma)
    starts = example["starts"](problem, NUM_CHAINS) if "starts" in example else "prior"
    run, seconds = sampled(
        problem,
        METHODS[method],
        chains=NUM_CHAINS,
        warmup=options.warmup,
        draws=options.draws,
        seed=1,
        starts=starts,
        max_seconds=options.budget,
    )
    line = f"{name:>16} {method:>12} {sigma:6g}: "
    try:
        table = problem.posterior(run).summary()
    except InputError as error:
        print(f"{line}{error.found} after {seconds:.0f} s", flush=True)
        return
    unknowns = [row for row in table.index if "_path" not in row and "V[" not in row]
    ess, steps = table.loc[unknowns, "ess_bulk"].min(), [c.step_size for c in run.chains]
    print(
        f"{line}step {np.median(steps):8.2g}  {ess / seconds:8.3g} ESS/s ({ess:.0f} in "
        f"{seconds:.0f} s)  R-hat {table.loc[unknowns, 'r_hat'].max():.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--sigma", type=float, nargs="+", default=[1.0, 0.1, 0.01])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--budget", type=float, default=600.0)
    options = parser.parse_args()
    for name in options.problems:
        for method in options.methods:
            for sigma in options.sigma:
                measure(name, method, sigma, options)


if __name__ == "__main__":
    main()
