"""Chains in the worker processes of Dask, on this machine or on many."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager
from functools import cache

from invlift.errors import InputError

#: Time within which a scheduler is to answer, s.
TIMEOUT = 10


def dask_setup(worker) -> None:
    """Have a worker of this machine, in which Dask calls it, leave Ctrl-C and words to others."""
    del worker
    _be_quiet()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def dask_executor(scheduler: str | None = None, workers: int | None = None) -> Iterator[Executor]:
    """An executor for :func:`invlift.sample` whose processes Dask looks after.

    A worker that is lost takes a few seconds of its chains with it, which another does again, to
    the same draws.  Nothing is read or written by the workers: they need invlift, in the versions
    of this process, and no files.

    ``scheduler`` is the address of a running scheduler, ``tcp://host:8786``; without one
    ``workers`` is the number of processes to start on this machine, which end with the context.

    An InputError if the package distributed is not installed, the scheduler does not answer or is
    lost, or workers are killed again and again.
    """
    option = "--workers" if scheduler is None else "--scheduler"
    try:
        import distributed
    except ImportError:
        remedy = "install it: pip install 'invlift[distributed]'"
        raise InputError(option, "the package distributed", "none", remedy) from None
    _be_quiet()
    cluster = None
    try:
        if scheduler is None:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                preload=[__name__],
                loop=_event_loop(),
            )
        # Not Dask's default: without an answer it would stay that, for all that asks Dask later,
        # such as xarray when it writes a file.
        with distributed.Client(
            cluster or scheduler, timeout=TIMEOUT, set_as_default=False, loop=_event_loop()
        ) as client:
            yield client.get_executor(pure=False)
    except (OSError, ValueError) as error:
        if scheduler is None or (isinstance(error, OSError) and error.filename):
            raise
        expected = "the address of a Dask scheduler, tcp://host:8786 for example"
        found = f"no answer from {scheduler} within {TIMEOUT} s"
        remedy = "start one with the command dask scheduler, or check the address"
        raise InputError(option, expected, found, remedy) from None
    except distributed.KilledWorker as error:
        where, found = f"{option}, worker {error.last_worker.address}", "workers that were killed"
        remedy = "give them more memory, then go on with --resume: what came before is saved"
        raise InputError(where, "workers that live", f"{found} again and again", remedy) from None
    except CancelledError:
        remedy = "start it anew, then go on with --resume: what came before is saved"
        raise InputError(option, "a scheduler that stays", "a lost connection", remedy) from None
    finally:
        if cluster is not None:
            cluster.close()


@cache
def _event_loop():
    """A loop for Dask in a thread, which may be long in starting: Dask gives its own 10 s."""
    from tornado.ioloop import IOLoop

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
    return IOLoop(asyncio_loop=loop, make_current=False)


def _be_quiet() -> None:
    """What Dask tells of workers that come and go is no concern of the person at the terminal."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
