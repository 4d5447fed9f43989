"""Checks of the environment of a command before JAX is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from invlift.errors import InputError

#: Smallest limit of the address space of a process, bytes: threads and programs of JAX reserve much
#: more than they use.
LEAST_ADDRESSES = 4e9
#: Words for yes and no that JAX accepts as values of a variable.
YES, NO = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def prepare_environment() -> None:
    """Prepare streams, figures and variables of this process, and refuse what cannot be used.

    Raises
    ------
    InputError
        If a variable, limit or folder cannot be used; the error names it.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: discard the output
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until the end)
            setattr(sys, name, nowhere)
    # Figures are only written to files.
    os.environ["MPLBACKEND"] = "agg"
    _check_folder()
    _check_limits()
    _check_jax()


def check_platform() -> None:
    """Refuse a platform requested for JAX that JAX cannot start; this imports JAX."""
    import jax

    if platforms := os.environ.get("JAX_PLATFORMS"):
        try:
            jax.devices()
        except Exception:  # a RuntimeError, or any error of an assertion in JAX
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
    """Refuse values of variables for which JAX or its compiler would end the process."""
    for name in ("JAX_ENABLE_X64", "JAX_DISABLE_JIT"):
        value = os.environ.get(name, NO[-1]).lower()
        if value not in (*YES, *NO):
            raise InputError(name, "true or false", repr(value), "correct it, or unset it")
        if name == "JAX_DISABLE_JIT" and value in YES:
            expected = "false, as programs are compiled before they are called"
            raise InputError(name, expected, repr(value), "unset it")
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if flags and not flags.startswith("-"):  # a file of flags: read it, as others are appended
        try:
            os.environ["XLA_FLAGS"] = Path(flags).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            expected, remedy = "options, or a file that has them", "correct it, or unset it"
            raise InputError("XLA_FLAGS", expected, repr(flags), remedy) from None
