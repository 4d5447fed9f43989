"""Saving of running chains on disk, so that any run can be resumed without loss."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from invlift.errors import InputError
from invlift.files.atomic import only_writer, replace_on_success, write_bytes
from invlift.files.output_folder import OutputFolder
from invlift.moments import Moments
from invlift.programs.digest import digest
from invlift.samplers.chains.fields import FieldRecord
from invlift.samplers.chains.plan import Plan
from invlift.samplers.chains.state import ChainState, Increment, Position, start_chain

#: First word of a saved piece, with the version of its layout.
MAGIC = "invlift-chain-6"
#: File names of pieces: number of the chain, and of iterations up to the end of the piece.
PIECE = re.compile(r"chain-(\d+)-(\d{8,})\.piece$")


@dataclass(frozen=True)
class Fingerprint:
    """Everything that determines the draws, except their number.

    Attributes
    ----------
    method : str
        Name of the kernel.
    warmup, seed : int
    problem : str
        Digest of the problem (forward map, prior, noise and data) and of the method.
    """

    method: str
    warmup: int
    seed: int
    problem: str

    def __str__(self) -> str:
        """Return a digest of one word that identifies the run."""
        return digest(asdict(self))[:16]


def fingerprint(problem: Any, plan: Plan, seed: int) -> Fingerprint:
    """Return the fingerprint of a run.

    Parameters
    ----------
    problem
        The target, or all inputs that define it.  It must not contain computed values that may
        differ on another machine.
    plan : Plan
    seed : int
    """
    problem = digest(problem, plan.kernel)
    return Fingerprint(type(plan.kernel).__name__, plan.num_warmup, int(seed), problem)


@dataclass(frozen=True)
class CheckpointStore:
    """A folder that holds the chains of one run.

    Every save adds one file for each chain, ``chain-<chain>-<iteration>.piece``.  It holds the
    increments since the last save, and the position from which the chain continues.  The first line
    states the run, the chain, the range of iterations, and the SHA-256 of the content.  The rest is
    an archive of NumPy arrays.

    Attributes
    ----------
    directory : Path
    run : Fingerprint
        Fingerprint of the run to which the chains belong.
    choices : mapping of str to array
        Computed values that determine the draws, but may differ on another machine.  A resumed run
        uses the values of its first start.
    """

    directory: Path
    run: Fingerprint
    choices: Mapping[str, np.ndarray] = field(default_factory=dict)

    def lock(self) -> AbstractContextManager[None]:
        """Lock the folder against other runs: see :func:`invlift.files.atomic.only_writer`."""
        return only_writer(self.directory)

    def claim(self, *, is_resuming: bool) -> CheckpointStore:
        """Claim the folder for this run, or check that it belongs to it; hold its lock meanwhile.

        Returns
        -------
        CheckpointStore
            This store; with the saved choices if the run is resumed.

        Raises
        ------
        InputError
            If the folder cannot be written, holds chains although the run is new, or holds chains
            of another run.
        """
        if is_resuming and self.has_record:
            self._check_record()
            return replace(self, choices=self._load_choices())
        OutputFolder(self.directory, "run", "chain-*").check(is_resuming=False)
        self._write_record()
        return self

    @property
    def _record(self) -> Path:
        return self.directory / "run.json"

    @property
    def has_record(self) -> bool:
        """Whether the folder holds the record of a run."""
        return self._record.exists()

    def restore_record(self) -> None:
        """Write the record of the run again, if somebody has removed it.

        ``--resume`` then runs the missing chains again, to the same bits.
        """
        if not self.has_record:
            self._write_record()

    @property
    def _choices(self) -> Path:
        return self.directory / "choices.npz"

    def _load_choices(self) -> dict[str, np.ndarray]:
        """Return the saved choices of the run."""
        try:
            with np.load(self._choices, allow_pickle=False) as archive:
                return dict(archive)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            raise _other(self._choices, "what a run has chosen") from None

    def _write_record(self) -> None:
        with replace_on_success(self._choices) as temporary, temporary.open("wb") as file:
            np.savez(file, **self.choices)
        write_bytes(self._record, json.dumps(asdict(self.run)).encode())

    def _check_record(self) -> None:
        """Check that the record is that of this run."""
        try:
            saved = Fingerprint(**json.loads(self._record.read_bytes()[:10_000]))
        except (ValueError, TypeError, RecursionError):
            raise _other(self._record, "the record of a run") from None
        folder = OutputFolder(self.directory, "run", self._record.name)
        folder.check_identity(asdict(saved), asdict(self.run))

    def save(self, chain: int, state: ChainState, increments: Sequence[Increment]) -> None:
        """Save the increments of a chain since its last save.

        If somebody has removed the folder in the meantime, save the whole chain.  Another chain may
        have created the folder again, so this is decided by the chain's last piece.
        """
        num = sum(increment.num for increment in increments)
        saved = state.position.iteration - num
        try:
            if self._record.exists() and (not saved or self._path(chain, saved).exists()):
                self._write_piece(chain, state, _arrays_of(increments), num)
            else:
                self._save_all(chain, state)
        except FileNotFoundError:  # it was removed at this very moment
            self._save_all(chain, state)

    def _save_all(self, chain: int, state: ChainState) -> None:
        """Write the whole chain as one piece, and remove its older pieces."""
        self.restore_record()
        older = self._pieces(chain)
        path = self._write_piece(chain, state, _all_arrays(state), state.position.iteration)
        for piece in older:
            if piece != path:
                piece.unlink(missing_ok=True)

    def _write_piece(self, chain: int, state: ChainState, arrays: dict, num: int) -> Path:
        """Write the arrays of the last ``num`` iterations as a piece."""
        content = io.BytesIO()
        np.savez(content, **(arrays | _state_arrays(state)))
        last = state.position.iteration
        header = f"{MAGIC} {self.run} {chain} {last - num} {last}".encode()
        payload = content.getvalue()
        checksum = hashlib.sha256(header + payload).hexdigest().encode()
        path = self._path(chain, last)
        write_bytes(path, header + b" " + checksum + b"\n" + payload)
        return path

    def _path(self, chain: int, iteration: int) -> Path:
        """Return the path of a chain's piece that ends at an iteration."""
        return self.directory / f"chain-{chain}-{iteration:08d}.piece"

    def chains(self) -> list[int]:
        """Return the numbers of the chains that have a saved piece."""
        names = (PIECE.match(path.name) for path in self.directory.glob("chain-*.piece"))
        return sorted({int(name[1]) for name in names if name})

    def _pieces(self, chain: int) -> list[Path]:
        """Return the saved pieces of a chain, in order; files with other names are ignored."""
        paths = self.directory.glob(f"chain-{chain}-*.piece")
        return sorted(path for path in paths if PIECE.match(path.name))

    def load(self, chain: int, plan: Plan) -> ChainState | None:
        """Load the chain as last saved; return None if there is no piece.

        Raises
        ------
        InputError
            If a piece is damaged or missing, or belongs to another run.
        """
        state = None
        for path in self._pieces(chain):
            first, last, arrays = self._read(path, chain)
            done = 0 if state is None else state.position.iteration
            if first != done:
                raise InputError(
                    f"{self.directory}, chain {chain}",
                    f"a saved piece that begins with iteration {done}",
                    f"{path.name}, which begins with {first}",
                    "put the missing piece back, or delete this and all later pieces of the chain",
                )
            state = _extended(plan, state or start_chain(plan, arrays["position"]), arrays, last)
        return state

    def _read(self, path: Path, chain: int) -> tuple[int, int, dict]:
        """Read a piece; return its first iteration, the end of its iterations, and its arrays."""
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


