"""Ahead-of-time and concurrent compilation of JAX programs, and their cache on disk."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import platform
import threading
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import platformdirs
from jax._src.lib import utils  # without a public name, as is the next
from jax._src.xla_bridge import backends_are_initialized
from jax.experimental import serialize_executable
from jax.tree_util import PyTreeDef

from invlift.errors import InputError
from invlift.files.atomic import replace_on_success
from invlift.programs.by_content import ByContent
from invlift.programs.memory import give_back_memory
from invlift.programs.pytrees import PyTree

#: Largest size of the cache on disk, bytes.
MAX_KEPT = 10**9
# Of the compiler's two kernel emitters, the one that takes less time and memory.
_LIGHTER_KERNELS = {"xla_cpu_use_fusion_emitters": False}
_NOT_OPTIMISED = {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}
# No library calls for products of small matrices: each costs a call, and prevents that the loop
# around it becomes one kernel.  On such a kernel the highest optimisation level takes much time and
# gains little.
_ONE_KERNEL = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_backend_optimization_level": 2}
_OPTIONS = {
    "none": _LIGHTER_KERNELS | _NOT_OPTIMISED,
    "small": _LIGHTER_KERNELS | _ONE_KERNEL,
    "some": _LIGHTER_KERNELS,
    "full": {},
}
#: Libraries whose classes and functions are identified by their names and the library's version.
_KNOWN = ("invlift", "jax", "jaxlib", "blackjax", "numpyro", "numpy", "builtins")


class _Compiled(NamedTuple):
    """An executable on leaves, with the structure of its result, and its shapes and types."""

    run: Callable
    structure: PyTreeDef
    shapes: tuple


#: Minimum severity of compiler messages: the level that JAX sets, and the level of fatal errors.
_OF_JAX, _FATAL = "1", 3

# The compiler logs "Very slow compile?" as an error if a program takes minutes, and a user cannot
# change this.  The messages are shown to a user who has set a log level.
_level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", _OF_JAX)
if _level == _OF_JAX and jax.config.jax_logging_level == "NOTSET":
    utils.absl_set_min_log_level(_FATAL)


class _OfThread(threading.local):
    """Flag of a thread: its last compiled program came from JAX's own cache."""

    is_from_jax = False


_ThisThread = _OfThread()


def _note_hit(event: str, **_: Any) -> None:
    if event == "/jax/compilation_cache/cache_hits":
        _ThisThread.is_from_jax = True


jax.monitoring.register_event_listener(_note_hit)


class _Process:
    """Flag of a process: it was forked after JAX had started, so that JAX would wait forever."""

    is_forked = False


def _note_fork() -> None:
    _Process.is_forked = backends_are_initialized()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


