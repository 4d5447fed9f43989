"""One processor core per chain: how JAX is told to leave parallelism to the chains."""

from __future__ import annotations

import os

import jax
import scipy.linalg  # noqa: F401  (loads the LAPACK that JAX calls, so that it can be limited)
from threadpoolctl import threadpool_limits


def one_core_per_chain() -> None:
    """Make every computation run on the thread that asked for it.

    A chain is a long sequence of small operations.  Spread over a pool of threads, as JAX and
    LAPACK do by default, they wait for each other: small Cholesky factorisations then take a
    hundred times as long on a busy machine, and chains side by side slow each other down.

    Call this before JAX makes its first array; JAX's own setting has no effect later.  Whatever
    ``PJRT_NPROC`` and ``XLA_FLAGS`` say already is respected.  Computations on a GPU are not
    affected.
    """
    os.environ.setdefault("PJRT_NPROC", "1")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    threadpool_limits(limits=1, user_api="blas")
