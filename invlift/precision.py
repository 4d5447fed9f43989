"""JAX's settings: double precision, asked for once by the entry points, and what goes with it.

Importing a module of invlift never changes JAX's configuration.  The command line calls
:func:`enable_x64`; a script calls it (or sets JAX's own switch) before it makes its first array.
"""

from __future__ import annotations

import os

import jax
import jaxlib.version
import numpy as np

from invlift.errors import InputError

#: Size of the pool of threads of JAX's CPU backend, read when the backend starts.
_POOL_VARIABLE = "PJRT_NPROC"


def enable_x64() -> None:
    """Set JAX up for this process: double precision, and threads that cannot block each other.

    Call it before JAX makes its first array.  Switches the option ``jax_enable_x64`` on.  JAX 0.10
    and 0.11.0 get a pool of one thread as well, if they have not started: the environment variable
    ``PJRT_NPROC`` is set to 1 unless it is set, and ``jax_cpu_enable_async_dispatch`` is switched
    off.  See :func:`can_run_in_threads`.
    """
    if _pool_can_block() and not _has_started():
        os.environ.setdefault(_POOL_VARIABLE, "1")
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.config.update("jax_enable_x64", True)


def can_run_in_threads() -> bool:
    """Whether several chains may run in threads of this process.

    Not on JAX 0.10 and 0.11.0 if they were started before :func:`enable_x64` gave them a pool of
    one thread, which all chains share: in a larger pool, batched factorisations of two chains can
    wait for one another for good.
    """
    return not _pool_can_block() or os.environ.get(_POOL_VARIABLE) == "1"


def _pool_can_block() -> bool:
    """Whether LAPACK calls of this JAX wait, on a thread of the pool, for others of its threads."""
    return (0, 10) <= jaxlib.version.__version_info__ < (0, 11, 1)


def _has_started() -> bool:
    """Whether JAX has started its backend, after which some of its options cannot be changed."""
    before = jax.config.jax_num_cpu_devices
    try:
        jax.config.update("jax_num_cpu_devices", 1 if before != 1 else 2)
    except RuntimeError:
        return True
    jax.config.update("jax_num_cpu_devices", before)
    return False


def require_float64(**arrays) -> None:
    """Refuse arrays that are not double precision.

    Parameters
    ----------
    **arrays
        Arrays by the name the caller knows them by; ``None`` is passed over.

    Raises
    ------
    InputError
        If JAX runs in single precision, or an array is not of type float64.  The tolerances of
        the constraint (1e-10) are below what single precision can resolve.
    """
    if not jax.config.jax_enable_x64:
        raise InputError(
            "JAX configuration",
            "double precision",
            "jax_enable_x64 = False",
            "call invlift.enable_x64() before the first array is made",
        )
    for name, array in arrays.items():
        if array is None:
            continue
        dtype = array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype
        if dtype != np.float64:
            raise InputError(
                f"argument {name}",
                "an array of type float64",
                f"{dtype}",
                "convert it with numpy.asarray(array, dtype=float)",
            )
