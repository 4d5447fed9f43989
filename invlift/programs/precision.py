"""Double precision: switched on before JAX starts, and required by all computations.

`import invlift` changes no setting of JAX.  The first use of a name, for example
``invlift.matern_prior``, switches double precision on if JAX has not started yet, and logs a note.
:func:`enable_x64` does this without a note; the command line calls it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os

import jax
import numpy as np
from jax._src.xla_bridge import backends_are_initialized  # without a public name

from invlift.errors import InputError

logger = logging.getLogger(__name__)

#: XLA's flag for extra options, and the option that compiles a loop as one kernel if its carry has
#: fewer bytes than this.  By default a loop over the steps of a differential equation calls a
#: kernel for each operation of each step, which takes several times as long.
_EXTRA, _LOOPS = "--xla_backend_extra_options", "xla_cpu_small_while_loop_byte_threshold=1000000000"


def enable_x64() -> None:
    """Switch JAX's double precision on; call it before the first array is made.

    The first use of another name of invlift also does this, with a note, if JAX has not started.

    It also sets an option of the environment variable ``XLA_FLAGS``, by which XLA compiles each
    loop as one kernel on a CPU.  If the variable already sets ``xla_backend_extra_options``, it is
    not changed.
    """
    jax.config.update("jax_enable_x64", True)
    given = os.environ.get("XLA_FLAGS", "")
    if _EXTRA not in given:
        os.environ["XLA_FLAGS"] = f"{given} {_EXTRA}={_LOOPS}".strip()


def enable_x64_before_start() -> None:
    """Switch double precision on with a note, if JAX has not started.

    It changes nothing if JAX has started, because there may be arrays in single precision; if
    double precision is already on; or if the environment variable ``JAX_ENABLE_X64`` is set.
    """
    is_chosen = jax.config.jax_enable_x64 or "JAX_ENABLE_X64" in os.environ
    if not is_chosen and not backends_are_initialized():
        enable_x64()
        if multiprocessing.current_process().name == "MainProcess":  # workers import it again
            logger.warning(
                "invlift has switched JAX to double precision (call invlift.enable_x64() first to "
                "do so without this note)"
            )


def require_float64(**arrays) -> None:
    """Raise an error for arrays that are not in double precision.

    Parameters
    ----------
    **arrays
        Arrays by the name of the caller's argument.

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
            "JAX started before invlift was used: call invlift.enable_x64() before the first array "
            "is made",
        )
    for name, array in arrays.items():
        dtype = array.dtype if hasattr(array, "dtype") else np.asarray(array).dtype
        if dtype != np.float64:
            raise InputError(
                f"argument {name}",
                "an array of type float64",
                f"{dtype}",
                "convert it with numpy.asarray(array, dtype=float)",
            )
