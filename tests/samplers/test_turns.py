"""Threads compute side by side only where that gives the same bits."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from invlift.samplers.chains.turns import Turns


class Crowd:
    """A computation that can tell whether another thread is in it at the same time."""

    def __init__(self, is_disturbed):
        self.is_disturbed, self.meeting, self.meetings = is_disturbed, threading.Barrier(2), 0

    def run(self, position, num):
        try:
            self.meeting.wait(0.5)
            self.meetings += 1
            return (np.array([np.nan, num, self.is_disturbed]),)
        except threading.BrokenBarrierError:
            self.meeting.reset()
            return (np.array([np.nan, num, False]),)


def of_two_threads(turns, crowd):
    with ThreadPoolExecutor(2) as pool:
        return [values for (values,) in pool.map(lambda _: turns(crowd.run, None, 10), range(2))]


def test_threads_are_side_by_side_where_that_changes_nothing(caplog):
    turns, crowd = Turns(), Crowd(is_disturbed=False)
    np.testing.assert_array_equal(of_two_threads(turns, crowd), 2 * [[np.nan, 10, 0]])
    assert crowd.meetings == 4, "two in the comparison, two after it"
    assert not caplog.records


def test_threads_take_turns_where_they_would_disturb_each_other_and_that_is_told(caplog):
    turns, crowd = Turns(), Crowd(is_disturbed=True)
    np.testing.assert_array_equal(of_two_threads(turns, crowd), 2 * [[np.nan, 10, 0]])
    assert crowd.meetings == 2, "none after the comparison"
    (record,) = caplog.records
    assert "run one after another" in record.getMessage()
    assert "--workers" in record.getMessage()
