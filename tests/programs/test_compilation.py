"""How programs are compiled and where they are kept."""

import functools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from invlift.noise import gaussian_noise, known_noise
from invlift.problems.inverse_problem import jax_problem
from invlift.programs import compilation
from invlift.programs.compilation import Program
from invlift.unknowns.distributions import half_normal


class Wave(NamedTuple):
    height: jax.Array
    is_high: jax.Array


def wave(x, scale):
    height = jax.lax.fori_loop(0, 5, lambda _, y: jnp.sin(scale @ y), x)
    return {"wave": Wave(height, jnp.any(height > 0.5)), "number": 3}


X, SCALE = np.arange(4.0), np.random.default_rng(0).normal(size=(4, 4))


@pytest.mark.parametrize("effort", ["none", "small", "some", "full"])
def test_a_program_computes_what_the_function_does(effort):
    found = Program(wave, effort)(X, SCALE)
    expected = jax.jit(wave)(X, SCALE)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    np.testing.assert_allclose(found["wave"].height, expected["wave"].height, rtol=1e-13)
    assert int(found["number"]) == 3


def test_options_that_this_version_of_the_compiler_does_not_know_are_left_out(monkeypatch):
    unknown = {"xla_of_another_version": 1}
    monkeypatch.setattr(compilation, "_OPTIONS", {"none": unknown})
    assert float(Program(lambda x: 2.0 * x, "none")(3.0)) == 6.0
    with pytest.raises(RuntimeError, match="xla_of_another_version"):
        jax.jit(lambda x: x, compiler_options=unknown)(3.0)


def test_an_option_that_the_environment_sets_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(compilation, "_OPTIONS", {"none": {"xla_refused": 1}})
    monkeypatch.setattr(compilation, "_is_option", lambda name, to: True)
    with pytest.raises(RuntimeError, match="xla_refused"):
        Program(lambda x: 2.0 * x, "none")(3.0)
    monkeypatch.setenv("XLA_FLAGS", "--xla_refused=0")
    assert float(Program(lambda x: 2.0 * x, "none")(3.0)) == 6.0


def traced(fn):
    """The function, and the shapes for which it was traced."""
    shapes = []

    @functools.wraps(fn)
    def counting(*arguments):
        shapes.append(tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(arguments)))
        return fn(*arguments)

    return counting, shapes


def test_it_is_compiled_once_for_each_structure_and_shape():
    counting, shapes = traced(lambda x: jax.tree.map(jnp.cos, x))
    program = Program(counting)
    for argument in (1.0, 2.0, np.ones(3), np.zeros(3), [np.ones(3)], (np.ones(3),)):
        found = program(argument)
        assert jax.tree.structure(found) == jax.tree.structure(argument)
    assert len(shapes) == 4
    # Classes of one field are of different structures.
    noise = Program(lambda noise: noise.sigma(jnp.zeros(noise.num_parameters)))
    assert float(noise(known_noise(0.5))) == 0.5
    assert float(noise(gaussian_noise(half_normal(0.5)))) != 0.5


def test_threads_that_ask_at_once_compile_once():
    counting, shapes = traced(lambda x: x + 1.0)
    program, meeting = Program(counting), threading.Barrier(4)

    def ask(number):
        meeting.wait()
        return float(program(float(number)))

    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(ask, range(4))) == [1.0, 2.0, 3.0, 4.0]
    assert len(shapes) == 1


def test_it_is_compiled_ahead_for_shapes_alone():
    counting, shapes = traced(lambda x: {"sum": x.sum(), "same": x})
    program = Program(counting)
    some = jax.ShapeDtypeStruct((3,), float)
    found = program.shapes(some)
    assert found["same"].shape == (3,)
    program.prepare(some)
    num_traces = len(shapes)
    assert float(program(np.ones(3))["sum"]) == 3.0
    assert len(shapes) == num_traces


def test_errors_of_the_function_are_its_own():
    def refuse(x):
        raise TypeError("no such thing")

    program = Program(refuse)
    for _ in range(2):
        with pytest.raises(TypeError, match="no such thing"):
            program(1.0)


