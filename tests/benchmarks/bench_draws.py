"""Factorisations per effective draw: over noise levels, meshes and numbers of sensors.

    python tests/benchmarks/bench_draws.py [noise] [meshes] [sensors] [--draws 1000]

Run it pinned to one core.  An effective draw is one of the quantity that has fewest of them: the
noise scale if it is unknown, or the mean or standard deviation of the field over the nodes.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

import invlift

invlift.enable_x64()  # before anything starts JAX

from discs import example, simulated

from invlift.posterior.statistics.diagnostics import diagnose


def report(title: str, problem, num_draws: int, kernel: str = "chmc", chains: int = 4) -> None:
    """Run chains one after another and print what a draw costs."""
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = invlift.sample(
            problem,
            kernel,
            chains=chains,
            warmup=max(100, num_draws // 2),
            draws=num_draws,
            seed=20260101,
            executor=one_at_a_time,
        )
    fields = [chain.draws["log_conductivity"] for chain in run.chains]
    scalars = {
        "mean": [field.mean(axis=1)[:, None] for field in fields],
        "sd": [field.std(axis=1)[:, None] for field in fields],
    }
    if problem.noise.num_parameters:
        scalars["sigma"] = [chain.draws["sigma"][:, None] for chain in run.chains]
    found = {name: diagnose(values, name) for name, values in scalars.items()}
    ess = {name: float(each.ess_bulk[0]) for name, each in found.items()}
    smallest = min(ess, key=ess.get)
    seconds = sum(chain.sampling_seconds for chain in run.chains)
    steps = sum(int(chain.stats["num_steps"].sum()) for chain in run.chains)
    count = sum(int(chain.stats["num_factorisations"].sum()) for chain in run.chains)
    failures = sum(int(chain.stats["num_projection_failures"].sum()) for chain in run.chains)
    total = num_draws * len(run.chains)
    step_size = sum(chain.step_size for chain in run.chains) / len(run.chains)
    acceptance = sum(chain.stats["acceptance_rate"].mean() for chain in run.chains) / len(fields)
    print(
        f"{title:>26}: {count / ess[smallest]:5.1f} factorisations per effective draw ({smallest}; "
        + ", ".join(f"{name} {value / total:.2f}" for name, value in ess.items())
        + f" per draw), {ess[smallest] / seconds:7.2f} ESS/s, {count / steps:.1f} per step, "
        f"{steps / total:.1f} steps per draw of size {step_size:.2f}, acceptance {acceptance:.2f}, "
        f"{failures} failed, {1e3 * seconds / steps:.2f} ms per step, R-hat "
        f"{max(float(each.r_hat[0]) for each in found.values()):.3f}, "
        f"compiled in {run.compile_seconds:.0f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=["noise", "meshes", "sensors"])
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    if "noise" in options.groups:
        for noise in (1e-5, 1e-3, 1e-2, 1e-1, 1.0):
            report(f"unknown noise, s = {noise:g}", example(noise), options.draws)
    if "meshes" in options.groups:
        for num_rings in (12, 24, 40):
            problem = example(1e-2, num_rings)
            report(f"{problem.prior.num_white} nodes", problem, options.draws)
        problem = example(1e-2, 100)
        report(f"{problem.prior.num_white} nodes", problem, options.draws // 5, chains=2)
    if "sensors" in options.groups:
        for num_sensors in (10, 100, 300):
            report(
                f"{num_sensors} sensors, noise known",
                simulated(24, num_sensors),
                options.draws // 5,
            )


if __name__ == "__main__":
    main()
