"""A chain that fails ends the others, and what they still bring is kept."""

import threading
from concurrent.futures import CancelledError, Executor, Future

import numpy as np
import pytest
from sampler_cases import SPHERE

from invlift.samplers.chains import parallel
from invlift.samplers.chains.parallel import run_chains
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.saving import CheckpointStore, fingerprint
from invlift.samplers.kernels import ConstrainedHMC

PLAN = Plan(ConstrainedHMC(), 10, 20)
STARTS = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])


class Scripted(Executor):
    """Chain 0 fails once chain 1 runs, which ends after it was asked to; chain 2 is never begun."""

    def __init__(self):
        self.is_running, self.may_end = threading.Event(), threading.Event()
        self.threads, self.waiting = [], []

    def submit(self, function, name, segment, *content):
        future = Future()
        if segment.chain == 2:
            self.waiting.append(future)
            return future
        future.set_running_or_notify_cancel()
        arguments = (future, function, name, segment, *content)
        self.threads.append(threading.Thread(target=self._run, args=arguments))
        self.threads[-1].start()
        return future

    def _run(self, future, function, name, segment, *content):
        if segment.chain == 0:
            self.is_running.wait()
            future.set_exception(ZeroDivisionError("chain 0"))
        elif not content:
            future.set_result(None)  # it does not know the work yet
        else:
            self.is_running.set()
            self.may_end.wait()
            future.set_result(function(name, segment, *content))


def test_a_segment_that_runs_while_another_chain_fails_is_kept(tmp_path, monkeypatch, caplog):
    executor, wait = Scripted(), parallel.wait

    def waiting(futures, *arguments, **options):
        if not options:  # the last time, after what could be cancelled was
            executor.may_end.set()
        return wait(futures, *arguments, **options)

    monkeypatch.setattr(parallel, "wait", waiting)
    store = CheckpointStore(tmp_path, fingerprint(SPHERE, PLAN, 4))
    store.claim(is_resuming=False)
    with pytest.raises(ZeroDivisionError, match="chain 0"):
        run_chains(SPHERE, PLAN, STARTS, 4, executor=executor, store=store)
    for thread in executor.threads:
        thread.join()
    assert store.load(1, PLAN).position.iteration > 0
    assert [future.cancelled() for future in executor.waiting] == [True]
    assert not caplog.records  # no callback met a future that was already settled


class Cancelling(Executor):
    """Cancels all that it is given, as one that is shut down does."""

    def submit(self, *arguments):
        future = Future()
        future.cancel()
        return future


def test_an_executor_that_cancels_by_itself_does_not_leave_a_chain_waiting():
    with pytest.raises(CancelledError):
        run_chains(SPHERE, PLAN, STARTS, 4, executor=Cancelling())
