"""Chains on disk while they run, so that nothing computed is lost and any run can go on."""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from invlift.atomic import only_writer, replace_on_success
from invlift.digest import digest
from invlift.errors import InputError
from invlift.moments import Moments
from invlift.samplers.chains.chain import ChainState, Plan, start_chain

#: First word of a saved piece, with the version of its layout.
MAGIC = "invlift-chain-1"


@dataclass(frozen=True)
class Fingerprint:
    """Everything that decides the draws, except how many are asked for.

    Attributes
    ----------
    method : str
        Name of the kernel.
    warmup, seed : int
    problem : str
        Digest of what is sampled (forward map, prior, noise and data), and of the method.
    """

    method: str
    warmup: int
    seed: int
    problem: str

    def __str__(self) -> str:
        """Text of one word, that another run does not have."""
        return digest(asdict(self))[:16]


def fingerprint(target: Any, plan: Plan, seed: int) -> Fingerprint:
    """Fingerprint of a run."""
    problem = digest(target, plan.kernel)
    return Fingerprint(type(plan.kernel).__name__, plan.num_warmup, int(seed), problem)


@dataclass(frozen=True)
class CheckpointStore:
    """A folder that holds the chains of one run.

    Every save adds one file per chain, ``chain-<chain>-<iteration>.piece``, with what is new since
    the last one and all that the chain's future depends on.  Its first line says which run and
    chain it belongs to, between which iterations it lies, and the SHA-256 of all of it; the rest is
    an archive of NumPy arrays.

    Attributes
    ----------
    directory : Path
    run : Fingerprint
        What the chains belong to.
    """

    directory: Path
    run: Fingerprint

    def lock(self) -> AbstractContextManager[None]:
        """Keep other runs from the folder: see :func:`invlift.atomic.only_writer`."""
        return only_writer(self.directory)

    def claim(self, *, is_resuming: bool) -> None:
        """Make the folder this run's, or check that it is; under its lock.

        Raises
        ------
        InputError
            If the folder cannot be written, holds chains and the run is new, or holds chains of
            another run.
        """
        if is_resuming and self._record.exists():
            self._check_record()
            return
        if any(self.directory.glob("chain-*")):
            raise InputError(
                f"{self.directory}",
                "a folder without chains, as the run is new",
                "saved chains",
                "resume the run they belong to, or choose another folder",
            )
        self._write_record()

    @property
    def _record(self) -> Path:
        return self.directory / "run.json"

    def restore_record(self) -> None:
        """Say again which run the folder belongs to, if somebody has removed it.

        Chains that are gone from it are then run again by ``--resume``, to the same bits.
        """
        if not self._record.exists():
            self._write_record()

    def _write_record(self) -> None:
        with replace_on_success(self._record) as temporary:
            temporary.write_text(json.dumps(asdict(self.run)), encoding="utf-8")

    def _check_record(self) -> None:
        try:
            saved = json.loads(self._record.read_bytes()[:10_000])
            found = Fingerprint(**saved)
        except (ValueError, TypeError, RecursionError):
            raise InputError(
                f"{self._record}",
                "the record of a run",
                "something else",
                "choose a new output directory",
            ) from None
        for name, expected in asdict(self.run).items():
            value = getattr(found, name)
            if value == expected:
                continue
            if name == "problem":
                raise InputError(
                    f"{self.directory}",
                    "chains of this very problem",
                    "chains of another",
                    "resume with the problem file, mesh, data and functions they were started "
                    "with, or choose a new output directory",
                )
            raise InputError(
                f"{self.directory}",
                f"chains started with {name} = {expected}",
                f"{name} = {value!r}",
                f"resume with that {name}, or choose a new output directory",
            )

    def save(self, chain: int, state: ChainState, since: tuple[int, int]) -> None:
        """Add what a chain has gathered after its first ``since`` (warm-up, sampling) blocks.

        Everything it has gathered, if somebody has removed the folder in the meantime.
        """
        if not self._record.exists():
            self.restore_record()
            since = (0, 0)
        arrays = _arrays(state, since)
        content = io.BytesIO()
        np.savez(content, **arrays)
        first = state.iteration - _num_iterations(arrays)
        header = f"{MAGIC} {self.run} {chain} {first} {state.iteration}".encode()
        payload = content.getvalue()
        checksum = hashlib.sha256(header + payload).hexdigest().encode()
        path = self.directory / f"chain-{chain}-{state.iteration:08d}.piece"
        with replace_on_success(path) as temporary:
            temporary.write_bytes(header + b" " + checksum + b"\n" + payload)

    def load(self, chain: int, plan: Plan) -> ChainState | None:
        """The chain as last saved, or None.

        Raises
        ------
        InputError
            If a piece is damaged or missing, or belongs to another run.
        """
        state = None
        for path in sorted(self.directory.glob(f"chain-{chain}-*.piece")):
            first, last, arrays = self._read(path, chain)
            done = 0 if state is None else state.iteration
            if first != done:
                raise InputError(
                    f"{self.directory}, chain {chain}",
                    f"a saved piece that begins with iteration {done}",
                    f"{path.name}, which begins with {first}",
                    "put the missing piece back, or delete this and all later pieces of the chain",
                )
            state = _extended(state or start_chain(plan, arrays["position"]), arrays, last)
        return state

    def _read(self, path: Path, chain: int) -> tuple[int, int, dict]:
        """First iteration, the one behind the last, and arrays of a piece."""
        try:
            line, _, payload = path.read_bytes().partition(b"\n")
        except OSError as reason:
            raise InputError(
                f"{path}",
                "a saved piece of a chain",
                f"an error on opening it ({reason.strerror or reason})",
                "check its permissions",
            ) from None
        header, _, checksum = line.rpartition(b" ")
        remedy = f"delete it and the later pieces of chain {chain}, and resume again"
        if hashlib.sha256(header + payload).hexdigest().encode() != checksum:
            raise InputError(f"{path}", "a saved piece of a chain", "a damaged file", remedy)
        magic, run, of_chain, first, last = header.decode().split()
        if (magic, run, of_chain) != (MAGIC, str(self.run), str(chain)):
            raise InputError(
                f"{path}", "a piece of this very chain", "one of another run or chain", remedy
            )
        with np.load(io.BytesIO(payload)) as archive:
            return int(first), int(last), dict(archive)


