"""Run chains in worker processes of Dask, on one or several machines."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager, nullcontext

from invlift.errors import InputError

#: Longest time to wait for an answer of a scheduler, s.
TIMEOUT = 10


def dask_setup(worker) -> None:
    """Make a local worker ignore Ctrl-C, which only the main process handles; Dask calls this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)


@contextmanager
def dask_executor(scheduler: str | None = None, workers: int | None = None) -> Iterator[Executor]:
    """Open an executor for :func:`invlift.sample` whose processes are managed by Dask.

    If a worker is lost, another one repeats the last few seconds of its chains, with the same
    draws. Workers read and write no files. They need invlift, in the versions of this process.

    ``scheduler`` is the address of a running scheduler, ``tcp://host:8786``. Without it,
    ``workers`` is the number of processes to start on this machine; they end with the context.

    Raises an InputError if the package distributed is not installed, the scheduler does not answer
    or is lost, or workers are killed repeatedly.
    """
    option = "--workers" if scheduler is None else "--scheduler"
    try:
        import distributed
    except ImportError:
        remedy = "install it: pip install 'invlift[distributed]'"
        raise InputError(option, "the package distributed", "none", remedy) from None
    # Messages of Dask about lost and new workers do not help a user.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    cluster, here = nullcontext(scheduler), {"n_workers": workers, "threads_per_worker": 1}
    if scheduler is None:
        here |= {"dashboard_address": "127.0.0.1:0", "preload": [__name__]}
        cluster = distributed.LocalCluster(**here)
    # Do not make it the default client of Dask: it would remain the default after a failure, and
    # xarray, for example, would use it to write a file.
    options = {"timeout": TIMEOUT, "set_as_default": False}
    try:
        with cluster as address, distributed.Client(address, **options) as client:
            yield client.get_executor(pure=False)
    except (OSError, ValueError) as error:
        if scheduler is None or (isinstance(error, OSError) and error.filename):
            raise
        expected = "the address of a Dask scheduler, tcp://host:8786 for example"
        found = f"no answer from {scheduler} within {TIMEOUT} s"
        remedy = "start one with the command dask scheduler, or check the address"
        raise InputError(option, expected, found, remedy) from None
    except (distributed.KilledWorker, CancelledError):
        expected, found = "a scheduler and workers that answer", "a lost or killed one"
        remedy = "give workers more memory, or start them again; then continue with --resume: "
        remedy += "earlier results are saved"
        raise InputError(option, expected, found, remedy) from None
