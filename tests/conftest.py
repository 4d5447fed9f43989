"""Shared test settings: double precision, and a fixed random key."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, nullcontext
from datetime import date
from pathlib import Path

import jax
import pytest

import invlift

# What a test compiles runs for seconds at most, so that the compiler is not to try hard.
_IN_HASTE = (
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1"
)
_NOT_IN_HASTE = {
    "xla_backend_optimization_level": 3,
    "xla_cpu_use_fusion_emitters": True,
    "xla_cpu_parallel_codegen_split_count": 32,
}


def pytest_configure(config):
    """Before anything starts JAX; workers of pytest-xdist, and commands, inherit it."""
    if hasattr(config, "workerinput") or _OWN_FLAGS:
        return
    environment = os.environ | {"XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {_IN_HASTE}"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    # Options come and go with the versions of JAX, which ends a process that has an unknown one.
    if subprocess.run(command, env=environment, capture_output=True).returncode == 0:
        os.environ |= environment


# One cache for all workers and commands of these tests: JAX's own for what a process compiles,
# found by content, so that a changed function is never taken for what it was; the library's for
# commands.  It stays for the next tests where XDG_CACHE_HOME says where; a user's is not used.
if "PYTEST_XDIST_WORKER" not in os.environ:
    if "XDG_CACHE_HOME" in os.environ:
        _CACHE = Path(os.environ["XDG_CACHE_HOME"]).absolute() / "invlift-tests"
        if sum(path.stat().st_size for path in _CACHE.rglob("*") if path.is_file()) > 2e9:
            shutil.rmtree(_CACHE)
    else:
        _TEMPORARY = tempfile.TemporaryDirectory()
        _CACHE = Path(_TEMPORARY.name)
    os.environ["XDG_CACHE_HOME"] = str(_CACHE)
    # ArviZ warns once a day and makes a note of it, which two processes cannot do at once.
    (_CACHE / "arviz").mkdir(parents=True, exist_ok=True)
    (_CACHE / "arviz" / "daily_warning").write_text(date.today().isoformat())
    # Where Python is not to write compiled sources beside them, each command would compile them.
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = str(_CACHE / "sources")
#: Where this process has JAX keep programs.  Commands do not: if killed, they leave torn files.
JAX_CACHE = str(Path(os.environ["XDG_CACHE_HOME"]) / "jax")
os.environ["JAX_COMPILATION_CACHE_DIR"] = ""
jax.config.update("jax_compilation_cache_dir", JAX_CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
_OWN_FLAGS = "XLA_FLAGS" in os.environ
invlift.enable_x64()  # before anything starts JAX

from invlift.__main__ import NUM_NEW_OBJECTS  # noqa: E402
from invlift.programs import compilation  # noqa: E402
from invlift.programs.compilation import Program  # noqa: E402
from invlift.programs.memory import give_back_memory  # noqa: E402
from invlift.samplers.chains import parallel  # noqa: E402
from invlift.samplers.chains.workers import single_threaded_blas  # noqa: E402

# A shell that runs the tests in the background has them ignore Ctrl-C, which some of them press.
signal.signal(signal.SIGINT, signal.default_int_handler)
single_threaded_blas()  # from here on, for tests that compute without sampling
gc.set_threshold(NUM_NEW_OBJECTS)  # as in commands: collections took a tenth of the tests' time


#: Memory maps of a process, of which Linux allows some 65,000, and bytes of memory that it holds.
MANY_MAPS, MUCH_MEMORY = 30_000, 1.6e9


def forget_programs():
    """Let go of all that this process has compiled."""
    for each in gc.get_objects():
        if isinstance(each, Program):
            each._compiled.clear()
    jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def _programs_are_not_kept():
    """From here on none are kept in files, until a command is called."""
    yield
    compilation._Folder.path = None


@pytest.fixture(autouse=True)
def _programs_stay_few():
    """Thousands of compiled programs in a process fill its memory, and the system's memory maps."""
    yield
    try:
        num_maps = Path("/proc/self/maps").read_bytes().count(b"\n")
        num_pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # a system that does not tell
        return
    if num_maps > MANY_MAPS or num_pages * os.sysconf("SC_PAGE_SIZE") > MUCH_MEMORY:
        forget_programs()
        give_back_memory()


@pytest.fixture(scope="module", autouse=True)
def _programs_of_long_chains_if_asked_for(request):
    """A module that is marked long_chains compiles as users do."""
    is_asked_for = request.node.get_closest_marker("long_chains")
    with _compiled_as_users_do() if is_asked_for else nullcontext():
        yield


@pytest.fixture
def programs_of_long_chains():
    """A test whose chains are long, or steps slow, compiles as users do."""
    with _compiled_as_users_do():
        yield


@contextmanager
def _compiled_as_users_do():
    options, flags = dict(compilation._OPTIONS), os.environ.get("XLA_FLAGS", "")
    compilation._OPTIONS.update({name: _NOT_IN_HASTE | options[name] for name in options})
    os.environ["XLA_FLAGS"] = flags.replace(_IN_HASTE, "")
    yield
    compilation._OPTIONS.update(options)
    os.environ["XLA_FLAGS"] = flags


@pytest.fixture
def is_stopped(monkeypatch):
    """An event that is set when the chains of a run are told to end."""
    is_stopped, stop = threading.Event(), parallel._Scheduler.stop

    def stop_and_tell(scheduler):
        stop(scheduler)
        is_stopped.set()

    monkeypatch.setattr(parallel._Scheduler, "stop", stop_and_tell)
    return is_stopped


@pytest.fixture
def rng_key():
    """A fixed key: statistical tests must not depend on the day."""
    return jax.random.key(20260101)
