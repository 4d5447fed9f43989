"""How programs are compiled and where they are kept."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from invlift import compilation
from invlift.compilation import quick_jit


def wave(x, scale):
    return jax.lax.fori_loop(0, 5, lambda _, y: jax.numpy.sin(scale @ y), x)


@pytest.mark.parametrize("runs_often", [False, True])
def test_quick_programs_compute_the_same(runs_often):
    rng = np.random.default_rng(0)
    x, scale = rng.normal(size=4), rng.normal(size=(4, 4))
    found = quick_jit(wave, runs_often=runs_often)(x, scale)
    np.testing.assert_allclose(found, jax.jit(wave)(x, scale), rtol=1e-13)


def test_options_that_this_version_of_the_compiler_does_not_know_are_left_out(monkeypatch):
    monkeypatch.setattr(compilation, "_NOT_OPTIMISED", {"xla_of_another_version": 1})
    assert float(quick_jit(lambda x: 2.0 * x)(3.0)) == 6.0
    with pytest.raises(RuntimeError, match="xla_of_another_version"):
        jax.jit(lambda x: x, compiler_options=compilation._NOT_OPTIMISED)(3.0)


FOLDER = """
import jax
from invlift.compilation import keep_compiled_programs
keep_compiled_programs()
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.parametrize("is_chosen", [False, True])
def test_compiled_programs_are_kept_in_the_users_cache_unless_told_otherwise(tmp_path, is_chosen):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    environment["JAX_COMPILATION_CACHE_DIR"] = str(tmp_path / "mine") if is_chosen else ""
    found = subprocess.run(
        [sys.executable, "-c", FOLDER], capture_output=True, text=True, env=environment
    )
    folder = found.stdout.strip()
    assert folder.startswith(str(tmp_path)), found.stderr
    assert folder.endswith("mine") if is_chosen else "invlift" in folder
