"""Double precision, asked for once by the entry points and insisted on by everything else.

Importing a module of invlift never changes JAX's configuration.  The command line calls
:func:`enable_x64`; a script calls it (or sets JAX's own switch) before it makes its first array.
"""

from __future__ import annotations

import os

import jax
import numpy as np

from invlift.errors import InputError

#: XLA's options beyond those that it names, and the one that makes a loop one kernel, if what it
#: carries has fewer bytes.  By default a loop over the steps of a differential equation calls a
#: kernel for each operation of each step, which takes several times as long.
_EXTRA, _LOOPS = "--xla_backend_extra_options", "xla_cpu_small_while_loop_byte_threshold=1000000000"


def enable_x64() -> None:
    """Switch JAX's double precision on: call it before the first array is made.

    Loops are then compiled as one kernel each on a CPU, by an option that XLA takes from the
    environment variable ``XLA_FLAGS`` alone; one that sets ``xla_backend_extra_options`` is left
    as it is.
    """
    jax.config.update("jax_enable_x64", True)
    given = os.environ.get("XLA_FLAGS", "")
    if _EXTRA not in given:
        os.environ["XLA_FLAGS"] = f"{given} {_EXTRA}={_LOOPS}".strip()


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