class Program:
    """A function of pytrees that is compiled once for each structure and shapes of its arguments.

    It differs from ``jax.jit`` in two ways.  It can be compiled before its first call, from shapes
    only (:meth:`prepare`).  Compiled programs are cached on disk, and later processes load them
    without tracing (:func:`keep_compiled_programs`).  All arguments are positional, arrays or
    pytrees of arrays, and it is not called within another compiled program.  It raises an
    InputError in a process that was forked after JAX had started.

    `effort` is the optimisation effort of the compiler.  For the disc's evaluation of a position,
    compilation and run take 0.7 s and 1.9 ms with "none", 2.0 s and 0.65 ms with "some", 4.2 s and
    0.70 ms with "full".  For 30,301 nodes the compilation takes 0.3, 0.3 and 1.3 GB.  The
    integrator's step runs 5 to 15 % slower with "some" than with "full".  "small" is for loops over
    small arrays, and compiles each loop as one kernel (gains: tests/benchmarks/measurements.md).
    An option in the environment variable ``XLA_FLAGS`` takes precedence.
    """

    #: Number of programs that this process has started to compile.
    num_begun = 0
    #: Programs that this process is compiling now.
    compiling: ClassVar[set[Program]] = set()

    def __init__(
        self, fn: Callable, effort: Literal["none", "small", "some", "full"] = "full"
    ) -> None:
        self._fn, self._effort = fn, effort
        self._compiled: dict[Any, _Compiled] = {}
        self._lock = threading.Lock()
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *arguments):
        """Return the function's value; compile the function first if necessary."""
        leaves, *key = _flatten(arguments)
        compiled = self._find(*key)
        return jax.tree.unflatten(compiled.structure, compiled.run(*leaves))

    def prepare(self, *arguments) -> None:
        """Compile for arguments like these; ``jax.ShapeDtypeStruct`` can replace an array."""
        _, *key = _flatten(arguments)
        self._find(*key)

    def shapes(self, *arguments) -> PyTree:
        """Return the ``jax.ShapeDtypeStruct`` of the function's value for arguments like these.

        This does not compile the function.
        """
        _, *key = _flatten(arguments)
        if tuple(key) not in self._compiled:
            file = _file_of(self._fn, self._effort, *key)
            if file is None or not file.exists():
                return jax.eval_shape(self._fn, *arguments)
        compiled = self._find(*key)
        values = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in compiled.shapes]
        return jax.tree.unflatten(compiled.structure, values)

    def _find(self, *key) -> _Compiled:
        if _Process.is_forked:
            raise InputError(
                f"process {os.getpid()}",
                "one that was not forked after the start of JAX, as it would wait for ever",
                "one that was",
                'start it anew: multiprocessing.get_context("spawn")',
            )
        if key not in self._compiled:
            with self._lock:  # only one thread compiles a program
                if key not in self._compiled:
                    self._compiled[key] = self._make(*key)
        return self._compiled[key]

    def _make(self, structure, shapes) -> _Compiled:
        file = _file_of(self._fn, self._effort, structure, shapes)
        compiled = None if file is None else _load(file)
        if compiled is None:
            _ThisThread.is_from_jax = False
            Program.compiling.add(self)
            try:
                compiled = self._compile(structure, shapes)
            finally:
                Program.compiling.discard(self)
            # A program from JAX's own cache loses its kernels when it is serialised again.
            if file is not None and not _ThisThread.is_from_jax:
                _keep(file, compiled)
        give_back_memory()
        return compiled

    def _compile(self, structure, shapes) -> _Compiled:
        Program.num_begun += 1  # with concurrent threads a count may be lost, but never all
        structure_out, shapes_out = None, ()

        def of_leaves(*leaves):
            nonlocal structure_out, shapes_out
            value = self._fn(*jax.tree.unflatten(structure, leaves))
            leaves_out, structure_out = jax.tree.flatten(value)
            leaves_out = list(map(jnp.asarray, leaves_out))
            shapes_out = _shapes_of(leaves_out)
            return leaves_out

        arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in shapes]
        lowered = jax.jit(of_leaves).lower(*arguments)
        given = os.environ.get("XLA_FLAGS", "")
        known = {
            name: to
            for name, to in _OPTIONS[self._effort].items()
            if name not in given and _is_option(name, to)
        }
        run = lowered.compile(compiler_options=known)
        return _Compiled(run, structure_out, shapes_out)


def program(fn: Callable) -> Program:
    """Decorate a function as a :class:`Program` with effort "none", because it runs rarely."""
    return Program(fn, "none")


def _flatten(arguments) -> tuple[list, PyTreeDef, tuple]:
    """Return the leaves of the arguments as arrays, their structure, and shapes and types."""
    leaves, structure = jax.tree.flatten(arguments)
    leaves = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in leaves]
    return leaves, structure, _shapes_of(leaves)


def _shapes_of(leaves) -> tuple:
    return tuple((leaf.shape, leaf.dtype) for leaf in leaves)


