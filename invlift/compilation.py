"""How JAX compiles programs, and where it keeps them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

import jax
import platformdirs

# Of the compiler's two ways to make kernels the one that takes less time and memory.
_LIGHTER_KERNELS = {"xla_cpu_use_fusion_emitters": False}
_NOT_OPTIMISED = {"xla_backend_optimization_level": 0}


def keep_compiled_programs() -> None:
    """Let JAX keep what it compiles, so that the next run of the same problem starts at once.

    In the user's cache folder for applications, up to 1 GB; not if JAX's own option
    ``jax_compilation_cache_dir`` names a folder already.
    """
    if not jax.config.jax_compilation_cache_dir:
        folder = platformdirs.user_cache_path("invlift", appauthor=False) / "compiled"
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", 10**9)
        # Also what takes a tenth of a second: there are dozens of these.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def quick_jit(
    fn: Callable, *, runs_often: bool = False, static_argnames: tuple[str, ...] = ()
) -> Callable:
    """``jax.jit`` with less time and memory for compilation, at the price of slower programs.

    Parameters
    ----------
    fn : callable
        Of arrays.  To be called from outside other compiled programs.
    runs_often : bool
        If so, the program is optimised all the same: compilation takes three to five times as long,
        a run a half to a third.
    static_argnames : tuple of str
        As of ``jax.jit``.

    Returns
    -------
    callable
        Of positional arguments.

    Notes
    -----
    Compiled and run, the disc's evaluation of a position takes 0.7 s and 1.9 ms, optimised 3.3 s
    and 0.65 ms, by ``jax.jit`` 5.7 s and 0.70 ms.  To compile that of 30,301 nodes takes 0.3, 0.3
    and 1.3 GB.  The integrator's step runs 5 to 15 % slower than by ``jax.jit``.
    """
    options = _LIGHTER_KERNELS if runs_often else _LIGHTER_KERNELS | _NOT_OPTIMISED

    @cache
    def compiled():
        known = {name: value for name, value in options.items() if _is_option(name, value)}
        return jax.jit(fn, static_argnames=static_argnames, compiler_options=known)

    @wraps(fn)
    def call(*arguments):
        return compiled()(*arguments)

    return call


@cache
def _is_option(name: str, value) -> bool:
    """Whether the compiler knows an option: they come and go with the versions of JAX."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except (RuntimeError, ValueError):
        return False
    return True
