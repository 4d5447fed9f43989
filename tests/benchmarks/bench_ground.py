"""Point electrodes on a line: accuracy by mesh and number of wave numbers, and time of a point.

``python tests/benchmarks/bench_ground.py [accuracy] [time]``: the line of ``examples/ground_line``,
of uniform ground, on its mesh and on this with 4 and 16 triangles for each; what evaluation and
gradients cost there.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np

import invlift
from invlift.fem import wave_numbers

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples/ground_line"))
from make_readings import ELECTRODES, MESH, refined, table

TOLERANCES = 1e-2, 1e-3, 1e-4, 3e-5


def readings(mesh):
    """Apparent resistivities, and the number of wave numbers."""
    unit, rows = np.eye(21), table() - 1
    model = invlift.point_electrode_model(mesh, ELECTRODES, unit, unit, surface="surface")
    potentials = np.reshape(model(np.zeros(mesh.num_nodes)), (21, 21))
    a, b, m, n = rows.T
    values = potentials[m, a] - potentials[n, a] - potentials[m, b] + potentials[n, b]
    found = values * invlift.geometric_factors(ELECTRODES, rows)
    return found, len(model.elements[0].weight)


def accuracy():
    """Errors of 116 dipole-dipole readings."""
    mesh = invlift.read_mesh(MESH)
    for times, tolerances in ((0, TOLERANCES), (1, TOLERANCES[2:3]), (2, TOLERANCES[2:3])):
        used = refined(mesh, times) if times else mesh
        for tolerance in tolerances:
            wave_numbers.TOLERANCE = tolerance
            found, num = readings(used)
            off = 100.0 * np.abs(found - 1.0)
            print(f"{used.num_nodes} nodes, {num} wave numbers ({tolerance:g}): readings off by "
                  f"{off.max():.2g} % at most, {np.median(off):.2g} % in the median")  # fmt: skip


def timing():
    """Milliseconds of a point: readings with Jacobian, and the gradient of its product."""
    problem = invlift.build_problem(
        invlift.read_problem(ROOT / "examples/ground_line/problem.toml")
    ).problem
    model, size = problem.model, problem.num_unknowns
    field = np.full(size, np.log(0.006))
    directions = np.random.default_rng(0).standard_normal((size, len(problem.observed)))

    def value(model, field):
        return model(field)

    def linear(model, field):
        return model.linearise(field)[0]

    def both(model, field):
        linear, expansion = model.linearise(field)
        pushed = model.push_forward(expansion, directions)[1]
        return linear, model.pull_back(expansion, pushed, lambda rows: rows)

    for fn in (value, linear, both):
        began = time.perf_counter()
        program = jax.jit(fn).lower(model, field).compile()
        compiled, times = time.perf_counter() - began, []
        for _ in range(20):
            began = time.perf_counter()
            jax.block_until_ready(program(model, field))
            times.append(1e3 * (time.perf_counter() - began))
        print(f"{fn.__name__}: {min(times):.1f} ms, compiled in {compiled:.0f} s")


if __name__ == "__main__":
    invlift.enable_x64()
    for name in sys.argv[1:] or ["accuracy", "time"]:
        {"accuracy": accuracy, "time": timing}[name]()
