"""Errors of poses by constrained HMC and by HMC, and a picture of poses behind one image.

    python examples/pose/compare.py            # some five minutes of one core

Writes poses.png beside this file: see README.md.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import numpy as np
import pose
from skeleton import JOINTS, PARENTS

from invlift.posterior.plots import CHAIN_COLOURS, FAINT, INK, new_figure, saved

FOLDER = Path(__file__).resolve().parent
#: Scenes with two cameras, runs of each, iterations of warm-up and draws from one camera.
SCENES, RUNS, WARMUP, MONOCULAR_DRAWS = (1, 2), 4, 200, 600
HMC = invlift.KERNELS["hmc"](num_steps=100)
#: Kernel, draws, and whether chains start from draws of the prior, not fitted to the images.
METHODS = {
    "constrained HMC": ("chmc", 300, False),
    "HMC": (HMC, 1200, False),
    "HMC from the prior": (HMC, 1200, True),
}


def sampled(problem, kernel, **options):
    """A run, and the share of its time that this process had the processor."""
    began = time.process_time(), time.perf_counter()
    with ThreadPoolExecutor(1) as one_at_a_time:
        run = invlift.sample(
            problem, kernel, executor=one_at_a_time, seed=1, warmup=WARMUP, **options
        )
    return run, (time.process_time() - began[0]) / (time.perf_counter() - began[1])


def rmse(joints, truth):
    """Root mean squared error of joints, (..., 19, 3), in mm."""
    return 1000.0 * np.sqrt(np.mean((joints - truth) ** 2, axis=(-2, -1)))


def errors(scene, method):
    """Prints those of the posterior mean of each run, and processor seconds of its sampling."""
    truth, image = pose.simulated(scene)
    problem = pose.problem_of(image, pose.BOTH)
    kernel, draws, is_from_prior = METHODS[method]
    rng = np.random.default_rng(scene)
    starts = rng.standard_normal((RUNS, problem.num_unknowns)) if is_from_prior else "prior"
    run, share = sampled(problem, kernel, chains=RUNS, draws=draws, starts=starts)
    found = (rmse(chain.draws["joints"].mean(axis=0), truth) for chain in run.chains)
    ends = ", ".join(f"{each:.0f}" for each in found)
    seconds = ", ".join(f"{share * chain.sampling_seconds:.1f}" for chain in run.chains)
    print(f"scene {scene}, {method}: {ends} mm after {seconds} s", flush=True)


def plot_poses():
    """Truth and draws behind one image, from the front and from the side; the left is orange."""
    truth, _ = pose.simulated(cameras=pose.ONE)
    problem = pose.monocular()
    run, _ = sampled(problem, "chmc", chains=2, draws=MONOCULAR_DRAWS)
    print(problem.posterior(run).verdict(), flush=True)
    draws = np.concatenate([chain.draws["joints"] for chain in run.chains])
    print(f"one camera: {rmse(draws.mean(axis=0), truth):.0f} mm", flush=True)
    shown = [truth, *draws[np.linspace(0, len(draws) - 1, 5).astype(int)[1:-1]]]
    with new_figure(8.0, 5.0) as figure:
        panels = figure.subplots(2, len(shown), sharex="row", sharey="row")
        for column, joints in zip(panels.T, shown, strict=True):
            for axes, across in zip(column, (0, 2), strict=True):
                for child, parent in enumerate(PARENTS, 1):
                    name = JOINTS[child]
                    colour = CHAIN_COLOURS[4 if "left" in name else 0] if " " in name else INK
                    ends = joints[[parent, child]]
                    axes.plot(ends[:, across], ends[:, 1], "-", color=colour, lw=2)
                axes.plot(joints[:, across], joints[:, 1], ".", color=FAINT, ms=4)
                axes.set_aspect("equal")
        for axes, title in zip(panels[0], ["truth", *len(shown[1:]) * ["draw"]], strict=True):
            axes.set_title(title)
        panels[0, 0].set_ylabel("from the front: y, m")
        panels[1, 0].set_ylabel("from the side: y, m")
        for axes in panels[1]:
            axes.set_xlabel("depth, m")
        saved(figure, FOLDER / "poses.png")


if __name__ == "__main__":
    plot_poses()
    for scene in SCENES:
        for method in METHODS:
            errors(scene, method)
