"""A small problem on disk: mesh, sensor table and problem file, to be changed key by key."""

import copy
from dataclasses import replace

import jax
import numpy as np
import tomli_w
from refusals import refused
from structured import box_mesh, write_gmsh

from invlift.app.problem.build import build_problem
from invlift.app.problem.problem_file import read_problem
from invlift.app.runs.sampling import target_of
from invlift.problems.choice.lift_choice import Choice

SENSORS = "x,y,value,sigma\n0.3,0.4,2.1,0.1\n0.6,0.7,2.9,0.2\n0.8,0.2,3.1,0.1\n"
PROBLEM = {
    "mesh": {"file": "box.msh"},
    "pde": {"source": 5.0, "dirichlet": {"left": 0.0}},
    "prior": {"kind": "matern", "range": 1.0, "std": 0.3, "smoothness": 1.0},
    "observations": {"file": "sensors.csv"},
    "noise": {"sigma": 0.1},
    "sampler": {"chains": 2, "warmup": 20, "draws": 20, "seed": 5},
    "output": {"dir": "out"},
}
REMOVED = object()
#: Calls a model by one program for each structure and shape, in place of one for each operation.
readings = jax.jit(lambda model, coefficients: model(coefficients))


def changed(changes, problem=PROBLEM):
    """A problem with keys, written "table.key", set or removed."""
    data = copy.deepcopy(problem)
    for key, value in changes.items():
        *tables, last = key.split(".")
        target = data
        for table in tables:
            target = target.setdefault(table, {})
        if value is REMOVED:
            del target[last]
        else:
            target[last] = copy.deepcopy(value)  # a later key may change what is inside
    return data


def write_problem(folder, changes=None, *, sensors=SENSORS, mesh=None):
    """Write the three files into a folder and return the path of the problem file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_gmsh(folder / "box.msh", mesh or box_mesh(2, 3))
    (folder / "sensors.csv").write_text(sensors, encoding="utf-8")
    path = folder / "problem.toml"
    path.write_text(tomli_w.dumps(changed(changes or {})), encoding="utf-8")
    return path


def build(path):
    """The problem with its field that a file describes."""
    return build_problem(read_problem(path))


def are_same(one, other):
    """Whether two models have the same structure and numbers: without a program for either."""
    (first, shape), (second, like) = map(jax.tree.flatten, (one, other))
    return shape == like and all(
        # Another shape would be broadcast.
        np.shape(left) == np.shape(right) and np.allclose(left, right, rtol=1e-9, atol=1e-12)
        for left, right in zip(first, second, strict=True)
    )


def with_sensors(problem, sensors):
    """A built problem with another table, as far as checks of the table go."""
    model = problem.model
    return replace(problem, model=replace(model, on_mesh=model.on_mesh._replace(sensors=sensors)))


def assert_named(path, parts):
    """A problem file is refused, and what is said of it has these parts."""
    with refused(*parts):
        build(path)


def trace_a_step(problem, kernel):
    """One transition of a kernel and what is kept of it, without a program."""
    target = target_of(problem, kernel, Choice(1.0))

    def step(position, rng_key):
        tuning = kernel.adaptation.tuning(kernel.adaptation.init(target.dimension), True)
        state, _ = kernel.step(target, rng_key, kernel.init(target, position), tuning)
        return kernel.position(state), *kernel.describe(target, state)

    position, draws, _ = jax.eval_shape(step, np.zeros(target.dimension), jax.random.key(1))
    assert position.shape == (target.dimension,)
    assert all(values.size for values in draws.values())