def _other(file: Path, expected: str) -> InputError:
    return InputError(f"{file}", expected, "something else", "choose a new output directory")


def _state_arrays(state: ChainState) -> dict[str, np.ndarray]:
    """Return the arrays of a chain's position, and its sums over all draws so far, by name."""
    position = state.position
    arrays = {"position": position.values, "seconds": np.asarray(position.seconds)}
    for index, leaf in enumerate(jax.tree.leaves(position.adaptation)):
        arrays[f"adaptation/{index}"] = np.asarray(leaf)
    arrays |= {f"carried/{name}": value for name, value in position.carried.items()}
    arrays |= {f"recorded/{name}": value for name, value in state.recorded.items()}
    of_fields = {name: record.moments for name, record in state.fields.items()}
    for name, moments in (state.moments | of_fields).items():
        arrays[f"moments/{name}/count"] = np.asarray(moments.count)
        arrays[f"moments/{name}/mean"] = moments.mean
        arrays[f"moments/{name}/m2"] = moments.m2
    for name, record in state.fields.items():
        arrays[f"every/{name}"] = np.asarray(record.every)
        if record.partial is not None:
            arrays[f"partial/{name}"] = record.partial
    return arrays


def _arrays_of(increments: Sequence[Increment]) -> dict[str, np.ndarray]:
    """Return the arrays of increments, by name; fields may include draws no longer in memory."""
    sampled = [part for part in increments if part.block]
    warmup = [part.warmup for part in increments if part.warmup]
    arrays = _gathered(warmup, [part.block for part in sampled])
    for name in sampled[0].fields if sampled else ():
        parts = [part.fields[name] for part in sampled]
        arrays[f"numbers/{name}"] = np.concatenate([part.numbers for part in parts])
        arrays[f"rows/{name}"] = np.concatenate([part.rows for part in parts])
        if batches := [batch for part in parts for batch in part.batches]:
            arrays[f"batches/{name}"] = np.stack(batches)
    return arrays


