"""Runs of made-up draws: the folder of one on a small box, mesh and sensor table beside it."""

from dataclasses import replace

import numpy as np
import tomli_w
from normal_noise import NormalNoise
from structured import box_mesh, interior_points, write_gmsh

from invlift.chains import Chain
from invlift.fem.mesh.construction import read_mesh
from invlift.fem.readings.sensors import sensors_from_arrays
from invlift.moments import Moments
from invlift.posterior import Posterior, Quantity, Readings
from invlift.tables.sensors import write_sensors

#: What a name from a file may try.
HOSTILE = (
    "<script>document.title='taken'</script>\"' onload=alert(1) & <img src=x onerror=alert(1)>"
)


def make_posterior(dim=2, *, location="nodes", num=4, num_draws=60, num_sensors=5, seed=0):
    """A posterior with two chains and a statistic for every chart; and its mesh."""
    mesh = box_mesh(dim, num)
    rng = np.random.default_rng(seed)
    size = mesh.num_nodes if location == "nodes" else mesh.num_cells
    solutions = 2 + rng.normal(size=(2, num_draws, mesh.num_nodes))
    chains = [
        Chain(
            draws={
                "log_conductivity": 0.3 + 0.5 * rng.normal(size=(num_draws, size)),
                "solution": solution,
                "sigma": 0.1 * np.exp(0.2 * rng.normal(size=num_draws)),
                "predicted": 1.0 + 0.05 * rng.normal(size=(num_draws, num_sensors)),
            },
            stats={
                "acceptance_rate": rng.uniform(0.7, 1.0, num_draws),
                "energy": 10.0 + rng.normal(size=num_draws),
                "num_steps": np.full(num_draws, 3),
                "num_projection_failures": np.zeros(num_draws, dtype=int),
                "num_factorisations": np.full(num_draws, 30),
            },
            warmup_stats={"step_size": np.exp(0.3 * rng.normal(size=40))},
            moments={"solution": Moments.of(solution)},
            step_size=0.5,
            warmup_seconds=1.0,
            sampling_seconds=2.0,
        )
        for solution in solutions
    ]
    sensors = Readings(
        values=1.0 + 0.1 * rng.normal(size=num_sensors),
        sigma=None,
        points=interior_points(dim, num_sensors),
    )
    for chain in chains:
        misfit = sensors.values - chain.draws["predicted"]
        chain.draws["noise_score"] = misfit / chain.draws["sigma"][:, None]
    posterior = Posterior(
        chains,
        quantities=(
            Quantity("log_conductivity", {location[:-1]: None}, prior_sd=np.ones(size)),
            Quantity("solution", {"node": None}, is_derived=True),
        ),
        mesh=mesh,
        sensors=sensors,
        noise=NormalNoise(sensors.values),
        num_draws_requested=num_draws,
        compile_seconds=3.0,
        is_interrupted=False,
    )
    return posterior, mesh


def write_run(folder, dim=2, *, hostile=False, **options):
    """Write the folder of a run, with mesh and sensor table beside it; return the posterior."""
    posterior, mesh = make_posterior(dim, **options)
    info = {"versions": {"invlift": "0.1.0"}, "seed": 7, "method": "chmc", "options": {"a": 1}}
    if hostile:
        mesh.boundaries[HOSTILE.replace('"', "").replace("'", "")] = mesh.boundaries["top"]
        info |= {"versions": {HOSTILE: HOSTILE}, "method": HOSTILE, "options": {HOSTILE: HOSTILE}}
        info["verdict"] = {
            "is_converged": False, "headline": HOSTILE, "reasons": [HOSTILE],
            "warnings": [HOSTILE], "advice": [HOSTILE],
        }  # fmt: skip
        for chain in posterior.chains:
            chain.draws[HOSTILE.replace("/", "")] = chain.draws["sigma"]
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_gmsh(folder.parent / "box.msh", mesh)
    posterior = replace(posterior, mesh=read_mesh(folder.parent / "box.msh"))
    posterior.write(folder, info)
    sensors = posterior.sensors
    write_sensors(
        folder.parent / "sensors.csv", sensors_from_arrays(sensors.points, sensors.values)
    )
    problem = {
        "mesh": {"file": str(folder.parent / "box.msh")},
        "pde": {"dirichlet": {"left": 1.5}, "neumann": {"right": -2.0}},
        "prior": {"kind": "matern", "range": 1.0, "std": 0.3, "smoothness": 1.0},
        "observations": {"file": str(folder.parent / "sensors.csv")},
        "noise": {"sigma": 0.1},
        "output": {"dir": str(folder)},
    }
    text = tomli_w.dumps(problem) + (f"# </pre>{HOSTILE}\n" if hostile else "")
    (folder / "problem.toml").write_text(text, encoding="utf-8")
    return posterior
