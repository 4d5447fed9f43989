"""The command line, with chains that wait: ``python held.py NUMBER run ...``.

Chains wait at an iteration of that number until all have come there; then nothing goes on until the
command is stopped or a line comes on standard input.  So a test acts in the middle of a run,
however fast the machine is.  A line "held" on standard error says that they wait.
"""

import os
import sys
import threading

from invlift.__main__ import main
from invlift.posterior.output import report
from invlift.samplers.chains import parallel, workers
from invlift.samplers.chains.parallel import _Scheduler

NUMBER = int(sys.argv.pop(1))
hand_out = _Scheduler._hand_out
usual = parallel.SAVE_INTERVAL, workers.LOCAL_SECONDS
is_let_go = threading.Event()
waiting = []


def wait_for(is_stopped):
    os.write(2, b"held\n")  # at once, so that no other line gets into this one
    while not (is_let_go.wait(0.01) or is_stopped()):
        pass


def held_hand_out(scheduler, chain, goal, running, **options):
    state = scheduler._states.get(chain)
    if is_let_go.is_set() or not state or state.position.iteration < NUMBER:
        hand_out(scheduler, chain, goal, running, **options)
        return
    waiting.append(chain)
    if len(waiting) == scheduler._num_chains:
        wait_for(scheduler._is_stopped.is_set)
        for each in waiting:
            hand_out(scheduler, each, goal, running)


def listen():
    if sys.stdin.readline():
        parallel.SAVE_INTERVAL, workers.LOCAL_SECONDS = usual
        is_let_go.set()


# Block by block, each of which is saved.
parallel.SAVE_INTERVAL = workers.LOCAL_SECONDS = 0.0
_Scheduler._hand_out = held_hand_out
report.write_report = lambda *parts: parts[2].touch() or parts[2]  # drawn by the tests of pages
threading.Thread(target=listen, daemon=True).start()
main()
