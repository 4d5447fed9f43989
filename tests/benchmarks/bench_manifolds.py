"""Densities on spheres beside the samplers of geosss, on the same densities in the same run.

    pip install --no-deps geosss
    taskset -c 1 python tests/benchmarks/bench_manifolds.py [--draws 20000] [--kernels NAME ...]

geosss (Habeck, Hasenpflug, Kodgirwar & Rudolf 2023, "Geodesic slice sampling on the sphere") is
written in NumPy.  Its densities are used as they are: von Mises-Fisher on S^2, and
Bingham-von Mises-Fisher on S^9.  For each sampler the smallest effective sample size (for the mean)
of the coordinates for each second of processor time, of one chain with its warm-up, without
compilation; how long that took; and the largest difference of a mean from that of all samplers
together, in standard errors.

geosss asks for an older ArviZ than other parts do, but runs with a new one: ``--no-deps``.
"""

import argparse
import time
from functools import partial

import arviz as az
import geosss
import numpy as np

import invlift

WARMUP = 500
SHRINK, REJECT = geosss.ShrinkageSphericalSliceSampler, geosss.RejectionSphericalSliceSampler
PEERS = {
    "slice, shrinkage": SHRINK,
    "slice, rejection": REJECT,
    "HMC": geosss.SphericalHMC,
    "random walk": geosss.MetropolisHastings,
}
KERNELS = {
    "chmc": "chmc",
    "chmc-fixed, 3 steps": invlift.KERNELS["chmc-fixed"](splitting="stormer-verlet"),
}


def densities():
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    quadratic = axes * np.linspace(-10.0, 10.0, 10) @ axes.T
    linear = rng.normal(size=10)
    return {
        "von Mises-Fisher, S^2": (np.zeros((3, 3)), np.array([0.0, 3.0, 4.0])),
        "Bingham-von Mises-Fisher, S^9": (
            0.5 * (quadratic + quadratic.T),
            5.0 * linear / np.linalg.norm(linear),
        ),
    }


def log_density(q, data):
    return q @ data["quadratic"] @ q + data["linear"] @ q


def timed(draw):
    start = time.process_time()
    draws = draw()
    return draws, time.process_time() - start


def ours(kernel, quadratic, linear, num):
    data = {"quadratic": quadratic, "linear": linear}
    problem = invlift.manifold_problem(None, log_density, {"q": invlift.sphere(linear.size)}, data)

    def draw(num=num, warmup=WARMUP):
        run = invlift.sample(problem, kernel, chains=1, warmup=warmup, draws=num, seed=1)
        return np.stack([chain.draws["q"] for chain in run.chains])

    draw(10, 10)  # compiles
    return timed(draw)


def theirs(sampler, quadratic, linear, num):
    if np.any(quadratic):
        density = geosss.BinghamFisher(quadratic, linear)
    else:
        density = geosss.VonMisesFisher(linear)
    start = linear / np.linalg.norm(linear)
    return timed(lambda: sampler(density, start, seed=1).sample(num, burnin=WARMUP)[None])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS), choices=KERNELS)
    options = parser.parse_args()
    num = options.draws
    invlift.enable_x64()
    for name, (quadratic, linear) in densities().items():
        samplers = {f"invlift {key}": partial(ours, KERNELS[key]) for key in options.kernels}
        samplers |= {f"geosss {key}": partial(theirs, each) for key, each in PEERS.items()}
        found = {key: run(quadratic, linear, num) for key, run in samplers.items()}
        sizes = {
            key: np.array([az.ess(draws[..., k], method="mean") for k in range(linear.size)])
            for key, (draws, _) in found.items()
        }
        variances = {key: draws.var(axis=(0, 1)) / sizes[key] for key, (draws, _) in found.items()}
        weights = {key: 1.0 / each for key, each in variances.items()}
        total = sum(weights.values())
        means = {key: draws.mean(axis=(0, 1)) for key, (draws, _) in found.items()}
        mean = sum(weights[key] * means[key] for key in found) / total
        rates = {key: sizes[key].min() / seconds for key, (_, seconds) in found.items()}
        print(name)
        for key, (_, seconds) in found.items():
            off = np.abs(means[key] - mean) / np.sqrt(variances[key])
            row = f"{rates[key]:9.0f} ESS/s  {seconds:6.2f} s  means off by {off.max():.1f}"
            print(f"  {key:40} {row}")
        best = {
            whose: max(rate for key, rate in rates.items() if key.startswith(whose))
            for whose in ("invlift", "geosss")
        }
        print(f"  best against best: {best['invlift'] / best['geosss']:.1f} times", flush=True)


if __name__ == "__main__":
    main()