def _arrays(state: ChainState, since: tuple[int, int]) -> dict[str, np.ndarray]:
    """What a chain's future depends on, and what it has gathered since, by name."""
    arrays = {"position": state.position, "seconds": np.asarray(state.seconds)}
    for index, leaf in enumerate(jax.tree.leaves(state.adaptation)):
        arrays[f"adaptation/{index}"] = np.asarray(leaf)
    for name, value in state.recorded.items():
        arrays[f"recorded/{name}"] = value
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
    return arrays


def _extended(state: ChainState, arrays: dict, iteration: int) -> ChainState:
    """The chain with one more piece, saved at the given iteration, added to its end."""
    state.position, state.iteration = arrays["position"], iteration
    state.seconds = list(map(float, arrays["seconds"]))
    state.recorded = _below(arrays, "recorded")
    leaves, tree = jax.tree.flatten(state.adaptation)
    leaves = [arrays[f"adaptation/{index}"] for index in range(len(leaves))]
    state.adaptation = jax.tree.unflatten(tree, leaves)
    block = {kind: _below(arrays, kind) for kind in ("draws", "stats")}
    if block["stats"]:
        state.blocks.append(block)
    if warmup := _below(arrays, "warmup"):
        state.warmup_blocks.append(warmup)
    for name in {key.split("/")[1] for key in arrays if key.startswith("moments/")}:
        parts = (arrays[f"moments/{name}/{part}"] for part in ("count", "mean", "m2"))
        count, mean, m2 = parts
        state.moments[name] = Moments(int(count), mean, m2)
    return state


def _num_iterations(arrays: dict) -> int:
    """Iterations of which there are statistics."""
    parts = (_below(arrays, "warmup"), _below(arrays, "stats"))
    return sum(len(next(iter(part.values()))) for part in parts if part)


def _columns(blocks: list[dict]) -> dict:
    return {name: [block[name] for block in blocks] for name in blocks[0]} if blocks else {}


def _below(arrays: dict, kind: str) -> dict:
    start = f"{kind}/"
    return {key[len(start) :]: value for key, value in arrays.items() if key.startswith(start)}