@functools.cache
def _is_option(name: str, value) -> bool:
    """Return whether the compiler knows an option, which depends on the version of JAX."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except (RuntimeError, ValueError):
        return False
    return True


# Programs kept on disk --------------------------------------------------------------------------


def keep_compiled_programs() -> None:
    """Cache compiled programs on disk, so that the next run with the same shapes starts at once.

    The cache is in the user's cache folder for applications, up to 1 GB, and no other user may
    write to it.  There is no cache if this folder is not writable, or belongs to another user.  If
    JAX's option ``jax_compilation_cache_dir`` names a folder, JAX caches programs there instead,
    and needs to trace them before it finds them: a program that it has found cannot be cached here.
    """
    if jax.config.jax_compilation_cache_dir:
        return
    folder = platformdirs.user_cache_path("invlift", appauthor=False) / "programs"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK) and _is_own(folder):
            folder.chmod(0o700)
            _Folder.path = folder


def keeps_compiled_programs() -> bool:
    """Return whether this process caches compiled programs on disk."""
    return _Folder.path is not None


def _is_own(path: Path) -> bool:
    """Return whether a file or folder belongs to this user; true on systems without user ids."""
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()


class _Folder:
    """The cache folder of this process, or None."""

    path: Path | None = None


def _file_of(fn, effort: str, structure, shapes) -> Path | None:
    """Return the cache file of a program; None without a cache, or if a part has no unique name."""
    if _Folder.path is None:
        return None
    try:
        options = str(sorted(_OPTIONS[effort].items()))
        words = (_name_of(fn), options, str(shapes), _name_of(structure), _environment())
    except LookupError:
        return None
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
    return _Folder.path / f"{digest[:40]}.program"


def _name_of(thing) -> str:
    """Return a text that identifies a function, a setting or a structure.

    Raise a LookupError if there is none: a user's code may change under the same name.
    """
    if isinstance(thing, ByContent):
        return _name_of(thing.__wrapped__)
    if isinstance(thing, functools.partial):
        return f"partial{_name_of((thing.func, thing.args, thing.keywords))}"
    if isinstance(thing, types.MethodType):
        return f"method{_name_of((thing.__func__, thing.__self__))}"
    if isinstance(thing, jax.tree_util.PyTreeDef):
        node = thing.node_data()
        return "*" if node is None else f"node{_name_of([*node, *thing.children()])}"
    if isinstance(thing, list | tuple):
        return f"({', '.join(map(_name_of, thing))})"
    if isinstance(thing, dict):
        return f"dict{_name_of(list(thing.items()))}"
    if isinstance(thing, types.FunctionType | type):
        if "<" not in thing.__qualname__ and thing.__module__.split(".")[0] in _KNOWN:
            return f"{thing.__module__}.{thing.__qualname__}"
    elif isinstance(thing, bool | int | float | str | None):
        return repr(thing)
    elif (structure := jax.tree.structure(thing)).num_leaves == 0:  # an object of settings alone
        return f"object{_name_of(structure)}"
    raise LookupError


@functools.cache
def _environment() -> str:
    """Return a text of all other inputs of a program: code, versions, machine, JAX's settings."""
    package = Path(__file__).parents[1]
    sources = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        sources.update(str(path.relative_to(package)).encode() + path.read_bytes())
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        processor = platform.processor() + platform.node()
    device = jax.devices()[0]
    settings = sorted(
        f"{name}={value}"
        for name, value in os.environ.items()
        if name.startswith(("XLA", "JAX", "PJRT")) and "CACHE" not in name
    )
    parts = (
        sources.hexdigest(), jax.__version__, jaxlib.__version__, np.__version__,
        platform.python_version(), platform.machine(), processor, device.platform,
        device.device_kind, num_cores(), jax.config.jax_enable_x64, settings,
    )  # fmt: skip
    return str(parts)


def num_cores() -> int:
    """Return the number of cores available to this process, as a batch system may limit it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load(file: Path) -> _Compiled | None:
    """Load a cached program; return None if there is none, or it cannot be used."""
    try:
        # Unpickling runs code: the file must belong to this user, and no other may write to it.
        if not _is_own(file) or file.stat().st_mode & 0o022:
            return None
        # A damaged file is not run: a flipped bit may crash the process.
        checksum, content = file.read_bytes().split(b"\n", 1)
        if hashlib.sha256(content).hexdigest().encode() != checksum:
            return None
        name, content, num_arguments, skeleton, shapes = pickle.loads(content)
        if name != file.name:
            return None
        _find_lapack()
        tree_in = jax.tree.structure(((0,) * num_arguments, {}))
        tree_out = jax.tree.structure([0] * len(shapes))
        run = serialize_executable.deserialize_and_load(content, tree_in, tree_out)
        os.utime(file)
    except Exception:
        return None
    return _Compiled(run, jax.tree.structure(skeleton), shapes)


@functools.cache
def _find_lapack() -> None:
    """Make JAX load LAPACK, by lowering a call of it; loaded programs crash without it."""
    matrix = jax.ShapeDtypeStruct((2, 2), np.float64)
    jax.jit(jax.lax.linalg.cholesky).lower(matrix)


def _keep(file: Path, compiled: _Compiled) -> None:
    """Write a program to its cache file if possible, and remove the oldest files if too many."""
    structure = compiled.structure
    try:
        content, tree_in, _ = serialize_executable.serialize(compiled.run)
        skeleton = jax.tree.unflatten(structure, range(structure.num_leaves))
        kept = file.name, content, tree_in.num_leaves, skeleton, compiled.shapes
        with replace_on_success(file) as temporary:
            temporary.touch(mode=0o600)
            written = pickle.dumps(kept)
            checksum = hashlib.sha256(written).hexdigest().encode()
            temporary.write_bytes(checksum + b"\n" + written)
        _remove_oldest(file.parent)
    except (OSError, InputError, ValueError, NotImplementedError):
        return


def _remove_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.program"), key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for path in files:
        total += path.stat().st_size
        if total > MAX_KEPT:
            path.unlink(missing_ok=True)
