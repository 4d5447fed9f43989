"""Point electrodes on a line: accuracy by mesh and number of wave numbers, and time of a point.

``python tests/benchmarks/bench_ground.py [accuracy] [time]``: the line of ``examples/ground_line``,
of uniform ground, on its mesh and on this with 4 and 16 triangles for each; what evaluation and
gradients cost there, with the wave numbers in a loop, side by side or written out.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np

import invlift
from invlift.fem.electrodes.wave_numbers import wave_numbers

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
    return found, len(model.integrals[0]["shares"])


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


def by_vmap(model, fn, *parts):
    """All wave numbers side by side."""
    one = lambda given, own: fn(model._member(given), *own)  # noqa: E731
    return jax.vmap(one)(model.integrals, parts)


def written_out(model, fn, *parts):
    """One wave number after the other, in a longer program."""
    num = len(model.integrals[0]["shares"])
    slices = [jax.tree.map(lambda x, k=k: x[k], (model.integrals, parts)) for k in range(num)]
    found = [fn(model._member(given), *own) for given, own in slices]
    return jax.tree.map(lambda *each: jax.numpy.stack(each), *found)


def timing():
    """Milliseconds: readings with Jacobian, and with them the gradient of a product with it."""
    problem = invlift.read_problem(ROOT / "examples/ground_line/problem.toml")
    problem = invlift.build_problem(problem)
    model, size = problem.model, problem.num_unknowns
    field = np.full(size, np.log(0.006))
    directions = np.random.default_rng(0).standard_normal((size, len(problem.observed)))

    def linear(model, field):
        return model.linearise(field)[0]

    def both(model, field):
        linear, expansion = model.linearise(field)
        pushed = model.push_forward(expansion, directions)[1]
        return linear, model.pull_back(expansion, pushed, lambda rows: rows)

    mapped = wave_numbers.WaveNumbers._each
    for name, way in (("map", mapped), ("vmap", by_vmap), ("written out", written_out)):
        wave_numbers.WaveNumbers._each = way
        for fn in (linear, both):
            began = time.perf_counter()
            program = jax.jit(lambda *given, fn=fn: fn(*given)).lower(model, field).compile()
            compiled, times = time.perf_counter() - began, []
            for _ in range(20):
                began = time.perf_counter()
                jax.block_until_ready(program(model, field))
                times.append(1e3 * (time.perf_counter() - began))
            what = f"{fn.__name__}, by {name}"
            print(f"{what}: {min(times):.1f} ms, compiled in {compiled:.0f} s", flush=True)


if __name__ == "__main__":
    invlift.enable_x64()
    for name in sys.argv[1:] or ["accuracy", "time"]:
        {"accuracy": accuracy, "time": timing}[name]()