# Kept on disk -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where programs are kept; JAX's own cache, of which what is found is not kept, is off."""
    monkeypatch.setattr(compilation._Folder, "path", tmp_path)
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    yield tmp_path
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()


def cholesky_of(x):
    return {"half": jnp.linalg.cholesky(x), "trace": jnp.trace(x)}


cholesky_of.__module__ = "invlift.somewhere"  # as if it were the library's own
MATRIX = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_a_kept_program_is_not_traced_again(folder):
    expected = Program(cholesky_of)(MATRIX)
    assert len(list(folder.glob("*.program"))) == 1
    counting, shapes = traced(cholesky_of)
    program = Program(counting)
    found = program(MATRIX)
    assert shapes == []
    assert program.shapes(MATRIX)["half"].shape == (2, 2)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    # Another effort or shape is another program.
    Program(counting, "none")(MATRIX)
    Program(counting)(np.eye(3))
    assert len(shapes) == 2
    assert len(list(folder.glob("*.program"))) == 3


KEPT = """
import sys
from pathlib import Path
import invlift
invlift.enable_x64()
from invlift.programs import compilation
from invlift.fem.fields.matern import factorise
from invlift.fem import linalg
import numpy as np
compilation._Folder.path = Path(sys.argv[1])
rows, cols = np.array([0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2])
structure = linalg.analyse(rows, cols, 3, np.eye(3))
factor = factorise(structure, np.array([2.0, -1.0, 2.0, -1.0, 2.0]))
print(float(factor.log_determinant), len(list(Path(sys.argv[1]).glob("*"))))
"""


def test_another_process_runs_what_one_has_kept(folder, monkeypatch):
    """LAPACK included, which a process that traces nothing must find by itself."""
    monkeypatch.setattr("sys.argv", ["", str(folder)])
    exec(KEPT, {})
    (file,) = folder.iterdir()
    number = file.stat().st_ino
    environment = {key: value for key, value in os.environ.items() if "CACHE" not in key}
    found = subprocess.run(
        [sys.executable, "-c", KEPT, str(folder)], capture_output=True, text=True, env=environment
    )
    assert found.returncode == 0, found.stderr
    determinant, num_files = map(float, found.stdout.split())
    assert abs(determinant - np.log(4.0)) < 1e-12
    assert num_files == 1
    assert file.stat().st_ino == number  # not another in its place


def flipped(content):
    """With one bit flipped in the middle, which as a program may end the process."""
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda _: b"hello", lambda content: content[:1000], flipped]
)
def test_a_damaged_program_is_compiled_anew(folder, damage):
    Program(cholesky_of)(MATRIX)
    (file,) = folder.glob("*.program")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    counting, shapes = traced(cholesky_of)
    assert float(Program(counting)(MATRIX)["trace"]) == 3.0
    assert len(shapes) == 1
    assert len(file.read_bytes()) > 1000


def test_a_program_that_jax_has_found_is_not_kept(tmp_path, monkeypatch):
    """It loses its kernels when it is serialised again."""
    monkeypatch.setattr(compilation._Folder, "path", tmp_path)
    for _ in range(2):  # JAX's cache of these tests has it from the first time on
        for file in tmp_path.iterdir():
            file.unlink()
        assert float(Program(cholesky_of)(np.eye(5))["trace"]) == 5.0
    assert list(tmp_path.iterdir()) == []


def test_a_program_of_another_name_is_compiled_anew(folder):
    other = np.eye(3)
    Program(cholesky_of)(other)
    (file,) = folder.glob("*.program")
    content = file.read_bytes()
    file.unlink()
    Program(cholesky_of)(MATRIX)
    (file,) = folder.glob("*.program")
    file.write_bytes(content)
    assert float(Program(cholesky_of)(MATRIX)["trace"]) == 3.0
    assert file.read_bytes() != content


