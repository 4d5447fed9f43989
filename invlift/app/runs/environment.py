"""What a command takes from its process, looked over before JAX is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from invlift.errors import InputError

#: Least address space that a process has where it is limited, bytes: threads and programs of JAX
#: reserve far more than they use.
LEAST_ADDRESSES = 4e9
#: Words for yes and no that JAX takes as the value of a variable.
YES, NO = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def prepare_environment() -> None:
    """Make what can be made usable in this process, and refuse what cannot.

    Raises
    ------
    InputError
        With the variable, limit or folder that is at fault.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: what is printed goes nowhere
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until the end)
            setattr(sys, name, nowhere)
    # Pictures go to files alone.
    os.environ["MPLBACKEND"] = "agg"
    _check_folder()
    _check_limits()
    _check_jax()


def check_platform() -> None:
    """Refuse a platform for JAX, if one is asked for, that it cannot start; this imports JAX."""
    import jax

    if platforms := os.environ.get("JAX_PLATFORMS"):
        try:
            jax.devices()
        except Exception:  # a RuntimeError, or whatever an assertion of JAX fails by
            expected = "platforms that JAX can start here"
            remedy = "unset it, or set it to cpu"
            raise InputError("JAX_PLATFORMS", expected, repr(platforms), remedy) from None


def _check_folder() -> None:
    try:
        os.getcwd()
    except OSError:
        expected, found = "one that exists", "one that has been removed"
        raise InputError("working directory", expected, found, "cd to another one") from None


def _check_limits() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESSES:
        expected = f"at least {LEAST_ADDRESSES / 1e9:g} GB, or none"
        raise InputError("ulimit -v", expected, f"{limit / 1e9:.3g} GB", "raise it")


def _check_jax() -> None:
    """Variables that JAX, or its compiler, would end the process for."""
    for name in ("JAX_ENABLE_X64", "JAX_DISABLE_JIT"):
        value = os.environ.get(name, NO[-1]).lower()
        if value not in (*YES, *NO):
            raise InputError(name, "true or false", repr(value), "correct it, or unset it")
        if name == "JAX_DISABLE_JIT" and value in YES:
            expected = "false, as programs are compiled before they are called"
            raise InputError(name, expected, repr(value), "unset it")
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if flags and not flags.startswith("-"):  # the name of a file of flags, which others join
        try:
            os.environ["XLA_FLAGS"] = Path(flags).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            expected, remedy = "options, or a file that has them", "correct it, or unset it"
            raise InputError("XLA_FLAGS", expected, repr(flags), remedy) from None
