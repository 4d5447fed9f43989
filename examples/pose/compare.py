"""Errors of poses by constrained HMC and by HMC, and a picture of poses behind one image.

    python examples/pose/compare.py            # half an hour of one core

Writes poses.png and errors.png beside this file: see README.md.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import invlift

invlift.enable_x64()  # before anything starts JAX

import jax
import jax.numpy as jnp
import numpy as np
import pose
from skeleton import JOINTS, PARENTS

from invlift.lift.targets.lifted import LiftedPosterior
from invlift.lift.targets.ordinary import OrdinaryPosterior
from invlift.posterior.figures.style import CHAIN_COLOURS, FAINT, INK, new_figure, saved

FOLDER = Path(__file__).resolve().parent
#: Scenes with two cameras, runs of each, iterations of warm-up and draws from one camera.
SCENES, RUNS, WARMUP, MONOCULAR_DRAWS = (1, 2), 4, 200, 600
#: Kernel and draws.
METHODS = {
    "constrained HMC": ("chmc", 300),
    "HMC": (invlift.KERNELS["hmc"](num_steps=100), 1200),
}
#: As in the paper: cameras, noise, runs of each of three scenes, and seconds of a run.
APART, SHARP, NUM_SCENES, NUM_RUNS, SECONDS = (0.0, 1.0), 0.001 / np.exp(2.0), 3, 10, 20.0
#: Kernel and step size, there without warm-up.
FIXED = {
    "constrained HMC": (
        invlift.KERNELS["chmc-fixed"](num_steps=12, splitting="geodesic", num_inner=20),
        0.1,
    ),
    "HMC": (invlift.KERNELS["hmc"](metric="identity", num_steps=125), 2e-4),
}
TIMES = np.linspace(0.0, SECONDS, 101)[1:]


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
    kernel, draws = METHODS[method]
    run, share = sampled(problem, kernel, chains=RUNS, draws=draws)
    found = (rmse(chain.draws["joints"].mean(axis=0), truth) for chain in run.chains)
    ends = ", ".join(f"{each:.0f}" for each in found)
    seconds = ", ".join(f"{share * chain.sampling_seconds:.1f}" for chain in run.chains)
    print(f"scene {scene}, {method}: {ends} mm after {seconds} s", flush=True)


def followed(method, scene):
    """Errors of the mean of all draws so far, (NUM_RUNS, times), from the median of the prior."""
    truth, image = pose.simulated(scene, APART, SHARP)
    problem, (kernel, step_size) = pose.problem_of(image, APART, SHARP), FIXED[method]
    position = np.zeros(problem.num_unknowns)
    if kernel.target_kind == "manifold":
        target = LiftedPosterior(problem)
        position, tuning = target.lift(position), step_size
    else:
        target, tuning = OrdinaryPosterior(problem), (step_size, np.ones_like(position))

    @jax.jit
    def step(key, state):
        state, _ = kernel.step(target, key, state, tuning)
        return state, kernel.describe(target, state)[0]["joints"]

    start = jax.jit(lambda position: kernel.init(target, position))(jnp.asarray(position))
    step(jax.random.key(0), start)  # compiled
    found = np.zeros((NUM_RUNS, TIMES.size))
    for run, errors in enumerate(found):
        state, total, number, time_is = start, np.zeros_like(truth), 0, 0
        began = time.process_time()
        while time_is < TIMES.size:
            key = jax.random.fold_in(jax.random.key(run), number)
            state, joints = step(key, state)
            total, number = total + joints, number + 1
            while time_is < TIMES.size and time.process_time() - began > TIMES[time_is]:
                errors[time_is] = rmse(total / number, truth)
                time_is += 1
    return found


def plot_errors():
    """Of the posterior mean by seconds of processor time, as in Figure 3a of the paper."""
    with new_figure(8.0, 2.8) as figure:
        panels = figure.subplots(1, NUM_SCENES, squeeze=False)[0]
        for scene, axes in enumerate(panels, 1):
            ends = {}
            for number, method in enumerate(FIXED):
                found, colour = followed(method, scene), CHAIN_COLOURS[number]
                ends[method] = found.mean(axis=0)
                axes.semilogy(TIMES, ends[method], color=colour, label=method)
                axes.fill_between(
                    TIMES, found.min(axis=0), found.max(axis=0), color=colour, alpha=0.2
                )
                last = ", ".join(f"{each:.0f}" for each in found[:, -1])
                print(f"scene {scene}, {method}: {last} mm after {SECONDS:g} s", flush=True)
            lower = np.mean(ends["constrained HMC"] < ends["HMC"])
            print(
                f"scene {scene}: constrained HMC is lower at {lower:.0%} of the times", flush=True
            )
            axes.set_title(f"scene {scene}")
            axes.set_xlabel("seconds")
        panels[0].set_ylabel("error of the mean, mm")
        panels[-1].legend()
        saved(figure, FOLDER / "errors.png")


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
    plot_errors()
    for scene in SCENES:
        for method in METHODS:
            errors(scene, method)