def test_a_program_that_others_may_have_written_is_not_run(folder, monkeypatch):
    Program(cholesky_of)(MATRIX)
    (file,) = folder.glob("*.program")
    assert file.stat().st_mode & 0o777 == 0o600

    def num_traced():
        counting, shapes = traced(cholesky_of)
        Program(counting)(MATRIX)
        return len(shapes)

    assert num_traced() == 0
    for mode in (0o620, 0o602):
        file.chmod(mode)
        assert num_traced() == 1  # and another is kept in its place
        assert file.stat().st_mode & 0o777 == 0o600
        assert num_traced() == 0
    monkeypatch.setattr(os, "getuid", lambda: file.stat().st_uid + 1)
    assert num_traced() == 1


@pytest.fixture
def kept_in(tmp_path, monkeypatch):
    """Where programs are kept once this is asked for, below a user's cache that is empty."""
    monkeypatch.setattr(compilation._Folder, "path", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jaxs_own = jax.config.jax_compilation_cache_dir

    def ask(jax_keeps_in=None):
        jax.config.update("jax_compilation_cache_dir", jax_keeps_in)
        compilation.keep_compiled_programs()
        return compilation._Folder.path

    yield ask
    jax.config.update("jax_compilation_cache_dir", jaxs_own)


@pytest.mark.parametrize("is_others", [False, True])
def test_programs_are_kept_where_no_other_user_writes(kept_in, tmp_path, monkeypatch, is_others):
    folder = tmp_path / "invlift" / "programs"
    folder.mkdir(parents=True)
    folder.chmod(0o775)
    if is_others:
        other = folder.stat().st_uid + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
    assert kept_in() == (None if is_others else folder)
    assert folder.stat().st_mode & 0o777 == (0o775 if is_others else 0o700)


def test_programs_are_kept_in_the_users_cache_unless_jax_keeps_them(kept_in, tmp_path):
    assert kept_in(jax_keeps_in=str(tmp_path / "mine")) is None
    assert kept_in() == tmp_path / "invlift" / "programs"


def test_a_folder_that_cannot_be_made_is_done_without(kept_in, tmp_path):
    (tmp_path / "invlift").write_text("in the way")
    assert kept_in() is None


def test_what_holds_a_users_code_is_not_kept(folder):
    Program(lambda x: x)(1.0)
    Program(wave)(X, SCALE)  # of this module

    def mine(theta):
        return 2.0 * theta

    jax_problem(mine, 2, known_noise(0.1), np.zeros(2))  # through a function of the library's own
    assert list(folder.iterdir()) == []


def test_a_changed_library_is_another(folder, monkeypatch):
    Program(cholesky_of)(MATRIX)
    monkeypatch.setattr(compilation, "_environment", lambda: "another version")
    Program(cholesky_of)(MATRIX)
    assert len(list(folder.glob("*.program"))) == 2


def test_the_oldest_programs_make_room(folder, monkeypatch):
    for number in range(4):
        path = folder / f"{number}.program"
        path.write_bytes(b"x" * 100)
        os.utime(path, (1e9 + number, 1e9 + number))
    monkeypatch.setattr(compilation, "MAX_KEPT", 250)
    compilation._remove_oldest(folder)
    assert sorted(path.stem for path in folder.iterdir()) == ["2", "3"]


@pytest.mark.parametrize("is_heard", [True, False])
def test_the_compiler_keeps_its_doubts_to_itself_unless_asked(is_heard):
    """It tells "Very slow compile?" as an error, as it does of a folder that it cannot make."""
    code = "import jax, invlift.programs.compilation\njax.jit(lambda x: x + 1)(1.0)"
    places = os.environ | {"XLA_FLAGS": f"--xla_dump_to={os.devnull}/none"}
    places.pop("TF_CPP_MIN_LOG_LEVEL", None)  # JAX sets it in this process
    places |= {"TF_CPP_MIN_LOG_LEVEL": "0"} if is_heard else {}
    said = subprocess.run(
        [sys.executable, "-c", code], env=places, capture_output=True, text=True, check=True
    ).stderr
    assert ("Could not create directory" in said) == is_heard
    assert is_heard or said == ""


def test_a_program_is_known_as_compiling_only_while_it_is():
    seen = []

    def doubled(x):
        seen.append(own in Program.compiling)
        return 2.0 * x

    own = Program(doubled, "none")
    own(np.ones(2))
    assert seen == [True]
    assert own not in Program.compiling