def _gathered(warmup: Sequence[dict], blocks: Sequence[dict]) -> dict[str, np.ndarray]:
    """Return statistics of warm-up, and draws and statistics of sampling, by name."""
    kinds = {"warmup": warmup} | {k: [block[k] for block in blocks] for k in ("draws", "stats")}
    return {
        f"{kind}/{name}": np.concatenate([part[name] for part in parts])
        for kind, parts in kinds.items()
        for name in (parts[0] if parts else ())
    }


def _all_arrays(state: ChainState) -> dict[str, np.ndarray]:
    """Return all arrays of a chain, by name."""
    arrays = _gathered(state.warmup_blocks, state.blocks)
    for name, record in state.fields.items():
        arrays[f"numbers/{name}"] = record.every * np.arange(len(record.rows))
        arrays[f"rows/{name}"] = np.stack(record.rows)
        arrays[f"size/{name}"] = np.asarray(record.size)
        if record.sums:
            arrays[f"sums/{name}"] = np.stack(record.sums)
        if record.pending is not None:
            arrays[f"pending/{name}"] = record.pending
    return arrays


def _extended(plan: Plan, state: ChainState, arrays: dict, iteration: int) -> ChainState:
    """Append a piece that ends at the given iteration to a chain, and return the chain."""
    leaves, tree = jax.tree.flatten(state.position.adaptation)
    leaves = [arrays[f"adaptation/{index}"] for index in range(len(leaves))]
    seconds = tuple(map(float, arrays["seconds"]))
    adaptation, carried = jax.tree.unflatten(tree, leaves), _below(arrays, "carried")
    state.position = Position(arrays["position"], adaptation, iteration, seconds, carried)
    state.recorded = _below(arrays, "recorded")
    if warmup := _below(arrays, "warmup"):
        state.warmup_blocks.append(warmup)
    block = {kind: _below(arrays, kind) for kind in ("draws", "stats")}
    num = len(next(iter(block["stats"].values()))) if block["stats"] else 0
    if num:
        state.append_block(block)
    moments = {}
    for name in {key.split("/")[1] for key in arrays if key.startswith("moments/")}:
        count, mean, m2 = (arrays[f"moments/{name}/{part}"] for part in ("count", "mean", "m2"))
        moments[name] = Moments(int(count), mean, m2)
    for name, every in _below(arrays, "every").items():
        record = state.fields.setdefault(name, FieldRecord(plan.max_field_bytes))
        record.moments = moments.pop(name)
        if num:
            record.store(arrays[f"numbers/{name}"], arrays[f"rows/{name}"], int(every))
        record.num_draws += num
        if f"size/{name}" in arrays:
            size, pending = int(arrays[f"size/{name}"]), arrays.get(f"pending/{name}")
            record.restore_batches(size, list(arrays.get(f"sums/{name}", ())), pending)
        for batch in arrays.get(f"batches/{name}", ()):
            record.add_batch(batch)
        record.partial = arrays.get(f"partial/{name}")
    state.moments = moments
    return state


def _below(arrays: dict, kind: str) -> dict:
    start = f"{kind}/"
    return {key[len(start) :]: value for key, value in arrays.items() if key.startswith(start)}
