"""Double precision is switched on before JAX starts, and never after that."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from refusals import refused
from structured import box_mesh

import invlift

PRINT = "print(jax.numpy.zeros(1).dtype)"
NOTE = "has switched JAX to double precision"


def outcome(*lines, **variables):
    """Words that a script prints, and what it writes on standard error."""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env=environment | variables, capture_output=True, text=True,
    )  # fmt: skip
    return found.stdout.split(), found.stderr


def test_imports_change_nothing_and_double_precision_is_switched_on_when_asked_for():
    modules = "from invlift.fem.mesh import mesh\nfrom invlift.samplers.chains import parallel"
    lines = "import invlift, jax", modules, PRINT, "invlift.enable_x64()", PRINT
    words, errors = outcome(*lines)
    assert words == ["float32", "float64"], errors
    assert NOTE not in errors


def test_the_first_name_that_is_used_switches_it_on_and_says_so_once(tmp_path):
    """In workers too, without a word."""
    script = tmp_path / "script.py"
    script.write_text("""import multiprocessing
import invlift
import jax
prior = invlift.lognormal(0.0, 1.0)
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(eval, ("__import__('jax').numpy.zeros(1).dtype.name",)))
""")
    words, errors = outcome(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert words == ["float64"], errors
    assert errors.count(NOTE) == 1


def test_nothing_is_switched_once_jax_has_started():
    """What is refused then says what to do."""
    prior = "invlift.StandardNormalPrior(jax.numpy.zeros(2))"
    call = f"invlift.inverse_problem(None, {prior}, None, [1.0])"
    words, errors = outcome("import invlift, jax", PRINT, "invlift.lognormal", PRINT, call)
    assert words == ["float32", "float32"], errors
    assert NOTE not in errors
    assert "call invlift.enable_x64() before the first array" in errors


def test_a_user_who_has_asked_for_single_precision_is_not_told():
    """And what needs no JAX does not import it."""
    words, errors = outcome(
        "import sys, invlift",
        "invlift.InputError, invlift.__version__",
        "print('jax' in sys.modules)",
        "import jax",
        "invlift.lognormal",
        PRINT,
        JAX_ENABLE_X64="0",
    )
    assert words == ["False", "float32"], errors
    assert NOTE not in errors


MESH = box_mesh(2, 2)
PRIOR = {"range": 1.0, "std": 1.0, "smoothness": 1.0}
LINEAR = invlift.jax_problem(lambda theta: theta, 2, invlift.known_noise(0.1), np.zeros(2))
PLACES = invlift.locate(MESH, invlift.sensors_from_arrays([[0.3, 0.4]], [0.0]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: invlift.matern_prior(MESH, **PRIOR),
        lambda: invlift.independent_prior(MESH),
        lambda: invlift.assemble_poisson(MESH, PLACES, source=1.0, dirichlet={"left": 0.0}),
        lambda: invlift.jax_problem(lambda x: x, 2, invlift.known_noise(0.1), np.zeros(2)),
        lambda: invlift.sample(LINEAR, chains=1, warmup=2, draws=2),
    ],
    ids=["Matern prior", "independent prior", "equation", "problem", "sampling"],
)
def test_single_precision_is_refused(make):
    with jax.enable_x64(False), refused("double precision", "enable_x64"):
        make()
