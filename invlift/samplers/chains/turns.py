"""Turns of chains in threads: concurrent, or one after another if JAX changes bits."""

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
    """Call ``run(position, num)`` at once, as no other thread of the process computes."""
    return run(position, num)


class Turns:
    """Lets threads compute concurrently if this gives the same bits as one thread alone.

    The first thread runs one iteration alone, and then twice at the same time.  If the bits differ,
    it logs a warning, and from then on only one thread computes at a time.

    JAX's CPU programs can return different numbers when they run concurrently.  This is reported as
    jax-ml/jax#39741 for JAX 0.11.0, and was observed here with 0.10.2 for a time-dependent model
    with 4,000 unknowns, whose projections then failed.  Only a comparison shows which programs are
    affected.
    """

    def __init__(self) -> None:
        self._settling, self._turn = threading.Lock(), threading.Lock()
        self._is_same: bool | None = None

    def __call__(self, run: Callable[[Position, int], tuple], position: Position, num: int):
        """Call ``run(position, num)`` when it is this thread's turn."""
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
    """Return whether a computation gives the same bits alone and twice at the same time."""
    alone = jax.tree.leaves(iterate())
    with ThreadPoolExecutor(2) as pool:
        beside = [jax.tree.leaves(leaves) for leaves in pool.map(iterate, range(2))]
    return all(
        np.array_equal(one, other, equal_nan=True)
        for leaves in beside
        for one, other in zip(alone, leaves, strict=True)
    )
