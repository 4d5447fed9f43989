"""Chains on disk while they run, so that nothing computed is lost and any run can go on."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from filelock import FileLock, Timeout

from invlift.atomic import replace_on_success
from invlift.errors import InputError
from invlift.samplers.chains import ChainState, Moments, Plan, start_chain


@dataclass(frozen=True)
class CheckpointStore:
    """A folder that holds the chains of one run.

    Every save adds one file per chain, ``chain-<chain>-<iteration>.npz``, with what is new since
    the last one and all that the chain's future depends on.

    Attributes
    ----------
    directory : Path
    """

    directory: Path

    def claim(self, fingerprint: str, *, is_resuming: bool) -> None:
        """Make the folder, or check that what is in it belongs to the same run.

        Raises
        ------
        InputError
            If the folder cannot be written, holds chains and the run is new, or holds chains of
            another problem.
        """
        path = self.directory / "run.json"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if is_resuming and path.exists():
                saved = json.loads(path.read_text())["fingerprint"]
                if saved != fingerprint:
                    raise InputError(
                        f"{self.directory}",
                        "chains of this very problem, method and seed",
                        "chains of another",
                        "resume with the problem file, mesh and data they were started with, or "
                        "choose a new output directory",
                    )
            else:
                if any(self.directory.glob("chain-*.npz")):
                    raise InputError(
                        f"{self.directory}",
                        "a folder without chains, as the run is new",
                        "saved chains",
                        "resume the run they belong to, or choose another folder",
                    )
                with replace_on_success(path) as temporary:
                    temporary.write_text(json.dumps({"fingerprint": fingerprint}))
        except OSError as error:
            raise InputError(
                f"{self.directory}",
                "a directory that can be written",
                f"{error.strerror}",
                "choose another output directory",
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}",
                "the record of a run",
                "something else",
                "choose a new output directory",
            ) from error

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs from the folder, where its file system can.

        Raises
        ------
        InputError
            If another run is at work in it.
        """
        lock = FileLock(self.directory / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(
                f"{self.directory}",
                "chains that no other run is at work on",
                "another run at work on them",
                "wait for it to end, or choose another directory (if none is, delete .lock there)",
            ) from None
        except NotImplementedError:  # some of clusters cannot
            pass
        try:
            yield
        finally:
            lock.release()

    def save(self, chain: int, state: ChainState, since: tuple[int, int]) -> None:
        """Add what a chain has gathered after its first ``since`` (warm-up, sampling) blocks."""
        arrays = {"position": state.position, "seconds": np.asarray(state.seconds)}
        for index, leaf in enumerate(jax.tree.leaves(state.adaptation)):
            arrays[f"adaptation/{index}"] = np.asarray(leaf)
        for name, moments in state.moments.items():
            arrays[f"moments/{name}/count"] = np.asarray(moments.count)
            arrays[f"moments/{name}/mean"] = moments.mean
            arrays[f"moments/{name}/m2"] = moments.m2
        for name, parts in _columns(state.warmup_blocks[since[0] :]).items():
            arrays[f"warmup/{name}"] = np.concatenate(parts)
        for kind in ("draws", "stats"):
            blocks = [block[kind] for block in state.blocks[since[1] :]]
            for name, parts in _columns(blocks).items():
                arrays[f"{kind}/{name}"] = np.concatenate(parts)
        path = self.directory / f"chain-{chain}-{state.iteration:08d}.npz"
        with replace_on_success(path) as temporary:
            np.savez(temporary, **arrays)

    def load(self, chain: int) -> ChainState | None:
        """The chain as last saved, or None.

        Raises
        ------
        InputError
            If a file cannot be read or the one before it is missing.
        """
        pieces = sorted(self.directory.glob(f"chain-{chain}-*.npz"))
        if not pieces:
            return None
        state = None
        for path in pieces:
            try:
                with np.load(path) as piece:
                    arrays = dict(piece)
                state = _extended(state, arrays, int(path.stem.rsplit("-", 1)[1]))
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
                raise InputError(
                    f"{path}",
                    "a saved piece of a chain that follows the one before",
                    f"{type(error).__name__}",
                    f"delete it and the later pieces of chain {chain}, and resume again",
                ) from error
        return state


def fingerprint(system, plan: Plan, seed: int) -> str:
    """A digest of everything that decides the draws, except how many are asked for."""
    digest = hashlib.sha256()
    leaves, tree = jax.tree.flatten(system)
    functions = f"{plan.transition.__name__} {plan.num_warmup} {seed}"
    digest.update((re.sub(r" at 0x[0-9a-f]+", "", str(tree)) + functions).encode())
    for leaf in leaves:
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _extended(state: ChainState | None, arrays: dict, iteration: int) -> ChainState:
    """The chain with one more piece, saved at the given iteration, added to its end."""
    state = state or start_chain(arrays["position"])
    state.position = arrays["position"]
    state.seconds = list(map(float, arrays["seconds"]))
    leaves, tree = jax.tree.flatten(state.adaptation)
    leaves = [arrays[f"adaptation/{index}"] for index in range(len(leaves))]
    state.adaptation = jax.tree.unflatten(tree, leaves)
    block = {kind: _below(arrays, kind) for kind in ("draws", "stats")}
    if block["stats"]:
        state.blocks.append(block)
    if warmup := _below(arrays, "warmup"):
        state.warmup_blocks.append(warmup)
    for stats in (block["stats"], warmup):
        state.iteration += len(next(iter(stats.values()))) if stats else 0
    if state.iteration != iteration:
        raise ValueError(f"{state.iteration} iterations saved, not {iteration}")
    for name in {key.split("/")[1] for key in arrays if key.startswith("moments/")}:
        parts = (arrays[f"moments/{name}/{part}"] for part in ("count", "mean", "m2"))
        count, mean, m2 = parts
        state.moments[name] = Moments(int(count), mean, m2)
    return state


def _columns(blocks: list[dict]) -> dict:
    return {name: [block[name] for block in blocks] for name in blocks[0]} if blocks else {}


def _below(arrays: dict, kind: str) -> dict:
    start = f"{kind}/"
    return {key[len(start) :]: value for key, value in arrays.items() if key.startswith(start)}
