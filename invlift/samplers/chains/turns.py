"""Whether chains in threads compute side by side or in turns."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import jax
import numpy as np

from invlift.samplers.chains.state import Position

logger = logging.getLogger(__name__)


def at_once(run: Callable[[Position, int], tuple], position: Position, num: int) -> tuple:
    """``run(position, num)``: a process has no other thread that computes."""
    return run(position, num)


class Turns:
    """Has threads compute side by side if that gives the same bits as one thread alone.

    The first thread to come has an iteration done once alone and twice at the same time.  If the
    bits differ, a warning is logged, and from then on one thread computes at a time.

    JAX's programs for a CPU can return other numbers beside one another than alone: reported as
    jax-ml/jax#39741 for JAX 0.11.0, and found here with 0.10.2 for a model in time with 4,000
    unknowns, whose chains then failed to project.  Nothing but a comparison tells which do.
    """

    def __init__(self) -> None:
        self._settling, self._turn = threading.Lock(), threading.Lock()
        self._is_same: bool | None = None

    def __call__(self, run: Callable[[Position, int], tuple], position: Position, num: int):
        """``run(position, num)``, when it is this thread's turn."""
        with self._settling:
            if self._is_same is None:
                self._is_same = _is_same_beside(lambda _=None: run(position, 1))
                if not self._is_same:
                    logger.warning(
                        "chains in threads run one after another, as an error of JAX changes their "
                        "numbers if they run at the same time. Processes do not have it: "
                        "--workers 2, or executor=ProcessPoolExecutor(2, get_context('spawn'))"
                    )
        with nullcontext() if self._is_same else self._turn:
            return run(position, num)


def _is_same_beside(iterate: Callable[..., tuple]) -> bool:
    """Whether a computation gives the same bits alone and twice at the same time."""
    alone = jax.tree.leaves(iterate())
    with ThreadPoolExecutor(2) as pool:
        beside = [jax.tree.leaves(leaves) for leaves in pool.map(iterate, range(2))]
    return all(
        np.array_equal(one, other, equal_nan=True)
        for leaves in beside
        for one, other in zip(alone, leaves, strict=True)
    )
